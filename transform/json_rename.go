package transform

import "fmt"

func init() {
	Register(Definition{
		Name:  "json_rename",
		Usage: "json_rename(path=name, ...)",
		Doc: "Gives fields of the JSON value another name; they stay in their place and keep their bytes. What is not there is no error. " +
			"A record in which the object has a field of the new name already is refused, because two of one name would be left.",
		Example: "json_rename(customer.mail=email)",
		New:     newJSONRename,
	})
}

// jsonRename gives fields other names.
type jsonRename struct {
	fields *fields
	paths  []path
	names  []string // by the path's number
	tokens [][]byte // the same as they are written
}

func newJSONRename(arg string) (Transform, error) {
	r := argReader{arg: arg}
	t := &jsonRename{}
	for more := true; more; {
		r.space()
		start := r.at
		p, err := r.path()
		if err != nil {
			return nil, err
		}
		if len(p) == 0 || p[len(p)-1].array {
			return nil, errAt(start, fmt.Errorf("%s has no name: write the path of a field", p))
		}
		if err := r.equals(); err != nil {
			return nil, err
		}
		name, _, err := r.word("the new name", ",")
		if err != nil {
			return nil, err
		}
		for i, other := range t.paths {
			if t.names[i] == name && other[:len(other)-1].String() == p[:len(p)-1].String() {
				return nil, errAt(start, fmt.Errorf("%s and %s would both be called %q", other, p, name))
			}
		}
		t.paths, t.names = append(t.paths, p), append(t.names, name)
		t.tokens = append(t.tokens, appendQuoted(nil, name))
		if more, err = r.comma(); err != nil {
			return nil, err
		}
	}
	var err error
	t.fields, err = newFields(t.paths)
	return &editing{editor: t}, err
}

func (t *jsonRename) edit(in *Record, root int, e *edits) error {
	return t.rename(in.Value, root, t.fields, e)
}

func (t *jsonRename) rename(doc []byte, pos int, named *fields, e *edits) error {
	if !container(doc, pos) {
		return nil
	}
	walk := membersOf(doc, pos)
	renames := false
	for index := 0; ; index++ {
		m, more := walk.next()
		if !more {
			break
		}
		below := named.of(doc, m, walk.named, index)
		switch {
		case below == nil:
		case below.leaf >= 0:
			renames = true
			e.replace(doc, m.start, m.nameEnd, t.tokens[below.leaf])
		default:
			if err := t.rename(doc, m.value, below, e); err != nil {
				return err
			}
		}
	}
	if renames {
		return t.unique(doc, pos, named)
	}
	return nil
}

// unique refuses an object whose other members have one of the names that are given in it.
func (t *jsonRename) unique(doc []byte, pos int, named *fields) error {
	walk := membersOf(doc, pos)
	given := make([]bool, len(named.branches))
	for {
		m, more := walk.next()
		if !more {
			break
		}
		for i := range named.branches {
			if b := &named.branches[i]; b.leaf >= 0 && nameIs(doc[m.start:m.nameEnd], b.name) {
				given[i] = true
			}
		}
	}
	walk = membersOf(doc, pos)
	for {
		m, more := walk.next()
		if !more {
			return nil
		}
		if below := named.of(doc, m, true, 0); below != nil && below.leaf >= 0 {
			continue
		}
		for i, is := range given {
			if is && nameIs(doc[m.start:m.nameEnd], t.names[named.branches[i].leaf]) {
				return fmt.Errorf("%s cannot be renamed: there is already a field %q beside it", t.paths[named.branches[i].leaf], t.names[named.branches[i].leaf])
			}
		}
	}
}
