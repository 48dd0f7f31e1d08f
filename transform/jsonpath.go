package transform

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The path of a field:
//
//	path = "." | step { "." name | "[" index "]" | "[*]" }
//
// A step is a name or an element of an array. Names of letters, digits, "_", "-" and "$"
// stand bare, others in quotes: customer."e.mail". The single dot is the whole value. There
// are no queries, modifiers or wildcards but [*], so a name never turns into one.

// step is one step down from a value. every stands for all elements of an array.
type step struct {
	name  string
	index int // of an element, if array
	array bool
	every bool
}

// path leads to a value; the empty one is the whole value.
type path []step

// String gives the path as it can be written.
func (p path) String() string {
	if len(p) == 0 {
		return "."
	}
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.every:
			b.WriteString("[*]")
		case s.array:
			fmt.Fprintf(&b, "[%d]", s.index)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			if s.name == "" || strings.ContainsFunc(s.name, func(r rune) bool { return !isBareRune(r) }) {
				b.WriteString(strconv.Quote(s.name))
			} else {
				b.WriteString(s.name)
			}
		}
	}
	return b.String()
}

func isBareRune(r rune) bool { return r >= 0x80 || isBareByte(byte(r)) }

// isBareByte tells whether a name may hold c without quotes.
func isBareByte(c byte) bool {
	return c >= 0x80 || c == '_' || c == '-' || c == '$' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// maxSteps bounds a path, and so the recursion of those who follow it.
const maxSteps = 100

// cutPath takes a path off the front of s and returns how long it is.
func cutPath(s string) (p path, length int, err error) {
	if strings.HasPrefix(s, ".") {
		return path{}, 1, nil
	}
	at := 0
	for {
		var next step
		var size int
		switch {
		case at < len(s) && s[at] == '[':
			next, size, err = cutElement(s[at:])
		case at == 0:
			next.name, size, err = cutName(s)
		case at < len(s) && s[at] == '.':
			at++
			next.name, size, err = cutName(s[at:])
		default:
			return p, at, nil
		}
		if err != nil {
			return nil, at, err
		}
		if len(p) == maxSteps {
			return nil, at, fmt.Errorf("the path has more than %d steps", maxSteps)
		}
		p = append(p, next)
		at += size
	}
}

func cutName(s string) (name string, length int, err error) {
	if s != "" && strings.IndexByte("\"'`", s[0]) >= 0 {
		end := closingQuote(s, 0)
		if end < 0 {
			return "", 0, fmt.Errorf("the quote %c is not closed", s[0])
		}
		name, err = unquote(s[:end+1])
		return name, end + 1, err
	}
	for length < len(s) && isBareByte(s[length]) {
		length++
	}
	switch {
	case length > 0:
		return s[:length], length, nil
	case s == "":
		return "", 0, errors.New("the path of a field is missing")
	default:
		return "", 0, fmt.Errorf("unexpected %q where the name of a field should stand: put the name in quotes if that is part of it", firstRune(s))
	}
}

func cutElement(s string) (found step, length int, err error) {
	closing := strings.IndexByte(s, ']')
	if closing < 0 {
		return step{}, 0, errors.New(`"[" is not closed: add "]"`)
	}
	text := s[1:closing]
	if text == "*" {
		return step{array: true, every: true}, closing + 1, nil
	}
	index, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return step{}, 0, fmt.Errorf("%q is no element: write a number from 0 on, or * for all", text)
	}
	return step{array: true, index: int(index)}, closing + 1, nil
}

// find returns the value that the path leads to from the one at pos. Where a name repeats
// the last one counts, as it does for most readers of JSON.
func (p path) find(doc []byte, pos int) (start, end int, found bool) {
	for i := range p {
		s := &p[i]
		if s.array != (doc[pos] == '[') || !container(doc, pos) {
			return 0, 0, false
		}
		found := -1
		walk := membersOf(doc, pos)
		for index := 0; ; index++ {
			m, more := walk.next()
			if !more {
				break
			}
			if s.array {
				if index == s.index {
					found = m.value
					break
				}
			} else if nameIs(doc[m.start:m.nameEnd], s.name) {
				found = m.value
			}
		}
		if found < 0 {
			return 0, 0, false
		}
		pos = found
	}
	return pos, jsonEnd(doc, pos), true
}

// nameIs compares a name's token, quotes included, with a name. An escape is longer than
// what it stands for.
func nameIs(token []byte, name string) bool {
	body := token[1 : len(token)-1]
	switch {
	case len(body) < len(name):
		return false
	case len(body) == len(name):
		return string(body) == name && bytes.IndexByte(body, '\\') < 0
	case bytes.IndexByte(body, '\\') < 0:
		return false
	}
	var space [64]byte
	text, _ := appendUnescaped(space[:0], body)
	return string(text) == name
}

// fields is a set of paths as a tree.
type fields struct {
	branches []branch
	leaf     int // the number of the path that ends here, or -1
}

type branch struct {
	step
	fields
}

// newFields makes the tree. No path may lie within another one, or be the whole value.
func newFields(paths []path) (*fields, error) {
	root := &fields{leaf: -1}
	for i, p := range paths {
		if len(p) == 0 {
			return nil, errors.New(`"." is the whole value: name a field`)
		}
		at := root
		for depth, s := range p {
			if at.leaf >= 0 {
				return nil, overlap(paths[at.leaf], p)
			}
			next, err := at.branchFor(s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p[:depth+1], err)
			}
			at = next
		}
		if at.leaf >= 0 {
			return nil, overlap(paths[at.leaf], p)
		}
		if len(at.branches) > 0 {
			return nil, fmt.Errorf("a longer path lies within %s: name only one of them", p)
		}
		at.leaf = i
	}
	return root, nil
}

