package exposition

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/proto"
)

func quiet(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// scrape asks as Prometheus does.
func scrape(t *testing.T, r *Registry) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	request.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.6,*/*;q=0.1")
	request.Header.Set("Accept-Encoding", "gzip")
	r.ServeHTTP(answer, request)
	return answer
}

// fill registers one of each kind, with what is hard to write.
func fill(r prometheus.Registerer) {
	hits := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hits_total", Help: "Of a \\ and\na \"line\"."}, []string{"path", "code"})
	hits.WithLabelValues("/a\\b\n\"c\"", "200").Add(1.5)
	hits.WithLabelValues("", "é").Add(12345678)
	values := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "values"}, []string{"of"})
	for name, v := range map[string]float64{
		"zero": 0, "small": -1.25e-9, "large": 1e300, "up": math.Inf(1), "down": math.Inf(-1), "exact": 1<<53 - 1, "limit": math.MaxUint64,
	} {
		values.WithLabelValues(name).Set(v)
	}
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "times_seconds", Help: "Histogram.", Buckets: []float64{0.001, 1, 2.5}}, []string{"step"})
	for _, v := range []float64{0.5, 2, 1000} {
		times.WithLabelValues("x").Observe(v)
	}
	sizes := prometheus.NewSummary(prometheus.SummaryOpts{Name: "sizes_bytes", Help: "Summary.", Objectives: map[float64]float64{0.5: 0.05, 1: 0}})
	sizes.Observe(3)
	r.MustRegister(
		hits, values, times, sizes, prometheus.NewGauge(prometheus.GaugeOpts{Name: "alone", Help: "One."}),
		prometheus.NewUntypedFunc(prometheus.UntypedOpts{Name: "anything", Help: "Untyped."}, func() float64 { return 7 }),
	)
}

// TestTextIsWhatGatherHas: read back, the text is what client_golang gathers.
func TestTextIsWhatGatherHas(t *testing.T) {
	r := New(quiet(t))
	fill(r)
	fill(prometheus.WrapRegistererWith(prometheus.Labels{"side": "left"}, prometheus.WrapRegistererWithPrefix("wrapped_", r)))
	for range 2 { // nothing is left of the scrape before
		answer := scrape(t, r)
		if answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != contentType || answer.Header().Get("Content-Encoding") != "" {
			t.Fatalf("%d %v", answer.Code, answer.Header())
		}
		gathered, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var theirs bytes.Buffer
		for _, f := range gathered {
			if _, err := expfmt.MetricFamilyToText(&theirs, f); err != nil {
				t.Fatal(err)
			}
		}
		got, want := parse(t, answer.Body.String()), parse(t, theirs.String())
		if len(got) != len(want) || len(want) != 12 {
			t.Errorf("%d families, want %d", len(got), len(want))
		}
		for name, f := range want {
			if !proto.Equal(got[name], f) {
				t.Errorf("%s\n%v, want\n%v", name, got[name], f)
			}
		}
	}
}

// parse reads the text format as client_golang's own reader does.
func parse(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, f := range families {
		slices.SortFunc(f.Metric, func(a, b *dto.Metric) int { return cmp.Compare(fmt.Sprint(a.Label), fmt.Sprint(b.Label)) })
	}
	return families
}

// TestTextLines: the same to the letter, in the order of the names.
func TestTextLines(t *testing.T) {
	r := New(quiet(t))
	fill(r)
	got := scrape(t, r).Body.String()
	for _, want := range []string{
		"# HELP alone One.\n# TYPE alone gauge\nalone 0\n# HELP anything Untyped.\n# TYPE anything untyped\nanything 7\n",
		"# HELP hits_total Of a \\\\ and\\na \"line\".\n# TYPE hits_total counter\n",
		"hits_total{code=\"200\",path=\"/a\\\\b\\n\\\"c\\\"\"} 1.5\n", "hits_total{code=\"é\",path=\"\"} 12345678\n",
		"# TYPE sizes_bytes summary\nsizes_bytes{quantile=\"0.5\"} 3\nsizes_bytes{quantile=\"1\"} 3\nsizes_bytes_sum 3\nsizes_bytes_count 1\n",
		"# TYPE times_seconds histogram\ntimes_seconds_bucket{step=\"x\",le=\"0.001\"} 0\ntimes_seconds_bucket{step=\"x\",le=\"1\"} 1\n",
		"times_seconds_bucket{step=\"x\",le=\"+Inf\"} 3\ntimes_seconds_sum{step=\"x\"} 1002.5\ntimes_seconds_count{step=\"x\"} 3\n# TYPE values gauge\n",
		"values{of=\"up\"} +Inf\n", "values{of=\"down\"} -Inf\n", "values{of=\"exact\"} 9007199254740991\n", "values{of=\"small\"} -1.25e-09\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestRuntimeMetrics: those of Go's runtime and of the process can be read, too.
func TestRuntimeMetrics(t *testing.T) {
	r := New(quiet(t))
	r.MustRegister(collectors.NewGoCollector(), Process())
	answer := scrape(t, r).Body.String()
	for _, line := range []string{"\ngo_goroutines ", "\ngo_memstats_alloc_bytes ", "\nprocess_cpu_seconds_total ", "\nprocess_resident_memory_bytes "} {
		if !strings.Contains(answer, line) {
			t.Errorf("no %q in\n%s", line, answer)
		}
	}
}

// flaw is a collector that fails.
type flaw struct {
	desc    *prometheus.Desc
	collect func(out chan<- prometheus.Metric)
}

func (f flaw) Describe(out chan<- *prometheus.Desc) { out <- f.desc }
func (f flaw) Collect(out chan<- prometheus.Metric) { f.collect(out) }

func TestABrokenCollectorIsLeftOut(t *testing.T) {
	desc := prometheus.NewDesc("broken", "Broken.", nil, nil)
	for name, collect := range map[string]func(chan<- prometheus.Metric){
		"error": func(out chan<- prometheus.Metric) {
			out <- prometheus.NewInvalidMetric(desc, errors.New("out of order"))
		},
		"panic": func(chan<- prometheus.Metric) { panic("out of order") },
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			r := New(slog.New(slog.NewTextHandler(&said, nil)))
			r.MustRegister(flaw{desc, collect})
			if answer := scrape(t, r); answer.Code != http.StatusInternalServerError || !strings.Contains(answer.Body.String(), "out of order") {
				t.Errorf("alone: %d %s", answer.Code, answer.Body)
			}
			said.Reset()
			fill(r)
			answer := scrape(t, r)
			if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "alone 0\n") || strings.Contains(answer.Body.String(), "broken") {
				t.Errorf("beside others: %d %s", answer.Code, answer.Body)
			}
			if !strings.Contains(said.String(), "level=WARN") || !strings.Contains(said.String(), "out of order") {
				t.Errorf("logged %q", said.String())
			}
		})
	}
}

// TestUnregister: a collector is found by its descriptions, and its series are gone with it.
func TestUnregister(t *testing.T) {
	gauge := func(v float64) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "level", Help: "Level."})
		g.Set(v)
		return g
	}
	r := New(quiet(t))
	if r.Unregister(gauge(0)) {
		t.Error("what is not there was taken away")
	}
	fill(r)
	r.MustRegister(gauge(1))
	var already prometheus.AlreadyRegisteredError
	if err := r.Register(gauge(2)); !errors.As(err, &already) {
		t.Errorf("a second one of the same name: %v", err)
	}
	if got := scrape(t, r).Body.String(); !strings.Contains(got, "\nlevel 1\n") {
		t.Errorf("after a refused one:\n%s", got)
	}
	if !r.Unregister(gauge(3)) {
		t.Error("an equal one is not found")
	}
	if got := scrape(t, r).Body.String(); strings.Contains(got, "level") || !strings.Contains(got, "\nanything 7\n") {
		t.Errorf("after it was taken away:\n%s", got)
	}
	r.MustRegister(gauge(4))
	if got := scrape(t, r).Body.String(); !strings.Contains(got, "\nlevel 4\n") {
		t.Errorf("after a new one:\n%s", got)
	}
}

func TestScrapesThatPileUp(t *testing.T) {
	r := New(quiet(t))
	begun, let := make(chan struct{}, 1), make(chan struct{})
	r.MustRegister(flaw{prometheus.NewDesc("slow", "Slow.", nil, nil), func(chan<- prometheus.Metric) {
		select {
		case begun <- struct{}{}:
		default:
		}
		<-let
	}})
	var scrapes sync.WaitGroup
	for range atOnce {
		r.turns <- struct{}{} // each as if it were under way
	}
	if answer := scrape(t, r); answer.Code != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", answer.Code)
	}
	for range atOnce {
		<-r.turns
	}
	for range atOnce {
		scrapes.Go(func() {
			if answer := scrape(t, r); answer.Code != http.StatusOK {
				t.Errorf("after them: %d", answer.Code)
			}
		})
	}
	<-begun
	close(let)
	scrapes.Wait()
}

// More series than the channel holds, from several scrapes at once.
func TestManySeriesAtOnce(t *testing.T) {
	r := New(quiet(t))
	desc := prometheus.NewDesc("many", "Many.", []string{"n"}, nil)
	r.MustRegister(flaw{desc, func(out chan<- prometheus.Metric) {
		for i := range 5000 {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(i), strings.Repeat("x", i%7)+string(rune('a'+i%26)))
		}
	}})
	var scrapes sync.WaitGroup
	for range atOnce {
		scrapes.Go(func() {
			if n := strings.Count(scrape(t, r).Body.String(), "\nmany{"); n != 5000 {
				t.Errorf("%d series", n)
			}
		})
	}
	r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "meanwhile"}))
	scrapes.Wait()
}
