package transform

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A record as a line of a golden file:
//
//	orders/0@42 key="k" value=null h:region="eu" h:"odd name"="\x00" h:region=null ts=2026-01-02T03:04:05.678Z
//
// Bytes are Go strings in double quotes, or null. Headers stand in their order and may
// repeat. What is left out is null, or zero. A result leaves out its coordinates, which
// are those of its input, and may have target=topic.

// parseRecord reads such a line.
func parseRecord(line string) (Record, error) {
	coordinates, rest, _ := strings.Cut(line, " ")
	var r Record
	at := strings.LastIndexByte(coordinates, '@')
	slash := strings.LastIndexByte(coordinates, '/')
	if slash < 0 || at < slash {
		return r, fmt.Errorf("line %q does not begin with topic/partition@offset", line)
	}
	r.Topic = coordinates[:slash]
	partition, err := strconv.ParseInt(coordinates[slash+1:at], 10, 32)
	if err != nil {
		return r, err
	}
	r.Partition = int32(partition)
	if r.Offset, err = strconv.ParseInt(coordinates[at+1:], 10, 64); err != nil {
		return r, err
	}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		if rest, err = parseField(&r, rest); err != nil {
			return r, fmt.Errorf("line %q: %w", line, err)
		}
	}
	return r, nil
}

// parseField reads one field off the front of text and returns what follows it.
func parseField(r *Record, text string) (rest string, err error) {
	if header, isHeader := strings.CutPrefix(text, "h:"); isHeader {
		var name string
		if quoted, err := strconv.QuotedPrefix(header); err == nil {
			name, _ = strconv.Unquote(quoted)
			header = header[len(quoted):]
		} else {
			end := strings.IndexByte(header, '=')
			if end < 0 {
				return "", fmt.Errorf("the header in %q has no value", text)
			}
			name, header = header[:end], header[end:]
		}
		value, rest, err := parseBytes(strings.TrimPrefix(header, "="))
		r.Headers = append(r.Headers, Header{Key: name, Value: value})
		return rest, err
	}
	name, rest, _ := strings.Cut(text, "=")
	switch name {
	case "key":
		r.Key, rest, err = parseBytes(rest)
	case "value":
		r.Value, rest, err = parseBytes(rest)
	case "ts":
		var stamp string
		stamp, rest, _ = strings.Cut(rest, " ")
		r.Timestamp, err = time.Parse(time.RFC3339Nano, stamp)
	default:
		err = fmt.Errorf("unknown field at %q", text)
	}
	return rest, err
}

func parseBytes(text string) ([]byte, string, error) {
	if rest, null := strings.CutPrefix(text, "null"); null {
		return nil, rest, nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return nil, "", fmt.Errorf("no quoted bytes at %q", text)
	}
	unquoted, err := strconv.Unquote(quoted)
	return []byte(unquoted), text[len(quoted):], err
}

// formatResult writes a result without its coordinates.
func formatResult(r *Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "key=%s value=%s", formatBytes(r.Key), formatBytes(r.Value))
	for _, h := range r.Headers {
		name := h.Key
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
			name = strconv.Quote(name)
		}
		fmt.Fprintf(&b, " h:%s=%s", name, formatBytes(h.Value))
	}
	if !r.Timestamp.IsZero() {
		fmt.Fprintf(&b, " ts=%s", r.Timestamp.Format(time.RFC3339Nano))
	}
	if r.Target != "" {
		fmt.Fprintf(&b, " target=%s", r.Target)
	}
	return b.String()
}

func formatBytes(b []byte) string {
	if b == nil {
		return "null"
	}
	return strconv.Quote(string(b))
}

func TestRecordTextRoundTrip(t *testing.T) {
	for _, fields := range []string{
		`key=null value=null`,
		`key="" value=""`,
		`key="k\x00\xff" value="line\nbreak \"quoted\" é" ts=2026-01-02T03:04:05.678Z`,
		`key=null value="v" h:a="1" h:b=null h:a="" h:"odd name"="\x01" h:""=null`,
	} {
		r, err := parseRecord("orders/3@42 " + fields)
		if err != nil {
			t.Fatal(err)
		}
		if r.Topic != "orders" || r.Partition != 3 || r.Offset != 42 {
			t.Errorf("coordinates of %q: %s/%d@%d", fields, r.Topic, r.Partition, r.Offset)
		}
		if got := formatResult(&r); got != fields {
			t.Errorf("round trip:\n got %s\nwant %s", got, fields)
		}
	}
	for _, bad := range []string{"", "orders", "orders/x@1", "orders/1@x", "orders/0@1 key=k", "orders/0@1 colour=\"red\"", "orders/0@1 h:a", "orders/0@1 ts=noon"} {
		if _, err := parseRecord(bad); err == nil {
			t.Errorf("%q was read as a record", bad)
		}
	}
}
