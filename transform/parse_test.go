package transform

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// What Parse says about wrong expressions is in the goldens; here is what it understands.

func TestScan(t *testing.T) {
	for _, test := range []struct {
		expr string
		want []string // name, argument, name, argument …
	}{
		{"", nil},
		{" \n\t ", nil},
		{"a", []string{"a", ""}},
		{"a()", []string{"a", ""}},
		{"a(  )", []string{"a", ""}},
		{"a|b", []string{"a", "", "b", ""}},
		{"a(x)|b( y z )", []string{"a", "x", "b", "y z"}},
		{"a (x)\n  | b (y)\n", []string{"a", "x", "b", "y"}},
		{"a((x) | f(y))", []string{"a", "(x) | f(y)"}},
		{`jq(.a | select(.b == ")"))`, []string{"jq", `.a | select(.b == ")")`}},
		{`a("\")" | 'it\'s)' | ` + "`\\`)", []string{"a", `"\")" | 'it\'s)' | ` + "`\\`"}},
		{`a("'")|b('"')`, []string{"a", `"'"`, "b", `'"'`}},
		{`a(C:\)`, []string{"a", `C:\`}},
		{"a(x\ny)", []string{"a", "x\ny"}},
		{"a(é)|b(\xff)", []string{"a", "é", "b", "\xff"}},
		{"a(=)|b-c.d_9(|)", []string{"a", "=", "b-c.d_9", "|"}},
	} {
		calls, err := scan(test.expr)
		if err != nil {
			t.Errorf("%q: %v", test.expr, err)
			continue
		}
		var got []string
		for _, c := range calls {
			got = append(got, c.name, c.arg)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q was read as %q, want %q", test.expr, got, test.want)
		}
	}
}

func TestSpec(t *testing.T) {
	for _, test := range []struct {
		expr, text string
		identity   bool
		targets    []string
	}{
		{"", "", true, nil},
		{" identity( ) ", "identity", true, nil},
		{"identity|identity", "identity | identity", true, nil},
		{"route(b)|drop_tombstones|route( a )|route(b)", "route(b) | drop_tombstones | route(a) | route(b)", false, []string{"a", "b"}},
		{`set_header( "a b" = "x | y" )`, `set_header("a b" = "x | y")`, false, nil},
		{"sample(1)", "sample(1)", false, nil},
	} {
		spec, err := Parse(test.expr)
		if err != nil {
			t.Errorf("%q: %v", test.expr, err)
			continue
		}
		if got := spec.String(); got != test.text {
			t.Errorf("%q prints as %q, want %q", test.expr, got, test.text)
		}
		if got := spec.Identity(); got != test.identity {
			t.Errorf("%q: Identity() is %v", test.expr, got)
		}
		if got := spec.Targets(); !slices.Equal(got, test.targets) {
			t.Errorf("%q: Targets() is %q, want %q", test.expr, got, test.targets)
		}
	}
}

func TestSpecTargetsAreACopy(t *testing.T) {
	spec, err := Parse("route(a)")
	if err != nil {
		t.Fatal(err)
	}
	spec.Targets()[0] = "changed"
	if got := spec.Targets(); got[0] != "a" {
		t.Errorf("a caller could change the targets to %q", got)
	}
}

func TestParseErrorPosition(t *testing.T) {
	for _, test := range []struct {
		expr         string
		line, column int
		text         string
	}{
		{"nope", 1, 1, "column 1: "},
		{"drop_tombstones |\n  nope(a)", 2, 3, "line 2, column 3: "},
		{"identity\n|\n\nroute( \n é)", 5, 2, "line 5, column 2: "},
		{"set_header(é=ü) | route(a) x", 1, 28, "column 28: "},
		{"identity | route()", 1, 18, "column 18: "},
		{"identity | route", 1, 12, "column 12: "},
	} {
		_, err := Parse(test.expr)
		var parseError *ParseError
		if !errors.As(err, &parseError) {
			t.Errorf("%q: %v is no *ParseError", test.expr, err)
			continue
		}
		if parseError.Line != test.line || parseError.Column != test.column {
			t.Errorf("%q: error at %d:%d, want %d:%d", test.expr, parseError.Line, parseError.Column, test.line, test.column)
		}
		if !strings.HasPrefix(err.Error(), test.text) {
			t.Errorf("%q: the error %q does not begin with %q", test.expr, err, test.text)
		}
	}
}

func TestParseErrorUnwraps(t *testing.T) {
	if _, err := Parse("drop_header"); !errors.Is(err, errNoHeaderName) {
		t.Errorf("the constructor's error is lost in %v", err)
	}
}

func TestValidTopicLength(t *testing.T) {
	if err := validTopic(strings.Repeat("x", 249)); err != nil {
		t.Errorf("249 characters: %v", err)
	}
	if err := validTopic(strings.Repeat("x", 250)); err == nil {
		t.Error("250 characters were accepted")
	}
}

func TestHeaderPair(t *testing.T) {
	for _, test := range []struct {
		arg, name, value string
		hasValue         bool
	}{
		{"a", "a", "", false},
		{"a=", "a", "", true},
		{"a = b c ", "a", "b c", true},
		{`"a" = " b "`, "a", " b ", true},
		{`'a"b'=b"c"`, `a"b`, `b"c"`, true},
		{"a=`\\x00`", "a", `\x00`, true},
		{`a="\x00\377\u00e9\t\\\"é` + "\xff\"", "a", "\x00\xff\u00e9\t\\\"é\xff", true},
		{"a=\"two\nlines\"", "a", "two\nlines", true},
		{`a=""`, "a", "", true},
		{`a==`, "a", "=", true},
	} {
		name, value, hasValue, err := headerPair(test.arg)
		if err != nil {
			t.Errorf("%q: %v", test.arg, err)
			continue
		}
		if name != test.name || string(value) != test.value || hasValue != test.hasValue {
			t.Errorf("%q was read as %q, %q, %v", test.arg, name, value, hasValue)
		}
		if (value != nil) != hasValue {
			t.Errorf("%q: value %#v, hasValue %v", test.arg, value, hasValue)
		}
	}
	for _, bad := range []string{"", "=", "''", `"a`, `"a\"`, `a="b`, `a="\'"`, `a="\u12"`, `a='\"'`} {
		if name, value, _, err := headerPair(bad); err == nil {
			t.Errorf("%q was read as %q, %q", bad, name, value)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range goldenFiles(f) {
		for line := range strings.Lines(text) {
			if expr, isChain := strings.CutPrefix(line, "chain"); isChain {
				f.Add(strings.TrimSpace(expr))
			}
		}
	}
	f.Add("drop_tombstones |\n\troute( a )\u00a0| set_header('\\'' = `\"`)")
	f.Fuzz(func(t *testing.T, expr string) {
		calls, err := scan(expr)
		if err != nil {
			checkPosition(t, expr, err)
			return
		}
		parts := make([]string, len(calls))
		for i, c := range calls {
			parts[i] = c.String()
		}
		printed := strings.Join(parts, " | ")
		again, err := scan(printed)
		if err != nil {
			t.Fatalf("%q prints as %q, which is refused: %v", expr, printed, err)
		}
		same := func(a, b call) bool { return a.name == b.name && a.arg == b.arg }
		if !slices.EqualFunc(calls, again, same) {
			t.Fatalf("%q prints as %q, which is read as %q instead of %q", expr, printed, again, calls)
		}

		spec, err := Parse(expr)
		if err != nil {
			checkPosition(t, expr, err)
			return
		}
		if spec.String() != printed {
			t.Fatalf("%q prints as %q, want %q", expr, spec, printed)
		}
		if _, err := spec.New().Apply(&Record{Topic: "t"}, nil); refused(t, err) && !isError(err) {
			t.Fatalf("%q: %v", expr, err)
		}
	})
}

func isError(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

func checkPosition(t *testing.T, expr string, err error) {
	t.Helper()
	var parseError *ParseError
	if !errors.As(err, &parseError) {
		t.Fatalf("%q: %v is no *ParseError", expr, err)
	}
	lines := strings.Split(expr, "\n")
	if parseError.Line < 1 || parseError.Line > len(lines) {
		t.Fatalf("%q: the error is in line %d", expr, parseError.Line)
	}
	if width := len([]rune(lines[parseError.Line-1])); parseError.Column < 1 || parseError.Column > width+1 {
		t.Fatalf("%q: the error is in column %d of %d", expr, parseError.Column, width)
	}
}
