package model

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func specification(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("Ring.tla")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEveryGuardIsTakenAway: each guard that the specification names is needed by a run, alone or with another one;
// and what a pair shows to be needed is shown not to be needed alone.
func TestEveryGuardIsTakenAway(t *testing.T) {
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`Without\("([^"]+)"\)`).FindAllStringSubmatch(specification(t), -1) {
		named[m[1]] = true
	}
	if len(named) < 20 {
		t.Fatalf("only %d guards found", len(named))
	}
	needed := map[string]bool{}
	for _, r := range Runs() {
		for _, g := range r.Without {
			if !named[g] {
				t.Errorf("run %q takes away %q, which Ring.tla does not know", r.Name, g)
			}
			needed[g] = needed[g] || r.Mutation()
		}
		if len(r.Without) < 2 {
			continue
		}
		for _, g := range r.Without {
			single := func(other Run) bool { return slices.Equal(other.Without, []string{g}) && !other.Mutation() }
			if !slices.ContainsFunc(Runs(), single) {
				t.Errorf("run %q: no run shows that %q alone does no harm", r.Name, g)
			}
		}
	}
	for g := range named {
		if !needed[g] {
			t.Errorf("no run fails without %q", g)
		}
	}
}

// TestRuns: names and constants are those of the specification.
func TestRuns(t *testing.T) {
	text := specification(t)
	names := map[string]bool{}
	for _, r := range Runs() {
		if names[r.File()] {
			t.Errorf("two runs are called %q", r.Name)
		}
		names[r.File()] = true
		if r.Mutation() && !slices.Contains(Invariants, r.Want) {
			t.Errorf("%q wants the unknown invariant %q", r.Name, r.Want)
		}
		if r.Says == "" || strings.Contains(r.Says, "|") {
			t.Errorf("%q says %q", r.Name, r.Says)
		}
		for name := range r.Constants() {
			if !regexp.MustCompile(`(?m)^  (\w+, )*` + name + `,`).MatchString(text) {
				t.Errorf("%q sets %s, which is no constant", r.Name, name)
			}
		}
		if len(r.Constants()) != len(usual) {
			t.Errorf("%q sets a constant that has no usual value: %v", r.Name, r.With)
		}
	}
	for _, name := range append(slices.Clone(Invariants), "View", "Delivered") {
		if !strings.Contains(text, "\n"+name+" ==") {
			t.Errorf("Ring.tla has no %s", name)
		}
	}
}

