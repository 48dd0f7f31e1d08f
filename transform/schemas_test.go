package transform

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// memorySchemas is a registry in memory.
type memorySchemas struct {
	mu       sync.Mutex
	byID     map[int]Schema
	subjects map[string][]int // ids by version - 1
	refuses  map[string]error // by subject
	nextID   int

	asked atomic.Int64
	away  atomic.Bool
	stall chan struct{} // not nil: answers wait for it
}

func (m *memorySchemas) ask(ctx context.Context) error {
	m.asked.Add(1)
	if m.stall != nil {
		select {
		case <-m.stall:
		case <-ctx.Done():
			return &UnavailableError{context.Cause(ctx)}
		}
	}
	if m.away.Load() {
		return &UnavailableError{errors.New("the registry is away")}
	}
	return nil
}

func (m *memorySchemas) ByID(ctx context.Context, id int) (Schema, error) {
	if err := m.ask(ctx); err != nil {
		return Schema{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, found := m.byID[id]
	if !found {
		return s, ErrNoSchema
	}
	return s, nil
}

func (m *memorySchemas) ByVersion(ctx context.Context, subject string, version int) (Schema, error) {
	if err := m.ask(ctx); err != nil {
		return Schema{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	versions := m.subjects[subject]
	if version == 0 {
		version = len(versions)
	}
	if version < 1 || version > len(versions) {
		return Schema{}, ErrNoSchema
	}
	return m.byID[versions[version-1]], nil
}

func (m *memorySchemas) Register(ctx context.Context, subject string, s Schema) (id, version int, err error) {
	if err := m.ask(ctx); err != nil {
		return 0, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refuses[subject]; err != nil {
		return 0, 0, err
	}
	for i, id := range m.subjects[subject] {
		if known := m.byID[id]; known.Text == s.Text && fmt.Sprint(known.References) == fmt.Sprint(s.References) {
			return id, i + 1, nil
		}
	}
	if m.nextID == 0 {
		m.nextID = 1000
	}
	m.nextID++
	s.ID = m.nextID
	if m.byID == nil {
		m.byID, m.subjects = map[int]Schema{}, map[string][]int{}
	}
	m.byID[s.ID] = s
	m.subjects[subject] = append(m.subjects[subject], s.ID)
	return s.ID, len(m.subjects[subject]), nil
}

const (
	orderAvro = `{"type":"record","name":"Order","namespace":"shop","fields":[
 {"name":"id","type":"long"},
 {"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2},"default":"\u0000"},
 {"name":"note","type":["null","string"],"default":null},
 {"name":"tags","type":{"type":"map","values":"int"},"default":{}},
 {"name":"state","type":{"type":"enum","name":"State","symbols":["NEW","PAID"]},"default":"NEW"},
 {"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":[
   {"name":"sku","type":"string"},{"name":"price","type":"double","default":1}]}},"default":[]}]}`

	orderProto = `syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  string note = 2;
  repeated Line lines = 3;
  map<string, int32> tags = 4;
  optional bool paid = 5;
  oneof to { string shop = 6; int32 box = 7; }
  google.protobuf.Timestamp at = 8;
  enum State { NEW = 0; PAID = 1; }
  State state = 9;
  message Line { string sku = 1; double price = 2; }
  message Other { bytes raw = 1; }
}
message Refund { uint64 order_id = 1 [json_name = "order"]; }
`
)

// knownSchemas is what the goldens and all other tests of expressions ask.
var knownSchemas = sync.OnceValue(func() *memorySchemas {
	return &memorySchemas{
		byID: map[int]Schema{
			1: {ID: 1, Type: SchemaAvro, Text: orderAvro},
			2: {ID: 2, Type: SchemaProtobuf, Text: orderProto},
			3: {ID: 3, Type: SchemaJSON, Text: `{"type":"object"}`},
			4: {ID: 4, Type: SchemaAvro, Text: `["null","string",{"type":"fixed","name":"Two","size":2},"double","long"]`},
			5: {ID: 5, Type: SchemaAvro, Text: `{"type":"record","name":"Sale","namespace":"shop","fields":[{"name":"by","type":"Customer"},{"name":"again","type":["null","Customer"]}]}`, References: []SchemaReference{{"shop.Customer", "customer", 1}}},
			6: {ID: 6, Type: SchemaAvro, Text: `{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"name","type":"string"}]}`},
			7: {ID: 7, Type: "XML", Text: `<x/>`},
			8: {ID: 8, Type: SchemaAvro, Text: `{"type":"record"}`},
			9: {ID: 9, Type: SchemaProtobuf, Text: `syntax = "proto3"; import "order.proto"; import "google/type/money.proto"; message Parcel { shop.Order order = 1; }`, References: []SchemaReference{{"order.proto", "order-proto", 1}}},
		},
		subjects: map[string][]int{"orders-value": {6, 1}, "customer": {6}, "order-proto": {2}, "unions": {4}, "json": {3}, "sales": {5}},
	}
})

// outside is the environment of tests: a registry with knownSchemas, and an empty one.
func outside() Environment {
	return Environment{
		Source: knownSchemas(),
		Target: &memorySchemas{refuses: map[string]error{"refused-value": errors.New("the registry refuses it: incompatible")}},
	}
}

func wire(id int, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(id))) + body
}

func TestSchemaUnavailable(t *testing.T) {
	for _, expr := range []string{"schema_decode", "schema_encode(subject: orders-value)", "schema_map_id", "identity | schema_decode | filter(true)", "on_key(schema_decode)"} {
		registry := &memorySchemas{byID: knownSchemas().byID, subjects: knownSchemas().subjects}
		registry.away.Store(true)
		spec, err := ParseWith(expr, Environment{Source: registry, Target: &memorySchemas{}})
		if err != nil {
			t.Fatal(err)
		}
		in := Record{Topic: "orders", Value: []byte(wire(6, "\x02x"))}
		if strings.Contains(expr, "encode") {
			in.Value = []byte(`{"id":1}`)
		}
		if strings.Contains(expr, "key") {
			in.Key, in.Value = in.Value, nil
		}
		chain := spec.New()
		_, err = chain.Apply(&in, nil)
		if _, away := errors.AsType[*UnavailableError](err); !away {
			t.Errorf("%s: got %v, want an UnavailableError", expr, err)
		}
		registry.away.Store(false)
		for range 2 { // the second time without a question
			if _, err := chain.Apply(&in, nil); err != nil {
				t.Errorf("%s: the registry is back: %v", expr, err)
			}
		}
		asked := registry.asked.Load()
		if _, err := spec.New().Apply(&in, nil); err != nil || registry.asked.Load() != asked {
			t.Errorf("%s: another instance got %v and asked %d times", expr, err, registry.asked.Load()-asked)
		}
	}
}

// TestSchemaWaits: whoever waits stops waiting when his context ends.
func TestSchemaWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := &memorySchemas{byID: knownSchemas().byID, stall: make(chan struct{})}
		spec, err := ParseWith("schema_decode", Environment{Source: registry})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		apply := func() chan error {
			ended := make(chan error, 1)
			chain := spec.New()
			chain.Until(ctx)
			go func() {
				_, err := chain.Apply(&Record{Value: []byte(wire(6, "\x02x"))}, nil)
				ended <- err
			}()
			return ended
		}
		first, second := apply(), apply()
		synctest.Wait()
		if n := registry.asked.Load(); n != 1 {
			t.Errorf("two instances asked %d times", n)
		}
		cause := errors.New("the session has ended")
		cancel(cause)
		for _, ended := range []chan error{first, second} {
			err := <-ended
			if _, away := errors.AsType[*UnavailableError](err); !away || !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
		}
		close(registry.stall)
		ctx = t.Context()
		if err := <-apply(); err != nil {
			t.Errorf("the failure was kept: %v", err)
		}
	})
}

