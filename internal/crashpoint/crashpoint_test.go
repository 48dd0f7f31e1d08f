package crashpoint_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
)

// TestPointsAreCalls holds the table against the calls in the product: a point without a call could never be died
// at, and a call that the table does not know would not be tried.
func TestPointsAreCalls(t *testing.T) {
	faults, err := compare(os.DirFS("../.."), crashpoint.Points())
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// TestPointsAreCallsCatches seeds what the test above is for.
func TestPointsAreCallsCatches(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"equal":             {`crashpoint.At("a: b"); crashpoint.At("a: c")`, ""},
		"a call is missing": {`crashpoint.At("a: b")`, `"a: c" has no call`},
		"unknown point":     {`crashpoint.At("a: b"); crashpoint.At("a: c"); crashpoint.At("a: d")`, `"a: d" is not in the table`},
		"called twice":      {`crashpoint.At("a: b"); crashpoint.At("a: c"); crashpoint.At("a: b")`, `"a: b" is called twice`},
		"not a literal":     {`crashpoint.At("a: b"); crashpoint.At("a: c"); crashpoint.At(name)`, "want a literal"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{
				"txn/x.go":      {Data: fmt.Appendf(nil, "package txn\nfunc f() { %s }\n", test.body)},
				"bridge/y.go":   {Data: []byte("package bridge\n")},
				"txn/x_test.go": {Data: []byte("package txn\nfunc g() { crashpoint.At(\"a: test\") }\n")},
			}
			faults, err := compare(tree, []string{"a: b", "a: c", "slot: ready begin, before"})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(faults, "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) || len(faults) > 1 {
				t.Errorf("faults %q, want %q", faults, test.want)
			}
		})
	}
}

// compare lists where the calls of At and the points differ. Those of a slot's transitions are made of the
// transition's own names by Step; package txn holds them against its table.
func compare(tree fs.FS, points []string) (faults []string, err error) {
	called := map[string]bool{}
	for _, room := range []string{"txn", "bridge"} {
		files, err := fs.Glob(tree, room+"/*.go")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := fs.ReadFile(tree, file)
			if err != nil {
				return nil, err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), path.Base(file), src, 0)
			if err != nil {
				return nil, err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !isAt(call) {
					return true
				}
				literal, ok := call.Args[0].(*ast.BasicLit)
				if !ok {
					faults = append(faults, file+": a call of crashpoint.At: want a literal")
					return true
				}
				name, err := strconv.Unquote(literal.Value)
				switch {
				case err != nil || !slices.Contains(points, name):
					faults = append(faults, fmt.Sprintf("%s: point %s is not in the table", file, literal.Value))
				case called[name]:
					faults = append(faults, fmt.Sprintf("%s: point %q is called twice", file, name))
				}
				called[name] = true
				return true
			})
		}
	}
	for _, name := range points {
		if !called[name] && !strings.HasPrefix(name, "slot: ") {
			faults = append(faults, fmt.Sprintf("point %q has no call", name))
		}
	}
	return faults, nil
}

func isAt(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "At" || len(call.Args) != 1 {
		return false
	}
	room, ok := selector.X.(*ast.Ident)
	return ok && room.Name == "crashpoint"
}

func TestPointsAreDistinct(t *testing.T) {
	points := crashpoint.Points()
	sorted := slices.Sorted(slices.Values(points))
	if len(slices.Compact(sorted)) != len(points) {
		t.Error("a point is listed twice")
	}
	for _, name := range crashpoint.Unreached() {
		if !slices.Contains(points, name) {
			t.Errorf("%q is no point", name)
		}
	}
}
