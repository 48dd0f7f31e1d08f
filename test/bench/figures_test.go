package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9*(1+math.Abs(b)) }

func each(n int64) (ends [partitions]int64) {
	for p := range ends {
		ends[p] = n
	}
	return ends
}

func TestRates(t *testing.T) {
	at := func(ms int64, n int64) sample {
		return sample{at: time.Duration(ms) * time.Millisecond, ends: each(n)}
	}
	for _, tc := range []struct {
		name          string
		samples       []sample
		ends          int64
		first         time.Duration
		total, steady float64
	}{
		// 800 records. Visible at 100 ms: 80; at 300 ms: 760; at 600 ms: all, with a marker each from 500 ms on.
		{"in steps", []sample{at(0, 0), at(100, 10), at(300, 95), at(500, 96), at(600, 101)}, 100, 100 * time.Millisecond, 720 / 0.5, 680 / 0.2},
		{"the last marker comes later", []sample{at(100, 10), at(200, 100), at(900, 101)}, 100, 100 * time.Millisecond, 720 / 0.1, 720 / 0.1},
		{"all at once", []sample{at(50, 0), at(100, 100)}, 100, 100 * time.Millisecond, 0, 0},
		{"nothing", []sample{at(50, 0)}, 100, 0, 0, 0},
		{"never complete", []sample{at(100, 10), at(200, 99)}, 100, 100 * time.Millisecond, 0, 712 / 0.1},
	} {
		first, total, steady := rates(tc.samples, 800, each(tc.ends))
		if first != tc.first || !near(total, tc.total) || !near(steady, tc.steady) {
			t.Errorf("%s: %v, %v, %v, want %v, %v, %v", tc.name, first, total, steady, tc.first, tc.total, tc.steady)
		}
	}
	one := each(100)
	one[3] = 99
	if reached(one, each(100)) || !reached(each(100), one) {
		t.Error("reached: one partition behind the others decides")
	}
}

func TestWindow(t *testing.T) {
	first, still := window([]sample{
		{at: 1, ends: each(0)}, {at: 2, ends: each(1)}, {at: 3, ends: each(2)}, {at: 4, ends: each(2)},
	})
	if first != 2 || still != 3 {
		t.Errorf("window %d to %d, want 2 to 3", first, still)
	}
}

func TestQuantile(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{nil, 0.5, 0},
		{[]float64{7}, 0.99, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{0, 10}, 0.99, 9.9},
		{[]float64{5, 1}, 0, 1},
		{[]float64{5, 1}, 1, 5},
	} {
		if got := quantile(tc.values, tc.q); !near(got, tc.want) {
			t.Errorf("quantile(%v, %v) = %v, want %v", tc.values, tc.q, got, tc.want)
		}
	}
	values := []float64{3, 1, 2}
	if s := spreadOf(values); s != (spread{Median: 2, Min: 1, Max: 3, Runs: 3}) || values[0] != 3 {
		t.Errorf("spread %+v of %v", s, values)
	}
	if s := spreadOf(nil); s.Runs != 0 || s.text(decimals(1)) != "–" {
		t.Errorf("spread of nothing: %+v", s)
	}
}

// runs are two rounds of W1 in which the bridge takes 1.2 and 1.5 times the CPU.
func runs() []measurement {
	stalled := func(share float64) *float64 { return &share }
	return []measurement{
		{Workload: "W1", Variant: variantBridge, Round: 1, CPUPerMillion: 1.2, RecordsPerSecond: 90, PeakMiB: 200},
		{Workload: "W1", Variant: variantPlain, Round: 1, CPUPerMillion: 1, RecordsPerSecond: 100, PeakMiB: 100},
		{Workload: "W1", Variant: variantPlain, Round: 2, CPUPerMillion: 2, RecordsPerSecond: 50, PeakMiB: 100},
		{Workload: "W1", Variant: variantBridge, Round: 2, CPUPerMillion: 3, RecordsPerSecond: 55, PeakMiB: 300},
		{Workload: "W2", Variant: variantBridge, Round: 1, CPUPerMillion: 7},
		{Workload: feedName, Variant: variantBridge, Round: 1, StallShare: stalled(0.001)},
		{Workload: "feed +10ms", Variant: variantBridge, Round: 1, StallShare: stalled(0.2)},
	}
}

