package oracle

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Source is an input partition.
type Source struct {
	Topic     string
	Partition int32
}

// String is topic/partition.
func (s Source) String() string { return s.Topic + "/" + strconv.Itoa(int(s.Partition)) }

// Origin is what makes a fed record unique: its input partition, and how many
// records were fed into that partition before it.
type Origin struct {
	Source
	Seq int64
}

// String is topic/partition/seq; [ParseOrigin] reads it.
func (o Origin) String() string { return o.Source.String() + "/" + strconv.FormatInt(o.Seq, 10) }

// ErrNoOrigin says that a text or a record does not name its origin.
var ErrNoOrigin = errors.New("no origin")

// ParseOrigin reads the form that [Origin.String] writes.
func ParseOrigin(text string) (Origin, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" {
		return Origin{}, fmt.Errorf("%w: %q", ErrNoOrigin, text)
	}
	partition, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return Origin{}, fmt.Errorf("%w: %q: %w", ErrNoOrigin, text, err)
	}
	seq, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || seq < 0 {
		return Origin{}, fmt.Errorf("%w: %q: bad number", ErrNoOrigin, text)
	}
	return Origin{Source: Source{Topic: parts[0], Partition: int32(partition)}, Seq: seq}, nil
}

// originHeader carries the origin, because a value may be null or empty.
const originHeader = "origin"

// keepHeader says "yes" or "no" where [Form.Keep] is set.
const keepHeader = "keep"

// Form renders the record of an origin, the same bytes each time it is asked.
// It is read only once in use.
type Form struct {
	// Size of a value in bytes; a value is never shorter than its origin.
	Size int
	// Keys is the number of distinct keys; 0 means null keys.
	Keys int
	// Base is the timestamp of every first record; ten records share a millisecond.
	Base time.Time
	// Keep, if set, stamps the header keep=yes or keep=no, and only the records
	// with yes are wanted in the output.
	Keep func(Origin) bool
	// Plain leaves out null and empty values, which are otherwise mixed in.
	Plain bool
}

// NewForm is a form of keyed records of size bytes, based at the present time.
func NewForm(size, keys int) Form {
	return Form{Size: size, Keys: keys, Base: time.Now().Truncate(time.Millisecond)}
}

// wanted says whether the origin's record has to be in the output.
func (f Form) wanted(o Origin) bool { return f.Keep == nil || f.Keep(o) }

// Record renders o as a record to be produced to its source partition.
func (f Form) Record(o Origin) *kgo.Record {
	r := &kgo.Record{
		Topic:     o.Topic,
		Partition: o.Partition,
		Value:     f.value(o),
		Timestamp: f.Base.Add(time.Duration(o.Seq/10) * time.Millisecond),
		Headers:   f.headers(o),
	}
	if f.Keys > 0 {
		r.Key = []byte("key-" + strconv.FormatInt((o.Seq*31+int64(o.Partition))%int64(f.Keys), 10))
	}
	return r
}

func (f Form) headers(o Origin) []kgo.RecordHeader {
	headers := []kgo.RecordHeader{
		{Key: originHeader, Value: []byte(o.String())},
		{Key: "twice", Value: []byte{0xff, 0x00, byte(o.Seq)}},
		{Key: "twice", Value: []byte{}},
	}
	if o.Seq%5 == 0 {
		headers = append(headers, kgo.RecordHeader{Key: "null"})
	}
	if f.Keep != nil {
		answer := "no"
		if f.Keep(o) {
			answer = "yes"
		}
		headers = append(headers, kgo.RecordHeader{Key: keepHeader, Value: []byte(answer)})
	}
	return headers
}

func (f Form) value(o Origin) []byte {
	if !f.Plain {
		switch o.Seq % 101 {
		case 17:
			return nil
		case 71:
			return []byte{}
		}
	}
	text := o.String()
	value := make([]byte, 0, max(f.Size, len(text)))
	value = append(value, text...)
	sum := fnv.New64a()
	for len(value) < f.Size {
		fmt.Fprint(sum, text)
		value = sum.Sum(value)
	}
	return value[:max(f.Size, len(text))]
}

// OriginOf reads the origin from the record's header; ErrNoOrigin if there is none.
func OriginOf(r *kgo.Record) (Origin, error) {
	for _, h := range r.Headers {
		if h.Key == originHeader {
			return ParseOrigin(string(h.Value))
		}
	}
	return Origin{}, ErrNoOrigin
}

// differences names the fields in which got is not want; empty if none. Null
// and empty are different.
func differences(want, got *kgo.Record) string {
	var fields []string
	if !sameBytes(want.Key, got.Key) {
		fields = append(fields, fmt.Sprintf("key %q, was %q", got.Key, want.Key))
	}
	if !sameBytes(want.Value, got.Value) {
		fields = append(fields, fmt.Sprintf("value %.40q, was %.40q", got.Value, want.Value))
	}
	if !want.Timestamp.Equal(got.Timestamp) {
		fields = append(fields, fmt.Sprintf("timestamp %d, was %d", got.Timestamp.UnixMilli(), want.Timestamp.UnixMilli()))
	}
	if !sameHeaders(want.Headers, got.Headers) {
		fields = append(fields, fmt.Sprintf("headers %.200q, were %.200q", got.Headers, want.Headers))
	}
	return strings.Join(fields, "; ")
}

func sameHeaders(a, b []kgo.RecordHeader) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || !sameBytes(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
