package transform

import "fmt"

func init() {
	Register(Definition{
		Name:  "json_set",
		Usage: "json_set(path=value)",
		Doc: "Sets a field of the JSON value. The new value is JSON and is written as it stands here: 1.10, true, \"gold\", {\"a\":[1]}. " +
			"A field that is missing is added at the end of its object, with the objects on the way; all of them are set if the name repeats. " +
			"A record is refused if something on the way is no object, or an array element is missing.",
		Example: `json_set(customer.tier="gold")`,
		New:     newJSONSet,
	})
}

// jsonSet gives a field the same value in every record.
type jsonSet struct {
	place place
	value []byte
}

func newJSONSet(arg string) (Transform, error) {
	r := argReader{arg: arg}
	place, err := r.place()
	if err != nil {
		return nil, err
	}
	value, err := r.json()
	if err != nil {
		return nil, err
	}
	return &editing{editor: &jsonSet{place, value}}, nil
}

func (t *jsonSet) edit(in *Record, root int, e *edits) error {
	return t.place.set(in.Value, root, 0, t.value, e)
}

// place is where a value is set: a path, and what has to be written around the value if
// only the first i steps exist: before[i] and after[i]. Nothing can be written if an element
// is still to come: an array would have to be made up.
type place struct {
	path          path
	before, after [][]byte
}

// place reads "path=".
func (r *argReader) place() (place, error) {
	p, err := r.path()
	if err != nil {
		return place{}, err
	}
	if len(p) == 0 {
		return place{}, r.fail(`"." is the whole value: name a field`)
	}
	at := place{path: p, before: make([][]byte, len(p)), after: make([][]byte, len(p))}
	for i := len(p) - 1; i >= 0 && !p[i].array; i-- {
		at.before[i] = append(appendQuoted(nil, p[i].name), ':')
		if i+1 < len(p) {
			at.before[i] = append(append(at.before[i], '{'), at.before[i+1]...)
			at.after[i] = append([]byte{'}'}, at.after[i+1]...)
		}
	}
	return at, r.equals()
}

// set edits what is at pos, having taken the first depth steps.
func (at *place) set(doc []byte, pos, depth int, value []byte, e *edits) error {
	if depth == len(at.path) {
		e.replace(doc, pos, jsonEnd(doc, pos), value)
		return nil
	}
	s := &at.path[depth]
	switch {
	case s.array && doc[pos] != '[':
		return fmt.Errorf("%s is %s, not an array", at.name(depth), jsonKind(doc, pos))
	case !s.array && doc[pos] != '{':
		return fmt.Errorf("%s is %s, not an object", at.name(depth), jsonKind(doc, pos))
	}
	walk := membersOf(doc, pos)
	found, end := s.every, pos+1
	for index := 0; ; index++ {
		m, more := walk.next()
		if !more {
			break
		}
		end = m.end
		if s.every || s.array && s.index == index || !s.array && nameIs(doc[m.start:m.nameEnd], s.name) {
			found = true
			if err := at.set(doc, m.value, depth+1, value, e); err != nil {
				return err
			}
		}
	}
	switch {
	case found:
		return nil
	case at.before[depth] == nil:
		return fmt.Errorf("%s is missing and cannot be added: an array is on the way", at.path[:depth+1])
	}
	from := len(e.text)
	if end > pos+1 {
		e.text = append(e.text, ',')
	}
	e.text = append(append(append(e.text, at.before[depth]...), value...), at.after[depth]...)
	e.list = append(e.list, edit{end, end, e.made(from)})
	return nil
}

// name names what the first depth steps lead to.
func (at *place) name(depth int) string {
	if depth == 0 {
		return "the value"
	}
	return at.path[:depth].String()
}
