package transform

import (
	"bytes"
	"fmt"
)

func init() {
	Register(Definition{
		Name:  "set_header",
		Usage: "set_header(name=value)",
		Doc: "Sets a header, so that the record has exactly one of this name. It takes the place of the first one of this name, " +
			"the other ones are removed; without one it is added at the end. " +
			`The value is text; quoted, it may hold any byte: set_header(flag="\x01").`,
		Example: "set_header(origin=eosbridge)",
		New:     newSetHeader,
	})
}

// setHeader gives every record exactly one header of a name. All records share the value.
type setHeader struct {
	name    string
	value   []byte
	headers arena
}

func newSetHeader(arg string) (Transform, error) {
	name, value, hasValue, err := headerPair(arg)
	if err != nil {
		return nil, err
	}
	if !hasValue {
		return nil, fmt.Errorf("%q has no value: write name=value, or name= for an empty one", name)
	}
	return &setHeader{name: name, value: value}, nil
}

func (t *setHeader) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	repeats, last := countHeaders(in.Headers, t.name)
	if repeats == 1 && t.isSet(&in.Headers[last]) {
		return out, nil
	}
	out[len(out)-1].Headers = withHeader(in.Headers, Header{Key: t.name, Value: t.value}, &t.headers)
	return out, nil
}

// isSet tells a null header from an empty one, as bytes.Equal does not.
func (t *setHeader) isSet(header *Header) bool {
	return header.Value != nil && bytes.Equal(header.Value, t.value)
}
