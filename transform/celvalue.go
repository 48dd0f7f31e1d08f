package transform

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// celJSON is a JSON object or array as a value of CEL, its members decoded when they are
// asked for and then only once. Numbers become int if they are whole and fit, uint if they
// only fit that, otherwise double; a whole number beyond both is an error where it is used,
// because as a double it would compare equal to its neighbours.
type celJSON struct {
	object  bool
	doc     []byte // what members point into
	start   int    // of the value in doc, behind white space
	members []member
	values  []ref.Val      // of the members; nil where not decoded yet
	index   map[string]int // name to member, -1 if it is there twice; for large objects
	exact   bool           // numbers come as celLiteral
}

// celLiteral is a number as it is written. It stands for itself only in an expression that
// computes nothing, such as set(value.total = value.amount).
type celLiteral struct {
	types.Null
	raw []byte
}

// indexFrom is the number of members from which on an object looks names up in a map.
const indexFrom = 24

// newCelJSON reads the value that raw consists of.
func newCelJSON(raw []byte, exact bool) ref.Val {
	var v celJSON
	return v.read(raw, exact)
}

// read makes v the value of raw, reusing its memory, unless raw is neither an object nor
// an array.
func (v *celJSON) read(raw []byte, exact bool) ref.Val {
	scan := celScan{members: v.members}
	scan.read(raw)
	return v.from(&scan, exact)
}

// from makes v the value that was scanned.
func (v *celJSON) from(scan *celScan, exact bool) ref.Val {
	if scan.fault != nil {
		return types.WrapErr(scan.fault)
	}
	if c := scan.doc[scan.start]; c != '{' && c != '[' {
		return scalar(scan.doc[scan.start:scan.end], exact)
	}
	clear(v.values)
	*v = celJSON{object: scan.doc[scan.start] == '{', doc: scan.doc, start: scan.start, members: scan.members, values: v.values[:0], exact: exact}
	if cap(v.values) < len(v.members) {
		v.values = make([]ref.Val, 0, max(16, len(v.members)))
	}
	v.values = v.values[:len(v.members)]
	if v.object {
		return celObject{v}
	}
	return celArray{v}
}

// release lets go of the document, and of memory that only a very large one needs.
func (v *celJSON) release() {
	if cap(v.members) > keepCapacity || cap(v.values) > keepCapacity {
		*v = celJSON{}
		return
	}
	clear(v.values)
	v.doc, v.index = nil, nil
}

// scalar decodes a checked string, number or literal.
func scalar(raw []byte, exact bool) ref.Val {
	switch raw[0] {
	case '"':
		text, err := unescape(raw[1 : len(raw)-1])
		if err != nil {
			return types.WrapErr(err)
		}
		return types.String(text)
	case 't':
		return types.True
	case 'f':
		return types.False
	case 'n':
		return types.NullValue
	}
	if exact {
		return celLiteral{raw: raw}
	}
	return number(raw)
}

// maxNumberText bounds the digits of a number in an error's text.
const maxNumberText = 40

func number(raw []byte) ref.Val {
	text := string(raw)
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return types.Int(i)
		}
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return types.Uint(u)
		}
		return types.NewErr("the whole number %.*s does not fit into 64 bits: computing with it would round it", maxNumberText, text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return types.NewErr("the number %.*s is out of range", maxNumberText, text)
	}
	return types.Double(f)
}

var errLoneSurrogate = errors.New(`a string holds half of a surrogate pair (\ud800 to \udfff by itself): it stands for no character`)

// unescape decodes the text between a checked string's quotes. Bytes that are no UTF-8
// stay as they are.
func unescape(body []byte) (string, error) {
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body), nil
	}
	text, whole := appendUnescaped(make([]byte, 0, len(body)), body)
	if !whole {
		return "", errLoneSurrogate
	}
	return string(text), nil
}

// raw is the text of member i.
func (v *celJSON) raw(i int) []byte { return v.doc[v.members[i].start:v.members[i].end] }

func (v *celJSON) name(i int) (string, error) {
	m := v.members[i]
	if !m.escaped {
		return string(v.doc[m.nameStart:m.nameEnd]), nil
	}
	return unescape(v.doc[m.nameStart:m.nameEnd])
}

func (v *celJSON) value(i int) ref.Val {
	if v.values[i] == nil {
		if raw := v.raw(i); raw[0] == '{' || raw[0] == '[' {
			v.values[i] = newCelJSON(raw, v.exact)
		} else {
			v.values[i] = scalar(raw, v.exact)
		}
	}
	return v.values[i]
}

// find returns the member of a name, or -1. A name that is there twice is an error: what
// reads the record later may take either.
func (v *celJSON) find(name string) (int, error) {
	if len(v.members) >= indexFrom {
		return v.findIndexed(name)
	}
	at := -1
	for i := range v.members {
		m := &v.members[i]
		same := string(v.doc[m.nameStart:m.nameEnd]) == name
		if m.escaped {
			decoded, err := v.name(i)
			same = err == nil && decoded == name
		}
		if !same {
			continue
		}
		if at >= 0 {
			return -1, twice(name)
		}
		at = i
	}
	return at, nil
}

func (v *celJSON) findIndexed(name string) (int, error) {
	if v.index == nil {
		v.index = make(map[string]int, len(v.members))
		for i := range v.members {
			decoded, err := v.name(i)
			if err != nil {
				continue // no expression can name it
			}
			if _, known := v.index[decoded]; known {
				v.index[decoded] = -1
			} else {
				v.index[decoded] = i
			}
		}
	}
	at, known := v.index[name]
	switch {
	case !known:
		return -1, nil
	case at < 0:
		return -1, twice(name)
	}
	return at, nil
}

func twice(name string) error {
	return fmt.Errorf("the field %q is there twice: which one counts is not defined", name)
}

// names returns the names of an object's members, each once, in the order of the text.
func (v *celJSON) names() []ref.Val {
	names := make([]ref.Val, 0, len(v.members))
	seen := make(map[string]bool, len(v.members))
	for i := range v.members {
		name, err := v.name(i)
		if err != nil {
			names = append(names, types.WrapErr(err))
		} else if !seen[name] {
			seen[name] = true
			names = append(names, types.String(name))
		}
	}
	return names
}

func (v *celJSON) elements() []ref.Val {
	all := make([]ref.Val, len(v.members))
	for i := range all {
		all[i] = v.value(i)
	}
	return all
}
