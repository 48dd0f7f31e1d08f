package transform

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// timeFormat is how a point in time is written in a field.
type timeFormat struct {
	name     string
	perUnit  int64  // of numbers: nanoseconds in one
	decimals int    // of numbers: how many decimal places make nanoseconds
	layout   string // of strings: package time's
}

// timeFormats are those with a name.
var timeFormats = []timeFormat{ //nolint:gochecknoglobals // a table
	{name: "unix", perUnit: 1e9, decimals: 9},
	{name: "unix_ms", perUnit: 1e6, decimals: 6},
	{name: "unix_us", perUnit: 1e3, decimals: 3},
	{name: "unix_ns", perUnit: 1, decimals: 0},
	{name: "rfc3339", layout: time.RFC3339Nano},
}

// timeFormat reads the name of a format, or a layout in quotes.
func (r *argReader) timeFormat() (timeFormat, error) {
	r.space()
	start := r.at
	word, quoted, err := r.word("the format", ",")
	if err != nil {
		return timeFormat{}, err
	}
	if quoted {
		// A layout without any of Go's reference numbers would print itself.
		if word == time.Unix(1e9, 987654321).UTC().Format(word) {
			return timeFormat{}, errAt(start, fmt.Errorf(`the layout %q names no part of a time: write how 2006-01-02T15:04:05.000Z07:00 would look`, word))
		}
		return timeFormat{name: "the layout", layout: word}, nil
	}
	for _, f := range timeFormats {
		if f.name == word {
			return f, nil
		}
	}
	return timeFormat{}, errAt(start, fmt.Errorf("unknown format %q: use unix, unix_ms, unix_us, unix_ns, rfc3339, or a layout of Go in quotes", word))
}

var (
	errNoTime   = errors.New("is not a time in this format")
	errTimeSpan = errors.New("is outside of the years 1 to 9999")
)

// parse reads the JSON value raw. Zones in letters mean nothing but UTC: what else they
// would mean depends on the machine.
func (f *timeFormat) parse(raw []byte) (time.Time, error) {
	text := raw
	if raw[0] == '"' {
		text = jsonText(raw)
	}
	if f.layout != "" {
		if raw[0] != '"' {
			return time.Time{}, errNoTime
		}
		t, err := time.ParseInLocation(f.layout, string(text), time.UTC)
		if err != nil {
			return time.Time{}, errNoTime
		}
		return inSpan(t.UTC())
	}
	if !validNumber(text) || bytes.ContainsAny(text, "eE") {
		return time.Time{}, errNoTime
	}
	whole, fraction, _ := bytes.Cut(text, []byte{'.'})
	count, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil {
		return time.Time{}, errTimeSpan
	}
	perSecond := int64(time.Second) / f.perUnit
	nanos := count % perSecond * f.perUnit
	part := int64(0)
	for i := range f.decimals {
		part *= 10
		if i < len(fraction) {
			part += int64(fraction[i] - '0')
		}
	}
	if text[0] == '-' {
		part = -part
	}
	return inSpan(time.Unix(count/perSecond, nanos+part).UTC())
}

func inSpan(t time.Time) (time.Time, error) {
	if year := t.Year(); year < 1 || year > 9999 {
		return time.Time{}, errTimeSpan
	}
	return t, nil
}

// append writes t as a JSON value. Numbers are whole, rounded down. Nil means that the number
// does not fit into 64 bits.
func (f *timeFormat) append(dst []byte, t time.Time) []byte {
	if f.layout != "" {
		return appendQuoted(dst, t.UTC().Format(f.layout))
	}
	perSecond := int64(time.Second) / f.perUnit
	count := t.Unix()
	if perSecond == int64(time.Second) && (count > maxNanoSeconds || count < -maxNanoSeconds) {
		return nil
	}
	return strconv.AppendInt(dst, count*perSecond+int64(t.Nanosecond())/f.perUnit, 10)
}

// maxNanoSeconds is how many seconds from 1970 nanoseconds in 64 bits reach: to 2262.
const maxNanoSeconds = 9_223_372_035
