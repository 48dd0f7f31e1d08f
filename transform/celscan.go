package transform

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The scanner behind CEL's lazy values reads a JSON text once, says where the members of
// its outermost object or array lie, and checks the whole of it on the way. Nothing is
// decoded: a field that no expression asks for costs its bytes and no allocation.

// maxJSONDepth is how deep arrays and objects may nest, as in encoding/json: deeper than
// any real document, and far from the end of the stack.
const maxJSONDepth = 10_000

// syntaxError says where a text stops being JSON.
type syntaxError struct {
	offset int // in bytes
	reason string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("not JSON at byte %d: %s", e.offset, e.reason)
}

// member is an element of an array, or a name and a value of an object, by its place in
// the document.
type member struct {
	nameStart, nameEnd int  // between the quotes; both 0 in an array
	escaped            bool // the name holds a backslash
	start, end         int  // of the value
}

// celScan is the value of a record after it was scanned. The expressions of a chain have one
// for all: as often as not one passes the record on as it is, and the next need not scan the
// same bytes again. It is forgotten when the record has gone through: afterwards other bytes
// may stand in the same place.
type celScan struct {
	doc        []byte
	members    []member
	start, end int
	fault      *syntaxError
	shared     bool // it is the chain that forgets
}

// read scans doc unless it is the text that was scanned last.
func (s *celScan) read(doc []byte) {
	if len(s.doc) > 0 && len(doc) == len(s.doc) && &doc[0] == &s.doc[0] {
		return
	}
	scanner := jsonScanner{doc: doc}
	s.doc = doc
	s.members, s.start, s.end = scanner.document(s.members[:0])
	s.fault = scanner.fault
}

// done is called by the one expression that has read the text.
func (s *celScan) done() {
	if !s.shared {
		s.forget()
	}
}

func (s *celScan) forget() {
	s.doc, s.fault = nil, nil
	if cap(s.members) > keepCapacity {
		s.members = nil
	}
}

// scanning is a transform that takes part in that.
type scanning interface{ share(scan *celScan) }

// jsonScanner reads one text. After a failure, fault says what is wrong.
type jsonScanner struct {
	doc   []byte
	depth int
	fault *syntaxError
}

// document returns where the one value lies that the text consists of.
func (s *jsonScanner) document(members []member) (found []member, start, end int) {
	start = s.space(0)
	if start < len(s.doc) && (s.doc[start] == '{' || s.doc[start] == '[') {
		members, end = s.composite(start, members, true)
	} else {
		end = s.value(start)
	}
	if s.fault == nil {
		if rest := s.space(end); rest < len(s.doc) {
			s.fail(rest, "text follows the value")
		}
	}
	return members, start, end
}

func (s *jsonScanner) fail(at int, reason string) int {
	if s.fault == nil {
		if at >= len(s.doc) {
			at, reason = len(s.doc), "the text ends too early"
		}
		s.fault = &syntaxError{offset: at, reason: reason}
	}
	return len(s.doc)
}

func (s *jsonScanner) space(i int) int {
	for i < len(s.doc) && (s.doc[i] == ' ' || s.doc[i] == '\n' || s.doc[i] == '\r' || s.doc[i] == '\t') {
		i++
	}
	return i
}

// value returns the end of the value that begins at i.
func (s *jsonScanner) value(i int) int {
	if i >= len(s.doc) {
		return s.fail(i, "")
	}
	switch c := s.doc[i]; {
	case c == '"':
		end, _ := s.text(i)
		return end
	case c == '{' || c == '[':
		_, end := s.composite(i, nil, false)
		return end
	case c == '-' || isDigit(c):
		return s.number(i)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	}
	return s.fail(i, "a value should stand here")
}

func (s *jsonScanner) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.doc) && string(s.doc[i:end]) == word {
		return end
	}
	return s.fail(i, "a value should stand here")
}

