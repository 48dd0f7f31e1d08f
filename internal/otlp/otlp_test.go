package otlp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/eosbridge/eosbridge/test/collector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hand gives requests to a collector without a network, so that time may be fake.
type hand struct{ http.Handler }

func (h hand) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	gone := make(chan struct{})
	go func() { // the handler ends with the request's context, as a server's does
		defer close(gone)
		h.ServeHTTP(w, r)
	}()
	select {
	case <-gone:
		return w.Result(), nil
	case <-r.Context().Done():
		<-gone
		return nil, r.Context().Err()
	}
}

// bed is an exporter of numbers that runs, and a collector.
type bed struct {
	*Exporter[int]
	to              *collector.Collector
	delivered, lost atomic.Int64
	log             bytes.Buffer
	end             func()
}

// start is called in a bubble. The exporter ends with stop.
func start(t *testing.T, change func(*Options)) *bed {
	t.Helper()
	b := &bed{to: collector.New(t)}
	o := Options{
		URL: "http://collector:4318/v1/traces", Timeout: 10 * time.Second, Transport: hand{b.to}, Scope: "test", Version: "1.2",
		Resource: []Attribute{Text("service.name", "x")}, Log: slog.New(slog.NewTextHandler(&b.log, nil)),
		Counted: func(delivered bool, n int) {
			if delivered {
				b.delivered.Add(int64(n))
			} else {
				b.lost.Add(int64(n))
			}
		},
	}
	if change != nil {
		change(&o)
	}
	b.Exporter = New(o, func(spans []Span, n int) []Span {
		return append(spans, Span{Trace: NewTraceID(), ID: NewSpanID(), Name: "n", Kind: Internal, Start: time.Unix(1, 0), End: time.Unix(2, 0), Attributes: []Attribute{Number("n", int64(n))}})
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(ctx, 3*time.Second)
	}()
	b.end = func() {
		cancel()
		<-ended
	}
	return b
}

// numbers are those that have arrived.
func (b *bed) numbers(t *testing.T) (list []int) {
	t.Helper()
	for _, s := range b.to.Spans() {
		attributes, err := collector.Attributes(s.GetAttributes())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, int(attributes["n"].(int64)))
	}
	return list
}

func (b *bed) offer(from, to int) (offered []int) {
	for n := from; n < to; n++ {
		b.Offer(n)
		offered = append(offered, n)
	}
	return offered
}

