package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestMain is the benchmark's child when it is started as one: see options.self.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		main()
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// TestBench runs every variant on real Kafka, small, and the bridge with a steady
// load, near and far.
func TestBench(t *testing.T) {
	kafka.Require(t)
	binary := filepath.Join(t.TempDir(), "eosbridge")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the bridge: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o, err := parseOptions([]string{
		"-bridge", binary, "-variants", "bridge,plain,session", "-rounds", "1", "-warm-up", "0", "-records", "20000",
		"-settle", "100ms", "-feed-time", "500ms", "-feed-rate", "1000", "-w", "W1", "-json",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r, err := newRig(o, kafka.Start(t, kafka.Options{}), &log)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	all, err := r.all(ctx)
	if err == nil {
		o.variants, o.workloads = []string{variantBridge}, []string{feedName}
		var more []measurement
		more, err = r.all(ctx)
		all = append(all, more...)
	}
	t.Log(log.String())
	if err != nil {
		t.Fatal(err)
	}
	o.variants = []string{variantBridge, variantPlain, variantSession}
	var stdout bytes.Buffer
	if err := newReport(o, all).print(o, &stdout); err != nil {
		t.Fatal(err)
	}
	var rep report
	if err := json.Unmarshal(stdout.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range rep.Runs {
		seen[m.Workload+" "+m.Variant] = true
		checkRun(t, m)
	}
	for _, name := range []string{"W1 bridge", "W1 plain", "W1 session", "feed bridge", "feed +10ms bridge"} {
		if !seen[name] {
			t.Errorf("no run of %s", name)
		}
	}
	if len(rep.Tables) != 4 {
		t.Errorf("%d tables, want throughput, feed, ratios and targets", len(rep.Tables))
	}
}

func checkRun(t *testing.T, m measurement) {
	t.Helper()
	name := m.Workload + " " + m.Variant
	if !m.Verdict.exact() || m.Verdict.Read != m.Records {
		t.Errorf("%s: %s, read %d of %d", name, m.Verdict, m.Verdict.Read, m.Records)
	}
	fed := strings.HasPrefix(m.Workload, feedName) // its time is too short for the kernel's clock of CPU time
	if !fed && (m.CPUSeconds <= 0 || m.CPUPerMillion <= 0) || m.StartSeconds <= 0 {
		t.Errorf("%s: CPU %v s, %v per million, start %v s: want all above 0", name, m.CPUSeconds, m.CPUPerMillion, m.StartSeconds)
	}
	if exactlyOnce := m.Variant != variantPlain; exactlyOnce != (m.StallShare != nil) || exactlyOnce != (m.Epochs.Committed > 0) || exactlyOnce != (m.Verdict.Markers > 0) {
		t.Errorf("%s: stall %v, epochs %+v, %d markers", name, m.StallShare, m.Epochs, m.Verdict.Markers)
	}
	if fed && m.LatencyP50 <= 0 {
		t.Errorf("%s: latency %v", name, m.LatencyP50)
	}
	far := strings.Contains(m.Workload, "+")
	if far && m.Epochs.CommitP50 < 10 {
		t.Errorf("%s: commits take %v ms, less than one answer's way", name, m.Epochs.CommitP50)
	}
}

func TestOptions(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"-w W3", "W3"},
		{"-w W1,W2", ""},
		{"-variants plain,turbo", "turbo"},
		{"-rounds 0", "-rounds"},
		{"-delay -1s", "-delay"},
		{"-compression brotli", "brotli"},
		{"-env bridge", "variant:KEY=VALUE"},
		{"-env turbo:A=1", "turbo"},
		{"-env plain:GOGC=200 -env plain:A=1", ""},
		{"-variants bridge -bridge /nowhere/eosbridge", "make build"},
		{"W1", "unexpected"},
	} {
		args := append([]string{"-variants", "plain"}, strings.Fields(tc.args)...)
		_, err := parseOptions(args, io.Discard)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: error %v, want one about %q", tc.args, err, tc.want)
		}
	}
	o, err := parseOptions([]string{"-variants", "plain"}, io.Discard)
	if err != nil || !slices.Equal(o.workloads, []string{"W1", "W2", "feed"}) {
		t.Errorf("by default: %v, %v", o, err)
	}
}

func TestCopyOptions(t *testing.T) {
	want := copyOptions{bootstrap: "h:1", in: "a", out: "b", group: "g", compression: "lz4", pprof: "h:2", interval: time.Second}
	got, err := parseCopy("plain", want.arguments(), io.Discard)
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestTurn(t *testing.T) {
	variants := []string{"a", "b", "c"}
	for round, want := range []string{"abc", "bca", "cab", "abc"} {
		if got := strings.Join(turn(variants, round), ""); got != want {
			t.Errorf("round %d: %s, want %s", round, got, want)
		}
	}
}

func TestProcess(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	launchShell := func(script string) *process {
		p, err := launch(nil, "/bin/sh", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	p := launchShell("trap 'exit 0' TERM; echo ready; while :; do :; done")
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for p.stdout.String() == "" || cpuTime(p.pid()) == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the child used no CPU")
		}
	}
	if peakMiB(p.pid()) <= 0 {
		t.Error("no peak memory")
	}
	if used, err := p.stop(ctx); err != nil || used <= 0 {
		t.Errorf("stop: %v of CPU, %v", used, err)
	}
	p = launchShell("echo oh dear >&2; exit 3")
	<-p.exited
	if err := p.ended(); err == nil || !strings.Contains(err.Error(), "oh dear") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("ended: %v", err)
	}
	if _, err := p.stop(ctx); err == nil {
		t.Error("stop of a child that failed: no error")
	}
	if _, err := launch(nil, "/nowhere/program"); err == nil {
		t.Error("launch of nothing: no error")
	}
}

func TestTail(t *testing.T) {
	var kept tail
	for range 100 {
		_, _ = kept.Write(bytes.Repeat([]byte("x"), 1000))
	}
	_, _ = kept.Write([]byte("end\n"))
	if text := kept.String(); len(text) > tailLength || !strings.HasSuffix(text, "xend") {
		t.Errorf("%d bytes kept, ending in %q", len(text), text[len(text)-5:])
	}
}
