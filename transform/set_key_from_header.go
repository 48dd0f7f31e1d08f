package transform

func init() {
	Register(Definition{
		Name:  "set_key_from_header",
		Usage: "set_key_from_header(name)",
		Doc: "Makes the header's value the record's key. If the header repeats, the last one counts, as with lastHeader in Kafka's clients; " +
			"a null header makes the key null; a record without the header keeps its key. The header stays. " +
			"The new key decides the partition only if the pipeline partitions by key.",
		Example: "set_key_from_header(customer-id)",
		New:     newSetKeyFromHeader,
	})
}

// setKeyFromHeader copies a header's value to the key; the bytes are shared.
type setKeyFromHeader struct{ name string }

func newSetKeyFromHeader(arg string) (Transform, error) {
	name, err := headerName(arg)
	if err != nil {
		return nil, err
	}
	return &setKeyFromHeader{name: name}, nil
}

func (t *setKeyFromHeader) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	if _, last := countHeaders(in.Headers, t.name); last >= 0 {
		out[len(out)-1].Key = in.Headers[last].Value
	}
	return out, nil
}
