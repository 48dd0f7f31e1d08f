package transform

import "fmt"

func init() {
	Register(Definition{
		Name:  "json_keep",
		Usage: "json_keep(path, ...)",
		Doc: "Removes everything from the JSON value but these fields and array elements, which keep their order and bytes. " +
			"With a longer path the objects on the way stay, with nothing else in them. A value that is neither object nor array is refused.",
		Example: "json_keep(id, customer.country, items[*].sku)",
		New:     newJSONKeep,
	})
}

func newJSONKeep(arg string) (Transform, error) {
	_, tree, err := argumentPaths(arg)
	if err != nil {
		return nil, err
	}
	return &editing{editor: &jsonPrune{fields: tree, keep: true}}, nil
}

func notContainer(doc []byte, pos int) error {
	return fmt.Errorf("the value is %s, which has no fields", jsonKind(doc, pos))
}
