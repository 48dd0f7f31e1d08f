package figures

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9*(1+math.Abs(b)) }

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
		if got := Quantile(tc.values, tc.q); !near(got, tc.want) {
			t.Errorf("Quantile(%v, %v) = %v, want %v", tc.values, tc.q, got, tc.want)
		}
	}
	values := []float64{3, 1, 2}
	if s := SpreadOf(values); s != (Spread{Median: 2, Min: 1, Max: 3, Runs: 3}) || values[0] != 3 {
		t.Errorf("spread %+v of %v", s, values)
	}
	if s := SpreadOf(nil); s.Runs != 0 {
		t.Errorf("spread of nothing: %+v", s)
	}
}

func run(workload, point, variant string, round int, cpu float64) Run {
	return Run{Workload: workload, Point: point, Variant: variant, Round: round, Values: map[string]float64{CPU: cpu}}
}

// runs are two rounds of W1 in which the bridge takes 1.2 and 1.5 times the CPU, in another order each.
func runs() Set {
	return Set{
		run("W1", "", "bridge", 1, 1.2), run("W1", "", "plain", 1, 1), run("W1", "", "plain", 2, 2), run("W1", "", "bridge", 2, 3),
		run("W2", "", "bridge", 1, 7), run("scale", "1,000", "zebra", 1, 3), run("scale", "10", "zebra", 1, 2), run("scale", "1", "session", 1, 1),
	}
}

func TestRatios(t *testing.T) {
	got := runs().Ratios("W1", "", "bridge", "plain", CPU)
	if len(got) != 2 || !near(got[0], 1.2) || !near(got[1], 1.5) {
		t.Errorf("ratios %v, want 1.2 and 1.5: of the same round, not of the medians", got)
	}
	if got := runs().Ratios("W2", "", "bridge", "plain", CPU); got != nil {
		t.Errorf("ratios without a partner: %v", got)
	}
	if got := runs().Ratios("W1", "", "bridge", "plain", Rate); got != nil {
		t.Errorf("ratios of what was not measured: %v", got)
	}
	if got := runs().Across("scale", "1,000", "10", "zebra", CPU); len(got) != 1 || !near(got[0], 1.5) {
		t.Errorf("across: %v", got)
	}
}

func TestNames(t *testing.T) {
	s := runs()
	if got := s.Workloads(); !slices.Equal(got, []string{"W1", "W2", "scale"}) {
		t.Errorf("workloads %v", got)
	}
	if got := s.Points("scale"); !slices.Equal(got, []string{"1", "10", "1,000"}) {
		t.Errorf("points %v: by size", got)
	}
	shapes := Set{run("x", "one hot", "a", 1, 1), run("x", "10 KB records", "a", 1, 1), run("x", "1 MB records", "a", 1, 1)}
	if got := shapes.Points("x"); !slices.Equal(got, []string{"one hot", "10 KB records", "1 MB records"}) {
		t.Errorf("points %v: as they came", got)
	}
	if got := s.Variants("scale"); !slices.Equal(got, []string{"session", "zebra"}) {
		t.Errorf("variants %v", got)
	}
	if got := s.Variants(""); !slices.Equal(got, []string{"bridge", "session", "plain", "zebra"}) {
		t.Errorf("variants %v: ours first, peers last", got)
	}
}

func TestTurn(t *testing.T) {
	for round, want := range [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 1, 2}} {
		if got := Turn(3, round); !slices.Equal(got, want) {
			t.Errorf("round %d: %v, want %v", round, got, want)
		}
	}
}

func TestStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	s, err := Load(file)
	if err != nil || len(s.Parts) != 0 {
		t.Fatalf("no file: %+v, %v", s, err)
	}
	s.Put(Part{Name: "main", Date: "2026-01-01", Variants: map[string]string{"bridge": "b"}, Runs: runs()})
	s.Put(Part{Name: "feed", Date: "2026-01-01", Runs: runs()[:1]})
	if err := s.Save(file); err != nil {
		t.Fatal(err)
	}
	if s, err = Load(file); err != nil {
		t.Fatal(err)
	}
	// One part once more: the other keeps what it had.
	s.Put(Part{Name: "feed", Date: "2026-02-02", Runs: runs()[4:5]})
	if err := s.Save(file); err != nil {
		t.Fatal(err)
	}
	if s, err = Load(file); err != nil {
		t.Fatal(err)
	}
	main, _ := s.Part("main")
	feed, ok := s.Part("feed")
	if !reflect.DeepEqual(main.Runs, runs()) || main.Date != "2026-01-01" || main.Variants["bridge"] != "b" {
		t.Errorf("main: %+v", main)
	}
	if !ok || len(s.Parts) != 2 || feed.Date != "2026-02-02" || !reflect.DeepEqual(feed.Runs, runs()[4:5]) {
		t.Errorf("feed: %+v of %d", feed, len(s.Parts))
	}
	if _, ok := s.Part("scale"); ok {
		t.Error("a part that never ran")
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n{\"workload\"") != len(runs())+1 {
		t.Errorf("not a line for each run: %v\n%s", err, text)
	}
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil {
		t.Error("nonsense: no error")
	}
	if err := s.Save(filepath.Join(file, "below")); err == nil {
		t.Error("a folder that is none: no error")
	}
}

func TestVerdict(t *testing.T) {
	for _, v := range []Verdict{{Duplicated: 1}, {Lost: 1}, {OutOfOrder: 1}, {Altered: 1}, {Ahead: 1}} {
		if v.Exact() || !strings.HasPrefix(v.String(), "NOT EXACT") {
			t.Errorf("%+v is exact", v)
		}
	}
	if v := (Verdict{Read: 5, Markers: 2}); !v.Exact() || v.String() != "exact" {
		t.Errorf("%+v", v)
	}
	r := run("scale", "10", "zebra", 1, 2)
	r.Set(Rate, 5)
	if got := r.Only(Rate, Peak); len(got.Values) != 1 || got.Values[Rate] != 5 || len(r.Values) != 2 {
		t.Errorf("only the rate: %v of %v", got.Values, r.Values)
	}
	if got := r.Name(); got != "scale, 10: round 1: zebra" {
		t.Errorf("name %q", got)
	}
}
