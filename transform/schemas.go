package transform

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// The types of schemas, in the words of Confluent's Schema Registry.
const (
	SchemaAvro     = "AVRO"
	SchemaProtobuf = "PROTOBUF"
	SchemaJSON     = "JSON"
)

// Schema is a schema as a registry knows it.
type Schema struct {
	ID         int
	Type       string // SchemaAvro, SchemaProtobuf or SchemaJSON
	Text       string
	References []SchemaReference
}

// SchemaReference is a schema that another one builds upon.
type SchemaReference struct {
	Name    string // how the text refers to it: a name in Avro, an imported file in Protobuf, a URL in JSON Schema
	Subject string
	Version int
}

// Schemas is a schema registry. Whoever implements it does the waiting and repeating: an
// answer is what the registry says, ErrNoSchema if it says that there is none, or
// *UnavailableError if it did not say anything.
//
// What an id stands for never changes, nor does a version of a subject: this is what makes a
// transform that asks for them deterministic. All methods may be called by several
// goroutines at once, and return soon after ctx has ended.
type Schemas interface {
	// ByID returns the schema that has an id.
	ByID(ctx context.Context, id int) (Schema, error)
	// ByVersion returns the schema that a subject has under a version, or its latest one
	// for version 0.
	ByVersion(ctx context.Context, subject string, version int) (Schema, error)
	// Register returns the id and the version that a schema has under a subject, and gives
	// it both if it has none. The registry may refuse it, as incompatible for instance.
	Register(ctx context.Context, subject string, s Schema) (id, version int, err error)
}

// ErrNoSchema says that a registry has no such schema.
var ErrNoSchema = errors.New("the schema registry has no such schema")

// UnavailableError says that something outside that a transform depends on gave no answer.
// It is not the record's fault, and no error policy applies: the epoch is to be aborted, and
// the record tried again.
type UnavailableError struct{ Err error }

// Error says what did not answer.
func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Environment is what transforms may ask of the world outside.
type Environment struct {
	Source Schemas // whose ids the records hold; nil: there is none
	Target Schemas // of whoever reads the output, where it has another one; nil: there is none

	codecs *codecs // of Source; what all instances of one Spec share
	ids    *targetIDs
}

// sharing gives the environment what the instances of one Spec share.
func (e Environment) sharing() *Environment {
	e.codecs = &codecs{source: e.Source}
	e.ids = &targetIDs{source: e.Source, target: e.Target}
	return &e
}

const (
	// maxKnown bounds how many schemas are kept at hand, of each kind of look-up.
	maxKnown = 4096
	// maxReferences bounds how many schemas one may build upon, directly or not.
	maxReferences = 200
)

var (
	errNoSource = errors.New("there is no schema registry: set SCHEMA_REGISTRY_URL")
	errNoTarget = errors.New("there is no second schema registry: set TARGET_SCHEMA_REGISTRY_URL")
)

// known keeps what was once found out for a key. Several goroutines that ask for the same
// wait for one answer. Failures are not kept.
type known[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]*answer[V]
}

type answer[V any] struct {
	done  chan struct{} // closed when the other two are there
	value V
	err   error
}

func (k *known[K, V]) get(ctx context.Context, key K, find func() (V, error)) (V, error) {
	k.mu.Lock()
	a, found := k.entries[key]
	if !found {
		if k.entries == nil || len(k.entries) >= maxKnown {
			k.entries = map[K]*answer[V]{}
		}
		a = &answer[V]{done: make(chan struct{})}
		k.entries[key] = a
	}
	k.mu.Unlock()
	if !found {
		a.err = errors.New("a panic came in between") // unless find returns
		defer func() {
			if a.err != nil {
				k.mu.Lock()
				if k.entries[key] == a {
					delete(k.entries, key)
				}
				k.mu.Unlock()
			}
			close(a.done)
		}()
		a.value, a.err = find()
		return a.value, a.err
	}
	select {
	case <-a.done:
		return a.value, a.err
	default:
	}
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		var none V
		return none, &UnavailableError{context.Cause(ctx)}
	}
}

// codecs has the codec of each schema that records were written with.
type codecs struct {
	source Schemas
	byID   known[int, *codec]
}

func (c *codecs) get(ctx context.Context, id int) (*codec, error) {
	if c.source == nil {
		return nil, errNoSource
	}
	return c.byID.get(ctx, id, func() (*codec, error) {
		schema, err := c.source.ByID(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("schema id %d: %w", id, err)
		}
		built, err := newCodec(ctx, c.source, schema)
		if err != nil {
			return nil, fmt.Errorf("schema id %d: %w", id, err)
		}
		return built, nil
	})
}

