package mutants

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/test/proof"
)

const root = "../.."

// TestMutantsFit: each change still fits the code, and each test that is to notice it exists.
func TestMutantsFit(t *testing.T) {
	seen := map[string]bool{}
	rules := map[int]bool{}
	tests := map[string]map[string]bool{}
	for _, m := range All() {
		if seen[m.Name] {
			t.Errorf("two mutants %s", m.Name)
		}
		seen[m.Name], rules[m.Rule] = true, true
		changed, err := m.Apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		for file, text := range changed {
			if _, err := parser.ParseFile(token.NewFileSet(), file, text, 0); err != nil {
				t.Errorf("mutant %s: %v", m.Name, err)
			}
		}
		if tests[m.Package] == nil {
			tests[m.Package] = testsOf(t, m.Package)
		}
		if len(m.Tests) == 0 || m.Why == "" {
			t.Errorf("mutant %s names no test or no reason", m.Name)
		}
		for _, name := range m.Tests {
			if !tests[m.Package][name] {
				t.Errorf("mutant %s: %s has no test %s", m.Name, m.Package, name)
			}
		}
	}
	for rule := 1; rule <= 18; rule++ {
		if !rules[rule] {
			t.Errorf("no mutant breaks rule %d", rule)
		}
	}
}

// testsOf are the names of the tests in a folder.
func testsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestRun: a mutant that a test notices is caught, one that nothing notices survives, and one that does not
// compile is an error.
func TestRun(t *testing.T) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mutant := func(from, to string) Mutant {
		return Mutant{
			Name: "mutant", Package: "./test/mutants/testdata/counter", Tests: []string{"TestCount"},
			Edits: []Edit{{"test/mutants/testdata/counter/counter.go", from, to}},
		}
	}
	t.Setenv(proof.ResultsVariable, "/dev/null/results") // TestCount would fail, could it see this
	v, err := Run(t.Context(), absolute, mutant("n + 1", "n + 2"))
	if err != nil || v.Caught != "TestCount/one" {
		t.Errorf("caught by %q, %v:\n%s", v.Caught, err, v.Output)
	}
	v, err = Run(t.Context(), absolute, mutant("n + 1", "1 + n"))
	if err != nil || v.Caught != "" {
		t.Errorf("an equivalent mutant: caught by %q, %v:\n%s", v.Caught, err, v.Output)
	}
	if _, err := Run(t.Context(), absolute, mutant("n + 1", "n +")); !errors.Is(err, ErrBuild) {
		t.Errorf("a mutant that does not build: %v", err)
	}
	if _, err := Run(t.Context(), absolute, mutant("n", "m")); err == nil || !strings.Contains(err.Error(), "want once") {
		t.Errorf("a mutant that no longer fits: %v", err)
	}
	if err := Baseline(t.Context(), absolute, []Mutant{mutant("n + 1", "n")}); err != nil {
		t.Error(err)
	}
}

// TestFuzzTargets: make fuzz runs every fuzz test there is, and each has a corpus of its own.
func TestFuzzTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(makefile), "\nFUZZ := ")
	line, _, _ = strings.Cut(line, "\n")
	listed := strings.Fields(line)
	for _, folder := range []string{"bridge", "internal/batch", "offsets", "txn", "transform", "config", "cli", "audit"} {
		if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
			continue
		}
		for name := range testsOf(t, folder) {
			if !strings.HasPrefix(name, "Fuzz") {
				continue
			}
			if !slices.Contains(listed, folder+":"+name) {
				t.Errorf("make fuzz leaves out %s of %s", name, folder)
			}
			corpus, err := os.ReadDir(filepath.Join(root, folder, "testdata", "fuzz", name))
			if err != nil || len(corpus) == 0 {
				t.Errorf("%s of %s has no corpus: %v", name, folder, err)
			}
		}
	}
}