// TestEncoding compares what is sent with what a decoder that is not ours makes of it.
func TestEncoding(t *testing.T) {
	at := time.Unix(1_700_000_000, 123_456_789)
	root := Span{
		Trace: TraceID{0xab, 15: 1}, ID: SpanID{1, 7: 0xff}, Name: "a \"name\"\n<é>", Kind: Internal, Start: at, End: at.Add(time.Second),
		Attributes: []Attribute{Text("text", ""), Number("number", 1<<62), Number("none", 0)},
		Failed:     true, Message: "it \x00 broke",
	}
	child := Span{Trace: root.Trace, ID: SpanID{2}, Parent: root.ID, Name: "child", Kind: Client, Start: at, End: at.Add(-time.Second)}
	body, err := encode([]Attribute{Text("service.name", "s")}, wireScope{"scope", "v"}, []Span{root, child})
	if err != nil {
		t.Fatal(err)
	}
	traces, err := collector.Decode(body)
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	resource := traces.GetResourceSpans()[0]
	scope := resource.GetScopeSpans()[0]
	if got, err := collector.Attributes(resource.GetResource().GetAttributes()); err != nil || got["service.name"] != "s" {
		t.Errorf("resource %v, %v", got, err)
	}
	if scope.GetScope().GetName() != "scope" || scope.GetScope().GetVersion() != "v" || len(scope.GetSpans()) != 2 {
		t.Fatalf("scope %v with %d spans", scope.GetScope(), len(scope.GetSpans()))
	}
	first, second := scope.GetSpans()[0], scope.GetSpans()[1]
	if !bytes.Equal(first.GetTraceId(), root.Trace[:]) || !bytes.Equal(first.GetSpanId(), root.ID[:]) || len(first.GetParentSpanId()) > 0 {
		t.Errorf("ids of the root %x %x %x", first.GetTraceId(), first.GetSpanId(), first.GetParentSpanId())
	}
	if !bytes.Equal(second.GetParentSpanId(), root.ID[:]) || !bytes.Equal(second.GetTraceId(), root.Trace[:]) {
		t.Errorf("ids of the child %x %x", second.GetTraceId(), second.GetParentSpanId())
	}
	if first.GetName() != root.Name || first.GetKind().String() != "SPAN_KIND_INTERNAL" || second.GetKind().String() != "SPAN_KIND_CLIENT" {
		t.Errorf("names and kinds: %v, %v", first, second)
	}
	if first.GetStartTimeUnixNano() != 1_700_000_000_123_456_789 || first.GetEndTimeUnixNano() != 1_700_000_001_123_456_789 {
		t.Errorf("times %d %d", first.GetStartTimeUnixNano(), first.GetEndTimeUnixNano())
	}
	if second.GetEndTimeUnixNano() != second.GetStartTimeUnixNano() {
		t.Error("a span ends before it begins")
	}
	if first.GetStatus().GetCode().String() != "STATUS_CODE_ERROR" || first.GetStatus().GetMessage() != root.Message || second.GetStatus() != nil {
		t.Errorf("status %v, %v", first.GetStatus(), second.GetStatus())
	}
	got, err := collector.Attributes(first.GetAttributes())
	if want := map[string]any{"text": "", "number": int64(1 << 62), "none": int64(0)}; err != nil || !maps.Equal(got, want) {
		t.Errorf("attributes %v, %v", got, err)
	}
}

func TestIDsDiffer(t *testing.T) {
	traces, spans := map[TraceID]bool{}, map[SpanID]bool{}
	for range 1000 {
		traces[NewTraceID()], spans[NewSpanID()] = true, true
	}
	if len(traces) != 1000 || len(spans) != 1000 {
		t.Errorf("%d and %d of 1000", len(traces), len(spans))
	}
}

// TestBatches: a full batch goes at once, others wait for the delay, and the end takes the rest along.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(o *Options) { o.Gzip = true })
		want := b.offer(0, batchLength)
		synctest.Wait()
		if got := b.numbers(t); !slices.Equal(got, want) {
			t.Errorf("at once: %d of %d", len(got), len(want))
		}
		want = append(want, b.offer(500, 503)...)
		<-time.After(batchDelay - time.Millisecond)
		synctest.Wait()
		if got := b.numbers(t); len(got) != batchLength {
			t.Errorf("%d before the delay is over", len(got))
		}
		<-time.After(time.Millisecond)
		synctest.Wait()
		if got := b.numbers(t); !slices.Equal(got, want) {
			t.Errorf("after the delay: %v", got[batchLength:])
		}
		want = append(want, b.offer(600, 850)...)
		b.end()
		if got := b.numbers(t); !slices.Equal(got, want) || b.delivered.Load() != int64(len(want)) || b.lost.Load() != 0 {
			t.Errorf("at the end: %d of %d, %d counted, %d lost", len(got), len(want), b.delivered.Load(), b.lost.Load())
		}
		for _, r := range b.to.Taken() {
			if r.Path != "/v1/traces" || r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("User-Agent") != "test/1.2" {
				t.Errorf("request to %s with %v", r.Path, r.Header)
			}
		}
		if b.log.Len() > 0 {
			t.Errorf("a healthy life logs %s", &b.log)
		}
	})
}

