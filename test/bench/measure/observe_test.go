package measure

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/variant"
)

const metricsText = `# HELP eosbridge_lane_stall_seconds_total Time
# TYPE eosbridge_lane_stall_seconds_total counter
eosbridge_lane_stall_seconds_total 1.5
eosbridge_lane_stall_seconds_totally 9
eosbridge_epochs_total{class="",outcome="committed"} 40
eosbridge_epochs_total{class="aborted",outcome="aborted"} 2
eosbridge_batches_total{path="decoded",reason="small"} 1
eosbridge_batches_total{path="passed",reason=""} 3
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
		name, label string
		want        float64
		fail        bool
	}{
		{"eosbridge_lane_stall_seconds_total", "", 1.5, false},
		{"eosbridge_records_total", "", 3_000_002, false},
		{"eosbridge_epochs_total", `outcome="committed"`, 40, false},
		{"eosbridge_epochs_total", `outcome="carried"`, 0, true},
		{"eosbridge_records", "", 0, true},
		{"broken_total", "", 0, true},
	} {
		got, err := sumOf(metricsText, tc.name, tc.label)
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
	bridge := func() *child {
		return &child{variant: variant.Variant{Face: true}, history: history{}, face: face{addr: strings.TrimPrefix(server.URL, "http://")}}
	}
	children := []*child{bridge(), {}, bridge()} // the one without a face is not asked
	got, err := tell(t.Context(), children)
	if want := (told{stall: 3, committed: 80, passed: 6, all: 8}); got != want || err != nil {
		t.Errorf("told %+v, %v, want %+v", got, err, want)
	}
	if err := collect(t.Context(), children); err != nil {
		t.Fatal(err)
	}
	all := history{}
	all.merge(children[0].history)
	all.merge(children[2].history)
	took, aborted := all.commits(time.Time{})
	slices.Sort(took)
	if !slices.Equal(took, []float64{10, 10, 30, 30}) || aborted != 2 {
		t.Errorf("commits %v, %d aborted", took, aborted)
	}
	h := children[0].history
	if took, aborted = h.commits(h[1].Triggered); !slices.Equal(took, []float64{10}) || aborted != 1 {
		t.Errorf("commits of the later ones %v, %d aborted", took, aborted)
	}
	f := children[0].face
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
	if _, err := tell(gone, children); err == nil {
		t.Error("asked after the end: no error")
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
	if got := parseStatus("Name:\tx\nVmHWM:\t  262144 kB\nVmRSS:\t 1 kB\n", "VmHWM:"); got != 256 {
		t.Errorf("peak: %v, want 256", got)
	}
	if got := parseStatus("Name:\tx\n", "VmHWM:"); got != 0 {
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
	if got := after.others(before); got < 0.099 || got > 0.101 {
		t.Errorf("others: %v, want 0.1", got)
	}
	if got := before.others(before); got != 0 {
		t.Errorf("others in no time: %v", got)
	}
}
