package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
)

// jqRunaway are programs that would never end, or make more than memory holds.
var jqRunaway = []string{
	`def f: f; f`, `def f: [f]; f`, `def f: 1 + f; f`, `repeat(.)`, `[repeat(1)]`, `[range(1e12)]`, `until(false; .)`,
	`try repeat(.) catch .`, `repeat(try error("x") catch .)`, `limit(20000; repeat(1))`, `first(range(1e12) | select(. < 0))`,
	`reduce range(60) as $i ("x"; . + .)`, `reduce range(60) as $i ("x"; . * 2)`, `"x" * 1e9`, `1e9 * "x"`,
	`reduce range(60) as $i ("x"; "\(.)\(.)")`, `reduce range(60) as $i ("\""; tojson)`, `reduce range(60) as $i ("\""; @json)`,
	`reduce range(60) as $i (["x"]; [add + add])`, `reduce range(60) as $i ({a: "x"}; .a += .a)`,
	`reduce range(60) as $i ("x"; [., .] | join("-"))`, `reduce range(60) as $i ("x"; [., .] | add)`,
	`reduce range(60) as $i (.; [., .])`, `reduce range(60) as $i (.; {a: ., b: .})`,
	`reduce range(60) as $i (.; [., .]) | tojson`, `reduce range(60) as $i (.; [., .]) | . == [1]`, `reduce range(60) as $i (.; [., .]) | "\(.)"`,
	`reduce range(60) as $i (.; [., .]) | . as $x | ($x == $x)`, `reduce range(60) as $i (.; [., .]) | flatten`, `reduce range(60) as $i (.; [., .]) | [., .] | sort`,
	`reduce range(60) as $i (.; [., .]) | [., 1] | group_by(.)`, `[1, 2] | group_by(reduce range(60) as $i (.; [., .]))`,
	`reduce range(60) as $i (.; [., .]) | error`, `reduce range(60) as $i (.; [., .]) | error(.)`, `reduce range(60) as $i (.; {a: ., b: .}) | . * .`,
	`reduce range(60) as $i (.; [., .]) | contains([[1]])`, `reduce range(60) as $i (.; [., .]) | IN([1])`, `reduce range(60) as $i (.; [., .]) | [.] - [.]`,
	`reduce range(60) as $i (.; [., .]) | @text`, `reduce range(60) as $i (.; [., .]) | [paths]`, `reduce range(60) as $i (.; [., .]) | [..]`,
	`reduce range(1000000) as $i (.; [.])`, `reduce range(100) as $i (12345678901; . * .)`, `reduce range(100) as $i (12345678901; . *= .)`,
	`[] | .[500000000] = 1`, `[] | .[500000000] |= 1`, `[] | setpath([500000000]; 1)`, `[] | getpath([500000000]) = 1`, `[] | nth(500000000) = 1`,
	`500000000 as $n | [] | .[$n] = 1`, `pick(.[500000000])`, `reduce range(1000) as $i ([]; .[$i] = ([] | .[900000] = 1))`,
	`[limit(100000; repeat("x" * 100))] | join("y" * 100000)`, `("x" * 1000000) as $s | [range(1000) | $s + "x"]`,
	`[range(100000)] as $a | $a - [range(100000; 200000)]`, `[range(100000)] | contains([range(100000; 200000)])`, `[range(100000)] | indices([range(50000)])`,
	`[range(100000)] | . -= [range(100000; 200000)]`, `[range(9999) | []] | .[0] = [range(100000)] | transpose`,
	`"x" * 16000 | gsub(""; "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy")`, `"x" * 40000 | [match(""; "g")]`, `"x" * 30000000 | split("")`, `"x" * 30000000 | explode`,
	`"x" * 30000000 / ""`, `[range(100)] as $x | [$x, $x, $x, $x, $x] | [combinations]`, `def f(g): g | f(g | g); f(.)`,
	`"1" * 1000000 | tonumber`, `[range(300000)] | map(tostring) | reduce .[] as $s (""; . + $s)`, `reduce range(1e6) as $i ([]; . + [$i])`,
	`[limit(3000000; repeat(0))] | walk(.)`,
}

var long = flag.Bool("long", false, "every program that runs away, twice")

