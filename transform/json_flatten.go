package transform

import (
	"bytes"
	"errors"
	"fmt"
)

func init() {
	Register(Definition{
		Name:  "json_flatten",
		Usage: "json_flatten or json_flatten(separator)",
		Doc: "Makes an object of one level: a field of an object within is named by the names on the way, joined by the separator, which is a dot if none is given. " +
			"Arrays and empty objects stay as they are, and so do the bytes of every value. " +
			"A record is refused if it is no object, if a joined name occurs twice, or if the result exceeds 64 MiB.",
		Example: "json_flatten(_)",
		New:     newJSONFlatten,
	})
}

// jsonFlatten brings nested fields up to the first level.
type jsonFlatten struct {
	separator []byte // as it stands between quotes

	// For one record: the name that has grown so far, and the names of the result as
	// positions in written.
	prefix  []byte
	written []byte
	names   []flatName
}

type flatName struct {
	from, to int
	joined   bool
}

func newJSONFlatten(arg string) (Transform, error) {
	r := argReader{arg: arg}
	separator := "."
	if !r.done() {
		var err error
		if separator, _, err = r.word("the separator", ""); err != nil {
			return nil, err
		}
		if err := r.end(); err != nil {
			return nil, err
		}
	}
	quoted := appendQuoted(nil, separator)
	return &jsonFlatten{separator: quoted[1 : len(quoted)-1]}, nil
}

func (t *jsonFlatten) Apply(in *Record, out []Record) ([]Record, error) {
	if in.Value == nil {
		return append(out, *in), nil
	}
	root, err := jsonRoot(in.Value)
	if err != nil {
		return nil, err
	}
	if in.Value[root] != '{' {
		return nil, fmt.Errorf("the value is %s, not an object", jsonKind(in.Value, root))
	}
	value := in.Value
	if hasObject(value, root) {
		t.prefix, t.names = t.prefix[:0], t.names[:0]
		t.written = append(t.written[:0], '{')
		defer t.reset()
		if _, err := t.flatten(value, root); err != nil {
			return nil, err
		}
		t.written = append(t.written, '}')
		if err := t.unique(); err != nil {
			return nil, err
		}
		value = bytes.Clone(t.written)
	}
	out = append(out, *in)
	out[len(out)-1].Value = value
	return out, nil
}

// hasObject tells whether the object at pos holds an object that can be flattened.
func hasObject(doc []byte, pos int) bool {
	walk := membersOf(doc, pos)
	for {
		m, more := walk.next()
		if !more {
			return false
		}
		if !flat(doc, m.value) {
			return true
		}
	}
}

// flat tells whether the value at pos stays as it is: all do but objects with fields.
func flat(doc []byte, pos int) bool {
	return doc[pos] != '{' || doc[jsonSpace(doc, pos+1)] == '}'
}

// flatten writes the fields of the object at pos and returns its end. It comes by every byte
// once, however deep the object is nested.
func (t *jsonFlatten) flatten(doc []byte, pos int) (end int, err error) {
	walk := membersOf(doc, pos)
	above := len(t.prefix)
	for {
		m, more := walk.begin()
		if !more {
			return walk.pos + 1, nil
		}
		name := doc[m.start+1 : m.nameEnd-1]
		if flat(doc, m.value) {
			walk.pos = jsonEnd(doc, m.value)
			value := doc[m.value:walk.pos]
			if len(t.written)+len(t.prefix)+len(name)+len(value) > maxResult {
				return 0, errResultTooLarge
			}
			t.write(name, value)
			continue
		}
		t.prefix = append(append(t.prefix, name...), t.separator...)
		if walk.pos, err = t.flatten(doc, m.value); err != nil {
			return 0, err
		}
		t.prefix = t.prefix[:above]
	}
}

func (t *jsonFlatten) write(name, value []byte) {
	if len(t.names) > 0 {
		t.written = append(t.written, ',')
	}
	from := len(t.written)
	t.written = append(append(append(append(t.written, '"'), t.prefix...), name...), '"')
	t.names = append(t.names, flatName{from, len(t.written), len(t.prefix) > 0})
	t.written = append(append(t.written, ':'), value...)
}

var errFlatTwice = errors.New("flattened, two fields have the same name: use another separator, or rename or delete one first")

// fewNames is up to how many names are compared each with each, which allocates nothing.
const fewNames = 24

// unique refuses a joined name that occurs twice, whether the other one is joined or not.
// A name that repeats at the first level was there before.
func (t *jsonFlatten) unique() error {
	if len(t.names) > fewNames {
		return t.uniqueOfMany()
	}
	for i, a := range t.names {
		for _, b := range t.names[:i] {
			if (a.joined || b.joined) && bytes.Equal(t.name(a), t.name(b)) {
				return errFlatTwice
			}
		}
	}
	return nil
}

func (t *jsonFlatten) uniqueOfMany() error {
	seen := make(map[string]bool, len(t.names)) // whether it is joined
	for _, a := range t.names {
		joined, twice := seen[string(t.name(a))]
		if twice && (joined || a.joined) {
			return errFlatTwice
		}
		seen[string(t.name(a))] = joined || a.joined
	}
	return nil
}

func (t *jsonFlatten) name(n flatName) []byte { return jsonText(t.written[n.from:n.to]) }

// reset drops what a giant record needed.
func (t *jsonFlatten) reset() {
	if cap(t.written) > 64*keepCapacity || cap(t.names) > keepCapacity || cap(t.prefix) > 64*keepCapacity {
		*t = jsonFlatten{separator: t.separator}
	}
}
