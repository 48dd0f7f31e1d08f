package bridge

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/eosbridge/eosbridge/txn"
)

// update rewrites golden files and generated documents instead of comparing with them.
var update = flag.Bool("update", false, "rewrite golden files and generated documents")

func mustMetrics(t testing.TB, reg prometheus.Registerer, b *board) *metrics {
	t.Helper()
	m, err := newMetrics(reg, b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func gather(t *testing.T, g prometheus.Gatherer) []*dto.MetricFamily {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// samples flattens families to `name{label="value"} number`; a histogram becomes its _count and _sum.
func samples(families []*dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			suffix := ""
			if len(labels) > 0 {
				suffix = "{" + strings.Join(labels, ",") + "}"
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				out[f.GetName()+suffix] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				out[f.GetName()+suffix] = m.GetGauge().GetValue()
			default:
				out[f.GetName()+"_count"+suffix] = float64(m.GetHistogram().GetSampleCount())
				out[f.GetName()+"_sum"+suffix] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return out
}

func expect(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		g, ok := got[name]
		if !ok {
			t.Errorf("%s is absent, want %v", name, value)
		} else if diff := g - value; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s = %v, want %v", name, g, value)
		}
	}
}

func TestMetricsCountEpochs(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := mustMetrics(t, reg, newBoard(Status{}, nil, nil))
	for _, s := range sampleEpochs() {
		m.epoch(s)
	}
	m.restart(fmt.Errorf("%w: x", txn.ErrInDoubt))
	m.restart(fmt.Errorf("%w: y", txn.ErrAborted))
	m.stalled(1500 * time.Millisecond)
	m.stalled(-time.Second)
	m.holding(250 * time.Millisecond)
	m.holding(-time.Second)
	expect(t, samples(gather(t, reg)), map[string]float64{
		`eosbridge_epochs_total{class="",outcome="committed"}`:       1,
		`eosbridge_epochs_total{class="",outcome="carried"}`:         1,
		`eosbridge_epochs_total{class="in doubt",outcome="aborted"}`: 1,
		`eosbridge_epochs_total{class="aborted",outcome="aborted"}`:  0,
		// The aborted epoch's 7 records come again and are counted then.
		`eosbridge_records_total{direction="in"}`:    1005,
		`eosbridge_records_total{direction="out"}`:   900,
		`eosbridge_bytes_total{direction="in"}`:      100_050,
		`eosbridge_bytes_total{direction="out"}`:     90_000,
		`eosbridge_restarts_total{class="in doubt"}`: 1,
		`eosbridge_restarts_total{class="aborted"}`:  1,
		`eosbridge_restarts_total{class="fatal"}`:    0,
		`eosbridge_lane_stall_seconds_total`:         1.5,
		`eosbridge_lane_held_seconds_total`:          0.25,
		// Each histogram has the epochs that reached the end of its step.
		`eosbridge_epoch_alignment_seconds_count`: 3,
		`eosbridge_epoch_alignment_seconds_sum`:   0.0045,
		`eosbridge_epoch_flush_seconds_count`:     2,
		`eosbridge_epoch_flush_seconds_sum`:       0.0075 + 0.003,
		`eosbridge_epoch_commit_seconds_count`:    1,
		`eosbridge_epoch_commit_seconds_sum`:      0.01125,
		`eosbridge_epoch_duration_seconds_count`:  1,
		`eosbridge_epoch_duration_seconds_sum`:    0.02025,
	})
}

func TestMetricsShowTheBoard(t *testing.T) {
	clock := newHandClock()
	b := sampleBoard(clock)
	reg := prometheus.NewRegistry()
	mustMetrics(t, reg, b)
	expect(t, samples(gather(t, reg)), map[string]float64{
		`eosbridge_state{state="recovering"}`:                   0,
		`eosbridge_state{state="joining"}`:                      0,
		`eosbridge_state{state="running"}`:                      1,
		`eosbridge_state{state="stopping"}`:                     0,
		`eosbridge_state{state="stopped"}`:                      0,
		`eosbridge_assigned_partitions`:                         3,
		`eosbridge_open_transaction_age_ratio`:                  0.25,
		`eosbridge_lag_records{partition="0",topic="orders"}`:   0,
		`eosbridge_lag_records{partition="2",topic="orders"}`:   30,
		`eosbridge_lag_records{partition="1",topic="payments"}`: 5,
		`eosbridge_memory_used_bytes`:                           3 << 20,
		`eosbridge_memory_budget_bytes`:                         512 << 20,
		`eosbridge_transform_interpreted`:                       0,
		`eosbridge_build_info{version="v1.2.3"}`:                1,
	})

	b.enter(StateStopping)
	b.assign(nil)
	b.openTxn(time.Time{})
	got := samples(gather(t, reg))
	expect(t, got, map[string]float64{
		`eosbridge_state{state="running"}`:     0,
		`eosbridge_state{state="stopping"}`:    1,
		`eosbridge_assigned_partitions`:        0,
		`eosbridge_open_transaction_age_ratio`: 0,
	})
	for name := range got {
		if strings.HasPrefix(name, "eosbridge_lag_records") {
			t.Errorf("%s is left of a partition that has gone", name)
		}
	}
}

// A series that only appears with its first event makes rate() miss that event.
func TestMetricsBeginAtZero(t *testing.T) {
	reg := prometheus.NewRegistry()
	mustMetrics(t, reg, newBoard(Status{}, nil, nil))
	before := slices.Sorted(maps.Keys(samples(gather(t, reg))))
	reg2 := prometheus.NewRegistry()
	m := mustMetrics(t, reg2, newBoard(Status{}, nil, nil))
	for _, s := range sampleEpochs() {
		m.epoch(s)
	}
	for _, err := range []error{txn.ErrAborted, txn.ErrInDoubt, txn.ErrFenced, txn.ErrFatal} {
		m.restart(err)
		m.epoch(EpochSummary{Outcome: OutcomeAborted, Class: classOf(err)})
	}
	after := slices.Sorted(maps.Keys(samples(gather(t, reg2))))
	if !slices.Equal(before, after) {
		t.Errorf("series before the first event:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

func TestMetricsOutOfOrderStepsAreNotNegative(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := mustMetrics(t, reg, newBoard(Status{}, nil, nil))
	m.epoch(EpochSummary{Outcome: OutcomeCommitted, Aligned: 3, Flushed: 2, Committed: 1})
	got := samples(gather(t, reg))
	for _, name := range []string{"flush", "commit"} {
		if sum := got["eosbridge_epoch_"+name+"_seconds_sum"]; sum != 0 {
			t.Errorf("%s sum = %v, want 0", name, sum)
		}
	}
}

// The time at which a carried epoch was put aside is not that of a commit, and would make commits look fast.
func TestMetricsCarriedEpochsAreNotTimedAsCommits(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := mustMetrics(t, reg, newBoard(Status{}, nil, nil))
	m.epoch(EpochSummary{Outcome: OutcomeCarried, Aligned: 1, Flushed: 2, Committed: 3})
	expect(t, samples(gather(t, reg)), map[string]float64{
		"eosbridge_epoch_commit_seconds_count":    0,
		"eosbridge_epoch_duration_seconds_count":  0,
		"eosbridge_epoch_alignment_seconds_count": 1,
	})
}

func TestMetricsRegisteredTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	first := mustMetrics(t, reg, newBoard(Status{Version: "one", State: StateStopped}, nil, nil))
	first.epoch(EpochSummary{Outcome: OutcomeCommitted, RecordsIn: 2, Committed: time.Second})
	second := mustMetrics(t, reg, newBoard(Status{Version: "two", State: StateRunning, Interpreted: true}, nil, nil))
	second.epoch(EpochSummary{Outcome: OutcomeCommitted, RecordsIn: 3, Committed: time.Second})
	got := samples(gather(t, reg))
	expect(t, got, map[string]float64{
		`eosbridge_epochs_total{class="",outcome="committed"}`: 2,
		`eosbridge_records_total{direction="in"}`:              5,
		`eosbridge_epoch_duration_seconds_count`:               2,
		`eosbridge_state{state="running"}`:                     1,
		`eosbridge_state{state="stopped"}`:                     0,
		`eosbridge_build_info{version="two"}`:                  1,
		`eosbridge_transform_interpreted`:                      1,
	})
	if _, ok := got[`eosbridge_build_info{version="one"}`]; ok {
		t.Error("the first bridge's board is still shown")
	}
}

func TestMetricsUnderAPrefixedRegistererTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"pipeline": "p"}, reg)
	for range 2 {
		mustMetrics(t, wrapped, newBoard(Status{}, nil, nil)).epoch(EpochSummary{Outcome: OutcomeCommitted})
	}
	expect(t, samples(gather(t, reg)), map[string]float64{
		`eosbridge_epochs_total{class="",outcome="committed",pipeline="p"}`: 2,
	})
}

func TestMetricsClashIsAnError(t *testing.T) {
	for _, name := range []string{"eosbridge_epochs_total", "eosbridge_state", "eosbridge_epoch_flush_seconds"} {
		reg := prometheus.NewRegistry()
		reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "foreign"}))
		m, err := newMetrics(reg, newBoard(Status{}, nil, nil))
		if err == nil || m != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is taken, but newMetrics returned %v, %v", name, m, err)
		}
	}
}

