package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const metricsText = `# HELP eosbridge_lane_stall_seconds_total Time
# TYPE eosbridge_lane_stall_seconds_total counter
eosbridge_lane_stall_seconds_total 1.5
eosbridge_lane_stall_seconds_totally 9
eosbridge_records_total{direction="in"} 3e+06
eosbridge_records_total{direction="a b"} 2
broken_total x
`

const epochsText = `{"epochs": [
  {"epoch": 3, "outcome": "aborted", "trigger": "records", "triggered": "2026-01-01T00:00:00.250Z"},
  {"epoch": 2, "outcome": "committed", "trigger": "interval", "triggered": "2026-01-01T00:00:00.1Z",
   "aligned_ms": 1, "flushed_ms": 5, "offsets_sent_ms": 8, "committed_ms": 10},
  {"epoch": 1, "outcome": "committed", "trigger": "interval", "triggered": "2026-01-01T00:00:00Z",
   "aligned_ms": 2, "flushed_ms": 8, "offsets_sent_ms": 9, "committed_ms": 30}]}`

func TestSumOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		want float64
		fail bool
	}{
		{"eosbridge_lane_stall_seconds_total", 1.5, false},
		{"eosbridge_records_total", 3_000_002, false},
		{"eosbridge_records", 0, true},
		{"broken_total", 0, true},
	} {
		got, err := sumOf(metricsText, tc.name)
		if got != tc.want || (err != nil) != tc.fail {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
}

func TestFace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			_, _ = w.Write([]byte(metricsText))
		case "/api/epochs":
			_, _ = w.Write([]byte(epochsText))
		default:
			http.Error(w, "nothing here", http.StatusNotFound)
		}
	}))
	defer server.Close()
	f := face{addr: strings.TrimPrefix(server.URL, "http://")}
	if got, err := f.stalled(t.Context()); got != 1.5 || err != nil {
		t.Errorf("stalled: %v, %v", got, err)
	}
	h := history{}
	if err := h.collect(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	got := h.summary(time.Time{})
	if got.Committed != 2 || got.Aborted != 1 || got.Interval != 125 || got.CommitP50 != 20 ||
		got.Align != 1.5 || got.Flush != 5 || got.Offsets != 2 || got.End != 11.5 || got.Triggers["interval"] != 2 {
		t.Errorf("summary %+v", got)
	}
	// An earlier epoch still tells the distance to the first that counts.
	if got := h.summary(h[1].Triggered); got.Committed != 1 || got.Interval != 125 || got.CommitP99 != 10 {
		t.Errorf("summary of the later ones %+v", got)
	}
	file := filepath.Join(t.TempDir(), "profile")
	if err := f.keep(t.Context(), "/debug", file); err == nil || !strings.Contains(err.Error(), "nothing here") {
		t.Errorf("keep what is not there: %v", err)
	}
	if err := f.keep(t.Context(), "/metrics", file); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != metricsText {
		t.Errorf("kept %q, %v", text, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.collect(gone, f); err == nil {
		t.Error("collect after the end: no error")
	}
}

func TestProc(t *testing.T) {
	stat := "4242 (a (strange) name) S 1 4242 4242 0 -1 4194304 100 0 0 0 250 150 0 0 20 0 9 0 100 1000 10"
	if got := parseStat(stat); got != 4*time.Second {
		t.Errorf("stat: %v, want 4 s", got)
	}
	if got := parseStat("1 (x) S"); got != 0 {
		t.Errorf("short stat: %v", got)
	}
	if got := parsePeak("Name:\tx\nVmHWM:\t  262144 kB\nVmRSS:\t 1 kB\n"); got != 256 {
		t.Errorf("peak: %v, want 256", got)
	}
	if got := parsePeak("Name:\tx\n"); got != 0 {
		t.Errorf("no peak: %v", got)
	}
	total, busy := parseMachine("cpu  100 0 100 500 100 0 0 200 0 0\ncpu0 1\n")
	if total != 10*time.Second || busy != 4*time.Second {
		t.Errorf("machine: %v of %v busy, want 4 s of 10 s", busy, total)
	}
	if total, _ := parseMachine("intr 1 2"); total != 0 {
		t.Errorf("no machine: %v", total)
	}
	before := usage{total: 0, busy: 0}
	after := usage{total: 10 * time.Second, busy: 9 * time.Second, self: time.Second, child: 3 * time.Second, node: 4 * time.Second}
	if got := after.others(before); !near(got, 0.1) {
		t.Errorf("others: %v, want 0.1", got)
	}
	if got := before.others(before); got != 0 {
		t.Errorf("others in no time: %v", got)
	}
}
