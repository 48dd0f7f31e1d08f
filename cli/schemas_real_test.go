package cli

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/transform"
)

var registryURL = flag.String("registry", "", "URL of a real schema registry for TestSchemaConversation; empty = srfake")

// TestSchemaConversation has a whole conversation with a registry: with srfake, or with a real one by `make registry`.
func TestSchemaConversation(t *testing.T) {
	where := *registryURL
	if where == "" {
		where = fakeRegistry(t).URL()
	}
	s, log := registryOf(t, where, time.Minute)
	run := fmt.Sprintf("run-%d/", time.Now().UnixNano()) // a registry may have seen this test before
	schemas := []struct {
		name string
		transform.Schema
		doc string
	}{
		{"customer", transform.Schema{Type: transform.SchemaAvro, Text: `{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"name","type":"string"}]}`}, `{"name":"x"}`},
		{"order", transform.Schema{
			Type: transform.SchemaAvro, References: []transform.SchemaReference{{Name: "shop.Customer", Subject: run + "customer", Version: 1}},
			Text: `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"by","type":"shop.Customer"},{"name":"n","type":"long"}]}`,
		}, `{"by":{"name":"x"},"n":9007199254740993}`},
		{"line", transform.Schema{Type: transform.SchemaProtobuf, Text: "syntax = \"proto3\";\npackage shop;\nmessage Line {\n  int64 n = 1;\n}\n"}, `{"n":"9007199254740993"}`},
		{"parcel", transform.Schema{
			Type: transform.SchemaProtobuf, References: []transform.SchemaReference{{Name: "line.proto", Subject: run + "line", Version: 1}},
			Text: "syntax = \"proto3\";\npackage shop;\nimport \"line.proto\";\nmessage Parcel {\n  repeated Line lines = 1;\n}\n",
		}, `{"lines":[{"n":"1"}]}`},
		{"json", transform.Schema{Type: transform.SchemaJSON, Text: `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`}, `{"n":1.10}`},
	}
	for _, schema := range schemas {
		id, version, err := s.Register(t.Context(), run+schema.name, schema.Schema)
		if err != nil || id == 0 || version != 1 {
			t.Fatalf("register %s: %d, %d, %v", schema.name, id, version, err)
		}
		if again, version, err := s.Register(t.Context(), run+schema.name, schema.Schema); again != id || version != 1 || err != nil {
			t.Errorf("register %s again: %d, %d, %v, want %d", schema.name, again, version, err, id)
		}
		got, err := s.ByID(t.Context(), id)
		if err != nil || got.Type != schema.Type || fmt.Sprint(got.References) != fmt.Sprint(schema.References) {
			t.Errorf("%s by id: %+v, %v", schema.name, got, err)
		}
		for _, version := range []int{0, 1} {
			if got, err := s.ByVersion(t.Context(), run+schema.name, version); err != nil || got.ID != id || got.Type != schema.Type {
				t.Errorf("%s by version %d: %+v, %v, want id %d", schema.name, version, got, err, id)
			}
		}
		there := conversion(t, s, fmt.Sprintf("schema_encode(subject: %q)", run+schema.name), schema.doc)
		mapped := conversion(t, s, fmt.Sprintf("schema_map_id(subject: %q)", run+"copy-of-"+schema.name), there)
		if back := conversion(t, s, "schema_decode", mapped); back != schema.doc || mapped[5:] != there[5:] {
			t.Errorf("%s: %s became %q, then %q, then %s", schema.name, schema.doc, there, mapped, back)
		}
	}
	for what, ask := range map[string]func() error{
		"id":      func() error { _, err := s.ByID(t.Context(), 1<<30); return err },
		"subject": func() error { _, err := s.ByVersion(t.Context(), run+"none", 0); return err },
		"version": func() error { _, err := s.ByVersion(t.Context(), run+"line", 7); return err },
	} {
		if err := ask(); !errors.Is(err, transform.ErrNoSchema) {
			t.Errorf("an unknown %s: %v", what, err)
		}
	}
	_, _, err := s.Register(t.Context(), run+"broken", transform.Schema{Type: transform.SchemaAvro, Text: `{"type":"record"}`})
	var away *transform.UnavailableError
	if *registryURL != "" && (err == nil || errors.As(err, &away) || !strings.Contains(err.Error(), "refuses it")) { // srfake takes it
		t.Errorf("a broken schema: %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", log)
	}
}

// conversion gives what a chain makes of a value.
func conversion(t *testing.T, registry transform.Schemas, expression, value string) string {
	t.Helper()
	spec, err := transform.ParseWith(expression, transform.Environment{Source: registry, Target: registry})
	if err != nil {
		t.Fatal(err)
	}
	out, err := spec.New().Apply(&transform.Record{Topic: "orders", Value: []byte(value)}, nil)
	if err != nil {
		t.Fatalf("%s of %q: %v", expression, value, err)
	}
	return string(out[0].Value)
}