// TestCollectorAway: whatever keeps a collector from taking spans, offering costs no time, what waits is bounded, one line
// is logged, and what was not given up arrives later.
func TestCollectorAway(t *testing.T) {
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	for name, test := range map[string]struct {
		how  http.HandlerFunc
		want string
		most int // requests in 10 minutes
	}{
		"hangs":          {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer within 10s", 25},
		"overloaded":     {status(503), "answers 503 Service Unavailable", 35},
		"throttles":      {status(429, "Retry-After", "120"), "answers 429 Too Many Requests", 6},
		"throttles long": {status(503, "Retry-After", "86400"), "answers 503", 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, nil)
				b.to.Refuse(test.how)
				const offered = 3000
				begin := time.Now()
				b.offer(0, offered)
				if time.Since(begin) > 0 {
					t.Errorf("offering took %s", time.Since(begin))
				}
				<-time.After(10 * time.Minute)
				if n := b.to.Refused(); n < 2 || n > test.most {
					t.Errorf("%d requests in ten minutes, want 2 to %d", n, test.most)
				}
				if n := strings.Count(b.log.String(), "\n"); n != 1 || !strings.Contains(b.log.String(), test.want) || !strings.Contains(b.log.String(), "level=WARN") {
					t.Errorf("%d lines, want one with %q: %s", n, test.want, &b.log)
				}
				b.to.Refuse(nil)
				<-time.After(10 * time.Minute)
				got := b.numbers(t)
				// The newest are there, and what was on its way.
				if len(got) < queueLength || len(got) > queueLength+batchLength || got[len(got)-1] != offered-1 || !slices.IsSorted(got) {
					t.Errorf("%d arrived, the last %v", len(got), got[len(got)-1])
				}
				if b.delivered.Load() != int64(len(got)) || b.lost.Load() != int64(offered-len(got)) {
					t.Errorf("counted %d and %d lost, %d arrived", b.delivered.Load(), b.lost.Load(), len(got))
				}
				if text := b.log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "traces are delivered again") {
					t.Errorf("log %s", text)
				}
				b.end()
			})
		})
	}
}

// TestRefusedForGood: what another attempt would not mend is given up, and the next batch is tried.
func TestRefusedForGood(t *testing.T) {
	for _, test := range []struct {
		code int
		want string
	}{
		{400, "400 Bad Request"},
		{401, "401 Unauthorized (look at OTEL_EXPORTER_OTLP_HEADERS)"},
		{404, "404 Not Found (OTEL_EXPORTER_OTLP_ENDPOINT is without /v1/traces"},
		{413, "413 "},
		{415, "415 Unsupported Media Type (it has to take OTLP over HTTP as JSON)"},
		{500, "500 Internal Server Error"},
		{307, "307 Temporary Redirect"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, func(o *Options) {
				o.Headers = func() (map[string]string, error) { return map[string]string{"Authorization": "Bearer hunter2"}, nil }
			})
			b.to.Refuse(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Host != "collector:4318" {
					t.Errorf("%d: asks %s", test.code, r.URL)
				}
				w.Header().Set("Location", "http://elsewhere/")
				w.WriteHeader(test.code)
				_, _ = io.WriteString(w, `{"message":"no such token:\nhunter2, of Bearer hunter2 `+strings.Repeat("x", 500)+`"}`)
			})
			b.offer(0, batchLength+1)
			<-time.After(time.Minute)
			if n := b.to.Refused(); n != 2 || b.lost.Load() != batchLength+1 {
				t.Errorf("%d: %d requests, %d lost", test.code, n, b.lost.Load())
			}
			text := b.log.String()
			if strings.Count(text, "\n") != 1 || !strings.Contains(text, test.want) || !strings.Contains(text, "no such token: ***") || len(text) > 800 {
				t.Errorf("%d: log %s", test.code, text)
			}
			if strings.Contains(text, "hunter2") {
				t.Errorf("%d: the log shows a secret: %s", test.code, text)
			}
			b.end()
		})
	}
}

