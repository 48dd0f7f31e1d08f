package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// oddJSON are documents that readers of JSON disagree on, get wrong, or die of.
func oddJSON() []string {
	return []string{
		`{}`, `[]`, `""`, `0`, `-0`, `1.10`, `9007199254740993`, `1E400`, `-1.5e-7`, `null`, `true`, `false`,
		" \t\r\n{ \"a\" :\t1 ,\n\"b\":[ ] }\r\n", `{"a":1,"a":2}`, `{"":{"":0}}`, `{"a.b":1,"a":{"b":2}}`,
		`{"\u0061":1,"a":2}`, `{"a\"b":1}`, `"\ud83d\ude00 \ud83d \ude00 \ud83dx \u0000"`, `"\\\/\b\f\n\r\t"`,
		"{\"a\":\"\xff\xfe\"}", "{\"\xff\":1}", `{"@this":1,"#":2,"*":3,"?":4,"|":5,"\\":6}`,
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000),
		`{"a":"` + strings.Repeat("x", 1<<20) + `","b":1.10}`,
		// None of these is JSON.
		"", " ", "{", "[1", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `[1,]`, `{,}`, `{"a" 1}`, `{a:1}`, `{'a':1}`, `{1:1}`,
		`{"a":tru}`, `nul`, `truee`, `01`, `-`, `+1`, `.5`, `1.`, `1e`, `1e+`, `0x10`, `NaN`, `Infinity`, `1 2`, `{}{}`, `{}]`, `[}`, `{]`,
		"\"\n\"", "\"\x00\"", `"\x"`, `"\u12g4"`, `"\u12`, `"`, `"\`, "\ufeff{}", "{}\x00", "\x00", "\xff", "// a\n1", `[1] // a`,
		strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<18),
		strings.Repeat("[", maxJSONDepth+1) + strings.Repeat("]", maxJSONDepth+1),
	}
}

func TestJSONRoot(t *testing.T) {
	for _, doc := range oddJSON() {
		checkJSONRoot(t, []byte(doc))
	}
	deepest := strings.Repeat("[", maxJSONDepth) + strings.Repeat("]", maxJSONDepth)
	if _, err := jsonRoot([]byte(deepest)); err != nil {
		t.Errorf("%d deep: %v", maxJSONDepth, err)
	}
	if _, err := jsonRoot([]byte("[" + deepest + "]")); err == nil || !strings.Contains(err.Error(), "at byte 10000: it nests deeper than 10000") {
		t.Errorf("%d deep: %v", maxJSONDepth+1, err)
	}
}

// checkJSONRoot compares with encoding/json, and the walk over the members with gjson.
func checkJSONRoot(t *testing.T, doc []byte) {
	t.Helper()
	root, err := jsonRoot(doc)
	if valid := json.Valid(doc); valid != (err == nil) {
		t.Fatalf("%.100q: encoding/json says %v, we say %v", doc, valid, err)
	}
	if err != nil {
		if !strings.Contains(err.Error(), "the value is not JSON") {
			t.Fatalf("%.100q: %v", doc, err)
		}
		return
	}
	if end := jsonEnd(doc, root); strings.Trim(string(doc[end:]), " \t\r\n") != "" {
		t.Fatalf("%.100q ends at %d", doc, end)
	}
	checkWalk(t, doc, root, 0)
}

func checkWalk(t *testing.T, doc []byte, pos, depth int) {
	raw := string(doc[pos:jsonEnd(doc, pos)])
	theirs := gjson.Parse(raw)
	if theirs.Raw != raw {
		t.Fatalf("value %.100q, gjson reads %.100q", raw, theirs.Raw)
	}
	if !container(doc, pos) || depth > 50 {
		return
	}
	walk := membersOf(doc, pos)
	theirs.ForEach(func(name, value gjson.Result) bool {
		m, more := walk.next()
		if !more || string(doc[m.value:m.end]) != value.Raw || theirs.IsObject() && string(doc[m.start:m.nameEnd]) != name.Raw {
			t.Fatalf("in %.100q: member %+v, %v; gjson has %.100q: %.100q", raw, m, more, name.Raw, value.Raw)
		}
		checkWalk(t, doc, m.value, depth+1)
		return true
	})
	if _, more := walk.next(); more {
		t.Fatalf("in %.100q: more members than gjson finds", raw)
	}
}

func TestJSONText(t *testing.T) {
	for _, doc := range oddJSON() {
		if json.Valid([]byte(doc)) && doc[0] == '"' {
			checkJSONText(t, []byte(doc))
		}
	}
}

