package transform

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
)

func init() {
	Register(Definition{
		Name:  "schema_encode",
		Usage: "schema_encode(subject: name) or schema_encode(key, subject: name, version: number) or schema_encode(value, subject: name, message: name, form: avro)",
		Doc: "Turns JSON into Avro, Protobuf or JSON Schema in Confluent's wire format, by the schema that the subject has in the schema registry: the given version, or the latest one. " +
			"The latest version is looked up once, when the bridge starts, and stays until it ends: a version registered later is used from the next start on, also for what is replayed then. " +
			"What is read is what schema_decode gives. In Avro, a field that is missing gets its default, and it is an error if there is none, or if there is a field that the schema does not have; a value that may be of several branches of a union is of the first one that it fits, and form: avro reads {\"type\": value} instead. " +
			"In Protobuf, the first message of the schema is meant unless message: names another. JSON Schema only gets the id in front and is not validated. Null stays null. " +
			"SCHEMA_REGISTRY_URL says where the registry is; the bridge registers nothing here.",
		Example: "schema_encode(subject: orders-value, version: 1)",
		NewWith: newSchemaEncode,
	})
}

var errNoSubject = errors.New("the subject is missing: write subject: and its name")

// schemaEncode turns the key or value from JSON into the format of a subject.
type schemaEncode struct {
	patience
	field  recordField
	form   avroForm
	chosen *chosenSchema
	buffer []byte
}

// chosenSchema is the schema of all instances, from the first time one of them needs it.
type chosenSchema struct {
	from    Schemas
	subject string
	version int // 0: the latest
	message string

	mu    sync.Mutex
	codec *codec // nil: not known yet
	id    int
}

func newSchemaEncode(arg string, e *Environment) (Transform, error) {
	r := argReader{arg: arg}
	t := &schemaEncode{chosen: &chosenSchema{from: e.Source}}
	var err error
	if t.field, err = r.field(); err != nil {
		return nil, err
	}
	for more := !r.done(); more; {
		switch {
		case r.option("subject"):
			t.chosen.subject, _, err = r.word("the subject", ",")
		case r.option("version"):
			t.chosen.version, err = r.version()
		case r.option("message"):
			t.chosen.message, _, err = r.word("the message", ",")
		case r.option("form"):
			t.form, err = r.form()
		default:
			err = r.unexpected("write subject:, version:, message: or form:")
		}
		if err != nil {
			return nil, err
		}
		if more, err = r.comma(); err != nil {
			return nil, err
		}
	}
	if t.chosen.subject == "" {
		return nil, errNoSubject
	}
	return t, nil
}

func (r *argReader) version() (int, error) {
	r.space()
	start := r.at
	text, _, err := r.word("the version", ",")
	if err != nil || text == "latest" {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, errAt(start, fmt.Errorf("%q is no version: write a number from 1 on, or latest", text))
	}
	return int(n), nil
}

// Fork makes another instance with the same schema.
func (t *schemaEncode) Fork() Transform {
	return &schemaEncode{field: t.field, form: t.form, chosen: t.chosen}
}

func (t *schemaEncode) registries() (source, target bool) { return true, false }

func (t *schemaEncode) resolve(ctx context.Context) error {
	_, _, err := t.chosen.get(ctx)
	return err
}

func (c *chosenSchema) get(ctx context.Context) (*codec, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.codec != nil {
		return c.codec, c.id, nil
	}
	if c.from == nil {
		return nil, 0, errNoSource
	}
	schema, err := c.from.ByVersion(ctx, c.subject, c.version)
	if err != nil {
		return nil, 0, fmt.Errorf("subject %s: %w", c.subject, err)
	}
	built, err := newCodec(ctx, c.from, schema)
	if err == nil {
		err = built.checkMessage(c.message)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("subject %s, schema id %d: %w", c.subject, schema.ID, err)
	}
	c.codec, c.id = built, schema.ID
	return built, schema.ID, nil
}

func (t *schemaEncode) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	doc := t.field.of(in)
	if doc == nil {
		return out, nil
	}
	c, id, err := t.chosen.get(t.context())
	if err != nil {
		return nil, err
	}
	data, err := c.encode(appendWireID(t.buffer[:0], id), doc, t.form, t.chosen.message)
	if err != nil {
		return nil, fmt.Errorf("subject %s: %w", t.chosen.subject, schemaFault(id, err))
	}
	t.field.set(&out[len(out)-1], append(make([]byte, 0, len(data)), data...))
	if t.buffer = data; cap(data) > 64*keepCapacity {
		t.buffer = nil
	}
	return out, nil
}
