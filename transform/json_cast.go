package transform

import (
	"bytes"
	"fmt"
	"strconv"
)

func init() {
	Register(Definition{
		Name:  "json_cast",
		Usage: "json_cast(path=type, ...)",
		Doc: "Gives fields of the JSON value another type: string, number, int or boolean. A number becomes the string that it is written as, and a string the number that it spells, digit for digit; " +
			"int also drops the zeros behind the point, and makes 1 of true and 0 of false; boolean takes the strings true and false, and numbers, of which 0 is false. " +
			"Null stays, and what is not there is no error. A record is refused if something would be lost: 1.5 is no int, an object no string.",
		Example: "json_cast(amount=number, zip=string)",
		New:     newJSONCast,
	})
}

// castType is what a field is cast to.
type castType string

const (
	castString  castType = "string"
	castNumber  castType = "number"
	castInt     castType = "int"
	castBoolean castType = "boolean"
)

// jsonCast changes the types of fields.
type jsonCast struct {
	fields *fields
	paths  []path
	types  []castType // by the path's number
}

func newJSONCast(arg string) (Transform, error) {
	r := argReader{arg: arg}
	t := &jsonCast{}
	for more := true; more; {
		p, err := r.path()
		if err != nil {
			return nil, err
		}
		if err := r.equals(); err != nil {
			return nil, err
		}
		r.space()
		start := r.at
		word, _, err := r.word("the type", ",")
		if err != nil {
			return nil, err
		}
		switch castType(word) {
		case castString, castNumber, castInt, castBoolean:
		default:
			return nil, errAt(start, fmt.Errorf("unknown type %q: use string, number, int or boolean", word))
		}
		t.paths, t.types = append(t.paths, p), append(t.types, castType(word))
		if more, err = r.comma(); err != nil {
			return nil, err
		}
	}
	var err error
	t.fields, err = newFields(t.paths)
	return &editing{editor: t}, err
}

func (t *jsonCast) edit(in *Record, root int, e *edits) error {
	doc := in.Value
	return t.fields.visit(doc, root, func(leaf int, m jsonMember) error {
		if doc[m.value] == 'n' {
			return nil
		}
		from := len(e.text)
		text, possible := appendCast(e.text, doc[m.value:m.end], t.types[leaf])
		if !possible {
			return fmt.Errorf("%s is %s that cannot become %s without loss", t.paths[leaf], jsonKind(doc, m.value), t.types[leaf])
		}
		e.text = text
		e.replace(doc, m.value, m.end, e.made(from))
		return nil
	})
}

// appendCast appends what the value raw is as another type.
func appendCast(dst, raw []byte, to castType) (text []byte, possible bool) {
	kind := raw[0]
	if kind == '{' || kind == '[' {
		return dst, false
	}
	if to == castString {
		if kind == '"' {
			return append(dst, raw...), true
		}
		return appendQuoted(dst, raw), true
	}
	plain := raw
	if kind == '"' {
		plain = jsonText(raw)
	}
	isNumber := validNumber(plain)
	if to == castNumber {
		return append(dst, plain...), isNumber
	}
	hasExponent := bytes.ContainsAny(plain, "eE")
	if to == castInt {
		if kind == 't' {
			return append(dst, '1'), true
		}
		if kind == 'f' {
			return append(dst, '0'), true
		}
		whole, zeros, _ := bytes.Cut(plain, []byte{'.'})
		return append(dst, whole...), isNumber && !hasExponent && len(bytes.Trim(zeros, "0")) == 0
	}
	if string(plain) == "true" || string(plain) == "false" {
		return append(dst, plain...), true
	}
	if !isNumber || kind == '"' {
		return dst, false
	}
	digits := plain
	if hasExponent {
		digits = plain[:bytes.IndexAny(plain, "eE")]
	}
	return strconv.AppendBool(dst, bytes.ContainsAny(digits, "123456789")), true
}

// validNumber tells whether text is a number of JSON and nothing else.
func validNumber(text []byte) bool {
	if len(text) == 0 || text[0] != '-' && !isDigit(text[0]) {
		return false
	}
	s := jsonScanner{doc: text}
	return s.number(0) == len(text) && s.fault == nil
}