func TestMetricsWithoutRegistry(t *testing.T) {
	m := mustMetrics(t, nil, newBoard(Status{}, nil, nil))
	for _, s := range sampleEpochs() {
		m.epoch(s)
	}
	m.restart(nil)
	m.stalled(time.Second)
}

func TestMetricsCountedAndGatheredAtOnce(t *testing.T) {
	const epochs = 300
	b := sampleBoard(newHandClock())
	reg := prometheus.NewRegistry()
	m := mustMetrics(t, reg, b)
	done := make(chan struct{})
	var scraper sync.WaitGroup
	scraper.Go(func() {
		for {
			if _, err := reg.Gather(); err != nil {
				t.Error(err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for i := range epochs {
		m.epoch(sampleEpochs()[i%3])
		b.committed(txn.Epoch(i))
		b.assign(map[string][]int32{"orders": {int32(i % 3)}})
	}
	close(done)
	scraper.Wait()
	expect(t, samples(gather(t, reg)), map[string]float64{
		`eosbridge_epochs_total{class="",outcome="committed"}`: epochs / 3,
	})
}

func TestMetricsLint(t *testing.T) {
	reg := prometheus.NewRegistry()
	mustMetrics(t, reg, sampleBoard(newHandClock()))
	problems, err := promlint.NewWithMetricFamilies(gather(t, reg)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Between these lines docs/metrics.md is generated.
const (
	tableBegin = "<!-- metrics: generated, run go test ./bridge -run Document -update -->\n"
	tableEnd   = "<!-- metrics: end -->\n"
)

// metricsTable describes what a registry holds. Labels with open-ended values are shown by name only.
func metricsTable(families []*dto.MetricFamily) string {
	var out strings.Builder
	out.WriteString("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		values := map[string][]string{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if v := l.GetValue(); v != "" && !slices.Contains(values[l.GetName()], v) {
					values[l.GetName()] = append(values[l.GetName()], v)
				}
			}
		}
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			label := "`" + name + "`"
			if !slices.Contains([]string{"topic", "partition", "version"}, name) {
				slices.Sort(values[name])
				label += ": " + strings.Join(values[name], ", ")
			}
			labels = append(labels, label)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n",
			f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, "; "), f.GetHelp())
	}
	return out.String()
}

func TestMetricsDocument(t *testing.T) {
	const path = "../docs/metrics.md"
	reg := prometheus.NewRegistry()
	mustMetrics(t, reg, sampleBoard(newHandClock()))
	families := gather(t, reg)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has lost the lines %q and %q", path, tableBegin, tableEnd)
	}
	want := before + tableBegin + metricsTable(families) + tableEnd + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(data) != want {
		t.Errorf("%s differs from the registry: run go test ./bridge -run Document -update", path)
	}

	// The examples must not ask for metrics that do not exist. Those of the Kafka clients and of traces are made in cli, and held there.
	for _, word := range strings.FieldsFunc(before+after, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z')
	}) {
		if !strings.HasPrefix(word, "eosbridge_") || strings.HasPrefix(word, "eosbridge_kafka_") || strings.HasPrefix(word, "eosbridge_traced_") {
			continue
		}
		name := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(word, "_bucket"), "_sum"), "_count")
		if !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name }) {
			t.Errorf("%s speaks of %s, which does not exist", path, word)
		}
	}
}
