package proof

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the generated part of docs/proof.md")

func catalogue(t *testing.T) Catalogue {
	t.Helper()
	all, err := Tests(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 300 {
		t.Fatalf("%d tests found: the repository has more", len(all))
	}
	return all
}

// faults answers what is wrong with a map: numbers missing or twice, tests that are not there, entries that say nothing.
func faults(cases []Case, letter string, n int, all Catalogue) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for i, c := range cases {
		if want := fmt.Sprintf("%s%02d", letter, i+1); c.ID != want {
			report("entry %d is %s, want %s: each number once, in order", i+1, c.ID, want)
		}
		if c.Fault == "" {
			report("%s says nothing", c.ID)
		}
		if letter == "O" && c.Where == "" {
			report("%s names no public thread", c.ID)
		}
		if len(c.Tests) == 0 && c.Never+c.Lacks+c.Untold == "" {
			report("%s has neither a test nor a reason", c.ID)
		}
		if len(c.Tests) > 0 && c.Never != "" {
			report("%s cannot happen, and has tests", c.ID)
		}
		for _, ref := range c.Tests {
			if _, err := all.Find(ref); err != nil {
				report("%s: %v", c.ID, err)
			}
		}
		for _, text := range []string{c.Fault, c.Never, c.Lacks, c.Untold} {
			if strings.ContainsAny(text, "\n") || strings.HasSuffix(text, ".") {
				report("%s: write one line without a full stop: %q", c.ID, text)
			}
		}
	}
	if len(cases) != n {
		report("%d entries %s, want %d", len(cases), letter, n)
	}
	return found
}

// TestMap holds the map against the repository: it cannot name a test that is not there.
func TestMap(t *testing.T) {
	all := catalogue(t)
	for _, fault := range append(faults(scenarios, "S", 50, all), faults(reports, "O", 67, all)...) {
		t.Error(fault)
	}
}

// TestMapFaults seeds one fault after the other into a map.
func TestMapFaults(t *testing.T) {
	all := Catalogue{"bridge.TestCopy": &Test{words: map[string]bool{"KIP-848": true}}}
	for want, cases := range map[string][]Case{
		"":                            {{ID: "S01", Fault: "f", Tests: []string{"bridge.TestCopy", "bridge.TestCopy/KIP-848"}}, {ID: "S02", Fault: "f", Never: "n"}},
		"each number once":            {{ID: "S01", Fault: "f", Never: "n"}, {ID: "S01", Fault: "f", Never: "n"}},
		"1 entries S, want 2":         {{ID: "S01", Fault: "f", Never: "n"}},
		"neither a test nor a reason": {{ID: "S01", Fault: "f", Never: "n"}, {ID: "S02", Fault: "f"}},
		"no such test":                {{ID: "S01", Fault: "f", Never: "n"}, {ID: "S02", Fault: "f", Tests: []string{"bridge.TestGone"}}},
		"no subtest":                  {{ID: "S01", Fault: "f", Never: "n"}, {ID: "S02", Fault: "f", Tests: []string{"bridge.TestCopy/gone"}}},
		"cannot happen, and has":      {{ID: "S01", Fault: "f", Never: "n"}, {ID: "S02", Fault: "f", Never: "n", Tests: []string{"bridge.TestCopy"}}},
		"says nothing":                {{ID: "S01", Fault: "f", Never: "n"}, {ID: "S02", Never: "n"}},
		"without a full stop":         {{ID: "S01", Fault: "f", Never: "n"}, {ID: "S02", Fault: "f.", Never: "n"}},
	} {
		found := strings.Join(faults(cases, "S", 2, all), "\n")
		if want == "" && found != "" || !strings.Contains(found, want) {
			t.Errorf("want %q, got %q", want, found)
		}
	}
	if found := faults([]Case{{ID: "O01", Fault: "f", Never: "n"}}, "O", 1, all); len(found) != 1 || !strings.Contains(found[0], "no public thread") {
		t.Errorf("a report without a source: %q", found)
	}
}

func TestStanding(t *testing.T) {
	tests := []string{"bridge.TestCopy"}
	for want, c := range map[Standing]Case{
		Tried: {Tests: tests}, Partly: {Tests: tests, Lacks: "x"}, Never: {Never: "x"}, NotBuilt: {Lacks: "x"}, Untried: {Untold: "x"},
	} {
		if got := c.Standing(); got != want {
			t.Errorf("%+v is %q, want %q", c, got, want)
		}
	}
	if got := (Case{Tests: tests, Untold: "x"}).Standing(); got != Partly {
		t.Errorf("tests that leave something out: %q", got)
	}
}

// TestDocument keeps the generated tables of docs/proof.md equal to the map, and the document fit for make proof.
func TestDocument(t *testing.T) {
	const path = "../../docs/proof.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ResultSection.Of(string(text)); err != nil {
		t.Error(err)
	}
	have, err := CaseSection.Of(string(text))
	if err != nil {
		t.Fatal(err)
	}
	want := caseTables(catalogue(t))
	if have == want {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the map: make docs", path)
	}
	if err := CaseSection.Write(path, want); err != nil {
		t.Fatal(err)
	}
}

// TestDocumentNamesTests that are there, in its prose, too.
func TestDocumentNamesTests(t *testing.T) {
	text, err := os.ReadFile("../../docs/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	results, err := ResultSection.Of(string(text))
	if err != nil {
		t.Fatal(err)
	}
	all := catalogue(t)
	names := map[string]bool{}
	for ref := range all {
		_, name, _ := strings.Cut(ref, ".")
		names[name] = true
	}
	prose := strings.Replace(string(text), results, "", 1) // results tell of tests as they were
	found := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(prose, -1)
	if len(found) == 0 {
		t.Error("no test is named")
	}
	for _, name := range found {
		if !names[name] {
			t.Errorf("docs/proof.md names %s, which is not there", name)
		}
	}
}
