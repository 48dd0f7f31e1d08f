package measure

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Each record says where it belongs, so that the output can be checked record
// by record:
//
//	value  "pppp nnnnnnnnnn cccccccc tttttttttttttttttt text…"
//
// with the partition, the number within the partition, the CRC-32C of all that
// follows it, and the time in Unix nanoseconds. The key has 14 bytes and follows
// from the number; there is one header.
const (
	keyStem     = "user-"
	keyLength   = 14
	users       = 100_003 // prime: the users come in the same order in no two partitions
	atNumber    = 5
	atSum       = 16
	atTime      = 25
	atText      = 45
	smallest    = atText + 1
	castagnoli  = crc32.Castagnoli
	headerKey   = "origin"
	headerValue = "bench-00"
)

var sums = crc32.MakeTable(castagnoli)

// generator makes records of one size. It may be used by one goroutine.
type generator struct {
	size int
	text []byte // values are cut out of it
	slab []byte // keys and values are cut off it
}

// textLength is far beyond what a compressor remembers, so that only the likeness of
// words compresses and not the repetition of whole values.
const textLength = 8 << 20

func newGenerator(size int) *generator {
	words := strings.Fields("order created payment accepted customer region basket shipped refund pending " +
		"currency amount EUR USD warehouse retail online mobile campaign session invoice delivered returned")
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same text in every run, on purpose
	text := make([]byte, 0, textLength+64)
	for len(text) < textLength {
		if r.IntN(3) == 0 {
			text = strconv.AppendUint(text, uint64(r.Uint32()), 36)
		} else {
			text = append(text, words[r.IntN(len(words))]...)
		}
		text = append(text, ' ')
	}
	return &generator{size: max(size, smallest), text: text}
}

// record is the n-th record of a partition.
func (g *generator) record(topic string, p int32, n int64, at time.Time) *kgo.Record {
	if len(g.slab) < g.size+keyLength {
		g.slab = make([]byte, max(1<<20, g.size+keyLength))
	}
	key, value := g.slab[:keyLength:keyLength], g.slab[keyLength:keyLength+g.size:keyLength+g.size]
	g.slab = g.slab[keyLength+g.size:]
	putKey(key, p, n)
	putDigits(value[:atNumber-1], int64(p))
	putDigits(value[atNumber:atSum-1], n)
	putDigits(value[atTime:atText-1], at.UnixNano())
	for _, i := range []int{atNumber, atSum, atTime, atText} {
		value[i-1] = ' '
	}
	// Steps that share no factor with the length walk over the whole text.
	from := (n*104_729 + int64(p)*15_485_863) % int64(len(g.text)-g.size)
	copy(value[atText:], g.text[from:])
	putHex(value[atSum:atTime-1], crc32.Checksum(value[atTime:], sums))
	return &kgo.Record{
		Topic: topic, Partition: p, Key: key, Value: value, Timestamp: at,
		Headers: []kgo.RecordHeader{{Key: headerKey, Value: []byte(headerValue)}},
	}
}

// origin is what a record says of itself.
type origin struct {
	partition int32
	number    int64
	sent      time.Time
}

// originOf reads a record; ok is false if it is not exactly as it was made.
func originOf(r *kgo.Record, size int) (o origin, ok bool) {
	v := r.Value
	if len(v) != max(size, smallest) || len(r.Key) != keyLength || len(r.Headers) != 1 {
		return o, false
	}
	p, okP := digits(v[:atNumber-1])
	n, okN := digits(v[atNumber : atSum-1])
	t, okT := digits(v[atTime : atText-1])
	o = origin{partition: int32(p), number: n, sent: time.Unix(0, t)} //nolint:gosec // four digits
	if !okP || !okN || !okT || o.partition != r.Partition {
		return o, false
	}
	var sum [8]byte
	putHex(sum[:], crc32.Checksum(v[atTime:], sums))
	var key [keyLength]byte
	putKey(key[:], o.partition, n)
	h := r.Headers[0]
	return o, bytes.Equal(sum[:], v[atSum:atTime-1]) && bytes.Equal(key[:], r.Key) &&
		h.Key == headerKey && string(h.Value) == headerValue
}

func putKey(key []byte, p int32, n int64) {
	copy(key, keyStem)
	putDigits(key[len(keyStem):], (n*31+int64(p))%users)
}

// putDigits fills b with a number and leading zeros.
func putDigits(b []byte, n int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

func digits(b []byte) (n int64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

func putHex(b []byte, n uint32) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
}