func TestSchemaPinned(t *testing.T) {
	registry := &memorySchemas{}
	older := Schema{Type: SchemaAvro, Text: `"int"`}
	id, _, _ := registry.Register(t.Context(), "s", older)
	spec, err := ParseWith("schema_encode(subject: s)", Environment{Source: registry})
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := registry.Register(t.Context(), "s", Schema{Type: SchemaAvro, Text: `"long"`}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, err := spec.New().Apply(&Record{Value: []byte("1")}, nil)
		if err != nil || string(out[0].Value) != wire(id, "\x02") {
			t.Errorf("got %d results, %v", len(out), err)
		}
	}
	missing, err := ParseWith("identity | schema_encode(subject: none)", Environment{Source: registry})
	if err != nil {
		t.Fatal(err)
	}
	if err := missing.Resolve(t.Context()); !errors.Is(err, ErrNoSchema) || !strings.Contains(err.Error(), "(stage 2): subject none") {
		t.Errorf("a subject that is not there: %v", err)
	}
}

func TestSchemaRegistries(t *testing.T) {
	for expr, want := range map[string][2]bool{
		"":                             {},
		"identity | route(a)":          {},
		"schema_decode | filter(true)": {true, false},
		"schema_encode(subject: s)":    {true, false},
		"schema_map_id(key)":           {true, true},
		"on_key(schema_decode)":        {true, false},
	} {
		spec, err := Parse(expr)
		if err != nil {
			t.Fatal(err)
		}
		source, target := spec.Registries()
		if got := [2]bool{source, target}; got != want {
			t.Errorf("%q asks %v, want %v", expr, got, want)
		}
		if !source {
			continue
		}
		if _, err := spec.New().Apply(&Record{Key: []byte(wire(1, "")), Value: []byte(wire(1, ""))}, nil); err == nil || !strings.Contains(err.Error(), "set SCHEMA_REGISTRY_URL") {
			t.Errorf("%q without a registry: %v", expr, err)
		}
	}
}

