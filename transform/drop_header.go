package transform

func init() {
	Register(Definition{
		Name:    "drop_header",
		Usage:   "drop_header(name)",
		Doc:     "Removes every header of this name. The other headers keep their order; a record without the header passes as it is.",
		Example: "drop_header(trace-id)",
		New:     newDropHeader,
	})
}

// dropHeader removes all headers of a name.
type dropHeader struct {
	name    string
	headers arena
}

func newDropHeader(arg string) (Transform, error) {
	name, err := headerName(arg)
	if err != nil {
		return nil, err
	}
	return &dropHeader{name: name}, nil
}

func (t *dropHeader) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	repeats, _ := countHeaders(in.Headers, t.name)
	if repeats == 0 {
		return out, nil
	}
	var headers []Header
	if left := len(in.Headers) - repeats; left > 0 {
		headers = t.headers.take(left)
	}
	for i := range in.Headers {
		if in.Headers[i].Key != t.name {
			headers = append(headers, in.Headers[i])
		}
	}
	out[len(out)-1].Headers = headers
	return out, nil
}
