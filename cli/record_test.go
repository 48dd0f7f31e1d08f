package cli

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/transform"
)

// hardBytes are what a text form of bytes may change.
var hardBytes = [][]byte{
	nil,
	{},
	[]byte("text"), []byte("null"), []byte("1.10"), []byte(`"quoted"`), []byte(`{"a":1.10,"a":2}`), []byte(`{"a": "\u0041<&>" }`),
	[]byte("{\"a\":\n1}"), []byte(` {"a":1}`), []byte(`{"a":1} `), []byte(`[1,2`), []byte(`[]`), []byte("line\nbreak\r\t\x00"),
	{0xff, 0xfe, 0},
	[]byte("\xef\xbb\xbf{}"),
	[]byte("{\"a\":\"\xff\"}"), []byte("ü\u2028\u2029"), []byte(`{"big":123456789012345678901234567890}`), []byte("\ufffd"),
}

// TestRecordRoundTrip: what is written is read as the same, whatever the bytes.
func TestRecordRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := func() []byte { return hardBytes[rng.IntN(len(hardBytes))] }
	for i := range 2000 {
		r := transform.Record{
			Topic: "orders", Partition: rng.Int32N(9), Offset: int64(i), Key: some(), Value: hardBytes[i%len(hardBytes)], Timestamp: time.UnixMilli(rng.Int64N(1e15)).UTC(),
		}
		if rng.IntN(3) == 0 {
			r.Target = "<other>"
		}
		for range rng.IntN(3) {
			r.Headers = append(r.Headers, transform.Header{Key: string(some()), Value: some()})
		}
		line := appendRecord(nil, &r)
		if !json.Valid(line) || bytes.ContainsAny(line, "\n\r") {
			t.Fatalf("not JSON in one line: %s", line)
		}
		text, err := decodeRecord(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got, err := text.over(transform.Record{})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !sameRecord(r, got) || r.Topic != got.Topic || r.Partition != got.Partition || r.Offset != got.Offset {
			t.Fatalf("%s: read as %+v, want %+v", line, got, r)
		}
	}
}

func TestRecordRead(t *testing.T) {
	for line, want := range map[string]string{
		`{"value":{"a": 1.10}}`:                `key null value '{"a": 1.10}' 1970-01-01T00:00:00.000Z`,
		`{"key":null,"value":"x\u0041"}`:       `key null value 'xA' 1970-01-01T00:00:00.000Z`,
		`{"key_base64":"/w==","value":true}`:   `key "\xff" value 'true' 1970-01-01T00:00:00.000Z`,
		`{"key":"","timestamp":1700000000000}`: `key '' value null 2023-11-14T22:13:20.000Z`,
	} {
		text, err := decodeRecord([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		r, err := text.over(firstBase(3))
		if err != nil {
			t.Fatal(err)
		}
		got := "key " + excerpt(r.Key, 0) + " value " + excerpt(r.Value, 0) + " " + strings.Trim(formatTime(r.Timestamp), `"`)
		if got != want || r.Topic != "input" || r.Offset != 3 {
			t.Errorf("%s: read as %s, want %s", line, got, want)
		}
	}
	for line, want := range map[string]string{
		``:                                     "ends too early",
		`{"value":1`:                           "ends too early",
		`[]`:                                   "not a record",
		`{"valeu":1}`:                          `unknown field "valeu"`,
		`{"value":1} {}`:                       "text follows",
		`{"value":1,"value_base64":"AA=="}`:    "value and value_base64 are both there",
		`{"value_base64":"%"}`:                 "not a record",
		"{\"value\":\"\xff\"}":                 "no UTF-8",
		`{"value":"\ud800"}`:                   "surrogate",
		`{"timestamp":"noon"}`:                 "neither RFC 3339",
		`{"timestamp":null}`:                   "neither RFC 3339",
		`{"headers":[{"value":"x"}]}`:          "header 1: its key is missing",
		`{"headers":[{"key":"a"},{"kye":""}]}`: `unknown field "kye"`,
		`{"partition":4294967296}`:             "not a record",
	} {
		text, err := decodeRecord([]byte(line))
		if err == nil {
			_, err = text.over(transform.Record{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", line, err, want)
		}
	}
}

func TestDifferences(t *testing.T) {
	long := strings.Repeat("ü", 100)
	a := transform.Record{Key: []byte("k"), Value: []byte(`{"tier":"gold"}`), Headers: []transform.Header{{Key: "h", Value: []byte("1")}}, Timestamp: time.UnixMilli(1)}
	for name, row := range map[string]struct {
		change func(r *transform.Record)
		want   string
	}{
		"none":      {func(*transform.Record) {}, ""},
		"value":     {func(r *transform.Record) { r.Value = []byte(`{"tier":"silver"}`) }, "value: differs from byte 9 on\n  want '{\"tier\":\"gold\"}'\n  got  '{\"tier\":\"silver\"}'\n  from there want 67 6f 6c 64 22 7d, got  73 69 6c 76 65 72 22 7d"},
		"longer":    {func(r *transform.Record) { r.Value = []byte(`{"tier":"gold"}` + "\n") }, "value: differs from byte 15 on\n  want '{\"tier\":\"gold\"}'\n  got  \"{\\\"tier\\\":\\\"gold\\\"}\\n\"\n  from there want nothing, got  0a"},
		"null":      {func(r *transform.Record) { r.Key = nil }, "key: want 'k', got  null"},
		"empty":     {func(r *transform.Record) { r.Key = []byte{} }, "key: differs from byte 0 on\n  want 'k'\n  got  ''\n  from there want 6b, got  nothing"},
		"excerpt":   {func(r *transform.Record) { r.Key = []byte(long) }, "key: differs from byte 0 on\n  want 'k'\n  got  '" + strings.Repeat("ü", 32) + "'…\n  from there want 6b, got  c3 bc c3 bc c3 bc c3 bc …"},
		"header":    {func(r *transform.Record) { r.Headers = []transform.Header{{Key: "h"}} }, "header \"h\": want '1', got  null"},
		"headers":   {func(r *transform.Record) { r.Headers = nil }, "headers: differ\n  want h='1'\n  got  none"},
		"timestamp": {func(r *transform.Record) { r.Timestamp = time.UnixMilli(2) }, `timestamp: want "1970-01-01T00:00:00.001Z", got  "1970-01-01T00:00:00.002Z"`},
		"target":    {func(r *transform.Record) { r.Target = "eu" }, "target: want the default output, got  eu"},
	} {
		b := cloneRecord(&a)
		row.change(&b)
		if got := strings.Join(differences(sides{"want", "got "}, &a, &b), "\n"); got != row.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, row.want)
		}
	}
}

// FuzzRecord: a line that is read is written such that it is read again.
func FuzzRecord(f *testing.F) {
	for _, value := range hardBytes {
		f.Add(appendRecord(nil, &transform.Record{Topic: "t", Value: value, Headers: []transform.Header{{Key: "h", Value: value}}}))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		text, err := decodeRecord(line)
		if err != nil {
			return
		}
		r, err := text.over(transform.Record{})
		if err != nil {
			return
		}
		written := appendRecord(nil, &r)
		text, err = decodeRecord(written)
		if err != nil {
			t.Fatalf("%s was read and written as %s: %v", line, written, err)
		}
		again, err := text.over(transform.Record{})
		if err != nil || !sameRecord(r, again) && r.Timestamp.Equal(again.Timestamp) {
			t.Fatalf("%s was written as %s: %v", line, written, err)
		}
	})
}
