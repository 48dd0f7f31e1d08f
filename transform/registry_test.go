package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestDefinitions(t *testing.T) {
	all := Definitions()
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
		if !strings.HasSuffix(d.Doc, ".") || !strings.HasSuffix(d.Summary(), ".") {
			t.Errorf("%s: the Doc is not made of sentences: %q", d.Name, d.Doc)
		}
		if strings.Contains(d.Doc, "\n") || strings.Contains(d.Doc, "|") {
			t.Errorf("%s: the Doc does not fit into a table: %q", d.Name, d.Doc)
		}
		spec, err := Parse(exampleOf(d))
		if err != nil {
			t.Errorf("%s: the example %q is wrong: %v", d.Name, d.Example, err)
			continue
		}
		if !slices.ContainsFunc(spec.stages, func(s stage) bool { return s.name == d.Name }) {
			t.Errorf("%s: the example %q does not show it", d.Name, d.Example)
		}
	}
	want := []string{"json_set", "json_delete", "key_from_json", "compress", "drop_header", "drop_tombstones", "filter", "filter_header", "identity", "jq", "route", "route_if", "route_to", "sample", "set", "set_header", "set_key_from_header"}
	for _, name := range want {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not registered", name)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("not sorted: %q", names)
	}
}

// exampleOf is the example, with a file that there is.
func exampleOf(d Definition) string {
	return strings.ReplaceAll(d.Example, "/etc/eosbridge/guest.wasm", "testdata/guests/manners.wasm")
}

func TestSummary(t *testing.T) {
	for doc, want := range map[string]string{
		"One.":                               "One.",
		"One. And more.":                     "One.",
		"Keeps 0.5. Is deterministic. Fast.": "Keeps 0.5.",
	} {
		if got := (Definition{Doc: doc}).Summary(); got != want {
			t.Errorf("the summary of %q is %q", doc, got)
		}
	}
}

func TestRegisterPanics(t *testing.T) {
	good := Definition{Name: "x", Usage: "x", Doc: "Doc.", Example: "x", New: newIdentity}
	for _, test := range []struct {
		change func(d *Definition)
		want   string
	}{
		{func(d *Definition) { d.Name = "" }, "no valid name"},
		{func(d *Definition) { d.Name = "Upper" }, "no valid name"},
		{func(d *Definition) { d.Name = "with-hyphen" }, "no valid name"},
		{func(d *Definition) { d.Name = "1st" }, "no valid name"},
		{func(d *Definition) { d.Name = "ä" }, "no valid name"},
		{func(d *Definition) { d.Doc = "" }, "lacks"},
		{func(d *Definition) { d.Example = "" }, "lacks"},
		{func(d *Definition) { d.New = nil }, "lacks"},
		{func(d *Definition) { d.Usage = "y(z)" }, "does not begin with its name"},
		{func(d *Definition) { d.Name, d.Usage = "taken", "taken" }, "registered twice"},
	} {
		c := catalog{"taken": good}
		d := good
		test.change(&d)
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, test.want) {
					t.Errorf("%+v: panicked with %q, want %q", d, v, test.want)
				}
			}()
			c.add(d)
		}()
		if len(c) != 1 {
			t.Errorf("%+v was added", d)
		}
	}
}

func TestConstructorFailures(t *testing.T) {
	c := catalog{}
	add := func(name string, construct func(string) (Transform, error)) {
		c.add(Definition{Name: name, Usage: name, Doc: "For tests.", Example: name, New: construct})
	}
	add("panics", func(string) (Transform, error) { panic("bad pattern") })
	add("gives_nothing", func(string) (Transform, error) { return nil, nil })
	add("refuses", func(string) (Transform, error) { return identity{}, errRefused })
	for expr, want := range map[string]string{
		"panics(x)":     "column 8: panics: constructor panicked: bad pattern",
		"gives_nothing": "column 1: gives_nothing: constructor returned no transform",
		"refuses( x )":  "column 10: refuses: refused",
	} {
		if _, err := c.parse(expr, nil); err == nil || err.Error() != want {
			t.Errorf("%s: got the error %v, want %s", expr, err, want)
		}
	}
	if _, err := c.parse("refuses", nil); !errors.Is(err, errRefused) {
		t.Errorf("%v lost its cause", err)
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"rout":              "route",
		"routes":            "route",
		"Route":             "route",
		"drop-tombstones":   "drop_tombstones",
		"droptombstone":     "drop_tombstones",
		"drop_headers":      "drop_header",
		"set_heder":         "set_header",
		"filtr":             "filter",
		"filter-head":       "filter_header",
		"smaple":            "sample",
		"set_key":           "set_key_from_header",
		"x":                 "",
		"uppercase":         "",
		"":                  "",
		"-":                 "",
		"completely_other_": "",
	} {
		if got := registered.nearest(name); got != want {
			t.Errorf("%q: nearest is %q, want %q", name, got, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"abc", "abc", 0},
		{"abc", "abd", 1},
		{"abc", "ac", 1},
		{"ac", "abc", 1},
		{"abcd", "badc", 3},
		{"kitten", "sitting", 3},
	} {
		if got := editDistance(test.a, test.b); got != test.want {
			t.Errorf("from %q to %q: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
