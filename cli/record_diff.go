package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eosbridge/eosbridge/transform"
)

// sides names the two records of a comparison, in words of equal length.
type sides struct{ a, b string }

// differences tells in which fields two records differ, a line or several for each, and how. Coordinates are not compared:
// a chain cannot change them.
func differences(in sides, a, b *transform.Record) []string {
	lines := in.bytes("key", a.Key, b.Key)
	lines = append(lines, in.bytes("value", a.Value, b.Value)...)
	lines = append(lines, in.headers(a.Headers, b.Headers)...)
	if !a.Timestamp.Equal(b.Timestamp) {
		lines = append(lines, fmt.Sprintf("timestamp: %s %s, %s %s", in.a, formatTime(a.Timestamp), in.b, formatTime(b.Timestamp)))
	}
	if a.Target != b.Target {
		name := func(target string) string {
			if target == "" {
				return "the default output"
			}
			return target
		}
		lines = append(lines, fmt.Sprintf("target: %s %s, %s %s", in.a, name(a.Target), in.b, name(b.Target)))
	}
	return lines
}

// excerptBefore and excerptAfter bound what is shown of a value around its first difference, hexBytes what is
// shown of it byte by byte; all in bytes.
const (
	excerptBefore = 32
	excerptAfter  = 64
	hexBytes      = 8
)

// bytes compares two fields.
func (in sides) bytes(field string, a, b []byte) []string {
	switch {
	case (a == nil) == (b == nil) && bytes.Equal(a, b):
		return nil
	case a == nil || b == nil:
		return []string{fmt.Sprintf("%s: %s %s, %s %s", field, in.a, excerpt(a, 0), in.b, excerpt(b, 0))}
	}
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	return []string{
		fmt.Sprintf("%s: differs from byte %d on", field, at),
		fmt.Sprintf("  %s %s", in.a, excerpt(a, at)),
		fmt.Sprintf("  %s %s", in.b, excerpt(b, at)),
		fmt.Sprintf("  from there %s %s, %s %s", in.a, hexDump(a[at:]), in.b, hexDump(b[at:])),
	}
}

func hexDump(b []byte) string {
	if len(b) == 0 {
		return "nothing"
	}
	text := fmt.Sprintf("% x", b[:min(len(b), hexBytes)])
	if len(b) > hexBytes {
		text += " …"
	}
	return text
}

// excerpt shows bytes around a place, quoted: as they are if they are plain text, else as a string of Go.
func excerpt(b []byte, at int) string {
	if b == nil {
		return "null"
	}
	from, to := max(at-excerptBefore, 0), min(at+excerptAfter, len(b))
	for from > 0 && from > at-excerptBefore-utf8.UTFMax && !utf8.RuneStart(b[from]) {
		from--
	}
	for to < len(b) && to < at+excerptAfter+utf8.UTFMax && !utf8.RuneStart(b[to]) {
		to++
	}
	plain := string(b[from:to])
	text := strconv.Quote(plain)
	if text == `"`+strings.ReplaceAll(plain, `"`, `\"`)+`"` { // nothing but the quotes had to be escaped
		text = "'" + plain + "'"
	}
	if from > 0 {
		text = "…" + text
	}
	if to < len(b) {
		text += "…"
	}
	return text
}

// headers compares two lists: value by value if the names are the same, else as a whole.
func (in sides) headers(a, b []transform.Header) []string {
	if !slices.EqualFunc(a, b, func(a, b transform.Header) bool { return a.Key == b.Key }) {
		return []string{"headers: differ", "  " + in.a + " " + headerList(a), "  " + in.b + " " + headerList(b)}
	}
	var lines []string
	for i := range a {
		lines = append(lines, in.bytes("header "+strconv.Quote(a[i].Key), a[i].Value, b[i].Value)...)
	}
	return lines
}

func headerList(headers []transform.Header) string {
	if len(headers) == 0 {
		return "none"
	}
	var texts []string
	for _, h := range headers {
		texts = append(texts, h.Key+"="+excerpt(h.Value, 0))
	}
	return strings.Join(texts, " ")
}

// sameRecord tells whether two records are the same to a reader.
func sameRecord(a, b transform.Record) bool {
	return len(differences(sides{}, &a, &b)) == 0
}

// cloneRecord copies a record and all it points at.
func cloneRecord(r *transform.Record) transform.Record {
	c := *r
	c.Key, c.Value, c.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = bytes.Clone(c.Headers[i].Value)
	}
	return c
}

func cloneRecords(records []transform.Record) []transform.Record {
	clones := make([]transform.Record, len(records))
	for i := range records {
		clones[i] = cloneRecord(&records[i])
	}
	return clones
}
