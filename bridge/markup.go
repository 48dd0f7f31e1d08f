package bridge

import (
	"fmt"
	"html"
	"strings"
)

// literal is markup that this program's source holds. Constants become one by themselves, a variable does not: so what
// comes from elsewhere goes through markup.put, which escapes it.
type literal string

// markup writes HTML and SVG. doc.go says why it is not html/template.
type markup struct{ strings.Builder }

// put writes format with each %s replaced by the escaped text of its argument. Attribute values stand in quotes.
func (m *markup) put(format literal, args ...any) {
	escaped := make([]any, len(args))
	for i, arg := range args {
		escaped[i] = escape(fmt.Sprint(arg))
	}
	fmt.Fprintf(m, string(format), escaped...)
}

// escape makes s plain text, between tags and in quoted attributes. Bytes that no HTML may hold are shown as U+FFFD.
func escape(s string) string {
	visible := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || isDirection(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return html.EscapeString(visible)
}

// isDirection finds the characters that reorder the text around them: a name with one of them can look like another.
func isDirection(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}
