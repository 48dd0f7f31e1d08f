package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSetKeepsTheRest: what is not set stays, for every document that JSON allows.
func TestSetKeepsTheRest(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	chain, changed := chainOf(t, `set(value.tier = "gold")`), 0
	for range 2000 {
		value := []byte(randomJSON(rng, 4))
		out, err := chain.Apply(&Record{Value: value}, nil)
		if err != nil || bytes.Contains(value, []byte("tier")) {
			continue
		}
		changed++
		without := bytes.Replace(out[0].Value, []byte(`"tier":"gold"`), nil, 1)
		if !bytes.Equal(bytes.ReplaceAll(without, []byte(","), nil), bytes.ReplaceAll(value, []byte(","), nil)) {
			t.Fatalf("%s became %s", value, out[0].Value)
		}
		if !json.Valid(out[0].Value) {
			t.Fatalf("%s became %s, which is no JSON", value, out[0].Value)
		}
	}
	if changed < 100 {
		t.Errorf("only %d documents were changed", changed)
	}
}

// TestCELBounds: an expression that would run or grow for very long ends in an error.
func TestCELBounds(t *testing.T) {
	list := []byte(`{"l":[` + strings.Repeat("1,", 9999) + `1],"s":"` + strings.Repeat("x", 1<<20) + `"}`)
	for _, row := range some([][2]string{
		{`set(value = value.l.map(a, value.s))`, "larger than"},
		{`filter(value.l.all(a, value.l.all(b, value.l.all(c, a + b + c > 0))))`, "took more than"},
		{`set(value = value.l.map(a, value.l.map(b, value.l.map(c, value.s))))`, "took more than"},
		{`set(value.x = [value.s].map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a))`, ""},
		{`filter(text.matches(value.s))`, "regex"},
	}, 4) {
		expr, want := row[0], row[1]
		t.Run(expr, func(t *testing.T) {
			chain := chainOf(t, expr)
			_, err := chain.Apply(&Record{Value: list}, nil)
			if !isError(err) || !strings.Contains(err.Error(), want) {
				t.Fatalf("error %.300v, want one with %q", err, want)
			}
			if _, err := chain.Apply(&Record{Value: []byte(`{"l":[],"s":"x"}`)}, nil); err != nil && !isError(err) {
				t.Errorf("the next record: %v", err)
			}
		})
	}
}

// TestNoClock: what would differ on replay is unknown to an expression.
func TestNoClock(t *testing.T) {
	for _, expr := range []string{
		"filter(now() > timestamp)", "filter(rand() > 1)", "filter(env.HOME == '')", "filter(uuid() == '')",
		"filter(timestamp.getHours('Europe/Berlin') == 1)", "filter(timestamp.getDayOfWeek(string(key)) == 1)",
	} {
		if _, err := Parse(expr); err == nil {
			t.Errorf("%s was accepted", expr)
		}
	}
}

// FuzzScan holds the scanner to what encoding/json takes for JSON.
func FuzzScan(f *testing.F) {
	for _, value := range hardValues() {
		if len(value) < 1000 {
			f.Add(value)
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		scanner := jsonScanner{doc: doc}
		members, start, end := scanner.document(nil)
		if valid := scanner.fault == nil; valid != json.Valid(doc) {
			t.Fatalf("%q: valid=%v (%v), encoding/json says %v", doc, valid, scanner.fault, !valid)
		}
		if scanner.fault != nil {
			if scanner.fault.offset < 0 || scanner.fault.offset > len(doc) {
				t.Fatalf("%q: the fault is at %d", doc, scanner.fault.offset)
			}
			return
		}
		if !json.Valid(doc[start:end]) {
			t.Fatalf("%q: the value is %q", doc, doc[start:end])
		}
		for _, m := range members {
			if !json.Valid(doc[m.start:m.end]) {
				t.Fatalf("%q: a member is %q", doc, doc[m.start:m.end])
			}
			if doc[start] != '{' {
				continue
			}
			var want string
			if err := json.Unmarshal(doc[m.nameStart-1:m.nameEnd+1], &want); err != nil {
				t.Fatalf("%q: a name is %q: %v", doc, doc[m.nameStart-1:m.nameEnd+1], err)
			}
			got, err := unescape(doc[m.nameStart:m.nameEnd])
			if err == nil && strings.ToValidUTF8(got, "\ufffd") != strings.ToValidUTF8(want, "\ufffd") && !strings.Contains(want, "\ufffd") {
				t.Fatalf("%q: a name is %q, want %q", doc, got, want)
			}
		}
	})
}

// FuzzCEL runs any expression over any record: it may be refused, but the process lives, and
// two instances agree.
func FuzzCEL(f *testing.F) {
	for _, expr := range replayed {
		arg := expr[strings.IndexByte(expr, '(')+1:]
		f.Add(strings.TrimSuffix(arg, ")"), []byte(`{"amount":1.10,"region":"eu","list":[1,{"a":null}]}`))
	}
	f.Fuzz(func(t *testing.T, expr string, value []byte) {
		for _, build := range []func(string) (Transform, error){newCelFilter, newCelSet} {
			one, err := build(expr)
			if err != nil {
				if inside, ok := errors.AsType[*argError](err); ok && (inside.at < 0 || inside.at > len(expr)) {
					t.Fatalf("%q: the error is at %d", expr, inside.at)
				}
				continue
			}
			two, err := build(expr)
			if err != nil {
				t.Fatal(err)
			}
			in := Record{Topic: "t", Key: []byte("k"), Value: value}
			if a, b := applyOne(t, one, &in), applyOne(t, two, &in); fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("%q over %q gave %q and %q", expr, value, a, b)
			}
		}
	})
}
