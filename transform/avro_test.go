package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/avro"
)

func avroOf(t testing.TB, schema string) *avroType {
	t.Helper()
	parsed, err := parseAvro(schema, nil)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return parsed
}

// TestAvroExamples are those of Avro's specification, and what each type looks like in JSON.
func TestAvroExamples(t *testing.T) {
	decimal := `{"type":"bytes","logicalType":"decimal","precision":6,"scale":2}`
	for _, test := range []struct{ schema, binary, plain, own string }{
		{`"null"`, "", "null", ""},
		{`null`, "", "null", ""},
		{`"boolean"`, "\x01", "true", ""},
		{`"int"`, "\x01", "-1", ""},
		{`"int"`, "\x80\x01", "64", ""},
		{`"int"`, "\xff\xff\xff\xff\x0f", "-2147483648", ""},
		{`"long"`, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "9223372036854775807", ""},
		{`"float"`, "\x00\x00\xc0\x3f", "1.5", ""},
		{`"float"`, "\xcd\xcc\xcc\x3d", "0.1", ""},
		{`"double"`, "\x9a\x99\x99\x99\x99\x99\xb9\x3f", "0.1", ""},
		{`"double"`, "\x00\x00\x00\x00\x00\x00\xf8\x7f", `"NaN"`, ""},
		{`"double"`, "\x00\x00\x00\x00\x00\x00\xf0\xff", `"-Infinity"`, ""},
		{`"double"`, "\x00\x00\x00\x00\x00\x00\x00\x80", "-0", ""},
		{`"string"`, "\x06foo", `"foo"`, ""},
		{`{"type":"string","logicalType":"uuid"}`, "\x0aü\"\n\\", `"ü\"\n\\"`, ""},
		{`"bytes"`, "\x08\x00\x7f\xff\"", "\"\\u0000\x7f\u00ff\\\"\"", ""},
		{`{"type":"record","name":"test","fields":[{"name":"a","type":"long"},{"name":"b","type":"string"}]}`, "\x36\x06foo", `{"a":27,"b":"foo"}`, ""},
		{`{"type":"enum","name":"Foo","symbols":["A","B","C","D"]}`, "\x06", `"D"`, ""},
		{`{"type":"array","items":"long"}`, "\x04\x06\x36\x00", "[3,27]", ""},
		{`{"type":"map","values":"long"}`, "\x04\x02z\x06\x02a\x36\x00", `{"z":3,"a":27}`, ""},
		{`["null","string"]`, "\x00", "null", ""},
		{`["null","string"]`, "\x02\x02a", `"a"`, `{"string":"a"}`},
		{`{"type":"fixed","name":"n.F","size":2}`, "a\xfe", `"aþ"`, ""},
		{`["null",{"type":"fixed","name":"n.F","size":2}]`, "\x02a\xfe", `"aþ"`, `{"n.F":"aþ"}`},
		{decimal, "\x04\x04\xd2", "12.34", `"\u0004Ò"`},
		{decimal, "\x02\xff", "-0.01", `"ÿ"`},
		{decimal, "\x02\x00", "0.00", `"\u0000"`},
		{decimal, "\x02\x80", "-1.28", "\"\u0080\""},
		{decimal, "\x04\x00\x80", "1.28", "\"\\u0000\u0080\""},
		{`{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":8,"scale":0}`, "\xff\xff\xff\xfe", "-2", `"ÿÿÿþ"`},
		{`{"type":"int","logicalType":"date"}`, "\x02", "1", ""},
		{`{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}`, "\x02\x02\x00", `{"next":{"next":{"next":null}}}`, `{"next":{"L":{"next":{"L":{"next":null}}}}}`},
		{`{"type":"record","name":"a.b.R","fields":[{"name":"x","type":{"type":"enum","name":"E","symbols":["S"]}},{"name":"y","type":["E","null"]}]}`, "\x00\x00\x00", `{"x":"S","y":"S"}`, `{"x":"S","y":{"a.b.E":"S"}}`},
	} {
		own := test.own
		if own == "" {
			own = test.plain
		}
		a := avroOf(t, test.schema)
		for form, want := range map[avroForm]string{avroPlain: test.plain, avroOwn: own} {
			text, err := a.decode(nil, []byte(test.binary), form)
			if err != nil || string(text) != want {
				t.Errorf("%s: %q became %s, %v; want %s", test.schema, test.binary, text, err, want)
			}
			binary, err := a.encode(nil, []byte(want), form)
			if err != nil || string(binary) != test.binary {
				t.Errorf("%s: %s became %q, %v; want %q", test.schema, want, binary, err, test.binary)
			}
		}
	}
}

