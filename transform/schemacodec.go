package transform

import (
	"context"
	"fmt"
)

// codec turns the data of one schema into JSON and back. It does not change and is shared.
type codec struct {
	avro  *avroType  // or nil
	proto *protoFile // or nil; if both are, it is JSON Schema
}

// newCodec reads a schema, and what it builds upon.
func newCodec(ctx context.Context, from Schemas, s Schema) (*codec, error) {
	if s.Type == SchemaJSON {
		return &codec{}, nil // the data is JSON already, and nothing of the schema is needed
	}
	if s.Type != SchemaAvro && s.Type != SchemaProtobuf {
		return nil, fmt.Errorf("it is of the type %q: only %s, %s and %s can be read", s.Type, SchemaAvro, SchemaProtobuf, SchemaJSON)
	}
	others, err := referenced(ctx, from, s)
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		if other.Type != s.Type {
			return nil, fmt.Errorf("it is of the type %s and refers to %q, which is of the type %s", s.Type, other.from.Name, other.Type)
		}
	}
	c := &codec{}
	if s.Type == SchemaAvro {
		c.avro, err = parseAvro(s.Text, others)
	} else {
		c.proto, err = parseProto(s.Text, others)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// decode appends the JSON of what follows the schema's id in the wire format.
func (c *codec) decode(dst, body []byte, f avroForm) ([]byte, error) {
	switch {
	case c.avro != nil:
		return c.avro.decode(dst, body, f)
	case c.proto != nil:
		return c.proto.decode(dst, body)
	}
	if _, err := jsonRoot(body); err != nil {
		return nil, err
	}
	return append(dst, body...), nil
}

// encode appends what follows the schema's id in the wire format; message is the one of a
// Protobuf file, or empty for the first.
func (c *codec) encode(dst, doc []byte, f avroForm, message string) ([]byte, error) {
	switch {
	case c.avro != nil:
		return c.avro.encode(dst, doc, f)
	case c.proto != nil:
		return c.proto.encode(dst, doc, message)
	}
	if _, err := jsonRoot(doc); err != nil {
		return nil, err
	}
	return append(dst, doc...), nil
}

// checkMessage tells when a schema is taken up whether the message that it shall be used
// with is in it.
func (c *codec) checkMessage(name string) error {
	switch {
	case c.proto != nil:
		_, err := c.proto.message(name)
		return err
	case name != "":
		return fmt.Errorf("message: is for schemas of the type %s, and this one is of another: leave it out", SchemaProtobuf)
	}
	return nil
}
