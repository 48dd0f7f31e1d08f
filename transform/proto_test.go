package transform

import (
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

func protoOf(t testing.TB, text string, others ...namedSchema) *protoFile {
	t.Helper()
	parsed, err := parseProto(text, others)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return parsed
}

const hardProto = `// A comment
/* another; message X {} */
syntax = 'proto2';
package a.b;
option java_package = "x;y";
option (custom).thing = { a: 1, b { c: "}" } };
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import public "google/protobuf/struct.proto";
message Outer {
  option deprecated = true;
  reserved 100 to 200, 300;
  reserved "old";
  extensions 1000 to max;
  required sint64 a_b = 1 [default = -7, deprecated = true];
  optional string text = 0x02 [default = "x\n\x41" 'y', json_name = "TEXT"];
  repeated fixed32 list = 3 [packed = true, (custom.x) = { a: [1, 2] }, (other).name = "s" "t"];
  optional bytes raw = 4 [default = "\001\xfe"];
  optional E e = 5 [default = SECOND];
  optional .a.b.Outer.Inner inner = 6;
  map<string, Inner> entries_by_name = 7;
  map < int32 , .google.protobuf.Duration > waits = 8;
  optional double big = 9 [default = inf];
  optional float small = 10 [default = -1.5e-3];
  oneof choice { option (x) = 1; bool yes = 11; Inner.Deep deep = 12; }
  optional google.protobuf.FieldMask mask = 13;
  enum E { option allow_alias = true; FIRST = 1; SECOND = 2 [deprecated = true]; OTHER = 2; MINUS = -1; reserved 5; }
  message Inner { message Deep { optional Outer up = 1; } optional Deep d = 1;; }
  extend Outer { optional int32 more = 1000; }
}
extend google.protobuf.FieldOptions { optional string x = 50000; }
service S { rpc Do(Outer) returns (stream Outer) { option (http) = { get: "/" }; } }
enum Top { ZERO = 0; }
message Last {}
;`

const newProto = `syntax = "proto3";
message M {
  optional int32 a = 1;
  repeated int32 packed_by_itself = 2;
  repeated int32 not_packed = 3 [packed = false];
  oneof one { string s = 4; }
  optional string b = 5;
  M again = 6;
  map<string, string> m = 7;
  message Nested {}
  Nested n = 8;
}`

// TestProtoLikeProtocompile: a whole compiler understands the same of a schema.
func TestProtoLikeProtocompile(t *testing.T) {
	strip := func(f *descriptorpb.FileDescriptorProto) {
		f.Options, f.Service, f.Extension, f.SourceCodeInfo = nil, nil, nil, nil
		var message func(m *descriptorpb.DescriptorProto)
		message = func(m *descriptorpb.DescriptorProto) {
			if !m.GetOptions().GetMapEntry() {
				m.Options = nil
			}
			m.Extension, m.ExtensionRange, m.ReservedName, m.ReservedRange = nil, nil, nil, nil
			for _, e := range m.EnumType {
				e.ReservedRange = nil
				for _, v := range e.Value {
					v.Options = nil
				}
			}
			for _, f := range m.Field {
				if f.GetJsonName() != "TEXT" && f.GetJsonName() != "order" { // theirs has those that follow from the name, too
					f.JsonName = nil
				}
				if f.GetOptions().GetPacked() || f.Options != nil && f.Options.Packed != nil {
					f.Options = &descriptorpb.FieldOptions{Packed: f.Options.Packed}
				} else {
					f.Options = nil
				}
			}
			var plain, entries []*descriptorpb.DescriptorProto // they have them in the order of the text
			for _, n := range m.NestedType {
				message(n)
				if n.GetOptions().GetMapEntry() {
					entries = append(entries, n)
				} else {
					plain = append(plain, n)
				}
			}
			m.NestedType = append(plain, entries...)
		}
		for _, m := range f.MessageType {
			message(m)
		}
	}
	withoutCustom := strings.NewReplacer(
		"option (custom).thing = { a: 1, b { c: \"}\" } };\n", "", ", (custom.x) = { a: [1, 2] }, (other).name = \"s\" \"t\"", "",
		"option (x) = 1;", "", "option (http) = { get: \"/\" };", "", "extend google.protobuf.FieldOptions { optional string x = 50000; }", "")
	for _, text := range []string{hardProto, newProto, orderProto} {
		theirText := withoutCustom.Replace(text)
		compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: protocompile.SourceAccessorFromMap(map[string]string{"x.proto": theirText}),
		})}
		files, err := compiler.Compile(t.Context(), "x.proto")
		if err != nil {
			t.Fatal(err)
		}
		theirs := protodesc.ToFileDescriptorProto(files[0])
		ours := protodesc.ToFileDescriptorProto(protoOf(t, text).file)
		ours.Name = theirs.Name
		strip(theirs)
		strip(ours)
		if !proto.Equal(ours, theirs) {
			t.Errorf("ours:\n%s\ntheirs:\n%s", prototext.Format(ours), prototext.Format(theirs))
		}
	}
}

func TestProtoRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                "no message",
		`enum E { A = 0; }`:               "no message",
		`edition = "2023";`:               "editions are not supported",
		`syntax = "proto4";`:              "not known",
		`message M { optional X a = 1; }`: `X" not found`,
		`import "x.proto"; message M { optional X a = 1; }`:         "imports 1 files that are none of its references",
		`message M { optional int32 a = 1; optional int32 b = 1; }`: "conflict",
		`message M {`:                                          "",
		`message M { optional int32 a = ; }`:                   "line 1, column 32",
		`message M { optional group G = 1 {} }`:                "groups are not supported",
		`message M { option message_set_wire_format = true; }`: "message sets",
		"message M {\n  \"x\" }":                               "line 2, column 3",
		`/* x`:                                                 "a comment has no end",
		`message "x`:                                           "a string has no end",
		`message M {} é`:                                       "unexpected",
		strings.Repeat("message M {", 200) + strings.Repeat("}", 200): "deeper than 100",
	} {
		_, err := parseProto(text, nil)
		if want == "" {
			continue // whatever: it must only return
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %s", text, err, want)
		}
	}
}

func TestProtoPlaces(t *testing.T) {
	f := protoOf(t, orderProto)
	for name, want := range map[string]string{
		"": "\x00", "Order": "\x00", "shop.Refund": "\x02\x02", "Order.Line": "\x04\x00\x00", "Order.Other": "\x04\x00\x02",
	} {
		m, err := f.message(name)
		if err != nil {
			t.Fatal(err)
		}
		place := appendPlace(nil, m)
		if string(place) != want {
			t.Errorf("%s is at %q, want %q", name, place, want)
		}
		back, rest, err := f.atPlace(append(place, 'x'))
		if err != nil || back.FullName() != m.FullName() || string(rest) != "x" {
			t.Errorf("at %q is %v, then %q, %v", place, back, rest, err)
		}
	}
	for place, want := range map[string]string{
		"":                     "before it has said which message",
		"\x02":                 "before it has said which message",
		"\x01":                 "in -1 numbers",
		"\xfe\xff\xff\xff\x0f": "numbers: they are",
		"\x02\x04":             "message number 2",
		"\x02\x01":             "message number -1",
		"\x04\x00\x04":         "message number 2", // the entry of a map
	} {
		if _, _, err := f.atPlace([]byte(place)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", place, err, want)
		}
	}
	if _, err := f.message("shop.Nothing"); err == nil {
		t.Error("a message that is not there was found")
	}
}

func TestProtoData(t *testing.T) {
	f := protoOf(t, orderProto)
	for _, test := range []struct{ message, doc, want string }{
		{
			"", `{"id":"9007199254740993","paid":false,"box":7,"tags":{"b":1,"a":2},"lines":[{"sku":"x","price":1.10}],"at":"2026-01-02T03:04:05.678Z","state":"PAID"}`,
			`{"id":"9007199254740993","note":"","lines":[{"sku":"x","price":1.1}],"tags":{"a":2,"b":1},"paid":false,"box":7,"at":"2026-01-02T03:04:05.678Z","state":"PAID"}`,
		},
		{"", `{"id":1}`, `{"id":"1","note":"","lines":[],"tags":{},"state":"NEW"}`},
		{"Refund", `{"order":"18446744073709551615"}`, `{"order":"18446744073709551615"}`},
		{"Refund", `{"order_id":1}`, `{"order":"1"}`},
		{"Order.Other", `{"raw":"AP8="}`, `{"raw":"AP8="}`},
		{"", `{"id":"secret"}`, "!! invalid value for int64 field id"},
		{"", `{"unknown":1}`, `!! unknown field "unknown"`},
		{"", `["secret"]`, "!! unexpected token"},
		{"", `{"at":"secret"}`, "!! google.protobuf.Timestamp"},
		{"", `x`, "!! not JSON"},
	} {
		data, err := f.encode(nil, []byte(test.doc), test.message)
		want, fails := strings.CutPrefix(test.want, "!! ")
		if fails {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: got %v, want %s", test.doc, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.doc, err)
			continue
		}
		text, err := f.decode(nil, data)
		if err != nil || string(text) != test.want {
			t.Errorf("%s became %s, %v; want %s", test.doc, text, err, test.want)
		}
		again, err := f.encode(nil, text, test.message)
		if err != nil || string(mustProto(t, f, again)) != string(text) {
			t.Errorf("%s became %q, %v", text, again, err)
		}
	}
	for data, want := range map[string]string{
		"\x00\x08":             "the data is no shop.Order",
		"\x00\x12\x01\xff":     "the data is no shop.Order",
		"\x00\x78\x01":         "fields that the schema does not have",
		"\x00\x1a\x02\x78\x01": "fields that the schema does not have",
	} {
		if _, err := f.decode(nil, []byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", data, err, want)
		}
	}
}