func TestAvroEncode(t *testing.T) {
	record := `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","long"],"default":null},
		{"name":"c","type":{"type":"record","name":"S","fields":[{"name":"d","type":"string","default":"x"}]},"default":{}}]}`
	decimal := `{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`
	for _, test := range []struct{ schema, doc, want string }{
		{record, ` { "a" : 1 } `, "\x02\x00\x02x"},
		{record, `{"c":{"d":"y"},"b":2,"\u0061":1}`, "\x02\x02\x04\x02y"},
		{record, `{}`, "!! field a: it is missing"},
		{record, `{"a":1,"e":2}`, `!! the record R has no field "e"`},
		{record, `{"a":1,"a":2}`, "!! the field a is there twice"},
		{record, `{"a":null}`, "!! field a: null where the schema has a value of the type int"},
		{record, `{"a":1,"b":"x"}`, "!! field b: a string fits no branch of a union"},
		{record, `[]`, "!! an array where the schema has a value of the type record R"},
		{record, `{"a":1`, "!! not JSON"},
		{`"int"`, "1.0", "\x02"},
		{`"int"`, "12e1", "\xf0\x01"},
		{`"int"`, "1.5", "!! not whole"},
		{`"int"`, "2147483648", "!! too large"},
		{`"long"`, "9223372036854775808", "!! too large"},
		{`"long"`, "1e99999999999", "!! not whole"},
		{`"long"`, "-9223372036854775808", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		{`"double"`, "1e999", "!! too large"},
		{`"double"`, `"1"`, "!! a string where"},
		{`"string"`, "\"\xff\"", "!! no UTF-8"},
		{`"string"`, `"\ud800"`, "\x06\ufffd"},
		{`"bytes"`, `"Ā"`, "!! U+00FF"},
		{`{"type":"fixed","name":"F","size":2}`, `"abc"`, "!! 3 bytes where the fixed F has 2"},
		{`{"type":"enum","name":"E","symbols":["A"]}`, `"B"`, "!! no symbol of the enum E"},
		{`{"type":"map","values":"int"}`, `{"b":1,"a":2}`, "\x04\x02b\x02\x02a\x04\x00"},
		{`{"type":"map","values":"int"}`, `{"b":1,"b":2}`, "!! twice"},
		{`{"type":"map","values":"int"}`, `{}`, "\x00"},
		{`["null","double","long"]`, `1`, "\x02\x00\x00\x00\x00\x00\x00\xf0\x3f"},
		{`["int","long"]`, `4294967296`, "\x02\x80\x80\x80\x80\x20"},
		{`["string","bytes"]`, `{}`, "!! an object fits no branch"},
		{`["int","boolean"]`, `1.5`, "!! not whole"},
		{`["bytes",{"type":"enum","name":"E","symbols":["Ā"]}]`, `"Ā"`, "\x02\x00"},
		{decimal, `1.5`, "\x04\x00\x96"},
		{decimal, `"1.50"`, "\x04\x00\x96"},
		{decimal, `1.505`, "!! more than the 2 digits behind the point"},
		{decimal, `123`, "!! more than the 4 digits"},
		{decimal, `-99.99`, "\x04\xd8\xf1"},
		{decimal, `-100`, "!! more than the 4 digits"},
		{decimal, `1e-9999`, "!! more than the 2 digits behind"},
		{decimal, `"x"`, "!! holds no number"},
		{`{"type":"fixed","name":"D","size":1,"logicalType":"decimal","precision":4,"scale":0}`, `128`, "!! does not fit into the 1 bytes"},
		{`{"type":"fixed","name":"D","size":1,"logicalType":"decimal","precision":4,"scale":0}`, `-128`, "\x80"},
		{`"null"`, ``, "!! not JSON"},
	} {
		got, err := avroOf(t, test.schema).encode(nil, []byte(test.doc), avroPlain)
		want, fails := strings.CutPrefix(test.want, "!! ")
		if fails != (err != nil) || fails && !strings.Contains(err.Error(), want) || !fails && string(got) != want {
			t.Errorf("%s: %s became %q, %v; want %q", test.schema, test.doc, got, err, test.want)
		}
	}
	for doc, want := range map[string]string{
		`{"int":1}`:          "\x02\x02",
		`null`:               "\x00",
		`1`:                  "!! a number where a union should stand",
		`{"int":1,"long":2}`: "!! more than one branch",
		`{}`:                 "!! names no branch",
		`{"null":null}`:      "!! is that of no branch",
	} {
		got, err := avroOf(t, `["null","int"]`).encode(nil, []byte(doc), avroOwn)
		want, fails := strings.CutPrefix(want, "!! ")
		if fails != (err != nil) || fails && !strings.Contains(err.Error(), want) || !fails && string(got) != want {
			t.Errorf("%s became %q, %v; want %q", doc, got, err, want)
		}
	}
}

func TestAvroDecodeRefuses(t *testing.T) {
	room := make([]byte, 0, maxResult+1<<10) // at once, for other tests look at how much memory the process has taken
	for _, test := range some([]struct{ schema, binary, want string }{
		{`"int"`, "", "ends too early"},
		{`"int"`, "\x02\x02", "1 bytes are left over"},
		{`"int"`, "\x80\x80\x80\x80\x80\x01", "is no int"},
		{`"long"`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "longer than 64 bits"},
		{`"boolean"`, "\x02", "0 or 1"},
		{`"string"`, "\x02\xff", "no UTF-8"},
		{`"string"`, "\x01", "ends too early"},
		{`"bytes"`, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "ends too early"},
		{`{"type":"enum","name":"E","symbols":["A"]}`, "\x02", "number 1 of 1 symbols"},
		{`["null"]`, "\x01", "number -1 of 1 branches"},
		{`{"type":"array","items":{"type":"record","name":"E","fields":[]}}`, "\xfd\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", "larger than"},
		{`{"type":"map","values":"int"}`, "\x02\x02\xff\x02\x00", "no UTF-8"},
		{`{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}`, strings.Repeat("\x02", 10_000), "deeper than"},
		{`{"type":"record","name":"R","fields":[{"name":"a","type":"R"}]}`, "", "deeper than"},
		{`{"type":"bytes","logicalType":"decimal","precision":6,"scale":2}`, "\xa0\x1f" + strings.Repeat("\x01", 2000), "up to 1000"},
	}, 4) {
		_, err := avroOf(t, test.schema).decode(room, []byte(test.binary), avroPlain)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %.20q: got %v, want %s", test.schema, test.binary, err, test.want)
		}
	}
}

func TestAvroSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		``:                             "not JSON",
		`{`:                            "not JSON",
		`1`:                            "a number",
		`"Order"`:                      `"Order" is not defined`,
		`[]`:                           "no branches",
		`["int","int"]`:                "int twice",
		`["null",["int"]]`:             "directly in a union",
		`{"type":"array"}`:             "a type is missing",
		`{"type":"record"}`:            "no name",
		`{"type":{"x":"y"}}`:           "a type is missing",
		`{"type":"record","name":"R"}`: "no array of objects",
		`{"type":"record","name":"R","fields":[{"type":"int"}]}`:                      "twice, or empty",
		`{"type":"record","name":"R","fields":[{"name":"a","type":"x"}]}`:             "record R: field a",
		`{"type":"enum","name":"E"}`:                                                  "no symbols",
		`{"type":"fixed","name":"F","size":-1}`:                                       "no size",
		`{"type":"fixed","name":1}`:                                                   "has to be a string",
		`[{"type":"fixed","name":"F","size":1},{"type":"fixed","name":"F","size":2}]`: "defined twice",
		strings.Repeat(`{"type":`, 300) + `"int"` + strings.Repeat(`}`, 300):          "deeper than",
	} {
		if _, err := parseAvro(schema, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %s", schema, err, want)
		}
	}
}