// TestTraces: each run that must fail has its trace, and nothing else is there.
func TestTraces(t *testing.T) {
	want := map[string]bool{}
	for _, r := range fails {
		want[r.File()] = true
	}
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^\d [A-Z]\w+( slot [01])?( at \d:\d( \d:\d)*)?( : [a-z][a-z, ]*)?$`)
	for _, f := range files {
		if filepath.Ext(f.Name()) != ".trace" {
			continue
		}
		if !want[f.Name()] {
			t.Errorf("%s belongs to no run", f.Name())
		}
		delete(want, f.Name())
		text, err := os.ReadFile(filepath.Join("testdata", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
			if !line.MatchString(l) {
				t.Errorf("%s: %q", f.Name(), l)
			}
		}
	}
	for name := range want {
		t.Errorf("%s is missing: make model MODELFLAGS=-update", name)
	}
}

const (
	reportEnd = "Model checking completed. No error has been found.\n" +
		"5889 states generated, 1596 distinct states found, 0 states left on queue.\n" +
		"The depth of the complete state graph search is 23.\n"
	reportViolated = "Error: Invariant NoDup is violated.\nError: The behavior up to this point is:\nState 1: <Initial predicate>\n" +
		"/\\ step = [do |-> \"Init\"]\n/\\ gen = 1\n\nState 2: <Begin line 1>\n" +
		"/\\ gen = 1\n/\\ step = [ do |-> \"Begin\",\n  slot |-> 0,\n  at |-> (2 :> 3 @@ 4 :> 5),\n  answer |-> \"\",\n  by |-> 1 ]\n/\\ out = <<>>\n\n" +
		"State 3: <Settle line 1>\n/\\ step = [do |-> \"Settle\", slot |-> \"\", at |-> <<2, 7>>, answer |-> \"lost, done\", by |-> 2]\n\n\n" +
		"1,234 states generated, 567 distinct states found, 3 states left on queue.\nThe depth of the complete state graph search is 9.\n"
)

// TestParse: TLC's report is read as it is; a report that is cut short is not taken for success.
func TestParse(t *testing.T) {
	o, err := parse(reportEnd)
	if err != nil || !o.Complete || o.Violated != "" || o.Generated != 5889 || o.Distinct != 1596 || o.Depth != 23 {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = parse(reportViolated)
	if err != nil || o.Complete || o.Violated != "NoDup" || o.Generated != 1234 || o.Distinct != 567 {
		t.Errorf("%+v, %v", o, err)
	}
	if want := "1 Begin slot 0 at 2:3 4:5\n2 Settle at 1:2 2:7 : lost, done\n"; o.Trace.String() != want {
		t.Errorf("trace %q, want %q", o.Trace.String(), want)
	}
	for name, text := range map[string]string{
		"nothing":         "",
		"not at its end":  "5889 states generated, 1596 distinct states found, 7 states left on queue.\n",
		"states left":     strings.Replace(reportEnd, ", 0 states left", ", 4 states left", 1),
		"an exception":    "Error: TLC threw an unexpected exception.\n16 states generated, 11 distinct states found, 8 states left on queue.\n",
		"without a trace": strings.ReplaceAll(reportViolated, "step", "stop"),
	} {
		if o, err := parse(text); err == nil {
			t.Errorf("%s: taken for %+v", name, o)
		}
	}
	for text, want := range map[string]string{"Error: Deadlock reached.": "deadlock", "Error: Temporal properties were violated.": "liveness"} {
		if o, err := parse(strings.Replace(reportViolated, "Error: Invariant NoDup is violated.", text, 1)); err != nil || o.Violated != want {
			t.Errorf("%q: %+v, %v", text, o, err)
		}
	}
}

// TestSurprise: nothing but what is wanted passes.
func TestSurprise(t *testing.T) {
	good, bad := Run{Name: "r"}, Run{Name: "r", Want: "NoDup"}
	whole, dup, loss := Outcome{Complete: true}, Outcome{Violated: "NoDup"}, Outcome{Violated: "NoLoss"}
	for _, c := range []struct {
		run      Run
		out      Outcome
		surprise bool
	}{
		{good, whole, false},
		{good, dup, true},
		{good, Outcome{}, true},
		{bad, dup, false},
		{bad, loss, true},
		{bad, whole, true},
		{bad, Outcome{}, true},
	} {
		if err := c.run.Surprise(c.out); (err != nil) != c.surprise {
			t.Errorf("wants %q, found %+v: %v", c.run.Want, c.out, err)
		}
	}
}

func TestConfig(t *testing.T) {
	got := Config(Run{With: with("N=9"), Without: []string{"drain", "forget"}, Live: true})
	for _, want := range []string{"SPECIFICATION Fair\n", "  N = 9\n", "  Faults = 2\n", `  Mut = {"drain", "forget"}` + "\n", "INVARIANT Atomic\n", "PROPERTY Delivered\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "VIEW") {
		t.Error("liveness with a view")
	}
}

// TestRunsByName: what code refers to as a run exists.
func TestRunsByName(t *testing.T) {
	known := map[string]bool{}
	for _, r := range Runs() {
		known[r.Name] = true
	}
	found := 0
	for _, dir := range []string{"../../txn", "../../bridge"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			plain := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n//", " ")), " ")
			for _, m := range regexp.MustCompile(`(?:test/model, |\()run "([^"]+)"`).FindAllStringSubmatch(plain, -1) {
				if found++; !known[m[1]] {
					t.Errorf("%s: there is no run %q", f, m[1])
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d references found", found)
	}
}
