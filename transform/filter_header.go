package transform

import "bytes"

func init() {
	Register(Definition{
		Name:  "filter_header",
		Usage: "filter_header(name) or filter_header(name=value)",
		Doc: "Keeps the records that have the header, and with a value those in which it has exactly these bytes. " +
			"If the header repeats, one match is enough. An empty value (name=) matches an empty and a null header.",
		Example: "filter_header(region=eu)",
		New:     newFilterHeader,
	})
}

// filterHeader keeps records that have a header, whatever its value or with a given one.
type filterHeader struct {
	name     string
	value    []byte
	anyValue bool
}

func newFilterHeader(arg string) (Transform, error) {
	name, value, hasValue, err := headerPair(arg)
	if err != nil {
		return nil, err
	}
	return &filterHeader{name: name, value: value, anyValue: !hasValue}, nil
}

func (t *filterHeader) Apply(in *Record, out []Record) ([]Record, error) {
	for i := range in.Headers {
		header := &in.Headers[i]
		if header.Key == t.name && (t.anyValue || bytes.Equal(header.Value, t.value)) {
			return append(out, *in), nil
		}
	}
	return out, nil
}