func TestRatios(t *testing.T) {
	got := ratios(runs(), "W1", variantBridge, variantPlain, cpu)
	if len(got) != 2 || !near(got[0], 1.2) || !near(got[1], 1.5) {
		t.Errorf("ratios %v, want 1.2 and 1.5: of the same round, not of the medians", got)
	}
	if got := ratios(runs(), "W2", variantBridge, variantPlain, cpu); got != nil {
		t.Errorf("ratios without a partner: %v", got)
	}
	if got := ratios(runs(), "W1", variantBridge, variantPlain, stall); got != nil {
		t.Errorf("ratios of what was not measured: %v", got)
	}
}

func TestTargets(t *testing.T) {
	table := targets(runs(), []string{"W1", "W2"}, 10*time.Millisecond)
	var got []string
	for _, row := range table.Rows[1:] {
		got = append(got, strings.Join(row, "; "))
	}
	want := []string{
		"W1: CPU-s/M, bridge / plain; at most 1.25; 1.35 [1.20–1.50]; missed",
		"W1: records/s, bridge / plain; at least 0.90; 1.00 [0.90–1.10]; met",
		"W1: peak MiB; at most 256; 250 [200–300]; met",
		"stall %; at most 2.00; 0.10; met",
		"stall %, +10ms an answer; at most 5.00; 20.00; missed",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestReport(t *testing.T) {
	o := &options{variants: []string{variantBridge, variantPlain}, delay: 10 * time.Millisecond, bridge: "/nowhere", feedRate: 4000}
	all := runs()
	rep := newReport(o, all)
	if err := rep.inexact(); err != nil {
		t.Error(err)
	}
	var text, markdown strings.Builder
	if err := rep.write(&text, asText); err != nil {
		t.Error(err)
	}
	if err := rep.write(&markdown, asMarkdown); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"bridge of unknown version", "| W1 | bridge / plain | 1.35 [1.20–1.50] |", "|---|", "| W1 | bridge | 2 |", "### Targets"} {
		if !strings.Contains(markdown.String(), want) {
			t.Errorf("no %q in\n%s", want, markdown.String())
		}
	}
	if strings.Contains(markdown.String(), "| W2 | plain |") || strings.Contains(text.String(), "|") {
		t.Errorf("a row without runs, or Markdown in the text:\n%s\n%s", markdown.String(), text.String())
	}
	all[4].Verdict.Lost = 2
	if err := newReport(o, all).inexact(); err == nil || !strings.Contains(err.Error(), "W2 round 1 bridge: NOT EXACT: duplicated 0, lost 2") {
		t.Errorf("two lost records: %v", err)
	}
}

func TestInto(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	rep := &report{Tables: []table{{Title: "New", Rows: [][]string{{"a"}, {"1"}}}}}
	if err := rep.into(file); err == nil {
		t.Error("no file: no error")
	}
	if err := os.WriteFile(file, []byte("head\n"+markBegin+"old\n"+markEnd+"foot\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rep.into(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, "head\n"+markBegin) || !strings.HasSuffix(s, markEnd+"foot\n") ||
		!strings.Contains(s, "| 1 |") || strings.Contains(s, "old") {
		t.Errorf("page:\n%s", s)
	}
	if _, err := between("no marks", ""); err == nil {
		t.Error("no marks: no error")
	}
}

// TestDocument keeps docs/performance.md fit for -into.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := between(string(text), ""); err != nil {
		t.Error(err)
	}
}

func TestThousands(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 999.4: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(value); got != want {
			t.Errorf("thousands(%v) = %s, want %s", value, got, want)
		}
	}
}

func TestIntervals(t *testing.T) {
	at := time.Unix(0, 0)
	got := intervals([]time.Time{at, at.Add(100 * time.Millisecond), at.Add(350 * time.Millisecond)})
	if len(got) != 2 || got[0] != 100 || got[1] != 250 {
		t.Errorf("intervals %v", got)
	}
	c := sessionCopy{began: []time.Time{at, at.Add(100 * time.Millisecond)}, ending: []float64{10, 30}, finished: at.Add(200 * time.Millisecond)}
	if e, stalled := c.report(); stalled != 0.2 || e.Committed != 2 || e.CommitP50 != 20 || e.Interval != 100 {
		t.Errorf("report %+v, stall %v", e, stalled)
	}
	if _, stalled := (&sessionCopy{}).report(); stalled != 0 {
		t.Errorf("stall of nothing: %v", stalled)
	}
}
