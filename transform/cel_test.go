package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// hardValues are texts that a decoder may change, or break over.
func hardValues() [][]byte {
	deep := func(n int) string { return strings.Repeat(`{"a":[`, n) + "1.10" + strings.Repeat("]}", n) }
	return [][]byte{
		nil,
		{},
		[]byte("null"), []byte(" \n{} "), []byte("[]"), []byte(`"text"`), []byte("1.10"), []byte("-0"),
		[]byte(`{"id":9007199254740993,"amount":1.10,"big":123456789012345678901234567890,"exp":1e3,"tiny":1E-400}`),
		[]byte(`{"amount":1,"amount":2,"z":1,"a":2}`),
		[]byte("{\"amount\":5,\"name\":\"\xff\xfe\"}"),
		[]byte(`{"amount":5,"name":"\ud83d\ude00 \u00e9 \/ <&> \ud800"}`),
		[]byte(`{"amount":7,"a":` + deep(500) + `}`), // a depth of 1,000
		[]byte(deep(20_000)), // beyond the limit
		[]byte(`{"amount":8,"list":[` + strings.Repeat(`{"x":1.10},`, 95_000) + `1],"text":"` + strings.Repeat("y", 1000) + `"}`), // 1 MB
		[]byte(`{"amount":9`), []byte(`{"amount":9}}`), []byte(`{"amount":01}`), []byte("{\"amount\":\"\x01\"}"),
		[]byte(`{"amount":9,}`), []byte("\xef\xbb\xbf{}"),
		{0, 1, 2, 0xff},
	}
}

// randomJSON writes a random document with what is hard about JSON in it.
func randomJSON(rng *rand.Rand, depth int) string {
	scalars := []string{
		"null", "true", "false", "0", "-1", "1.10", "1e3", "9007199254740993", "18446744073709551615", "123456789012345678901234567890",
		`""`, `"eu"`, `"\u0061\/\n"`, "\"\xff\"", `"\ud83d\ude00"`, `"ü<&>"`,
	}
	space := []string{"", "", " ", "\n\t"}[rng.IntN(4)]
	if depth == 0 || rng.IntN(3) == 0 {
		return space + scalars[rng.IntN(len(scalars))] + space
	}
	names := []string{"amount", "region", "id", "list", "a", "b", `\u0061`, "ü", ""}
	parts := make([]string, rng.IntN(5))
	object := rng.IntN(3) > 0
	for i := range parts {
		parts[i] = randomJSON(rng, depth-1)
		if object {
			parts[i] = `"` + names[rng.IntN(len(names))] + `":` + parts[i]
		}
	}
	if object {
		return space + "{" + strings.Join(parts, ",") + space + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// replayed are chains of the expression languages under the property of replay.
var replayed = []string{
	`filter(value.amount > 1)`,
	`filter(has(value.amount) && value.amount != 5 || text.contains("e"))`,
	`filter(value.list.all(x, x != 1))`,
	`set(value.tier = "gold")`,
	`set(value.a.b = value.amount)`,
	`set(value.copy = value)`,
	`set(value = {"z": value, "keys": value.map(k, k), "m": {"c": 1, "b": 2, "a": 3}.map(k, k)})`,
	`set(key = value.id) | set(headers.x = value.region)`,
	`route_if(a: value.?region.orValue("") == "eu")`,
	`route_to(eu, us: string(value.region))`,
	`jq(.)`,
	`jq({z: ., keys: (keys? // []), n: [.. | numbers], s: "\(.amount?)"})`,
	`jq(if .amount? then .amount += 1 else .list[]? end)`,
	`jq(walk(if type == "object" then to_entries | from_entries else . end))`,
}

// TestReplay: whatever a record holds, every instance makes the same of it, byte for byte.
func TestReplay(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	values := hardValues()
	for range 300 {
		values = append(values, []byte(randomJSON(rng, 4)))
	}
	for _, expr := range replayed {
		t.Run(expr, func(t *testing.T) {
			used, fresh, results := chainOf(t, expr), chainOf(t, expr), 0
			for i, value := range values {
				if rng.IntN(8) == 0 {
					fresh = chainOf(t, expr)
				}
				in := Record{Topic: "orders", Offset: int64(i), Key: []byte("k"), Value: value, Timestamp: time.UnixMilli(1)}
				was := bytes.Clone(value)
				first, second := applyOne(t, used, &in), applyOne(t, fresh, &in)
				if fmt.Sprint(first) != fmt.Sprint(second) {
					t.Fatalf("value %d: %.200q became\n%.500q and\n%.500q", i, value, first, second)
				}
				if !bytes.Equal(was, value) {
					t.Fatalf("the value %.200q was altered", was)
				}
				if len(first) > 0 && !strings.HasPrefix(first[0], "error") {
					results++
				}
			}
			if results == 0 {
				t.Error("no record got through: the test shows nothing")
			}
		})
	}
}

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
	for expr, want := range map[string]string{
		`filter(value.l.all(a, value.l.all(b, value.l.all(c, a + b + c > 0))))`:                                                    "took more than",
		`set(value = value.l.map(a, value.l.map(b, value.l.map(c, value.s))))`:                                                     "took more than",
		`set(value = value.l.map(a, value.s))`:                                                                                     "larger than",
		`set(value.x = [value.s].map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a).map(a, a+a))`: "",
		`filter(text.matches(value.s))`:                                                                                            "regex",
	} {
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