// TestAvroAmbiguous: unions within unions that nearly fit do not take for ever.
func TestAvroAmbiguous(t *testing.T) {
	schema := `{"type":"record","name":"A","fields":[{"name":"n","type":["null","A",{"type":"record","name":"B","fields":[{"name":"n","type":["null","B","A"]}]}]}]}`
	doc := strings.Repeat(`{"n":`, 90) + `1` + strings.Repeat(`}`, 90)
	if _, err := avroOf(t, schema).encode(nil, []byte(doc), avroPlain); err == nil || !strings.Contains(err.Error(), "too many attempts") {
		t.Errorf("got %v", err)
	}
	wide := `{"type":"record","name":"A","fields":[{"name":"a","type":"A","default":{}},{"name":"b","type":"A","default":{}}]}`
	if _, err := avroOf(t, wide).encode(nil, []byte(`{}`), avroPlain); err == nil {
		t.Error("defaults without an end were written")
	}
}

// avroDice makes schemas and values that fit them.
type avroDice struct {
	*rand.Rand
	names int
}

func (d *avroDice) schema(depth int) any {
	kinds := 13
	if depth == 0 {
		kinds = 8
	}
	name := func() string { d.names++; return fmt.Sprintf("N%d", d.names) }
	switch d.IntN(kinds) {
	case 0:
		return "boolean"
	case 1:
		return "int"
	case 2:
		return "long"
	case 3:
		return "float"
	case 4:
		return "double"
	case 5:
		return "bytes"
	case 6:
		return map[string]any{"type": "fixed", "name": name(), "size": d.IntN(4)}
	case 7:
		return map[string]any{"type": "enum", "name": name(), "symbols": []string{"A", "B", "C"}}
	case 8:
		return map[string]any{"type": "array", "items": d.schema(depth - 1)}
	case 9:
		return map[string]any{"type": "map", "values": d.schema(depth - 1)}
	case 10:
		return []any{"null", map[string]any{"type": "record", "name": name(), "fields": d.fields(depth - 1)}, "string"}
	}
	return map[string]any{"type": "record", "name": name(), "namespace": "ns", "fields": d.fields(depth - 1)}
}

func (d *avroDice) fields(depth int) []any {
	fields := []any{}
	for i := range d.IntN(4) {
		fields = append(fields, map[string]any{"name": fmt.Sprintf("f%d", i), "type": d.schema(depth)})
	}
	return fields
}

func (d *avroDice) value(t *avroType) any {
	some := func() string { return strings.Repeat(string(rune(d.IntN(0x300)+1)), d.IntN(5)) }
	switch t.kind {
	case avroBoolean:
		return d.IntN(2) == 0
	case avroInt:
		return int32(d.Uint32())
	case avroLong:
		return int64(d.Uint64() >> d.IntN(64))
	case avroFloat:
		return math.Float32frombits(d.Uint32() &^ (1 << 30))
	case avroDouble:
		return math.Float64frombits(d.Uint64() &^ (1 << 62))
	case avroBytes:
		return []byte(some())
	case avroString:
		return some()
	case avroFixed:
		return bytes.Repeat([]byte{byte(d.Uint32())}, t.size)
	case avroEnum:
		return t.symbols[d.IntN(len(t.symbols))]
	case avroArray:
		list := []any{}
		for range d.IntN(4) {
			list = append(list, d.value(t.item))
		}
		return list
	case avroMap: // of one: theirs comes in any order
		m := map[string]any{}
		if d.IntN(2) == 0 {
			m[some()] = d.value(t.item)
		}
		return m
	case avroUnion:
		branch := t.branches[d.IntN(len(t.branches))]
		if branch.kind == avroNull {
			return nil
		}
		return map[string]any{branch.name: d.value(branch)}
	case avroRecord:
		m := map[string]any{}
		for _, f := range t.fields {
			m[f.name] = d.value(f.typ)
		}
		return m
	case avroNull:
	}
	return nil
}

