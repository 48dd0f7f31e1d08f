package transform

func init() {
	Register(Definition{
		Name:  "json_delete",
		Usage: "json_delete(path, ...)",
		Doc: "Removes fields and array elements from the JSON value, with the comma that belongs to them. Every field of the name goes if the name repeats; " +
			"what is not there is no error. All other bytes stay as they are.",
		Example: "json_delete(card.number, items[*].cost)",
		New:     newJSONDelete,
	})
}

// jsonPrune removes members of objects and arrays: those named, or all but those named.
type jsonPrune struct {
	fields *fields
	keep   bool
}

func newJSONDelete(arg string) (Transform, error) {
	_, tree, err := argumentPaths(arg)
	if err != nil {
		return nil, err
	}
	return &editing{editor: &jsonPrune{fields: tree}}, nil
}

func (t *jsonPrune) edit(in *Record, root int, e *edits) error {
	if t.keep && !container(in.Value, root) {
		return notContainer(in.Value, root)
	}
	t.prune(in.Value, root, t.fields, e)
	return nil
}

// prune edits one object or array. A removed member takes the comma before it along, or the
// one behind it as long as nothing before it is left.
func (t *jsonPrune) prune(doc []byte, pos int, named *fields, e *edits) {
	if !container(doc, pos) {
		return
	}
	walk := membersOf(doc, pos)
	leftBefore := false
	pending := -1 // where the last one removed begins, if the comma behind it goes too
	previousEnd := 0
	for index := 0; ; index++ {
		m, more := walk.next()
		if !more {
			break
		}
		if pending >= 0 {
			e.replace(doc, pending, m.start, nil)
			pending = -1
		}
		below := named.of(doc, m, walk.named, index)
		switch {
		case t.goes(doc, m, below) && leftBefore:
			e.replace(doc, previousEnd, m.end, nil)
		case t.goes(doc, m, below):
			pending = m.start
		default:
			leftBefore = true
			if below != nil && below.leaf < 0 {
				t.prune(doc, m.value, below, e)
			}
		}
		previousEnd = m.end
	}
	if pending >= 0 {
		e.replace(doc, pending, previousEnd, nil)
	}
}

// goes tells whether a member is removed as a whole; below is what the paths say of it.
func (t *jsonPrune) goes(doc []byte, m jsonMember, below *fields) bool {
	if !t.keep {
		return below != nil && below.leaf >= 0
	}
	return below == nil || below.leaf < 0 && !container(doc, m.value)
}
