package proof

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func sampleResults() []Result {
	return []Result{
		{Test: "TestKill/TV2", Part: "e2e", Broker: V44, Scenarios: 1, Kills: 20, Records: 100_000, Seed: 7, Note: "median 5 ms"},
		{Test: "TestKill/TV1", Part: "e2e", Broker: V39, Scenarios: 1, Kills: 21, Records: 100_001, Seed: 8},
		{Test: "make proof-e2e", Part: "e2e", Took: 90 * time.Second},
		{Test: "TestFaults/EndTxn", Part: "fake", Broker: Fake, Rows: 60, Records: 500},
		{Test: "TestFaults/Produce", Part: "fake", Broker: Fake, Rows: 40, Records: 600, Seed: 8},
		{Test: "TestCopy/a", Part: "fake", Broker: Fake, Scenarios: 1, Records: 3},
		{Test: "TestOrder", Part: "fake", Broker: Fake, Scenarios: 2, Records: 4},
		{Test: "make proof-fake", Part: "fake", Took: time.Minute},
	}
}

func TestResultTables(t *testing.T) {
	run := Run{Date: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), Bridge: "v1", Go: "go1.26", Machine: "one machine"}
	text := ResultTables(run, sampleResults(), Catalogue{})
	for _, want := range []string{
		"2026-11-30, eosbridge v1, go1.26, one machine. Parts: e2e 1m30s, fake 1m0s.",
		"|  | Kafka 4.4.0 | Kafka 3.9.1 | kfake | model |",
		"| fault rows |  |  | 100 |  |",
		"| kills (SIGKILL) | 20 | 21 |  |  |",
		"| records | 100,000 | 100,001 | 1,107 |  |",
		"| tests that recorded a result | 1 | 1 | 4 |  |",
		"| **lost** | 0 | 0 | 0 |  |",
		"| `TestKill` | 4.4.0 | 1 |  | 20 | 100,000 | 0 | 0 | 0 | 0 | 0 | 7 | median 5 ms |",
		"| `TestFaults` | kfake |  | 100 |  | 1,100 | 0 | 0 | 0 | 0 | 0 | 8 |  |",
		"| 2 other tests | kfake | 3 |  |  | 7 | 0 | 0 | 0 | 0 | 0 |  |  |",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if i, j := strings.Index(text, "| `TestKill` | 4.4.0"), strings.Index(text, "| `TestKill` | 3.9.1"); i < 0 || j < i {
		t.Errorf("the newer broker does not come first:\n%s", text)
	}
}

func TestFailures(t *testing.T) {
	if names := Failures(sampleResults()); len(names) != 0 {
		t.Errorf("failures %v", names)
	}
	for name, spoil := range map[string]func(*Result){
		"failed": func(r *Result) { r.Failed = true }, "lost": func(r *Result) { r.Lost = 1 }, "duplicated": func(r *Result) { r.Duplicated = 1 },
		"out of order": func(r *Result) { r.OutOfOrder = 1 }, "torn": func(r *Result) { r.Torn = 1 }, "left open": func(r *Result) { r.LeftOpen = 1 },
	} {
		all := sampleResults()
		spoil(&all[1])
		if names := Failures(all); !slices.Equal(names, []string{"TestKill/TV1 3.9.1"}) {
			t.Errorf("%s: %v", name, names)
		}
	}
	all := sampleResults()
	all[2].Failed = true // a part whose test died before it recorded anything
	if names := Failures(all); !slices.Equal(names, []string{"make proof-e2e"}) {
		t.Errorf("a failed part: %v", names)
	}
	if text := ResultTables(Run{}, all, Catalogue{}); !strings.Contains(text, "e2e 1m30s (FAILED)") {
		t.Errorf("the failed part is not told:\n%s", text)
	}
}

// TestForget: a part that is run again begins with nothing of its own, and leaves the others.
func TestForget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results")
	if err := Forget(path, "e2e"); err != nil { // there is no file yet
		t.Fatal(err)
	}
	for _, r := range sampleResults() {
		if err := Append(path, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := Forget(path, "e2e"); err != nil {
		t.Fatal(err)
	}
	left, err := Read(path)
	if err != nil || len(left) != 5 || left[0] != sampleResults()[3] {
		t.Errorf("left %+v, %v", left, err)
	}
	if err := os.WriteFile(path, []byte("{}\nnot JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a broken file: %v", err)
	}
	if err := Forget(path, "e2e"); err == nil {
		t.Error("a broken file is rewritten")
	}
}

func TestSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := ResultSection.Write(path, "new\n"); err == nil {
		t.Error("no file: no error")
	}
	for text, want := range map[string]string{
		"head\n" + ResultSection.begin + "old\n" + ResultSection.end + "foot\n": "head\n" + ResultSection.begin + "new\n" + ResultSection.end + "foot\n",
		"head\n" + ResultSection.begin + "old\n":                                "",
		"head\n":                                                                "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := ResultSection.Write(path, "new\n")
		got, readErr := os.ReadFile(path)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if want == "" && (err == nil || string(got) != text) || want != "" && (err != nil || string(got) != want) {
			t.Errorf("%q became %q (%v), want %q", text, got, err, want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".page*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1_234_567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %s, want %s", n, got, want)
		}
	}
}
