package transform

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func init() {
	Register(Definition{
		Name:  "regex_replace",
		Usage: "regex_replace(pattern, text) or regex_replace(path, pattern, text)",
		Doc: "Replaces every match of a regular expression in the value, or in a string of the JSON value, whose escapes are undone first and written again if it changes. " +
			"The syntax is that of Go (RE2), which needs linear time for any pattern; in the text $1 or ${name} is what a group matched and $$ a dollar. " +
			"Pattern and text are best put in back quotes. Null stays and a path that leads nowhere is no error; a field that is no string is refused, and so is a record with more than 100,000 matches or a result of more than 64 MiB.",
		Example: "regex_replace(card, `\\d{12}(\\d{4})`, `************$1`)",
		New:     newRegexReplace,
	})
}

// maxMatches bounds what is kept of one record's matches to some megabytes.
const maxMatches = 100_000

// regexReplace replaces the matches of a pattern.
type regexReplace struct {
	pattern *regexp.Regexp
	text    []byte
	expands bool // text has a "$"
	path    path
	fields  *fields
}

func newRegexReplace(arg string) (Transform, error) {
	t := &regexReplace{}
	r := argReader{arg: arg}
	if countItems(arg) == 3 {
		p, err := r.path()
		if err != nil {
			return nil, err
		}
		if !r.take(",") {
			return nil, r.unexpected(`put "," after the path`)
		}
		t.path = p
		if t.fields, err = newFields([]path{p}); err != nil {
			return nil, err
		}
	}
	r.space()
	patternAt := r.at
	pattern, _, err := r.word("the pattern", ",")
	if err != nil {
		return nil, err
	}
	if t.pattern, err = regexp.Compile(pattern); err != nil {
		return nil, errAt(patternAt, err)
	}
	if !r.take(",") {
		return nil, r.unexpected(`write "," and the new text after the pattern, "" to remove the matches`)
	}
	r.space()
	textAt := r.at
	text, _, err := r.word(`the new text ("" to remove the matches)`, ",")
	if err != nil {
		return nil, err
	}
	if err := checkReferences(t.pattern, text); err != nil {
		return nil, errAt(textAt, err)
	}
	t.text, t.expands = []byte(text), strings.Contains(text, "$")
	if err := r.end(); err != nil {
		return nil, err
	}
	if t.fields != nil {
		return &editing{editor: t}, nil
	}
	return t, nil
}

// countItems counts the items of a list, whose commas in quotes do not separate.
func countItems(arg string) int {
	count := 1
	for pos := 0; pos < len(arg); pos++ {
		switch arg[pos] {
		case ',':
			count++
		case '"', '\'', '`':
			if end := closingQuote(arg, pos); end >= 0 {
				pos = end
			}
		}
	}
	return count
}

// checkReferences refuses a "$" that refers to no group: regexp would put nothing there.
func checkReferences(pattern *regexp.Regexp, text string) error {
	for {
		_, rest, found := strings.Cut(text, "$")
		if !found {
			return nil
		}
		if strings.HasPrefix(rest, "$") {
			text = rest[1:]
			continue
		}
		name, braced := rest, strings.HasPrefix(rest, "{")
		if braced {
			name, _, found = strings.Cut(rest[1:], "}")
			if !found {
				return fmt.Errorf(`"${" is not closed in the text`)
			}
		} else {
			end := strings.IndexFunc(rest, func(r rune) bool { return !isBareRune(r) || r == '-' || r == '$' || r >= 0x80 })
			if end >= 0 {
				name = rest[:end]
			}
		}
		number, err := strconv.Atoi(name)
		isGroup := err == nil && number >= 0 && number <= pattern.NumSubexp()
		if name == "" || !isGroup && !slices.Contains(pattern.SubexpNames(), name) {
			return fmt.Errorf("the text refers to ${%s}, which the pattern does not have: a dollar is written $$, and a group in front of a letter ${1}", name)
		}
		text = rest
	}
}

// replaced returns nil if nothing matches.
func (t *regexReplace) replaced(src []byte) ([]byte, error) {
	matches := t.pattern.FindAllSubmatchIndex(src, maxMatches+1)
	if len(matches) == 0 {
		return nil, nil
	}
	if len(matches) > maxMatches {
		return nil, fmt.Errorf("the pattern matches more than %d times", maxMatches)
	}
	result := make([]byte, 0, len(src)+len(matches)*len(t.text))
	at := 0
	for _, m := range matches {
		result = append(result, src[at:m[0]]...)
		if t.expands {
			result = t.pattern.Expand(result, t.text, src, m)
		} else {
			result = append(result, t.text...)
		}
		if at = m[1]; len(result) > maxResult {
			return nil, errResultTooLarge
		}
	}
	return append(result, src[at:]...), nil
}

func (t *regexReplace) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	if in.Value == nil {
		return out, nil
	}
	value, err := t.replaced(in.Value)
	if err != nil {
		return nil, err
	}
	if value != nil {
		out[len(out)-1].Value = value
	}
	return out, nil
}

func (t *regexReplace) edit(in *Record, root int, e *edits) error {
	doc := in.Value
	return t.fields.visit(doc, root, func(_ int, m jsonMember) error {
		switch doc[m.value] {
		case 'n':
			return nil
		case '"':
		default:
			return fmt.Errorf("%s is %s, not a string", t.path, jsonKind(doc, m.value))
		}
		text, err := t.replaced(jsonText(doc[m.value:m.end]))
		if err != nil || text == nil {
			return err
		}
		from := len(e.text)
		e.text = appendQuoted(e.text, text)
		e.replace(doc, m.value, m.end, e.made(from))
		return nil
	})
}
