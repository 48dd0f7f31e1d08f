package transform

import "fmt"

func init() {
	Register(Definition{
		Name:  "json_explode",
		Usage: "json_explode(path) or json_explode(path, whole)",
		Doc: "Makes one record of each element of an array, in their order and with the same key, headers and timestamp; the path . is the whole value. " +
			"The element becomes the value, or, with whole, the value stays and has the element in the array's place. Elements keep their bytes. " +
			"An empty array makes nothing; a record is refused if there is no array, or if it has more than 100,000 elements, or if all results together exceed 64 MiB.",
		Example: "json_explode(items)",
		New:     newJSONExplode,
	})
}

// jsonExplode makes a record of every element of an array.
type jsonExplode struct {
	path  path
	whole bool
}

func newJSONExplode(arg string) (Transform, error) {
	r := argReader{arg: arg}
	p, err := r.onePath()
	if err != nil {
		return nil, err
	}
	t := &jsonExplode{path: p}
	if t.whole, err = r.comma(); err == nil && t.whole && !r.take("whole") {
		err = r.unexpected("write whole, or nothing")
	}
	if err != nil {
		return nil, err
	}
	return t, r.end()
}

func (t *jsonExplode) Apply(in *Record, out []Record) ([]Record, error) {
	if in.Value == nil {
		return append(out, *in), nil
	}
	doc := in.Value
	root, err := jsonRoot(doc)
	if err != nil {
		return nil, err
	}
	start, end, found := t.path.find(doc, root)
	if !found {
		return nil, missing(t.path)
	}
	if doc[start] != '[' {
		return nil, fmt.Errorf("%s is %s, not an array", t.path, jsonKind(doc, start))
	}
	given, total := len(out), 0
	walk := membersOf(doc, start)
	for {
		m, more := walk.next()
		if !more {
			return out, nil
		}
		if len(out)-given == maxOutputs {
			return nil, errTooMany
		}
		value := doc[m.value:m.end:m.end]
		if t.whole {
			size := len(doc) - (end - start) + len(value)
			if total += size; total > maxResult {
				return nil, errResultTooLarge
			}
			value = append(append(append(make([]byte, 0, size), doc[:start]...), value...), doc[end:]...)
		}
		out = append(out, *in)
		out[len(out)-1].Value = value
	}
}