func mustProto(t *testing.T, f *protoFile, data []byte) []byte {
	t.Helper()
	text, err := f.decode(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestProtoAny(t *testing.T) {
	f := protoOf(t, `syntax = "proto3"; import "google/protobuf/any.proto"; message M { google.protobuf.Any any = 1; } message N { M m = 1; }`)
	for _, doc := range []string{
		`{"any":{"@type":"type.googleapis.com/N","m":{"any":{"@type":"x/google.protobuf.Duration","value":"1.500s"}}}}`,
	} {
		data, err := f.encode(nil, []byte(doc), "")
		if err != nil {
			t.Fatal(err)
		}
		if text := mustProto(t, f, data); string(text) != doc {
			t.Errorf("%s became %s", doc, text)
		}
	}
	if _, err := f.encode(nil, []byte(`{"any":{"@type":"x/Nothing"}}`), ""); err == nil {
		t.Error("an unknown type was taken")
	}
}

func TestProtoReferences(t *testing.T) {
	order := namedSchema{SchemaReference{"dir/order.proto", "order", 1}, Schema{Type: SchemaProtobuf, Text: orderProto}}
	shared := namedSchema{SchemaReference{"all.proto", "all", 1}, Schema{Type: SchemaProtobuf, Text: `syntax = "proto3"; import public "dir/order.proto";`}}
	f := protoOf(t, `syntax = "proto3"; import "all.proto"; import "google/type/money.proto"; message P { shop.Order o = 1; }`, order, shared, order)
	data, err := f.encode(nil, []byte(`{"o":{"id":"3"}}`), "")
	if err != nil || !strings.HasPrefix(string(mustProto(t, f, data)), `{"o":{"id":"3",`) {
		t.Errorf("%q, %v", data, err)
	}
	broken := namedSchema{SchemaReference{"b.proto", "b", 1}, Schema{Type: SchemaProtobuf, Text: `message`}}
	if _, err := parseProto(`message M {}`, []namedSchema{broken}); err == nil || !strings.Contains(err.Error(), `reference "b.proto"`) {
		t.Errorf("got %v", err)
	}
}

func FuzzProto(f *testing.F) {
	f.Add(orderProto, []byte("\x00\x08\x01"), `{"id":1}`)
	f.Add(hardProto, []byte("\x02\x02"), `{}`)
	f.Add(newProto, []byte("\x00\x10\x01\x12\x02\x01\x02"), `{"a":1,"m":{"x":"y"}}`)
	f.Fuzz(func(t *testing.T, schema string, data []byte, doc string) {
		p, err := parseProto(schema, nil)
		if err != nil {
			return
		}
		if text, err := p.decode(nil, data); err == nil {
			if _, err := jsonRoot(text); err != nil {
				t.Errorf("%q is no JSON: %v", text, err)
			}
		}
		binary, err := p.encode(nil, []byte(doc), "")
		if err != nil {
			return
		}
		again, err := p.encode(nil, []byte(doc), "")
		if err != nil || string(again) != string(binary) {
			t.Errorf("%s became %q, then %q, %v", doc, binary, again, err)
		}
		if _, err := p.decode(nil, binary); err != nil {
			t.Errorf("%s became %q, which is not read: %v", doc, binary, err)
		}
	})
}