// composite reads the array or object at i, and with keep notes its members.
func (s *jsonScanner) composite(i int, members []member, keep bool) (found []member, end int) {
	if s.depth++; s.depth > maxJSONDepth {
		return members, s.fail(i, fmt.Sprintf("it nests deeper than %d", maxJSONDepth))
	}
	object, closing := s.doc[i] == '{', byte(']')
	if object {
		closing = '}'
	}
	i = s.space(i + 1)
	if i < len(s.doc) && s.doc[i] == closing {
		s.depth--
		return members, i + 1
	}
	for s.fault == nil {
		var m member
		if object {
			if m, i = s.name(i); s.fault != nil {
				break
			}
		}
		m.start = i
		m.end = s.value(i)
		if keep {
			members = append(members, m)
		}
		if i = s.space(m.end); i >= len(s.doc) {
			break
		}
		switch s.doc[i] {
		case ',':
			i = s.space(i + 1)
		case closing:
			s.depth--
			return members, i + 1
		default:
			s.fail(i, `"," or the closing bracket should stand here`)
		}
	}
	return members, s.fail(len(s.doc), "")
}

// name reads a member's name and the colon, and returns where the value begins.
func (s *jsonScanner) name(i int) (member, int) {
	if i >= len(s.doc) || s.doc[i] != '"' {
		return member{}, s.fail(i, "the name of a field should stand here")
	}
	end, escaped := s.text(i)
	m := member{nameStart: i + 1, nameEnd: end - 1, escaped: escaped}
	if i = s.space(end); i >= len(s.doc) || s.doc[i] != ':' {
		return m, s.fail(i, `":" should stand here`)
	}
	return m, s.space(i + 1)
}

// text returns the end of the string that begins at i, behind its closing quote.
func (s *jsonScanner) text(i int) (end int, escaped bool) {
	for i++; ; {
		i = plainEnd(s.doc, i)
		if i >= len(s.doc) {
			return s.fail(i, ""), escaped
		}
		switch s.doc[i] {
		case '"':
			return i + 1, escaped
		case '\\':
			escaped = true
			if i = s.escape(i); s.fault != nil {
				return i, escaped
			}
		default:
			return s.fail(i, "a control character in a string has to be escaped"), escaped
		}
	}
}

func (s *jsonScanner) escape(i int) int {
	if i+1 >= len(s.doc) {
		return s.fail(i+1, "")
	}
	switch s.doc[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		for at := i + 2; at < i+6; at++ {
			if at >= len(s.doc) || hexDigit(s.doc[at]) < 0 {
				return s.fail(at, `\u is followed by four hexadecimal digits`)
			}
		}
		return i + 6
	}
	return s.fail(i+1, "unknown escape")
}

// plainEnd returns the position of the first quote, backslash or control character from i
// on. It looks at eight bytes at a time; each test sets the upper bit of a byte that has
// what is looked for, the lowest such bit is always right.
func plainEnd(doc []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(doc); i += 8 {
		w := binary.LittleEndian.Uint64(doc[i:])
		quote, backslash := w^(ones*'"'), w^(ones*'\\')
		hit := ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-ones*' ')&^w) & highs
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for i < len(doc) && doc[i] != '"' && doc[i] != '\\' && doc[i] >= ' ' {
		i++
	}
	return i
}

func (s *jsonScanner) number(i int) int {
	if s.doc[i] == '-' {
		i++
	}
	switch {
	case i < len(s.doc) && s.doc[i] == '0':
		i++
	default:
		if i = s.digits(i); s.fault != nil {
			return i
		}
	}
	if i < len(s.doc) && s.doc[i] == '.' {
		if i = s.digits(i + 1); s.fault != nil {
			return i
		}
	}
	if i < len(s.doc) && (s.doc[i] == 'e' || s.doc[i] == 'E') {
		i++
		if i < len(s.doc) && (s.doc[i] == '+' || s.doc[i] == '-') {
			i++
		}
		i = s.digits(i)
	}
	return i
}

// digits reads one digit at least.
func (s *jsonScanner) digits(i int) int {
	if i >= len(s.doc) || !isDigit(s.doc[i]) {
		return s.fail(i, "a digit should stand here")
	}
	for i < len(s.doc) && isDigit(s.doc[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