// recordField is the part of a record that a schema is about.
type recordField string

const (
	fieldValue recordField = "value"
	fieldKey   recordField = "key"
)

func (f recordField) of(r *Record) []byte {
	if f == fieldKey {
		return r.Key
	}
	return r.Value
}

func (f recordField) set(r *Record, data []byte) {
	if f == fieldKey {
		r.Key = data
	} else {
		r.Value = data
	}
}

// field steps over "key" or "value" if it stands first; value is meant where none does.
func (r *argReader) field() (recordField, error) {
	field := fieldValue
	switch {
	case r.done(), r.optionNext():
		return field, nil
	case r.take(string(fieldKey)):
		field = fieldKey
	case !r.take(string(fieldValue)):
		return field, r.unexpected("write key or value")
	}
	_, err := r.comma()
	return field, err
}

// optionNext tells whether a name and a colon stand next.
func (r *argReader) optionNext() bool {
	r.space()
	name := strings.TrimLeft(r.arg[r.at:], "abcdefghijklmnopqrstuvwxyz")
	return strings.HasPrefix(strings.TrimSpace(name), ":")
}

// form reads what stands behind form:.
func (r *argReader) form() (avroForm, error) {
	r.space()
	start := r.at
	name, _, err := r.word("the form", ",")
	if err != nil {
		return avroPlain, err
	}
	switch name {
	case "plain":
		return avroPlain, nil
	case "avro":
		return avroOwn, nil
	}
	return avroPlain, errAt(start, fmt.Errorf("unknown form %q: write plain or avro", name))
}

// patience is the context of whoever waits for a registry on behalf of a chain.
type patience struct{ ctx context.Context }

func (p *patience) until(ctx context.Context) { p.ctx = ctx }

func (p *patience) context() context.Context {
	if p.ctx == nil {
		return context.Background()
	}
	return p.ctx
}

// referenced returns what a schema builds upon, whatever comes first being needed by what
// comes after it.
func referenced(ctx context.Context, from Schemas, s Schema) ([]namedSchema, error) {
	f := follower{ctx: ctx, from: from, seen: map[SchemaReference]bool{}}
	err := f.follow(s.References)
	return f.found, err
}

// namedSchema is a schema that others refer to.
type namedSchema struct {
	from SchemaReference
	Schema
}

type follower struct {
	ctx   context.Context
	from  Schemas
	seen  map[SchemaReference]bool
	found []namedSchema
}

func (f *follower) follow(references []SchemaReference) error {
	for _, ref := range references {
		if f.seen[ref] {
			continue
		}
		if len(f.seen) == maxReferences {
			return fmt.Errorf("it builds upon more than %d schemas", maxReferences)
		}
		f.seen[ref] = true
		s, err := f.from.ByVersion(f.ctx, ref.Subject, ref.Version)
		if err != nil {
			return fmt.Errorf("reference %q (subject %s, version %d): %w", ref.Name, ref.Subject, ref.Version, err)
		}
		if err := f.follow(s.References); err != nil {
			return err
		}
		f.found = append(f.found, namedSchema{ref, s})
	}
	return nil
}

// The wire format of Confluent's serializers: a zero byte, the id of the schema in four
// bytes, big-endian, then the data; in Protobuf the data begins with the place of the message
// in its file.

const wireHeaderSize = 5

// wireID takes the header off. Its errors do not show the data.
func wireID(data []byte) (id int, body []byte, err error) {
	switch {
	case len(data) > 0 && data[0] != 0:
		return 0, nil, fmt.Errorf("the data begins with the byte 0x%02x and not with 0x00 and the id of a schema: it was not written with a schema registry", data[0])
	case len(data) < wireHeaderSize:
		return 0, nil, fmt.Errorf("the data has %d bytes: too few for the id of a schema", len(data))
	}
	wide := binary.BigEndian.Uint32(data[1:])
	if wide > 1<<31-1 {
		return 0, nil, fmt.Errorf("the data names the schema id %d, which no registry gives", wide)
	}
	return int(wide), data[wireHeaderSize:], nil
}

// schemaFault names the schema that data does not fit.
func schemaFault(id int, err error) error { return fmt.Errorf("schema id %d: %w", id, err) }

func appendWireID(dst []byte, id int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0), uint32(id)) //nolint:gosec // ids are int32 by the registry's contract
}
