package transform

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jqReader decodes a JSON text into the values that gojq works on. It is the package's own
// because a standard decoder changes without a word what jq's user would want to know of:
// it drops all but the last of the fields of a name, and replaces what is no UTF-8.
type jqReader struct {
	jsonScanner
	refusal error // what is JSON, but would be changed

	source string // doc again, which the values' texts are cut from
	valid  bool   // all of doc is UTF-8
	list   []any  // the elements so far of the arrays that are being read, the innermost at the end
}

// keepElements bounds the elements of arrays that a reader has room for between two documents.
const keepElements = 1024

// read decodes doc. Numbers keep their text: as int if they are whole and short, which
// is how gojq computes fastest, else as json.Number, which it writes as it was read.
func (r *jqReader) read(doc []byte) (any, error) {
	r.jsonScanner, r.refusal = jsonScanner{doc: doc}, nil
	r.source, r.valid = string(doc), utf8.Valid(doc)
	start := r.space(0)
	value, end := r.decode(start)
	if !r.stopped() {
		if rest := r.space(end); rest < len(doc) {
			r.fail(rest, "text follows the value")
		}
	}
	fault, refusal := r.fault, r.refusal
	clear(r.list)
	if *r = (jqReader{list: r.list[:0]}); cap(r.list) > keepElements {
		r.list = nil
	}
	if fault != nil {
		return nil, fault
	}
	return value, refusal
}

// refuse stops the reading of a text that is JSON.
func (r *jqReader) refuse(err error) (value any, end int) {
	if r.refusal == nil && r.fault == nil {
		r.refusal = err
	}
	return nil, len(r.doc)
}

// stopped reports whether a fault was found.
func (r *jqReader) stopped() bool { return r.fault != nil || r.refusal != nil }

// decode reads the value at i and returns where it ends.
func (r *jqReader) decode(i int) (value any, end int) {
	if i >= len(r.doc) {
		return nil, r.fail(i, "")
	}
	switch c := r.doc[i]; c {
	case '{':
		return r.object(i)
	case '[':
		return r.array(i)
	case '"':
		return r.string(i)
	}
	if end = r.value(i); r.fault != nil {
		return nil, end
	}
	switch r.doc[i] {
	case 't':
		return true, end
	case 'f':
		return false, end
	case 'n':
		return nil, end
	}
	return r.numeral(i, end)
}

// maxNumberDigits bounds a number's text: computing with more takes time that grows faster
// than the text.
const maxNumberDigits = 1000

func (r *jqReader) numeral(from, to int) (value any, end int) {
	text := r.source[from:to]
	whole := !strings.ContainsAny(text, ".eE")
	if whole && text != "-0" {
		if n, err := strconv.Atoi(text); err == nil {
			return n, to
		}
	}
	if len(text) > maxNumberDigits {
		return r.refuse(fmt.Errorf("a number at byte %d has %d characters: jq computes with at most %d", from, len(text), maxNumberDigits))
	}
	if !whole {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return r.refuse(fmt.Errorf("the number %.*s is out of range", maxNumberText, text))
		}
	}
	return json.Number(text), to
}

func (r *jqReader) string(i int) (value any, end int) {
	end, escaped := r.text(i)
	if r.fault != nil {
		return nil, end
	}
	text, err := r.content(i+1, end-1, escaped)
	if err != nil {
		return r.refuse(err)
	}
	return text, end
}

// content is the text between quotes.
func (r *jqReader) content(from, to int, escaped bool) (string, error) {
	body := r.doc[from:to]
	if !r.valid && !utf8.Valid(body) {
		return "", fmt.Errorf("the string at byte %d is no UTF-8: jq would replace some of it", from)
	}
	if !escaped {
		return r.source[from:to], nil
	}
	return unescape(body)
}

// opened reads the bracket at i and reports whether the closing one follows.
func (r *jqReader) opened(i int, closing byte) (next int, empty bool) {
	if r.depth++; r.depth > maxJSONDepth {
		r.fail(i, fmt.Sprintf("it nests deeper than %d", maxJSONDepth))
		return len(r.doc), false
	}
	i = r.space(i + 1)
	if i < len(r.doc) && r.doc[i] == closing {
		r.depth--
		return i + 1, true
	}
	return i, false
}

// after reads what follows a member: a comma, or the end.
func (r *jqReader) after(i int, closing byte) (next int, done bool) {
	i = r.space(i)
	switch {
	case i < len(r.doc) && r.doc[i] == ',':
		return r.space(i + 1), false
	case i < len(r.doc) && r.doc[i] == closing:
		r.depth--
		return i + 1, true
	}
	return r.fail(i, `"," or the closing bracket should stand here`), true
}

func (r *jqReader) array(i int) (value any, end int) {
	from := len(r.list)
	i, done := r.opened(i, ']')
	for !done && !r.stopped() {
		var element any
		element, i = r.decode(i)
		r.list = append(r.list, element)
		if !r.stopped() {
			i, done = r.after(i, ']')
		}
	}
	list := make([]any, len(r.list)-from)
	copy(list, r.list[from:])
	clear(r.list[from:])
	r.list = r.list[:from]
	return list, i
}

func (r *jqReader) object(i int) (value any, end int) {
	fields := map[string]any{}
	i, done := r.opened(i, '}')
	for !done && !r.stopped() {
		var m member
		if m, i = r.name(i); r.stopped() {
			break
		}
		name, err := r.content(m.nameStart, m.nameEnd, m.escaped)
		if err != nil {
			return r.refuse(err)
		}
		if _, known := fields[name]; known {
			return r.refuse(fmt.Errorf("the field %.*q is there twice: jq would drop one", maxNumberText, name))
		}
		fields[name], i = r.decode(i)
		if !r.stopped() {
			i, done = r.after(i, '}')
		}
	}
	return fields, i
}
