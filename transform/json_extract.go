package transform

import (
	"errors"
	"fmt"
)

func init() {
	Register(Definition{
		Name:  "json_extract",
		Usage: "json_extract(path)",
		Doc: "Makes one field of the JSON value the whole value, byte for byte, so that a string keeps its quotes. " +
			"A field that is null makes the text null, not a tombstone; a record without the field is refused.",
		Example: "json_extract(after)",
		New:     newJSONExtract,
	})
}

// jsonExtract takes a field out of its object.
type jsonExtract struct{ path path }

func newJSONExtract(arg string) (Transform, error) {
	r := argReader{arg: arg}
	p, err := r.onePath()
	if err != nil {
		return nil, err
	}
	if len(p) == 0 {
		return nil, errors.New(`"." is the whole value already: name a field`)
	}
	return &jsonExtract{p}, r.end()
}

func (t *jsonExtract) Apply(in *Record, out []Record) ([]Record, error) {
	if in.Value == nil {
		return append(out, *in), nil
	}
	root, err := jsonRoot(in.Value)
	if err != nil {
		return nil, err
	}
	start, end, found := t.path.find(in.Value, root)
	if !found {
		return nil, missing(t.path)
	}
	out = append(out, *in)
	out[len(out)-1].Value = in.Value[start:end:end]
	return out, nil
}

func missing(p path) error { return fmt.Errorf("the value has no field %s", p) }
