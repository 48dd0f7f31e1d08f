package transform

func init() {
	Register(Definition{
		Name:    "json_hoist",
		Usage:   "json_hoist(name)",
		Doc:     "Wraps the JSON value into an object with one field of this name. The value keeps its bytes.",
		Example: "json_hoist(payload)",
		New:     newJSONHoist,
	})
}

// jsonHoist puts an object around the value.
type jsonHoist struct{ before, after []byte }

func newJSONHoist(arg string) (Transform, error) {
	r := argReader{arg: arg}
	name, _, err := r.word("the name of the field", "=,")
	if err != nil {
		return nil, err
	}
	before := append(appendQuoted([]byte{'{'}, name), ':')
	return &editing{editor: &jsonHoist{before, []byte{'}'}}}, r.end()
}

func (t *jsonHoist) edit(in *Record, _ int, e *edits) error {
	end := len(in.Value)
	e.list = append(e.list, edit{0, 0, t.before}, edit{end, end, t.after})
	return nil
}
