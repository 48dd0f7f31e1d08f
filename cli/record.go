package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/eosbridge/eosbridge/transform"
)

// recordForm explains how a record is written. The commands that read or print records have one form.
const recordForm = `A record is a JSON object:

  {"topic":"orders","partition":0,"offset":42,"timestamp":"2026-01-02T03:04:05.678Z",
   "key":"k","value":{"amount":1.10},"headers":[{"key":"region","value":"eu"}]}

Keys and values are bytes. A string stands for its text; an object, array, number, true or false for that JSON text
as it is written; null for null. Bytes that are no UTF-8 are given in base64, as key_base64 and value_base64.
Times are RFC 3339 or milliseconds. What is left out is null, topic "input", partition 0, the offset the number of
the record from 0, the time 1970. A result that is routed has a "target".`

// recordText is a record as it was read, in which what is left out differs from null.
type recordText struct {
	Topic     *string         `json:"topic"`
	Partition *int32          `json:"partition"`
	Offset    *int64          `json:"offset"`
	Target    *string         `json:"target"`
	Timestamp json.RawMessage `json:"timestamp"`
	pairText
	Headers *[]pairText `json:"headers"`
}

// pairText is a key and a value, of a record or of a header.
type pairText struct {
	Key         json.RawMessage `json:"key"`
	KeyBase64   []byte          `json:"key_base64"`
	Value       json.RawMessage `json:"value"`
	ValueBase64 []byte          `json:"value_base64"`
}

// decodeRecord reads a record. It never shows what is in it, only what is wrong.
func decodeRecord(line []byte) (recordText, error) {
	var t recordText
	if !utf8.Valid(line) {
		return t, errors.New("the line is no UTF-8: give such bytes as key_base64 or value_base64")
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return t, errors.New("the JSON object ends too early")
		}
		return t, fmt.Errorf("not a record: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return t, errors.New("text follows the record")
	}
	return t, nil
}

// over returns the record, and what is left out from base.
func (t *recordText) over(base transform.Record) (transform.Record, error) {
	r := base
	set(&r.Topic, t.Topic)
	set(&r.Partition, t.Partition)
	set(&r.Offset, t.Offset)
	set(&r.Target, t.Target)
	var err error
	if r.Key, err = textBytes("key", t.Key, t.KeyBase64, r.Key); err != nil {
		return r, err
	}
	if r.Value, err = textBytes("value", t.Value, t.ValueBase64, r.Value); err != nil {
		return r, err
	}
	if t.Timestamp != nil {
		if r.Timestamp, err = textTime(t.Timestamp); err != nil {
			return r, err
		}
	}
	if t.Headers == nil {
		return r, nil
	}
	r.Headers = nil
	for i, pair := range *t.Headers {
		name, err := textBytes("key", pair.Key, pair.KeyBase64, nil)
		if err == nil && name == nil {
			err = errors.New("its key is missing")
		}
		var value []byte
		if err == nil {
			value, err = textBytes("value", pair.Value, pair.ValueBase64, nil)
		}
		if err != nil {
			return r, fmt.Errorf("header %d: %w", i+1, err)
		}
		r.Headers = append(r.Headers, transform.Header{Key: string(name), Value: value})
	}
	return r, nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// textBytes returns the bytes that a field stands for.
func textBytes(name string, text json.RawMessage, base64, absent []byte) ([]byte, error) {
	switch {
	case base64 != nil && text != nil:
		return nil, fmt.Errorf("%s and %s_base64 are both there: remove one", name, name)
	case base64 != nil:
		return base64, nil
	case text == nil:
		return absent, nil
	case text[0] == 'n':
		return nil, nil
	case text[0] != '"':
		return text, nil
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	// Half a surrogate pair is no character; encoding/json would put another one in its place.
	if bytes.ContainsRune([]byte(s), utf8.RuneError) && !bytes.ContainsRune(text, utf8.RuneError) && !bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`)) {
		return nil, fmt.Errorf("%s holds half of a surrogate pair, which stands for no bytes: give %s_base64", name, name)
	}
	return []byte(s), nil
}

func textTime(text json.RawMessage) (time.Time, error) {
	var ms int64
	if json.Unmarshal(text, &ms) == nil && text[0] != 'n' {
		return time.UnixMilli(ms).UTC(), nil
	}
	var at time.Time
	if err := json.Unmarshal(text, &at); err != nil || text[0] == 'n' {
		return at, fmt.Errorf("the timestamp %.40s is neither RFC 3339 nor a number of milliseconds", text)
	}
	return at, nil
}

// firstBase is what stands for what a record of input leaves out.
func firstBase(number int64) transform.Record {
	return transform.Record{Topic: "input", Offset: number, Timestamp: time.UnixMilli(0).UTC()}
}

// appendRecord writes a record in one line, such that decodeRecord reads the same.
func appendRecord(b []byte, r *transform.Record) []byte {
	b = append(append(b, `{"topic":`...), quoteJSON(r.Topic)...)
	b = fmt.Appendf(b, `,"partition":%d,"offset":%d`, r.Partition, r.Offset)
	if r.Target != "" {
		b = append(append(b, `,"target":`...), quoteJSON(r.Target)...)
	}
	b = append(append(b, `,"timestamp":`...), formatTime(r.Timestamp)...)
	b = appendBytes(append(b, ','), "key", r.Key)
	b = appendBytes(append(b, ','), "value", r.Value)
	for i, h := range r.Headers {
		separator := `},{`
		if i == 0 {
			separator = `,"headers":[{`
		}
		b = appendBytes(append(b, separator...), "key", []byte(h.Key))
		b = appendBytes(append(b, ','), "value", h.Value)
	}
	if len(r.Headers) > 0 {
		b = append(b, `}]`...)
	}
	return append(b, '}')
}

// appendBytes writes bytes as a field: JSON that an object or array consists of as it is, other text as a string, the rest
// in base64.
func appendBytes(b []byte, name string, value []byte) []byte {
	switch {
	case value == nil:
		return fmt.Appendf(b, `"%s":null`, name)
	case !utf8.Valid(value):
		encoded, _ := json.Marshal(value) // of bytes: it cannot fail
		return append(fmt.Appendf(b, `"%s_base64":`, name), encoded...)
	case standsAsJSON(value):
		return append(fmt.Appendf(b, `"%s":`, name), value...)
	}
	return append(fmt.Appendf(b, `"%s":`, name), quoteJSON(string(value))...)
}

// standsAsJSON tells whether a value is an object or array in one line without space around it.
func standsAsJSON(value []byte) bool {
	if len(value) < 2 || bytes.ContainsAny(value, "\r\n") || !json.Valid(value) {
		return false
	}
	last := value[len(value)-1]
	return value[0] == '{' && last == '}' || value[0] == '[' && last == ']'
}

// quoteJSON is a string as JSON; <, > and & stay readable.
func quoteJSON(s string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // of a string: it cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// formatTime writes whole milliseconds, which is what Kafka keeps, and as a number what RFC 3339 has no form for.
func formatTime(t time.Time) string {
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return fmt.Sprint(t.UnixMilli())
	}
	return t.Format(`"2006-01-02T15:04:05.000Z07:00"`)
}