func overlap(first, second path) error {
	if len(first) == len(second) {
		return fmt.Errorf("%s is named twice", first)
	}
	return fmt.Errorf("%s lies within %s: name only one of them", second, first)
}

func (f *fields) branchFor(s step) (*fields, error) {
	for i := range f.branches {
		b := &f.branches[i]
		if b.step == s {
			return &b.fields, nil
		}
		if b.array && s.array && (b.every || s.every) {
			return nil, errors.New("[*] and single elements of one array cannot be named together")
		}
	}
	f.branches = append(f.branches, branch{step: s, fields: fields{leaf: -1}})
	return &f.branches[len(f.branches)-1].fields, nil
}

// of returns the branch that a member belongs to, or nil; index is its place in an array.
func (f *fields) of(doc []byte, m jsonMember, named bool, index int) *fields {
	for i := range f.branches {
		b := &f.branches[i]
		if b.array == named {
			continue
		}
		if b.every || b.array && b.index == index || named && nameIs(doc[m.start:m.nameEnd], b.name) {
			return &b.fields
		}
	}
	return nil
}

// visit calls what with every member of doc that one of the paths leads to, in the order in
// which they stand there, and with the path's number. Repeated names are all visited.
func (f *fields) visit(doc []byte, pos int, what func(leaf int, m jsonMember) error) error {
	if !container(doc, pos) {
		return nil
	}
	walk := membersOf(doc, pos)
	for index := 0; ; index++ {
		m, more := walk.next()
		if !more {
			return nil
		}
		below := f.of(doc, m, walk.named, index)
		if below == nil {
			continue
		}
		var err error
		if below.leaf >= 0 {
			err = what(below.leaf, m)
		} else {
			err = below.visit(doc, m.value, what)
		}
		if err != nil {
			return err
		}
	}
}

// edits are replacements of bytes of a document, in ascending order.
type edits struct {
	list []edit
	text []byte // where texts made for one record are written; empty between records
}

type edit struct {
	from, to int
	text     []byte
}

// replace adds an edit unless it would change nothing.
func (e *edits) replace(doc []byte, from, to int, text []byte) {
	if !bytes.Equal(doc[from:to], text) {
		e.list = append(e.list, edit{from, to, text})
	}
}

// made returns the text appended to e.text since it was from long. What is appended later
// does not reach it.
func (e *edits) made(from int) []byte { return e.text[from:len(e.text):len(e.text)] }

// apply returns doc with the edits made, in memory of its own, or doc itself without any.
func (e *edits) apply(doc []byte) ([]byte, error) {
	if len(e.list) == 0 {
		return doc, nil
	}
	size := len(doc)
	for i := range e.list {
		size += len(e.list[i].text) - (e.list[i].to - e.list[i].from)
		if size > max(maxResult, len(doc)) {
			return nil, errResultTooLarge
		}
	}
	result := make([]byte, 0, size)
	at := 0
	for i := range e.list {
		result = append(append(result, doc[at:e.list[i].from]...), e.list[i].text...)
		at = e.list[i].to
	}
	return append(result, doc[at:]...), nil
}

// reset makes ready for the next record, without the memory that a giant one needed.
func (e *edits) reset() {
	clear(e.list)
	e.list, e.text = e.list[:0], e.text[:0]
	if cap(e.list) > keepCapacity || cap(e.text) > 64*keepCapacity {
		*e = edits{}
	}
}

// editor is what the transforms that edit a value differ in.
type editor interface {
	// edit lists the edits of in.Value, whose JSON begins at root.
	edit(in *Record, root int, e *edits) error
}

// editing is the transform around an editor. Null values pass: there is nothing in them.
type editing struct {
	editor
	edits edits
}

func (t *editing) Apply(in *Record, out []Record) ([]Record, error) {
	if in.Value == nil {
		return append(out, *in), nil
	}
	root, err := jsonRoot(in.Value)
	if err != nil {
		return nil, err
	}
	defer t.edits.reset()
	if err := t.edit(in, root, &t.edits); err != nil {
		return nil, err
	}
	value, err := t.edits.apply(in.Value)
	if err != nil {
		return nil, err
	}
	out = append(out, *in)
	out[len(out)-1].Value = value
	return out, nil
}

// taker is what the transforms differ in that take something out of a value.
type taker interface {
	// take alters result, the copy of a record, by what it finds in the record's value doc, whose JSON begins at root.
	take(result *Record, doc []byte, root int) error
}

// taking is the transform around a taker. Null values pass: there is nothing in them.
type taking struct{ taker }

func (t taking) Apply(in *Record, out []Record) ([]Record, error) {
	if in.Value == nil {
		return append(out, *in), nil
	}
	root, err := jsonRoot(in.Value)
	if err != nil {
		return nil, err
	}
	out = append(out, *in)
	if err := t.take(&out[len(out)-1], in.Value, root); err != nil {
		return nil, err
	}
	return out, nil
}

// argumentPaths reads an argument that is a list of paths.
func argumentPaths(arg string) ([]path, *fields, error) {
	r := argReader{arg: arg}
	var paths []path
	for more := true; more; {
		p, err := r.path()
		if err != nil {
			return nil, nil, err
		}
		paths = append(paths, p)
		if more, err = r.comma(); err != nil {
			return nil, nil, err
		}
	}
	tree, err := newFields(paths)
	return slices.Clip(paths), tree, err
}