// TestAvroLikeTwmb: twmb/avro reads our JSON and our binary data, and we read its, to the byte.
func TestAvroLikeTwmb(t *testing.T) {
	d := &avroDice{Rand: rand.New(rand.NewPCG(11, 12))}
	for round := range 2000 {
		text, err := json.Marshal(d.schema(3))
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := avroOf(t, string(text)), avro.MustParse(string(text))
		value := d.value(ours)
		binary, err := theirs.Encode(value)
		if err != nil {
			t.Fatalf("round %d: %s: %v", round, text, err)
		}
		doc, err := ours.decode(nil, binary, avroOwn)
		if err != nil {
			t.Fatalf("round %d: %s: %v", round, text, err)
		}
		var back any
		if err := theirs.DecodeJSON(doc, &back, avro.TaggedUnions()); err != nil {
			t.Fatalf("round %d: they refuse our JSON %s of %s: %v", round, doc, text, err)
		}
		if again, err := theirs.Encode(back); err != nil || !bytes.Equal(again, binary) {
			t.Fatalf("round %d: they read our JSON %s of %s otherwise: %q, not %q (%v)", round, doc, text, again, binary, err)
		}
		if again, err := ours.encode(nil, doc, avroOwn); err != nil || !bytes.Equal(again, binary) {
			t.Fatalf("round %d: %s of %s became %q, not %q (%v)", round, doc, text, again, binary, err)
		}
		plain, err := ours.decode(nil, binary, avroPlain)
		if err != nil || !json.Valid(plain) {
			t.Fatalf("round %d: %s, %v", round, plain, err)
		}
		if again, err := ours.encode(nil, plain, avroPlain); err != nil || !bytes.Equal(again, binary) {
			t.Fatalf("round %d: plain %s of %s became %q, not %q (%v)", round, plain, text, again, binary, err)
		}
	}
}

func FuzzAvro(f *testing.F) {
	f.Add(orderAvro, []byte("\x02\x02\x01\x00\x02\x02a\x02\x00\x00\x00"), `{"id":1}`)
	f.Add(`["null","string",{"type":"fixed","name":"Two","size":2},"double","long"]`, []byte("\x02\x02x"), `"x"`)
	f.Add(`{"type":"record","name":"A","fields":[{"name":"a","type":["null","A"],"default":null}]}`, []byte("\x02\x02\x00"), `{"a":{}}`)
	f.Add(`{"type":"fixed","name":"D","size":3,"logicalType":"decimal","precision":6,"scale":2}`, []byte("\xff\x00\x01"), `-1.5`)
	f.Fuzz(func(t *testing.T, schema string, data []byte, doc string) {
		a, err := parseAvro(schema, nil)
		if err != nil {
			return
		}
		for _, form := range []avroForm{avroPlain, avroOwn} {
			if text, err := a.decode(nil, data, form); err == nil {
				if _, err := jsonRoot(text); err != nil {
					t.Errorf("%q is no JSON: %v", text, err)
				}
			}
			binary, err := a.encode(nil, []byte(doc), form)
			if err != nil {
				continue
			}
			text, err := a.decode(nil, binary, form)
			if err != nil {
				t.Errorf("%s wrote %q, which it does not read: %v", doc, binary, err)
				continue
			}
			if again, err := a.encode(nil, text, form); form == avroOwn && (err != nil || !bytes.Equal(again, binary)) {
				t.Errorf("%s wrote %q, read %s and wrote %q (%v)", doc, binary, text, again, err)
			}
		}
	})
}
