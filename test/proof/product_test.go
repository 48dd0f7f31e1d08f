package proof

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// writers are the calls by which a program changes the local disk.
var writers = map[string]bool{
	"Create": true, "CreateTemp": true, "WriteFile": true, "OpenFile": true, "Mkdir": true, "MkdirAll": true, "MkdirTemp": true,
	"Rename": true, "Link": true, "Symlink": true, "Truncate": true, "Remove": true, "RemoveAll": true, "CopyFS": true,
}

// written names the files of the product that call one of them. The demo is left out: its broker keeps a log on disk. So is deploy,
// which makes packages of the product.
func written(t *testing.T, root fs.FS) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || file == "test" || file == "deploy" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir(), !strings.HasSuffix(file, ".go"), strings.HasSuffix(file, "_test.go"), strings.HasPrefix(path.Base(file), "demo"):
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && writers[sel.Sel.Name] {
				if of, ok := sel.X.(*ast.Ident); ok && of.Name == "os" {
					found = append(found, file+" calls os."+sel.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestBridgeWritesNoFile: Kafka is the bridge's only state, so a disk that is full or read-only means nothing to it.
func TestBridgeWritesNoFile(t *testing.T) {
	for _, what := range written(t, os.DirFS("../..")) {
		t.Error(what)
	}
	seeded := fstest.MapFS{
		"bridge/a.go":      {Data: []byte("package bridge\nfunc f() { os.WriteFile() }")},
		"bridge/a_test.go": {Data: []byte("package bridge\nfunc f() { os.WriteFile() }")},
		"cli/demo_run.go":  {Data: []byte("package cli\nfunc f() { os.MkdirTemp() }")},
		"test/e2e/b.go":    {Data: []byte("package e2e\nfunc f() { os.Remove() }")},
		"txn/c.go":         {Data: []byte("package txn\nfunc f() { os.Open(); x.Create() }")},
	}
	if found := written(t, seeded); len(found) != 1 || found[0] != "bridge/a.go calls os.WriteFile" {
		t.Errorf("seeded: %v", found)
	}
}
