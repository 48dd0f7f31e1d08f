package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/copies"
	"github.com/eosbridge/eosbridge/test/bench/figures"
	"github.com/eosbridge/eosbridge/test/bench/measure"
	"github.com/eosbridge/eosbridge/test/bench/page"
	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestMain is the benchmark's child when it is started as one: see options.self.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && copies.Known(os.Args[1]) {
		main()
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// TestParts runs every part on real Kafka, tiny: all variants of main, elsewhere the bridge alone.
func TestParts(t *testing.T) {
	kafka.Require(t)
	binary := filepath.Join(t.TempDir(), "eosbridge")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the bridge: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cluster := kafka.Start(t, kafka.Options{})
	want := map[string][]string{
		"main": {"W1", "W2"}, "lz4": {"W2 lz4"}, "feed": {"feed", "feed +10 ms"}, "life": {"start", "idle", "kill"}, "memory": {"W1", "W2"},
		"scale":  {"partitions", "instances", "distance", "shape of the input", "commit, 2,000 records/s"},
		"seeded": {"W2"}, "peers": {"W1", "W2", "feed", "idle", "kill"},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			args := []string{"-bridge", binary, "-size", "tiny", "-variants", "bridge", p.name}
			if p.name == "main" {
				args = []string{"-bridge", binary, "-size", "tiny", p.name}
			}
			o, err := parseOptions(args, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			b, err := newBoard(o, p, cluster, &log)
			if err != nil {
				t.Fatal(err)
			}
			err = p.run(ctx, b)
			b.close()
			t.Log(log.String())
			if err != nil {
				t.Fatal(err)
			}
			checkRuns(t, b, want[p.name])
		})
	}
}

func checkRuns(t *testing.T, b *board, workloads []string) {
	t.Helper()
	if got := b.runs; !slices.Equal(figures.Set(got).Workloads(), workloads) {
		t.Errorf("workloads %v, want %v", figures.Set(got).Workloads(), workloads)
	}
	if err := inexact(b.runs, b.all); err != nil {
		t.Error(err)
	}
	for _, r := range b.runs {
		line := page.Line(r)
		if r.Verdict.Read == 0 || b.about[r.Variant] == "" {
			t.Errorf("%s: nothing read, or no variant known of this name", line)
		}
		if exactly := r.Variant != copies.Plain; exactly != (r.Verdict.Markers > 0) {
			t.Errorf("%s: %d markers of transactions", line, r.Verdict.Markers)
		}
		wanted := map[string][]string{
			"start": {figures.Start}, "idle": {figures.Core, figures.Resident}, "kill": {figures.Recovery, figures.Life},
			"feed": {figures.Core, figures.Latency, figures.Latency99}, "feed +10 ms": {figures.Latency},
			"W1": {figures.Start, figures.LifeCPU, figures.Peak, figures.Steady},
		}[r.Workload]
		for _, name := range wanted {
			if v, ok := r.Values[name]; !ok || v < 0 || v == 0 && name != figures.Core {
				t.Errorf("%s: %s is %v", line, name, v)
			}
		}
		if r.Workload == "feed +10 ms" && r.Values[figures.Latency] < 20 {
			t.Errorf("%s: less than a fetch and a produce take there and back", line)
		}
	}
}

func TestInexact(t *testing.T) {
	c := newCatalogue(&options{self: "bench", bridge: "/nowhere"})
	run := func(workload, variant string, v figures.Verdict) []figures.Run {
		return []figures.Run{{Workload: workload, Variant: variant, Round: 2, Verdict: v}}
	}
	if err := inexact(run("W1", "bridge", figures.Verdict{Read: 5}), c); err != nil {
		t.Error(err)
	}
	for _, v := range []figures.Verdict{{Lost: 1}, {Duplicated: 1}, {OutOfOrder: 1}, {Altered: 1}, {Ahead: 1}} {
		if err := inexact(run("kill", "bridge", v), c); err == nil || !strings.Contains(err.Error(), "kill: round 2: bridge: NOT EXACT") {
			t.Errorf("%+v: %v", v, err)
		}
		repeats := v.Duplicated+v.OutOfOrder > 0
		if err := inexact(run("kill", "plain", v), c); (err == nil) != repeats {
			t.Errorf("plain, killed: %+v: %v", v, err)
		}
		if err := inexact(run("W1", "plain", v), c); err == nil {
			t.Errorf("plain, not killed: %+v: no error", v)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"main feed", ""},
		{"", ""},
		{"page", ""},
		{"mian", "mian"},
		{"-size huge", "huge"},
		{"-env bridge", "variant:KEY=VALUE"},
		{"-bridge /nowhere/eosbridge main", "make build"},
		{"-bridge /nowhere/eosbridge page", ""},
	} {
		_, err := parseOptions(append([]string{"-bridge", "main.go"}, strings.Fields(tc.args)...), io.Discard)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: error %v, want one about %q", tc.args, err, tc.want)
		}
	}
	o, err := parseOptions([]string{"-bridge", "main.go", "-rounds", "2", "-variants", "bridge,plain", "-env", "plain:GOGC=400"}, io.Discard)
	if err != nil || len(o.parts) != len(parts) || o.size.rounds != 2 || !slices.Equal(o.variants, []string{"bridge", "plain"}) {
		t.Fatalf("%+v, %v", o, err)
	}
	for _, want := range []string{"-rounds=2", "-variants=bridge,plain", "plain: GOGC=400"} {
		if !strings.Contains(o.flags, want) {
			t.Errorf("flags %q do not say %s", o.flags, want)
		}
	}
}

