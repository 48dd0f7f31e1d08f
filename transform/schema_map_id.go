package transform

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
)

func init() {
	Register(Definition{
		Name:  "schema_map_id",
		Usage: "schema_map_id or schema_map_id(key) or schema_map_id(value, subject: name)",
		Doc: "Replaces the id of the schema that the data begins with (Confluent's wire format) by the id that the same schema has in a second registry; everything else stays byte for byte. " +
			"The schema is looked up in the second registry under the subject, in which {topic} stands for the input topic, and registered there if it is new, after the schemas that it refers to; without a subject, it is {topic}-value or {topic}-key. " +
			"Metadata and rules of a schema are not taken along. Null stays null. SCHEMA_REGISTRY_URL and TARGET_SCHEMA_REGISTRY_URL say where the two registries are. " +
			"A schema that the second one refuses, as incompatible for instance, is the record's fault.",
		Example: "schema_map_id",
		NewWith: newSchemaMapID,
	})
}

// schemaMapID exchanges the id of a schema.
type schemaMapID struct {
	patience
	field   recordField
	subject string // with {topic}
	topic   string // that name was made for
	name    string
	ids     *targetIDs
}

func newSchemaMapID(arg string, e *Environment) (Transform, error) {
	r := argReader{arg: arg}
	t := &schemaMapID{ids: e.ids}
	var err error
	if t.field, err = r.field(); err != nil {
		return nil, err
	}
	t.subject = topicPlaceholder + "-" + string(t.field)
	if r.option("subject") {
		if t.subject, _, err = r.word("the subject", ","); err != nil {
			return nil, err
		}
		if strings.ContainsAny(strings.ReplaceAll(t.subject, topicPlaceholder, ""), "{}") {
			return nil, fmt.Errorf("%q has an unknown placeholder: the only one is {topic}", t.subject)
		}
	}
	return t, r.end()
}

// topicPlaceholder stands for the input topic's name in a subject.
const topicPlaceholder = "{topic}"

// Fork makes another instance that knows the same ids.
func (t *schemaMapID) Fork() Transform {
	return &schemaMapID{field: t.field, subject: t.subject, ids: t.ids}
}

func (t *schemaMapID) registries() (source, target bool) { return true, true }

func (t *schemaMapID) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	data := t.field.of(in)
	if data == nil {
		return out, nil
	}
	id, _, err := wireID(data)
	if err != nil {
		return nil, err
	}
	if t.name == "" || t.topic != in.Topic {
		t.topic, t.name = in.Topic, strings.ReplaceAll(t.subject, topicPlaceholder, in.Topic)
	}
	mapped, err := t.ids.get(t.context(), sourceID{id, t.name})
	if err != nil {
		return nil, err
	}
	changed := bytes.Clone(data)
	binary.BigEndian.PutUint32(changed[1:], uint32(mapped)) //nolint:gosec // ids are int32 by the registry's contract
	t.field.set(&out[len(out)-1], changed)
	return out, nil
}

// sourceID is an id of the source registry, and the subject for its schema in the target's.
type sourceID struct {
	id      int
	subject string
}

// targetIDs has the ids that schemas of the source registry have in the target's.
type targetIDs struct {
	source, target Schemas
	byID           known[sourceID, int]
}

func (t *targetIDs) get(ctx context.Context, key sourceID) (int, error) {
	switch {
	case t.source == nil:
		return 0, errNoSource
	case t.target == nil:
		return 0, errNoTarget
	}
	return t.byID.get(ctx, key, func() (int, error) {
		schema, err := t.source.ByID(ctx, key.id)
		if err != nil {
			return 0, fmt.Errorf("schema id %d: %w", key.id, err)
		}
		others, err := referenced(ctx, t.source, schema)
		if err != nil {
			return 0, fmt.Errorf("schema id %d: %w", key.id, err)
		}
		id, err := t.register(ctx, key.subject, schema, others)
		if err != nil {
			return 0, fmt.Errorf("schema id %d, subject %s of the target registry: %w", key.id, key.subject, err)
		}
		return id, nil
	})
}

// register makes a schema known to the target registry, after all that it refers to. A
// referenced schema keeps its subject; its version there may be another.
func (t *targetIDs) register(ctx context.Context, subject string, s Schema, others []namedSchema) (int, error) {
	versions := map[SchemaReference]int{}
	moved := func(references []SchemaReference) []SchemaReference {
		var all []SchemaReference
		for _, ref := range references {
			ref.Version = versions[ref]
			all = append(all, ref)
		}
		return all
	}
	for _, other := range others {
		from := other.from
		other.References = moved(other.References)
		_, version, err := t.target.Register(ctx, from.Subject, other.Schema)
		if err != nil {
			return 0, fmt.Errorf("reference %q (subject %s): %w", from.Name, from.Subject, err)
		}
		versions[from] = version
	}
	s.References = moved(s.References)
	id, _, err := t.target.Register(ctx, subject, s)
	return id, err
}