// TestJQRunaway: each of them ends in the record's error, the instance goes on, and the
// memory that is in use at any time is bounded.
func TestJQRunaway(t *testing.T) {
	runs := 1
	if *long {
		runs = 2
	}
	var before runtime.MemStats
	runtime.ReadMemStats(&before) // of tests that ran earlier
	for i, program := range jqRunaway {
		if !*long && i%3 != 0 || racing && i%12 != 0 {
			continue
		}
		t.Run(program, func(t *testing.T) {
			chain := chainOf(t, "jq("+program+")")
			in := Record{Value: []byte(`{"a":[1,2]}`)}
			var first string
			for run := range runs {
				out, err := chain.Apply(&in, nil)
				if !isError(err) || len(out) > 0 {
					t.Fatalf("%d results, error %.300v", len(out), err)
				}
				if run == 0 {
					first = err.Error()
				} else if err.Error() != first {
					t.Fatalf("the second run said %.300v, the first %.300v", err, first)
				}
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			// Signed: what the runtime needs for itself, it also gives back.
			if taken := int64(m.Sys) - int64(before.Sys); taken > 1<<30 {
				t.Fatalf("the process has taken %d MiB", taken>>20)
			}
		})
	}
}

// jqPrograms use every function and operator that is called through a guard.
var jqPrograms = []string{
	`[.[]? | tojson, tostring]`, `[.. | numbers] | add`, `add(.[]?; 1)`, `add(.[]?)`, `[.[]? | tostring] | join(", ")`, `[.. | arrays] | flatten, flatten(1)`,
	`[.. | scalars] | sort, unique, min, max, reverse`, `[.[]?] | group_by(type), sort_by(tostring), unique_by(type), min_by(tojson), max_by(tojson)`,
	`[.. | strings] | map(explode | implode), map(split("a")), map(ascii_downcase, ascii_upcase)`, `. as $x | [.[]? | . as $y | try ($x | contains($y)) catch "no"]`,
	`[.. | strings] | map(inside("text"), index("x"), rindex("x"), indices("x"))`, `[1, 2, 3] | bsearch(2), index(2), indices([2, 3])`, `[.[]? | tojson | fromjson]`,
	`"1.10", "7" | tonumber`, `[[1], [2, 3], []] | transpose`, `setpath(["a", 2]; 1)?`, `getpath(["a", "b"])?`, `try delpaths([["a"], ["list", 0]]) catch "no"`,
	`[.[]?] | first?, nth(1), last`, `[.[]?] | IN([1])`, `[IN(.[]?; 1, "eu")]`, `[.[]?] | INDEX(type)`, `INDEX(.[]?; type)`, `try error catch tojson`, `try error(.) catch tojson`,
	`[.. | strings | test("a"), test("A"; "i"), (match("a"; "g") | .offset), (match("[a-z]+") | .string)]`,
	`[.. | strings | capture("(?<x>[a-z])"), capture("(?<x>[A-Z])"; "i"), scan("[a-z]"), scan("[A-Z]"; "i"), [splits("x")], [splits("X"; "i")], split("X"; "i")]`,
	`[.. | strings | sub("a"; "b"), sub("(?<x>[a-z])"; "<\(.x)>"; "g"), gsub("x"; "yy"), gsub("(?<x>[a-z])"; .x + "-"; "i"), gsub("a"; "1", "2")]`,
	`[.. | numbers] as $n | [$n[] - $n[], $n[] * $n[], (try ($n[] / $n[]) catch "zero")]`, `[.[]?] - [1, "eu"]`, `"a,b" / ","`, `"ab" * 3, 0 * "ab"`, `{a: {b: 1}} * {a: {c: 2}}`,
	`.amount? += 1, (.list[]? += 1)?`, `[3, 4] | .[] -= 1, .[0] *= 3, .[1] /= 2, .[0] %= 2, . -= [3]`, `.s? //= "d"`, `[.[]? == .[]?], [.[]? < .[]?]`,
	`[.[]?] == [.[]?], . == null, . != "x"`, `"v: \(.)", "\(1 + 1)"`, `. | @json, @text, ([.. | scalars] | @csv, @tsv, @sh, @html), ("a b" | @uri, @base64, (@base64 | @base64d))`,
	`. | @json "x\(.)y", @uri "?q=\(.a?)"`, `.["a"]?, .[1:]?, .["a" + "b"]?`, `.x? = 1 | .y? |= 2`, `to_entries?, with_entries(.value |= tojson)?`,
	`def f: . - 1; def g(x): x * 2; [3 | f, g(f)]`, `reduce .[]? as $x (0; . + 1), [foreach .[]? as $x (0; . + 1)]`, `label $out | foreach .[]? as $x (0; . + 1; ., break $out)`,
	`limit(3; .. ), first(..), [skip(1; .[]?)]`, `[paths], [paths(type == "number")], [leaf_paths?]`, `walk(if type == "number" then . + 1 else . end)`, `tostream`, `[.[]? as {a: $a, $b} ?// [$a, $b] | $a, $b]`,
	`if .a? == 1 then "one" elif .a? then "some" else "none" end`, `try (.a.b.c) catch "no"`, `.. |= .`, `[.[]?, 1][0]`, `-1 - -2, -(1 - 2)`, `pick(.a?)?`, `del(.a?, .list[0]?)`,
	`0 | gmtime, todate, (gmtime | mktime), strftime("%Y-%m-%d")`, `"2026-01-02T03:04:05Z" | fromdate`, `[limit(5; repeat(1))], [range(3)], [range(0; 10; 3)]`, `ltrimstr("a"), rtrimstr("a"), trim?`,
}

// jqWithout runs a program without guards.
func jqWithout(t *testing.T, program string, value any) []string {
	t.Helper()
	query, err := gojq.Parse(program)
	if err != nil {
		t.Fatal(err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return []string{err.Error()}
	}
	var results []string
	for iter := code.Run(value); ; {
		v, more := iter.Next()
		if !more {
			return results
		}
		if _, failed := v.(error); failed {
			return []string{"error"}
		}
		if _, err := new(jqWriter).write(v); err != nil {
			return []string{"error"}
		}
		text, err := gojq.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, string(text))
	}
}

// TestJQGuardsKeepMeaning: behind its guards a program does what it does without them.
func TestJQGuardsKeepMeaning(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	values := []string{`{"a":1,"list":[1,"eu",{"a":[1.10]}],"s":"text aXa","amount":2}`, `[1,"eu",null,{"a":{"b":2}}]`, "null", "3", `"xax"`, "{}", "[]"}
	for len(values) < 60 {
		if doc := randomJSON(rng, 3); json.Valid([]byte(doc)) {
			values = append(values, doc)
		}
	}
	used := map[string]bool{}
	for _, program := range jqPrograms {
		t.Run(program, func(t *testing.T) {
			spec, err := Parse("jq(" + program + ")")
			if err != nil {
				if plain := jqWithout(t, program, nil); len(plain) == 1 && strings.Contains(plain[0], "not defined") {
					return
				}
				t.Fatal(err)
			}
			chain := spec.New()
			for _, doc := range values {
				value, err := new(jqReader).read([]byte(doc))
				if err != nil {
					continue
				}
				want := jqWithout(t, program, value)
				got := []string{"error"}
				if out, err := chain.Apply(&Record{Value: []byte(doc)}, nil); err == nil {
					got = nil
					for _, r := range out {
						got = append(got, string(r.Value))
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s gave\n%q, without guards\n%q", doc, got, want)
				}
			}
		})
		query, err := gojq.Parse(program)
		if err != nil {
			t.Fatal(err)
		}
		for key := range jqGuards {
			name, _, _ := strings.Cut(key, "(")
			used[key] = used[key] || strings.HasPrefix(name, "_") || strings.Contains(query.String(), name)
		}
	}
	for key := range jqGuards {
		if !used[key] {
			t.Errorf("no program uses %s", key)
		}
	}
}

// TestJQReadAsEncodingJSON: what is read and written again is the same to encoding/json.
func TestJQReadAsEncodingJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	decode := func(doc []byte) any {
		d := json.NewDecoder(bytes.NewReader(doc))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
		return v
	}
	chain, passed := chainOf(t, "jq(.)"), 0
	for range 3000 {
		doc := []byte(randomJSON(rng, 4))
		out, err := chain.Apply(&Record{Value: doc}, nil)
		if err != nil {
			continue
		}
		passed++
		if got, want := fmt.Sprint(decode(out[0].Value)), fmt.Sprint(decode(doc)); got != want {
			t.Fatalf("%s became %s", doc, out[0].Value)
		}
	}
	if passed < 1000 {
		t.Errorf("only %d documents passed", passed)
	}
}

// anyJQ makes a value such as gojq works on.
func anyJQ(rng *rand.Rand, depth int) any {
	kind := rng.IntN(9)
	if depth == 0 {
		kind = rng.IntN(7)
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return rng.IntN(2) == 0
	case 2:
		return int(rng.Uint64() >> rng.IntN(64))
	case 3:
		return math.Float64frombits(rng.Uint64())
	case 4:
		return new(big.Int).Lsh(big.NewInt(rng.Int64()-1<<62), uint(rng.IntN(200)))
	case 5:
		return json.Number("1.10")
	case 6:
		return anyText(rng)
	case 7:
		list := make([]any, rng.IntN(5))
		for i := range list {
			list[i] = anyJQ(rng, depth-1)
		}
		return list
	}
	fields := map[string]any{}
	for range rng.IntN(12) {
		fields[anyText(rng)] = anyJQ(rng, depth-1)
	}
	return fields
}

func anyText(rng *rand.Rand) string {
	text := make([]rune, rng.IntN(6))
	for i := range text {
		text[i] = rune(rng.IntN(1 << (1 + rng.IntN(16))))
	}
	return string(text)
}

// TestJQWritesAsGojq: the writer is gojq's, to the byte.
func TestJQWritesAsGojq(t *testing.T) {
	rng, w, written := rand.New(rand.NewPCG(13, 14)), &jqWriter{}, 0
	for range 20_000 {
		v := anyJQ(rng, 3)
		want, err := gojq.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		switch got, err := w.write(v); {
		case err == errNotFinite: //nolint:errorlint // it is not wrapped
		case err != nil:
			t.Fatalf("%s: %v", want, err)
		case !bytes.Equal(got, want):
			t.Fatalf("%s was written, and by gojq %s", got, want)
		default:
			written++
		}
	}
	if written < 19_000 {
		t.Errorf("only %d values were written", written)
	}
}

// TestJQWriterRefuses: what JSON has no form for, and what is too large or too deep. The next result is not the worse for it.
func TestJQWriterRefuses(t *testing.T) {
	nested := func(depth int) any {
		v := any(1)
		for range depth {
			v = []any{map[string]any{"a": v}}
		}
		return v
	}
	w := &jqWriter{}
	for name, test := range map[string]struct {
		v    any
		want error
	}{
		"none":      {[]any{"x", math.NaN()}, errNotFinite},
		"infinite":  {math.Inf(-1), errNotFinite},
		"no UTF-8":  {[]any{map[string]any{"a": "\xff"}}, errNotUTF8},
		"odd name":  {map[string]any{"a\xff": 1}, errNotUTF8},
		"large":     {strings.Repeat("x", jqWeight), errJQLarge},
		"deep":      {nested(maxJSONDepth/2 + 1), errJQLarge},
		"deepest":   {nested(maxJSONDepth / 2), nil},
		"many":      {slices.Repeat([]any{0}, jqWeight/4), errJQLarge},
		"all of it": {map[string]any{"b": []any{"\x7f\t<é>", math.Copysign(0, -1), 1e21, 1e-7}, "a": big.NewInt(7)}, nil},
	} {
		var want []byte
		if test.want == nil {
			want, _ = gojq.Marshal(test.v)
		}
		if got, err := w.write(test.v); !errors.Is(err, test.want) || err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s: %.100s, %v", name, got, err)
		}
		if got, err := w.write([]any{"é"}); err != nil || string(got) != `["é"]` {
			t.Errorf("after %s: %s, %v", name, got, err)
		}
		if len(w.fields) > 0 || cap(w.text) > keepText {
			t.Errorf("after %s: %d fields and %d bytes are kept", name, len(w.fields), cap(w.text))
		}
	}
}

// FuzzJQ runs any program over any value: it may be refused, but the process lives, and two
// instances agree.
func FuzzJQ(f *testing.F) {
	for _, program := range some(append(slices.Clone(jqPrograms), jqRunaway[:3]...), 6) {
		f.Add(program, []byte(`{"a":1.10,"list":[1,"eu",null]}`))
	}
	for _, value := range hardValues() {
		if len(value) < 1000 {
			f.Add(".", value)
		}
	}
	f.Fuzz(func(t *testing.T, program string, value []byte) {
		one, err := newJQ(program)
		if err != nil {
			if inside, ok := errors.AsType[*argError](err); ok && (inside.at < 0 || inside.at > len(program)) {
				t.Fatalf("%q: the error is at %d", program, inside.at)
			}
			return
		}
		two, err := newJQ(program)
		if err != nil {
			t.Fatal(err)
		}
		in := Record{Topic: "t", Key: []byte("k"), Value: value}
		if a, b := applyOne(t, one, &in), applyOne(t, two, &in); !slices.Equal(a, b) {
			t.Fatalf("%q over %q gave %.500q and %.500q", program, value, a, b)
		}
	})
}
