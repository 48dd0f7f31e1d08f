package batch

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Encoder makes batches of records, for those that arrived in a batch that is not Portable. It is used by one
// goroutine at a time.
type Encoder struct {
	limit      int
	compressor kgo.Compressor // nil: none
	records    []byte         // of the batch in the making, not yet compressed
	packed     bytes.Buffer
}

// NewEncoder answers an encoder of batches that hold at most limit bytes before they are compressed, header included; a
// record that is larger gets a batch of its own, and the broker has the word. Of the codecs the first one is used that
// kgo's compressor knows; none means no compression.
func NewEncoder(limit int, codecs ...kgo.CompressionCodec) (*Encoder, error) {
	compressor, err := kgo.DefaultCompressor(codecs...)
	if err != nil {
		return nil, err
	}
	return &Encoder{limit: limit, compressor: compressor}, nil
}

// Encode makes batches of records of one partition, in their order. A reader sees the same keys, values, headers and
// timestamps, the latter in whole milliseconds. The batches belong to nobody yet: see Reframe.
func (e *Encoder) Encode(records []*kgo.Record) []Batch {
	var batches []Batch
	for len(records) > 0 {
		var n int
		var b Batch
		b, n = e.one(records)
		batches, records = append(batches, b), records[n:]
	}
	return batches
}

// one makes a batch of as many records as it may hold, at least one, and answers how many.
func (e *Encoder) one(records []*kgo.Record) (Batch, int) {
	base := records[0].Timestamp.UnixMilli()
	newest := int64(math.MinInt64)
	e.records = e.records[:0]
	n := 0
	for _, r := range records {
		at := r.Timestamp.UnixMilli()
		before := len(e.records)
		e.records = appendRecord(e.records, r, at-base, n)
		if n > 0 && headerSize+len(e.records) > e.limit {
			e.records = e.records[:before]
			break
		}
		newest = max(newest, at)
		n++
	}

	body, codec := e.records, kgo.CodecNone
	if e.compressor != nil {
		e.packed.Reset()
		if packed, by := e.compressor.Compress(&e.packed, e.records); len(packed) < len(e.records) {
			body, codec = packed, by // else it would be larger than max
		}
	}
	b := make(Batch, headerSize, headerSize+len(body))
	b = append(b, body...)
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthEnd))
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], ^uint32(0))
	b[atMagic] = 2
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(codec))
	binary.BigEndian.PutUint32(b[atLastDelta:], uint32(n-1))
	binary.BigEndian.PutUint64(b[atBaseTimestamp:], uint64(base))
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(newest))
	binary.BigEndian.PutUint64(b[atProducerID:], ^uint64(0))
	binary.BigEndian.PutUint16(b[atProducerEpoch:], ^uint16(0))
	binary.BigEndian.PutUint32(b[atBaseSequence:], ^uint32(0))
	binary.BigEndian.PutUint32(b[atCount:], uint32(n))
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli)))
	return b, n
}

// appendRecord encodes one record: its length, then attributes (none are defined), the differences of timestamp and
// offset to the batch's, key, value and headers. Null has the length -1.
func appendRecord(dst []byte, r *kgo.Record, sinceBase int64, index int) []byte {
	dst = binary.AppendVarint(dst, int64(recordSize(r, sinceBase, index)))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, sinceBase)
	dst = binary.AppendVarint(dst, int64(index))
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func recordSize(r *kgo.Record, sinceBase int64, index int) int {
	size := 1 + varintSize(sinceBase) + varintSize(int64(index)) + bytesSize(r.Key) + bytesSize(r.Value) +
		varintSize(int64(len(r.Headers)))
	for _, h := range r.Headers {
		size += varintSize(int64(len(h.Key))) + len(h.Key) + bytesSize(h.Value)
	}
	return size
}

func bytesSize(b []byte) int {
	if b == nil {
		return varintSize(-1)
	}
	return varintSize(int64(len(b))) + len(b)
}

func varintSize(v int64) int {
	var scratch [binary.MaxVarintLen64]byte
	return binary.PutVarint(scratch[:], v)
}
