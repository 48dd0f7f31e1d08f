package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jqWriter writes results of a program as gojq.Marshal does, byte for byte. It is the package's own because that one
// allocates a dozen times for a small object, and has no word for what JSON has no form for: it would write null, a large
// number, and other characters.
type jqWriter struct {
	text   []byte    // of the result at hand
	fields []jqField // of the objects that are being written, the innermost at the end

	left         int  // see weigh
	nowhere, odd bool // a number, a string that JSON has no form for
}

type jqField struct {
	name  string
	value any
}

var (
	errNotFinite = errors.New("a number of the result is infinite or none: JSON has no form for it")
	errNotUTF8   = errors.New("a string of the result is no UTF-8: jq would replace some of it")
)

// keepText bounds, in bytes, the text a writer keeps for the next result.
const keepText = 1 << 20

// write returns the text of v, in memory of its own.
func (w *jqWriter) write(v any) ([]byte, error) {
	w.text, w.left, w.nowhere, w.odd = w.text[:0], jqWeight, false, false
	fits := w.value(v, maxJSONDepth)
	clear(w.fields)
	w.fields = w.fields[:0]
	if cap(w.text) > keepText {
		defer func() { w.text, w.fields = nil, nil }()
	}
	switch {
	case !fits:
		return nil, errJQLarge
	case w.nowhere:
		return nil, errNotFinite
	case w.odd:
		return nil, errNotUTF8
	}
	return bytes.Clone(w.text), nil
}

// value appends v and reports whether it is within the bounds that weigh has.
func (w *jqWriter) value(v any, depth int) bool {
	w.left -= 4
	switch v := v.(type) {
	case nil:
		w.text = append(w.text, "null"...)
	case bool:
		w.text = strconv.AppendBool(w.text, v)
	case int:
		w.text = strconv.AppendInt(w.text, int64(v), 10)
	case float64:
		w.number(v)
	case *big.Int:
		w.left -= v.BitLen() / 3
		w.text = v.Append(w.text, 10)
	case json.Number:
		w.left -= len(v)
		w.text = append(w.text, v...)
	case string:
		w.left -= len(v)
		w.string(v)
	case []any:
		return w.array(v, depth)
	case map[string]any:
		return w.object(v, depth)
	default:
		panic(fmt.Sprintf("jq gave a %T", v))
	}
	return w.left >= 0
}

func (w *jqWriter) array(list []any, depth int) bool {
	if len(list) > 0 && depth == 0 {
		return false
	}
	w.text = append(w.text, '[')
	for i, element := range list {
		if i > 0 {
			w.text = append(w.text, ',')
		}
		if !w.value(element, depth-1) {
			return false
		}
	}
	w.text = append(w.text, ']')
	return w.left >= 0
}

func (w *jqWriter) object(fields map[string]any, depth int) bool {
	if len(fields) > 0 && depth == 0 {
		return false
	}
	from := len(w.fields)
	for name, value := range fields {
		w.left -= len(name) + 4
		w.fields = append(w.fields, jqField{name, value})
	}
	to := len(w.fields)
	slices.SortFunc(w.fields[from:], func(a, b jqField) int { return strings.Compare(a.name, b.name) })
	w.text = append(w.text, '{')
	for i := from; i < to; i++ {
		if i > from {
			w.text = append(w.text, ',')
		}
		w.string(w.fields[i].name)
		w.text = append(w.text, ':')
		if !w.value(w.fields[i].value, depth-1) {
			return false
		}
	}
	clear(w.fields[from:to])
	w.fields = w.fields[:from]
	w.text = append(w.text, '}')
	return w.left >= 0
}

// number appends as encoding/json does: the shortest text that is read as the same number, with an exponent where it is
// very large or small.
func (w *jqWriter) number(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.nowhere = true
		return
	}
	format := byte('f')
	if x := math.Abs(f); x != 0 && (x < 1e-6 || x >= 1e21) {
		format = 'e'
	}
	w.text = strconv.AppendFloat(w.text, f, format, -1, 64)
	if n := len(w.text); format == 'e' && w.text[n-4] == 'e' && w.text[n-3] == '-' && w.text[n-2] == '0' {
		w.text[n-2] = w.text[n-1] // e-09 is e-9
		w.text = w.text[:n-1]
	}
}

func (w *jqWriter) string(s string) {
	const hex = "0123456789abcdef"
	w.text = append(w.text, '"')
	from, ascii := 0, true
	for i := range len(s) {
		c := s[i]
		if ' ' <= c && c <= '~' && c != '"' && c != '\\' {
			continue
		}
		if c >= utf8.RuneSelf {
			ascii = false
			continue
		}
		w.text = append(w.text, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			w.text = append(w.text, '\\', c)
		case '\b':
			w.text = append(w.text, '\\', 'b')
		case '\f':
			w.text = append(w.text, '\\', 'f')
		case '\n':
			w.text = append(w.text, '\\', 'n')
		case '\r':
			w.text = append(w.text, '\\', 'r')
		case '\t':
			w.text = append(w.text, '\\', 't')
		default:
			w.text = append(w.text, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	w.text = append(append(w.text, s[from:]...), '"')
	w.odd = w.odd || !ascii && !utf8.ValidString(s)
}
