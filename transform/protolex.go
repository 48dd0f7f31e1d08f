package transform

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The text of a schema of Protobuf, as its language specification has it (proto2 and
// proto3). Only what decides about the data is taken in: services, extensions and options
// but for a few are stepped over. A whole compiler (protocompile 0.14) adds 1.4 MB
// to a program of 29.

type protoTokenKind int

const (
	protoEnd protoTokenKind = iota
	protoWord
	protoNumber
	protoText
	protoSign
)

type protoToken struct {
	kind protoTokenKind
	text string // of a string, what it says
	at   int
}

// protoLexer cuts a text into tokens. After a fault there are none left.
type protoLexer struct {
	text  string
	pos   int
	next  protoToken
	fault error
}

func newProtoLexer(text string) *protoLexer {
	l := &protoLexer{text: strings.TrimPrefix(text, "\ufeff")}
	l.advance()
	return l
}

func (l *protoLexer) fail(format string, values ...any) {
	if l.fault == nil {
		line, column := lineAndColumn(l.text, min(l.next.at, len(l.text)))
		l.fault = fmt.Errorf("line %d, column %d of the schema: %w", line, column, fmt.Errorf(format, values...))
	}
	l.pos = len(l.text)
	l.next = protoToken{at: l.pos}
}

// take returns the next token and steps over it.
func (l *protoLexer) take() protoToken {
	t := l.next
	l.advance()
	return t
}

// sign steps over a sign or word if it stands next.
func (l *protoLexer) sign(text string) bool {
	if l.next.text != text || l.next.kind == protoText || l.next.kind == protoEnd {
		return false
	}
	l.advance()
	return true
}

// need steps over a sign or word that has to stand next.
func (l *protoLexer) need(text string) {
	if !l.sign(text) {
		l.unexpected(fmt.Sprintf("%q", text))
	}
}

func (l *protoLexer) unexpected(wanted string) {
	if l.next.kind == protoEnd {
		l.fail("the text ends where %s should stand", wanted)
		return
	}
	l.fail("%.50q stands where %s should", l.next.text, wanted)
}

// word returns the name that has to stand next; with dots if that is allowed.
func (l *protoLexer) word(dots bool) string {
	if l.next.kind != protoWord || !dots && strings.Contains(l.next.text, ".") {
		l.unexpected("a name")
		return ""
	}
	return l.take().text
}

// quoted returns the text that has to stand next: one string, or several in a row.
func (l *protoLexer) quoted() string {
	if l.next.kind != protoText {
		l.unexpected("a string")
		return ""
	}
	var b strings.Builder
	for l.next.kind == protoText {
		b.WriteString(l.take().text)
	}
	return b.String()
}

func (l *protoLexer) advance() {
	if !l.space() {
		return
	}
	rest := l.text[l.pos:]
	l.next = protoToken{at: l.pos}
	if rest == "" {
		return
	}
	size := 1
	switch c := rest[0]; {
	case isProtoLetter(c) || c == '.' && len(rest) > 1 && isProtoLetter(rest[1]):
		for size < len(rest) && (isProtoLetter(rest[size]) || isDigit(rest[size]) || rest[size] == '.') {
			size++
		}
		l.next.kind = protoWord
	case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]):
		for size < len(rest) && (isProtoLetter(rest[size]) || isDigit(rest[size]) || rest[size] == '.' ||
			(rest[size] == '-' || rest[size] == '+') && strings.IndexByte("eE", rest[size-1]) >= 0 && !strings.HasPrefix(rest, "0x")) {
			size++
		}
		l.next.kind = protoNumber
	case c == '"' || c == '\'':
		l.string(rest)
		return
	case c >= utf8.RuneSelf:
		l.fail("unexpected %q", firstRune(rest))
		return
	default:
		l.next.kind = protoSign
	}
	l.next.text = rest[:size]
	l.pos += size
}

func isProtoLetter(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// space steps over white space and comments.
func (l *protoLexer) space() bool {
	for l.pos < len(l.text) {
		rest := l.text[l.pos:]
		switch {
		case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
			l.pos++
		case strings.HasPrefix(rest, "//"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			l.pos += end
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				l.next = protoToken{at: l.pos}
				l.fail("a comment has no end")
				return false
			}
			l.pos += end + 4
		default:
			return true
		}
	}
	return true
}

// string reads a string in quotes.
func (l *protoLexer) string(rest string) {
	end := closingQuote(rest, 0)
	if end < 0 {
		l.fail("a string has no end")
		return
	}
	l.next.kind = protoText
	l.next.text = rest[1:end]
	if strings.IndexByte(l.next.text, '\\') >= 0 {
		l.next.text = protoUnescaped(l.next.text)
	}
	l.pos += end + 1
}

// protoUnescaped resolves the escapes of C. What is none stays.
func protoUnescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if at := strings.IndexByte("abfnrtv", s[i]); at >= 0 {
			b.WriteByte("\a\b\f\n\r\t\v"[at])
			continue
		}
		n, digits := 0, 0
		switch {
		case s[i] == 'x' || s[i] == 'X':
			for digits < 2 && i+1 < len(s) && hexDigit(s[i+1]) >= 0 {
				i++
				digits++
				n = n<<4 | hexDigit(s[i])
			}
		case '0' <= s[i] && s[i] <= '7':
			n, digits = int(s[i]-'0'), 1
			for digits < 3 && i+1 < len(s) && '0' <= s[i+1] && s[i+1] <= '7' {
				i++
				digits++
				n = n<<3 | int(s[i]-'0')
			}
		}
		if digits == 0 {
			b.WriteByte(s[i])
		} else {
			b.WriteByte(byte(n)) //nolint:gosec // as C has it: what does not fit falls away
		}
	}
	return b.String()
}
