package transform

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// The json transforms read and edit values in place: a value is checked once, from its
// first byte to its last, then the members asked for are found, and an edit replaces their
// bytes and no others. Nothing is decoded and written again, so numbers such as 1.10 and
// 9007199254740993, the order of names, names that repeat, escapes and white space stay.
//
// This is written out and not left to gjson and sjson, to whose results the tests compare
// it, because of what those do with odd input: sjson.Set makes `,"a":3}` of `{"b":tru`, and
// sjson.Delete removes the first of two equal names, so that a reader who takes the last one
// still sees what was to be removed; gjson reads the first one, and recurses as deep as the
// value is nested, which a value of a few megabytes turns into a dead process.

// maxResult bounds, in bytes, what a transform makes of one record where a small input can
// become a giant output.
const maxResult = 64 << 20

var errResultTooLarge = fmt.Errorf("the result is larger than %d bytes", maxResult)

// jsonRoot checks that doc is one JSON value as RFC 8259 has it, white space around it
// allowed, and returns where it begins. Bytes in strings that are no UTF-8 pass.
func jsonRoot(doc []byte) (int, error) {
	if len(doc) == 0 {
		return 0, errEmptyValue
	}
	s := jsonScanner{doc: doc}
	root := s.space(0)
	end := s.value(root)
	if s.fault == nil {
		if end = s.space(end); end < len(doc) {
			s.fail(end, "text follows the value")
		}
	}
	if s.fault != nil {
		return 0, fmt.Errorf("the value is %w", s.fault)
	}
	return root, nil
}

var errEmptyValue = errors.New("the value is not JSON: it is empty")

// What follows reads values that were checked.

func jsonSpace(doc []byte, pos int) int {
	for pos < len(doc) && (doc[pos] == ' ' || doc[pos] == '\n' || doc[pos] == '\r' || doc[pos] == '\t') {
		pos++
	}
	return pos
}

// jsonEnd returns the position behind the value at pos.
func jsonEnd(doc []byte, pos int) int {
	switch doc[pos] {
	case '"':
		return jsonTextEnd(doc, pos)
	case '{', '[':
		for depth := 0; ; pos++ {
			switch doc[pos] {
			case '"':
				pos = jsonTextEnd(doc, pos) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return pos + 1
				}
			}
		}
	}
	for ; pos < len(doc); pos++ {
		switch doc[pos] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			return pos
		}
	}
	return pos
}

func jsonTextEnd(doc []byte, pos int) int {
	for pos = plainEnd(doc, pos+1); doc[pos] == '\\'; {
		pos = plainEnd(doc, pos+2)
	}
	return pos + 1
}

// jsonMember is a member of an object or an element of an array: all positions in the document.
type jsonMember struct {
	start   int // of the name, or of the element
	nameEnd int // behind the name's closing quote; start in an array
	value   int
	end     int
}

// jsonMembers walks over an object or array.
type jsonMembers struct {
	doc   []byte
	pos   int
	named bool
}

// membersOf begins a walk over the object or array at pos.
func membersOf(doc []byte, pos int) jsonMembers {
	return jsonMembers{doc: doc, pos: pos, named: doc[pos] == '{'}
}

// next returns the next member. When there is none, pos is that of the closing bracket.
func (m *jsonMembers) next() (found jsonMember, more bool) {
	if found, more = m.begin(); more {
		found.end = jsonEnd(m.doc, found.value)
		m.pos = found.end
	}
	return found, more
}

// begin is next for those who find out the member's end by themselves and set pos to it.
func (m *jsonMembers) begin() (found jsonMember, more bool) {
	m.pos = jsonSpace(m.doc, m.pos)
	if c := m.doc[m.pos]; c == '}' || c == ']' {
		return jsonMember{}, false
	}
	m.pos = jsonSpace(m.doc, m.pos+1) // behind the opening bracket or the comma
	if c := m.doc[m.pos]; c == '}' || c == ']' {
		return jsonMember{}, false
	}
	found.start = m.pos
	found.nameEnd, found.value = m.pos, m.pos
	if m.named {
		found.nameEnd = jsonTextEnd(m.doc, m.pos)
		found.value = jsonSpace(m.doc, jsonSpace(m.doc, found.nameEnd)+1)
	}
	return found, true
}

// container tells whether the value at pos is an object or an array.
func container(doc []byte, pos int) bool { return doc[pos] == '{' || doc[pos] == '[' }

// jsonKind names the kind of the value at pos, for messages, which do not show the value:
// they end up in logs.
func jsonKind(doc []byte, pos int) string {
	switch doc[pos] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// jsonText returns what the string token raw, quotes included, says. It shares raw's bytes
// if there are no escapes. A surrogate without its other half becomes U+FFFD.
func jsonText(raw []byte) []byte {
	body := raw[1 : len(raw)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return body[:len(body):len(body)]
	}
	text, _ := appendUnescaped(make([]byte, 0, len(body)), body)
	return text
}

// appendUnescaped appends what the text between a checked string's quotes says. It is whole
// unless a surrogate had no other half, for which U+FFFD stands then.
func appendUnescaped(dst, body []byte) (text []byte, whole bool) {
	whole = true
	for len(body) > 0 {
		escape := bytes.IndexByte(body, '\\')
		if escape < 0 {
			return append(dst, body...), whole
		}
		dst = append(dst, body[:escape]...)
		c := body[escape+1]
		body = body[escape+2:]
		if c != 'u' {
			dst = append(dst, plainEscape(c))
			continue
		}
		r := codeUnit(body)
		body = body[4:]
		if utf16.IsSurrogate(r) {
			pair := utf8.RuneError
			if len(body) >= 6 && body[0] == '\\' && body[1] == 'u' {
				pair = utf16.DecodeRune(r, codeUnit(body[2:]))
			}
			if r = pair; pair != utf8.RuneError {
				body = body[6:]
			} else {
				whole = false
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, whole
}

func plainEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func codeUnit(digits []byte) rune {
	var r rune
	for _, c := range digits[:4] {
		r = r<<4 | rune(hexDigit(c))
	}
	return r
}

// hexDigit returns -1 for what is none.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// appendQuoted appends text as a string token. Only what has to be is escaped; bytes that
// are no UTF-8 stay.
func appendQuoted[T string | []byte](dst []byte, text T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, text[from:]...), '"')
}
