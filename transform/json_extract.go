package transform

import (
	"errors"
	"fmt"
)

func init() {
	Register(Definition{
		Name:  "json_extract",
		Usage: "json_extract(path) or json_extract(path, bare)",
		Doc: "Makes one field of the JSON value the whole value, byte for byte, so that a string keeps its quotes, and null is the text null. " +
			"With bare a string gives its characters without quotes and escapes, and null a tombstone. A record without the field is refused.",
		Example: "json_extract(after)",
		New:     newJSONExtract,
	})
}

// jsonExtract takes a field out of its object.
type jsonExtract struct {
	path path
	bare bool
}

func newJSONExtract(arg string) (Transform, error) {
	r := argReader{arg: arg}
	p, err := r.onePath()
	if err != nil {
		return nil, err
	}
	if len(p) == 0 {
		return nil, errors.New(`"." is the whole value already: name a field`)
	}
	t := &jsonExtract{path: p}
	if t.bare, err = r.comma(); err == nil && t.bare && !r.take("bare") {
		err = r.unexpected("write bare, or nothing")
	}
	if err != nil {
		return nil, err
	}
	return taking{t}, r.end()
}

func (t *jsonExtract) take(result *Record, doc []byte, root int) error {
	start, end, found := t.path.find(doc, root)
	if !found {
		return missing(t.path)
	}
	result.Value = doc[start:end:end]
	if t.bare {
		result.Value = bareBytes(result.Value)
	}
	return nil
}

func missing(p path) error { return fmt.Errorf("the value has no field %s", p) }