// checkJSONText: a string reads as encoding/json reads it, but that bytes that are no UTF-8
// stay; and written again it reads the same.
func checkJSONText(t *testing.T, token []byte) {
	t.Helper()
	text := jsonText(token)
	var theirs string
	if err := json.Unmarshal(token, &theirs); err != nil {
		t.Fatal(err)
	}
	if utf8.Valid(token) && string(text) != theirs {
		t.Fatalf("%q reads %q, want %q", token, text, theirs)
	}
	again := appendQuoted(nil, text)
	if _, err := jsonRoot(again); err != nil || !bytes.Equal(jsonText(again), text) {
		t.Fatalf("%q is written as %q (%v)", text, again, err)
	}
}

func TestNameIs(t *testing.T) {
	for token, name := range map[string]string{
		`"a"`: "a", `""`: "", `"\u0061"`: "a", `"\ud83d\ude00"`: "😀", `"a\\b"`: `a\b`, `"\b"`: "\b", "\"\xff\"": "\xff",
		`"` + strings.Repeat(`\u0061`, 100) + `"`: strings.Repeat("a", 100),
	} {
		if !nameIs([]byte(token), name) {
			t.Errorf("%s is not %q", token, name)
		}
	}
	for token, name := range map[string]string{`"a"`: "b", `"ab"`: "a", `"a\b"`: `a\b`, `"\n"`: `\n`, `"\u0062"`: "a", `"A"`: "a"} {
		if nameIs([]byte(token), name) {
			t.Errorf("%s is %q", token, name)
		}
	}
}

func TestCutPath(t *testing.T) {
	for text, want := range map[string]string{
		"a": "a", "a.b": "a.b", ".": ".", "a[0].b[*]": "a[0].b[*]", "[*][1]": "[*][1]", `"a.b".c`: `"a.b".c`, "'@x'": `"@x"`, "`a\\`": `"a\\"`,
		"é-1_$": "é-1_$", `""`: `""`, "a=1": "a", "a b": "a", "a,b": "a", `a."\x41"`: "a.A", "0": "0", "a|@reverse": "a",
	} {
		p, length, err := cutPath(text)
		if err != nil || p.String() != want {
			t.Errorf("%q reads as %q (%d bytes), %v, want %q", text, p, length, err, want)
		}
	}
	for _, bad := range []string{"", "a.", "a..b", "a.#", "#", "@this", "*", "a.*", "?", "a[", "a[]", "a[-1]", "a[1", "a[#]", "a[99999999999]", `"a`, `"\q"`, strings.Repeat("a.", 101) + "a"} {
		if p, _, err := cutPath(bad); err == nil {
			t.Errorf("%q reads as %q", bad, p)
		}
	}
}

// randomDoc writes JSON as odd as it may be: repeated and escaped names, white space, big
// numbers, bytes that are no UTF-8.
func randomDoc(rng *rand.Rand, depth int) []byte {
	space := func() string { return []string{"", "", "", " ", "\n  ", "\t"}[rng.IntN(6)] }
	names := []string{`a`, `b`, `\u0061`, `c d`, ``, `x\"y`, "\xff", `id`, `@this`, `a.b`}
	var write func(b []byte, depth int) []byte
	write = func(b []byte, depth int) []byte {
		kind := rng.IntN(8)
		if depth <= 0 && kind < 4 {
			kind += 4
		}
		open, closing, named := byte('['), byte(']'), false
		switch kind {
		case 0, 1, 2:
			open, closing, named = '{', '}', true
		case 3:
		case 4:
			return append(b, []string{"9007199254740993", "1.10", "1e3", "-0", "0.1e-7"}[rng.IntN(5)]...)
		case 5:
			return append(b, []string{`"x"`, `"\u0041\n"`, "\"\xff\xfe\"", `""`, `"\ud800"`, `"}],{["`, `"2026-01-02T03:04:05Z"`}[rng.IntN(7)]...)
		default:
			return append(b, []string{"true", "null", "false"}[rng.IntN(3)]...)
		}
		b = append(b, open)
		for i := range rng.IntN(5) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, space()...)
			if named {
				b = append(append(append(b, '"'), names[rng.IntN(len(names))]...), '"')
				b = append(append(append(b, space()...), ':'), space()...)
			}
			b = append(write(b, depth-1), space()...)
		}
		return append(b, closing)
	}
	doc := append([]byte(space()), '{')
	for i := range rng.IntN(6) {
		if i > 0 {
			doc = append(doc, ',')
		}
		doc = append(append(append(append(doc, space()...), '"'), names[rng.IntN(len(names))]...), '"')
		doc = append(append(append(doc, space()...), ':'), space()...)
		doc = append(write(doc, depth-1), space()...)
	}
	return append(append(append(doc, space()...), '}'), space()...)
}