// TestEstimates keeps a whole benchmark within what a machine can be kept quiet for.
func TestEstimates(t *testing.T) {
	var sum time.Duration
	for _, p := range parts {
		d := p.estimate(presets["full"])
		t.Logf("%-8s %5.1f min", p.name, d.Minutes())
		if d < time.Minute || d > 28*time.Minute {
			t.Errorf("%s: %v", p.name, d)
		}
		sum += d
	}
	if sum > 90*time.Minute {
		t.Errorf("%v in all", sum)
	}
	o := &options{parts: []string{"main", pageOnly, "lz4"}, size: presets["full"]}
	main, _ := partOf("main")
	lz4, _ := partOf("lz4")
	if got, want := o.estimate(), main.estimate(o.size)+lz4.estimate(o.size); got != want {
		t.Errorf("estimate %v, want %v", got, want)
	}
}

// TestInterleave sees every job once in each round, each round beginning with another one.
func TestInterleave(t *testing.T) {
	var got []string
	err := interleave(t.Context(), 3, []string{"a", "b", "c"}, func(_ context.Context, round int, job string) error {
		got = append(got, job+string(rune('0'+round)))
		return nil
	})
	if want := "a1 b1 c1 b2 c2 a2 c3 a3 b3"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
	failed := io.ErrUnexpectedEOF
	calls := 0
	err = interleave(t.Context(), 3, []string{"a", "b"}, func(context.Context, int, string) error { calls++; return failed })
	if err != failed || calls != 1 { //nolint:errorlint // it is handed on as it is
		t.Errorf("after an error: %v, %d calls", err, calls)
	}
}

// TestSeed keeps the seed fit for the lane as it is; that it builds is seen by TestParts.
func TestSeed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../..", seededFile))
	if err != nil {
		t.Fatal(err)
	}
	seeded, err := seed(text, 7)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(seeded, []byte("{\n"+seededCall+"\n")) || !bytes.Contains(seeded, []byte("range records * 7")) {
		t.Error("the call or the function is missing")
	}
	if _, err := seed([]byte("package bridge\n\ntype lane struct{}\n\nfunc (other) take() {}\n"), 7); err == nil {
		t.Error("a lane without take: no error")
	}
	if _, err := seed([]byte("nonsense"), 7); err == nil {
		t.Error("nonsense: no error")
	}
}

// TestSpins burns what it was told to, roughly: the calibration may be disturbed, but not by much more than it measures.
func TestSpins(t *testing.T) {
	short, long := spinsFor(100*time.Nanosecond), spinsFor(10*time.Microsecond)
	if short < 1 || long < 10*short {
		t.Errorf("%d turns for 100 ns, %d for 10 µs", short, long)
	}
}

// TestPoints holds the curves to what they are compared at: a point that takes over an input has one before it.
func TestPoints(t *testing.T) {
	b := &board{size: presets["full"]}
	for i, p := range b.points() {
		if p.sameInput && (i == 0 || len(p.counts) != len(b.points()[i-1].counts)) {
			t.Errorf("%s %s: its input is not the one before", p.workload, p.name)
		}
		if n := (measure.Input{Counts: p.counts}).Records(); n < int64(len(p.counts)) {
			t.Errorf("%s %s: %d records", p.workload, p.name, n)
		}
	}
}