// TestPartialSuccess: what a collector leaves out of a request is told once, and not sent again.
func TestPartialSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		b.to.Refuse(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}`)
		})
		for range 2 {
			b.offer(0, 5)
			<-time.After(time.Minute)
		}
		if n := b.to.Refused(); n != 2 || b.delivered.Load() != 10 {
			t.Errorf("%d requests, %d delivered", n, b.delivered.Load())
		}
		if text := b.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "has left out 3 spans of a request: too old") {
			t.Errorf("log %s", text)
		}
		b.end()
	})
}

// TestStopIsBounded: a collector that hangs holds up a stop for no longer than the grace, and one that fails not at all.
func TestStopIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		how  http.HandlerFunc
		most time.Duration
		last int // requests after the end began
	}{
		"hangs":     {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 3 * time.Second, 1},
		"fails":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 0, 2},
		"throttles": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "60"); w.WriteHeader(503) }, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, nil)
				b.to.Refuse(test.how)
				b.offer(0, 2*batchLength)
				<-time.After(20 * time.Second)
				synctest.Wait()
				before, begin := b.to.Refused(), time.Now()
				b.end()
				if took := time.Since(begin); took > test.most {
					t.Errorf("took %s, want at most %s", took, test.most)
				}
				if n := b.to.Refused() - before; n > test.last {
					t.Errorf("%d more requests", n)
				}
				if b.lost.Load() != 2*batchLength {
					t.Errorf("%d counted as lost", b.lost.Load())
				}
			})
		})
	}
}

// TestHeadersAreAskedEachTime: they may change, and be away for a moment.
func TestHeadersAreAskedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		b := start(t, func(o *Options) {
			o.Headers = func() (map[string]string, error) {
				switch asked.Add(1) {
				case 1:
					return map[string]string{"api-key": "one"}, nil
				case 2:
					return nil, errors.New("the file is away")
				}
				return map[string]string{"api-key": "two", "Content-Type": "text/plain"}, nil
			}
		})
		for range 2 {
			b.offer(0, 1)
			<-time.After(time.Minute)
		}
		b.end()
		taken := b.to.Taken()
		if len(taken) != 2 || taken[0].Header.Get("Api-Key") != "one" || taken[1].Header.Get("Api-Key") != "two" {
			t.Errorf("%d requests", len(taken))
		}
		if !strings.Contains(b.log.String(), "the file is away") || strings.Contains(b.log.String(), "two") {
			t.Errorf("log %s", &b.log)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-7": 0, "soon": 0, "99999": longestRetryAfter, "99999999999": 0,
		"Mon, 30 Nov 2026 12:00:09 GMT": 9 * time.Second, "Mon, 30 Nov 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestOfferAllocatesNothing: it is what the committer waits for.
func TestOfferAllocatesNothing(t *testing.T) {
	e := New(Options{}, func(s []Span, _ [32]int64) []Span { return s })
	if n := testing.AllocsPerRun(3000, func() { e.Offer([32]int64{}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOffer(b *testing.B) {
	e := New(Options{}, func(s []Span, _ [32]int64) []Span { return s })
	for b.Loop() {
		e.Offer([32]int64{})
	}
}

// BenchmarkEncode is a request of 100 traces with five spans each.
func BenchmarkEncode(b *testing.B) {
	var spans []Span
	for range 100 {
		trace := NewTraceID()
		for i := range 5 {
			s := Span{Trace: trace, ID: NewSpanID(), Name: "send offsets", Kind: Client, Start: time.Unix(1, 1), End: time.Unix(2, 2)}
			if i == 0 {
				for range 15 {
					s.Attributes = append(s.Attributes, Number("eosbridge.records_out", 123_456))
				}
			}
			spans = append(spans, s)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if body, err := encode(nil, wireScope{}, spans); err != nil || len(body) == 0 {
			b.Fatal(err)
		}
	}
}