// field is one field of a document by an independent reader: gjson.
type field struct{ name, raw string }

func fieldsOf(doc string) []field {
	var all []field
	gjson.Parse(doc).ForEach(func(name, value gjson.Result) bool {
		all = append(all, field{name.Raw, value.Raw})
		return true
	})
	return all
}

func without(all []field, names ...string) []field {
	var left []field
	for _, f := range all {
		gone := false
		for _, name := range names {
			gone = gone || f.name == `"`+name+`"`
		}
		if !gone {
			left = append(left, f)
		}
	}
	return left
}

// TestUntouchedFields: what an edit does not name keeps its name, its value, its order and
// its number of repeats, byte for byte. gjson reads both sides.
func TestUntouchedFields(t *testing.T) {
	for expr, edited := range map[string][]string{
		`json_set(a={"n":1})`:       {"a", `\u0061`},
		`json_set(id=1)`:            {"id"},
		`json_delete(a)`:            {"a", `\u0061`},
		`json_delete(id, "x\"y")`:   {"id", `x\"y`},
		`json_mask(a, "")`:          {"a", `\u0061`, ""},
		`json_mask("a.b", with: 0)`: {"a.b"},
		`json_insert(b=offset)`:     {"b"},
		`json_rename(b=new)`:        {"b", "new"},
		`json_delete(a.b, a[0].b)`:  {"a", `\u0061`},
		`json_set("@this"=null)`:    {"@this"},
		`json_keep(a)`:              {"b", "c d", "", `x\"y`, "\xff", "id", "@this", "a.b"},
		`regex_replace(a, "x", yy)`: {"a", `\u0061`},
		`json_cast(id=string)`:      {"id"},
		`json_time(b, rfc3339, unix)`: {
			"b",
		},
	} {
		rng := rand.New(rand.NewPCG(5, 6))
		chain := parseWith(t, registered, expr).New()
		applied := 0
		for range 2000 {
			doc := randomDoc(rng, 4)
			out, err := chain.Apply(&Record{Value: doc}, nil)
			if err != nil {
				continue // something on the way is no object, or has another type
			}
			applied++
			if !json.Valid(out[0].Value) {
				t.Fatalf("%s made of %q\n%q, which is no JSON", expr, doc, out[0].Value)
			}
			before, after := without(fieldsOf(string(doc)), edited...), without(fieldsOf(string(out[0].Value)), edited...)
			if fmt.Sprint(before) != fmt.Sprint(after) {
				t.Fatalf("%s made of %q\n%q", expr, doc, out[0].Value)
			}
		}
		if applied < 200 {
			t.Errorf("%s accepted only %d of 2000", expr, applied)
		}
	}
}

// TestNothingIsLeftToFind: after json_delete and json_mask no reader, whichever of repeated
// names it takes, finds what was hidden; and json_delete only ever removes bytes.
func TestNothingIsLeftToFind(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	remove := parseWith(t, registered, "json_delete(secret)").New()
	mask := parseWith(t, registered, "json_mask(secret)").New()
	for range 2000 {
		doc := bytes.ReplaceAll(randomDoc(rng, 3), []byte(`"\u0061"`), []byte(`"s\u0065cret"`))
		doc = bytes.ReplaceAll(doc, []byte(`"a"`), []byte(`"secret"`))
		in := Record{Value: doc}
		for _, chain := range []*Chain{remove, mask} {
			out, err := chain.Apply(&in, nil)
			if err != nil {
				t.Fatal(err)
			}
			gjson.ParseBytes(out[0].Value).ForEach(func(name, value gjson.Result) bool {
				if name.String() == "secret" && (chain == remove || value.Raw != `"***"`) {
					t.Fatalf("of %q this is left: %q", doc, out[0].Value)
				}
				return true
			})
			if chain == remove && !isSubsequence(out[0].Value, doc) {
				t.Fatalf("%q became %q", doc, out[0].Value)
			}
		}
	}
}

func isSubsequence(part, whole []byte) bool {
	for _, c := range part {
		at := bytes.IndexByte(whole, c)
		if at < 0 {
			return false
		}
		whole = whole[at+1:]
	}
	return true
}

