package transform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tells is a catalog whose transform echo puts its argument into the value, and whose
// transform picky complains about the first "!" of its argument.
func tells() catalog {
	c := catalog{}
	c.add(Definition{Name: "echo", Usage: "echo", Doc: "For tests.", Example: "echo", New: func(arg string) (Transform, error) {
		return applyFunc(func(in *Record, out []Record) ([]Record, error) {
			return append(out, Record{Value: []byte(arg)}), nil
		}), nil
	}})
	c.add(Definition{Name: "picky", Usage: "picky", Doc: "For tests.", Example: "picky", New: func(arg string) (Transform, error) {
		if at := strings.IndexByte(arg, '!'); at >= 0 {
			return nil, fmt.Errorf("wrapped: %w", errAt(at, errRefused))
		}
		if arg == "" {
			return nil, errRefused
		}
		return identity{}, nil
	}})
	return c
}

func fileWith(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "arg")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArgumentFromFile(t *testing.T) {
	for content, want := range map[string]string{
		".a | .b\n":              ".a | .b",
		"\ufeff \n x)\"(\n\n y ": "x)\"(\n\n y",
		"@other":                 "@other", // a file does not lead to the next
		"":                       "",
	} {
		path := fileWith(t, content)
		expr := "echo( @" + path + " ) | echo"
		spec := parseWith(t, tells(), expr)
		out, err := (&Spec{stages: spec.stages[:1]}).New().Apply(&Record{}, nil)
		if err != nil || string(out[0].Value) != want {
			t.Errorf("%q reached the transform as %q, %v", content, out[0].Value, err)
		}
		if got := spec.String(); got != "echo(@"+path+") | echo" {
			t.Errorf("%q prints as %q", expr, got)
		}
	}
}

// TestArgumentFromFileIsReadOnce: a chain made later gets what Parse read.
func TestArgumentFromFileIsReadOnce(t *testing.T) {
	path := fileWith(t, "first")
	spec := parseWith(t, tells(), "echo(@"+path+")")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if out, err := spec.New().Apply(&Record{}, nil); err != nil || string(out[0].Value) != "first" {
		t.Errorf("after the file has gone: %q, %v", values(out), err)
	}
}

func TestArgumentQuotedIsNoFile(t *testing.T) {
	for _, arg := range []string{`"@literal"`, "'@x'", "`@x`", "a@b"} {
		out, err := parseWith(t, tells(), "echo("+arg+")").New().Apply(&Record{}, nil)
		if err != nil || string(out[0].Value) != arg {
			t.Errorf("%s reached the transform as %q, %v", arg, values(out), err)
		}
	}
}

func TestArgumentFileErrors(t *testing.T) {
	dir := t.TempDir()
	large := fileWith(t, strings.Repeat("x", maxArgumentFile+1))
	parseWith(t, tells(), "echo(@"+fileWith(t, strings.Repeat("x", maxArgumentFile))+")")
	for arg, want := range map[string]string{
		"@" + dir + "/missing": "no such file",
		"@" + dir:              "is a directory",
		"@" + large:            "larger than 1048576 bytes",
		"@":                    "the name of the file is missing",
		"@/dev/null":           "no regular file",
	} {
		_, err := tells().parse("echo(a)\n|  echo( "+arg+")", nil)
		var at *ParseError
		if !errors.As(err, &at) || at.Line != 2 || at.Column != 10 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want one at 2:10 with %q", arg, err, want)
		}
	}
}

func TestArgumentErrorPosition(t *testing.T) {
	path := fileWith(t, "\n\n  fine,\n\té!\n")
	empty := fileWith(t, " \n")
	for expr, want := range map[string]string{
		"picky( é! )":           "column 9: picky: wrapped: refused",
		"picky(a\n !)":          "line 2, column 2: picky: wrapped: refused",
		"picky":                 "column 1: picky: refused",
		"picky(@" + path + ")":  "column 7: picky: " + path + ":4:3: wrapped: refused",
		"picky(@" + empty + ")": "column 7: picky: " + empty + ": refused",
	} {
		_, err := tells().parse(expr, nil)
		if err == nil || err.Error() != want || !errors.Is(err, errRefused) {
			t.Errorf("%q: got the error %v, want %s", expr, err, want)
		}
	}
}

// forks tells how many of it were forked before it.
type forks struct{ count *int }

func (f forks) Apply(in *Record, out []Record) ([]Record, error) { return append(out, *in), nil }
func (f forks) Fork() Transform                                  { *f.count++; return f }

func TestForkInsteadOfConstructor(t *testing.T) {
	c := catalog{}
	built, forked := 0, 0
	c.add(Definition{Name: "forks", Usage: "forks", Doc: "For tests.", Example: "forks", New: func(string) (Transform, error) {
		built++
		return forks{&forked}, nil
	}})
	spec := parseWith(t, c, "forks")
	for range 3 {
		if _, err := spec.New().Apply(&Record{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if built != 1 || forked != 3 {
		t.Errorf("built %d times and forked %d times, want 1 and 3", built, forked)
	}
}