// TestSchemaMapReferences: what a schema refers to comes first, and under the version that it has there.
func TestSchemaMapReferences(t *testing.T) {
	source, target := &memorySchemas{}, &memorySchemas{nextID: 5000}
	register := func(m *memorySchemas, subject, text string, refs ...SchemaReference) int {
		id, _, err := m.Register(t.Context(), subject, Schema{Type: SchemaAvro, Text: text, References: refs})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	register(target, "a", `"int"`) // so that versions differ
	register(source, "a", `{"type":"fixed","name":"A","size":1}`)
	register(source, "b", `{"type":"array","items":"A"}`, SchemaReference{"A", "a", 1})
	id := register(source, "c", `["A","null"]`, SchemaReference{"B", "b", 1}, SchemaReference{"A", "a", 1})
	spec, err := ParseWith("schema_map_id(subject: {topic}-x)", Environment{Source: source, Target: target})
	if err != nil {
		t.Fatal(err)
	}
	in := Record{Topic: "orders", Value: []byte(wire(id, "rest"))}
	out, err := spec.New().Apply(&in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := wire(target.subjects["orders-x"][0], "rest"); string(out[0].Value) != want {
		t.Errorf("got %q, want %q", out[0].Value, want)
	}
	mapped := target.byID[target.subjects["orders-x"][0]]
	if want := []SchemaReference{{"B", "b", 1}, {"A", "a", 2}}; fmt.Sprint(mapped.References) != fmt.Sprint(want) {
		t.Errorf("references %v, want %v", mapped.References, want)
	}
	if b := target.byID[target.subjects["b"][0]]; fmt.Sprint(b.References) != fmt.Sprint([]SchemaReference{{"A", "a", 2}}) {
		t.Errorf("references of b: %v", b.References)
	}
}

// TestKnownForgets: the number of schemas at hand is bounded.
func TestKnownForgets(t *testing.T) {
	var k known[int, int]
	found := 0
	for round := range 2 {
		for i := range maxKnown + 1 {
			if got, err := k.get(t.Context(), i, func() (int, error) { found++; return i, nil }); got != i || err != nil {
				t.Fatalf("round %d: %d, %v", round, got, err)
			}
		}
	}
	if len(k.entries) > maxKnown || found <= maxKnown+1 {
		t.Errorf("%d entries after %d look-ups", len(k.entries), found)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = k.get(t.Context(), -1, func() (int, error) { panic("x") })
	}()
	if got, err := k.get(t.Context(), -1, func() (int, error) { return 7, nil }); got != 7 || err != nil {
		t.Errorf("after a panic: %d, %v", got, err)
	}
}

func TestReferencesBounded(t *testing.T) {
	registry := &memorySchemas{}
	refs := []SchemaReference{{"r", "circle", 1}}
	for i := range maxReferences + 5 {
		id, version, _ := registry.Register(t.Context(), "many", Schema{Type: SchemaAvro, Text: fmt.Sprintf(`{"type":"fixed","name":"F%d","size":1}`, i)})
		refs = append(refs, SchemaReference{fmt.Sprint(id), "many", version})
	}
	_, _, _ = registry.Register(t.Context(), "circle", Schema{Type: SchemaAvro, Text: `"int"`, References: []SchemaReference{{"r", "circle", 1}}})
	if _, err := newCodec(t.Context(), registry, Schema{Type: SchemaAvro, Text: `"int"`, References: refs[:1]}); err != nil {
		t.Errorf("a circle: %v", err)
	}
	if _, err := newCodec(t.Context(), registry, Schema{Type: SchemaAvro, Text: `"int"`, References: refs}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too many: %v", err)
	}
}

func TestWireID(t *testing.T) {
	for data, want := range map[string]string{
		"":                     "0 bytes",
		"\x00\x00\x00\x01":     "4 bytes",
		"{\"a\":1}":            "begins with the byte 0x7b",
		"\x01\x00\x00\x00\x01": "begins with the byte 0x01",
		"\x00\xff\xff\xff\xff": "no registry gives",
	} {
		if _, _, err := wireID([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", data, err, want)
		}
	}
	id, body, err := wireID([]byte("\x00\x00\x01\x02\x03x"))
	if id != 0x010203 || string(body) != "x" || err != nil {
		t.Errorf("%d, %q, %v", id, body, err)
	}
}