// TestNoChangeSharesTheValue: an edit that changes nothing gives the same bytes in the same
// memory.
func TestNoChangeSharesTheValue(t *testing.T) {
	value := []byte(` { "tier" : "gold", "n": 1.10 } `)
	for _, expr := range []string{
		`json_set(tier="gold")`, "json_delete(x)", "json_mask(x)", "json_keep(tier, n)", "json_rename(x=y)", "json_cast(n=number)", "json_flatten",
		"json_time(x, unix, unix_ms)", "regex_replace(tier, silver, x)", "regex_replace(silver, x)",
	} {
		out, err := parseWith(t, registered, expr).New().Apply(&Record{Value: value}, nil)
		if err != nil || &out[0].Value[0] != &value[0] || len(out[0].Value) != len(value) {
			t.Errorf("%s: %q, %v", expr, out[0].Value, err)
		}
	}
}

func TestResultIsBounded(t *testing.T) {
	many := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `","l":[` + strings.Repeat("0,", 99) + `0]}`)
	var nested []byte
	for range 9000 {
		nested = append(nested, `{"name":1,"n":`...)
	}
	nested = append(append(nested, '1'), strings.Repeat("}", 9000)...)
	for _, test := range some([]struct {
		expr  string
		value []byte
		want  string
	}{
		{"json_explode(.)", []byte("[" + strings.Repeat("0,", maxOutputs) + "0]"), errTooMany.Error()},
		{"json_explode(l, whole)", many, errResultTooLarge.Error()},
		{"json_flatten", nested, errResultTooLarge.Error()},
		{"regex_replace(x, yz)", bytes.Repeat([]byte("x"), maxMatches+1), "matches more than 100000 times"},
		{"regex_replace(`(x+)`, `" + strings.Repeat("$1", 70) + "`)", many, errResultTooLarge.Error()},
		{`json_set(l[*]="` + strings.Repeat("x", 1<<20) + `")`, many, errResultTooLarge.Error()},
	}, 3) {
		out, err := chainOf(t, test.expr).Apply(&Record{Value: test.value}, nil)
		if err == nil || len(out) != 0 || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.60s: %d results, %v, want %q", test.expr, len(out), err, test.want)
		}
	}
}

func FuzzJSONRoot(f *testing.F) {
	for _, doc := range oddJSON() {
		if len(doc) < 1<<12 {
			f.Add([]byte(doc))
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		checkJSONRoot(t, doc)
		if root, err := jsonRoot(doc); err == nil && doc[root] == '"' {
			checkJSONText(t, doc[root:jsonEnd(doc, root)])
		}
	})
}

// FuzzJSONPath: a path that is understood prints as one that is understood the same, and
// leads through any document without a panic; what json_set sets, the path then finds.
func FuzzJSONPath(f *testing.F) {
	for _, text := range []string{"a", "a.b", `"a.b"[0]`, "[*].c", ".", "a|@this", "a.#", `'\x41'."\u00e9"`} {
		f.Add(text, []byte(`{"a":{"b":[1,{"c":2}]},"a.b":[0],"A":{"é":1}}`))
	}
	f.Fuzz(func(t *testing.T, text string, doc []byte) {
		p, length, err := cutPath(text)
		if err != nil {
			return
		}
		if length > len(text) {
			t.Fatalf("%q: %d bytes", text, length)
		}
		printed := p.String()
		again, all, err := cutPath(printed)
		if err != nil || all != len(printed) || again.String() != printed || len(again) != len(p) {
			t.Fatalf("%q prints as %q, which reads as %q, %v", text, printed, again, err)
		}
		root, err := jsonRoot(doc)
		if err != nil {
			return
		}
		if start, end, found := p.find(doc, root); found {
			if _, err := jsonRoot(doc[start:end]); err != nil {
				t.Fatalf("%s leads to %q in %q: %v", p, doc[start:end], doc, err)
			}
		}
		if len(p) == 0 || strings.Contains(printed, "[*]") {
			return
		}
		set, err := newJSONSet(printed + `="set"`)
		if err != nil {
			return // the printed path begins with an @, or the like
		}
		out, err := set.Apply(&Record{Value: doc}, nil)
		if err != nil {
			return
		}
		if start, end, found := p.find(out[0].Value, mustRoot(t, out[0].Value)); !found || string(out[0].Value[start:end]) != `"set"` {
			t.Fatalf("json_set(%s) made of %q\n%q", printed, doc, out[0].Value)
		}
	})
}

func mustRoot(t *testing.T, doc []byte) int {
	t.Helper()
	root, err := jsonRoot(doc)
	if err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	return root
}
