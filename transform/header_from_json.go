package transform

func init() {
	Register(Definition{
		Name:  "header_from_json",
		Usage: "header_from_json(name=path, ...)",
		Doc: "Sets headers to fields of the JSON value: the characters of a string without quotes and escapes, anything else as it is written; null makes a null header. " +
			"As with set_header there is exactly one header of the name afterwards. " +
			"A field that is not there, or a null value, leaves the headers as they are. The field stays; json_delete removes it.",
		Example: "header_from_json(region=customer.region)",
		New:     newHeaderFromJSON,
	})
}

// headerFromJSON copies fields to headers.
type headerFromJSON struct {
	names   []string
	paths   []path
	headers arena
}

func newHeaderFromJSON(arg string) (Transform, error) {
	r := argReader{arg: arg}
	t := &headerFromJSON{}
	for more := true; more; {
		name, _, err := r.word("the name of a header", "=,")
		if err != nil {
			return nil, err
		}
		if name == "" {
			return nil, r.fail("%w", errNoHeaderName)
		}
		if err := r.equals(); err != nil {
			return nil, err
		}
		p, err := r.onePath()
		if err != nil {
			return nil, err
		}
		t.names, t.paths = append(t.names, name), append(t.paths, p)
		if more, err = r.comma(); err != nil {
			return nil, err
		}
	}
	return taking{t}, nil
}

func (t *headerFromJSON) take(result *Record, doc []byte, root int) error {
	for i, p := range t.paths {
		if start, end, found := p.find(doc, root); found {
			header := Header{Key: t.names[i], Value: bareBytes(doc[start:end:end])}
			result.Headers = withHeader(result.Headers, header, &t.headers)
		}
	}
	return nil
}
