package transform

import "errors"

func init() {
	Register(Definition{
		Name:  "key_from_json",
		Usage: "key_from_json(path) or key_from_json(path, path, ...)",
		Doc: "Makes a field of the JSON value the record's key: the characters of a string without quotes and escapes, anything else as it is written. " +
			"Null makes the key null; a record without the field, or with a null value, keeps its key. " +
			"Of several fields the key is a JSON object that has them by the last names of their paths, null for those that are not there. " +
			"The new key decides the partition only if the pipeline partitions by key.",
		Example: "key_from_json(customer.id)",
		New:     newKeyFromJSON,
	})
}

// keyFromJSON copies one field, or several as an object, to the key.
type keyFromJSON struct {
	paths []path
	names [][]byte // of several: how each begins in the object
}

func newKeyFromJSON(arg string) (Transform, error) {
	r := argReader{arg: arg}
	t := &keyFromJSON{}
	for more := true; more; {
		p, err := r.onePath()
		if err != nil {
			return nil, err
		}
		t.paths = append(t.paths, p)
		if more, err = r.comma(); err != nil {
			return nil, err
		}
	}
	if len(t.paths) == 1 {
		return taking{t}, nil
	}
	open := byte('{')
	seen := map[string]bool{}
	for _, p := range t.paths {
		if len(p) == 0 || p[len(p)-1].array {
			return nil, errors.New("one of several fields has no name: write the path of a field")
		}
		name := p[len(p)-1].name
		if seen[name] {
			return nil, errors.New("two of the fields have the same last name " + name)
		}
		seen[name] = true
		t.names = append(t.names, append(appendQuoted([]byte{open}, name), ':'))
		open = ','
	}
	return taking{t}, nil
}

func (t *keyFromJSON) take(result *Record, doc []byte, root int) error {
	if len(t.paths) > 1 {
		result.Key = t.object(doc, root)
	} else if start, end, found := t.paths[0].find(doc, root); found {
		result.Key = bareBytes(doc[start:end:end])
	}
	return nil
}

func (t *keyFromJSON) object(doc []byte, root int) []byte {
	var key []byte
	for i, p := range t.paths {
		key = append(key, t.names[i]...)
		if start, end, found := p.find(doc, root); found {
			key = append(key, doc[start:end]...)
		} else {
			key = append(key, "null"...)
		}
	}
	return append(key, '}')
}

// bareBytes gives a value as the bytes of a key or header: nil for null.
func bareBytes(raw []byte) []byte {
	switch raw[0] {
	case 'n':
		return nil
	case '"':
		return jsonText(raw)
	}
	return raw
}
