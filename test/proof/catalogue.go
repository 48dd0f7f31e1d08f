package proof

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Catalogue holds the repository's tests by "room.TestName", read from its source.
type Catalogue map[string]*Test

// Test is one test function.
type Test struct {
	Brokers []string // that it starts, as far as the source tells
	words   map[string]bool
}

// ErrNoTest says that a reference leads nowhere.
var ErrNoTest = errors.New("no such test")

// Find follows a reference: "room.TestName", or "room.TestName/words" where the words occur in what the test runs, as a
// name or within a string.
func (all Catalogue) Find(ref string) (*Test, error) {
	name, sub, _ := strings.Cut(ref, "/")
	test, ok := all[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNoTest, name)
	}
	if sub == "" || test.words[sub] {
		return test, nil
	}
	for word := range test.words {
		if strings.Contains(word, sub) {
			return test, nil
		}
	}
	return nil, fmt.Errorf("%w: %s has no subtest %q", ErrNoTest, name, sub)
}

// startedElsewhere are the brokers of tests that start none themselves: the program does, or a tool.
var startedElsewhere = map[string][]string{
	"cli.TestDemoExact":           {Fake},
	"cli.TestDemoFindsDuplicates": {Fake},
	"cli.TestDemoFindsLoss":       {Fake},
}

// room is a folder's functions and tables: what each one mentions.
type room map[string]*mentions

type mentions struct {
	names   map[string]bool
	words   map[string]bool // names, and the values of strings
	brokers map[string]bool
}

// Tests reads the tests of a repository. A test's brokers are those whose names or constructors are reached from it
// through functions of its own folder.
func Tests(root fs.FS) (Catalogue, error) {
	rooms := map[string]room{}
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir(), !strings.HasSuffix(file, ".go"),
			!strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "test/"):
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		dir := path.Dir(file)
		if rooms[dir] == nil {
			rooms[dir] = room{}
		}
		return rooms[dir].read(file, text)
	})
	if err != nil {
		return nil, err
	}
	all := Catalogue{}
	for dir, functions := range rooms {
		for name := range functions {
			if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") || name == "TestMain" {
				continue
			}
			ref := path.Base(dir) + "." + name
			if dir == "." {
				ref = "main." + name
			}
			if all[ref] != nil {
				return nil, fmt.Errorf("two tests are called %s", ref)
			}
			all[ref] = functions.test(name)
			if on, ok := startedElsewhere[ref]; ok {
				all[ref].Brokers = on
			}
		}
	}
	return all, nil
}

// read adds the functions and tables of a file. Methods count by their name alone.
func (r room) read(file string, text []byte) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range parsed.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			r.of(decl.Name.Name).read(decl)
		case *ast.GenDecl: // tables at the top, which tests go through
			for _, spec := range decl.Specs {
				if values, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range values.Names {
						r.of(name.Name).read(values)
					}
				}
			}
		}
	}
	return nil
}

// of answers the mentions of a name, new ones if it has none yet.
func (r room) of(name string) *mentions {
	if r[name] == nil {
		r[name] = &mentions{names: map[string]bool{}, words: map[string]bool{}, brokers: map[string]bool{}}
	}
	return r[name]
}

// read notes what a declaration mentions. That it compares with a version says nothing about what it starts.
func (m *mentions) read(of ast.Node) {
	compared := map[ast.Expr]bool{}
	ast.Inspect(of, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared[n.X], compared[n.Y] = true, true
			}
		case *ast.Ident:
			m.names[n.Name], m.words[n.Name] = true, true
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				m.words[text] = true
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && !compared[n] {
				if b, ok := mentionedBroker[x.Name+"."+n.Sel.Name]; ok {
					m.brokers[b] = true
				}
			}
		}
		return true
	})
}

// mentionedBroker are the names in source that stand for brokers.
var mentionedBroker = map[string]string{
	"kafka.V44": V44, "kafka.V39": V39, "kfake.NewCluster": Fake, "proof.Model": Model,
	"kafka.Start": unnamed, "kafka.Shared": unnamed, "kafka.Run": unnamed,
}

// unnamed is real Kafka of a version that is not said: kafka.Options makes that the newest.
const unnamed = ""

// test gathers what is reached from a function.
func (r room) test(name string) *Test {
	seen := map[string]bool{}
	t := &Test{words: map[string]bool{}}
	var visit func(name string)
	visit = func(name string) {
		m := r[name]
		if m == nil || seen[name] {
			return
		}
		seen[name] = true
		for b := range m.brokers {
			if !slices.Contains(t.Brokers, b) {
				t.Brokers = append(t.Brokers, b)
			}
		}
		for word := range m.words {
			t.words[word] = true
		}
		for name := range m.names {
			visit(name)
		}
	}
	visit(name)
	if i := slices.Index(t.Brokers, unnamed); i >= 0 {
		t.Brokers = slices.Delete(t.Brokers, i, i+1)
		if !slices.Contains(t.Brokers, V44) && !slices.Contains(t.Brokers, V39) {
			t.Brokers = append(t.Brokers, V44)
		}
	}
	slices.Sort(t.Brokers)
	return t
}
