// Package batch is the record batch, message format v2 (KIP-98), as it lies in a log and travels in Fetch and Produce
// requests: 61 bytes of header, then the records, which may be compressed as a whole. What is fetched is handed on
// without a look at the records: Reframe changes the few header fields that belong to a producer and carries the
// checksum over.
//
//	 0 base offset       8 bytes   first offset; 0 in a Produce request
//	 8 length            4 bytes   of all that follows
//	12 leader epoch      4 bytes   of the broker that wrote it; -1 in a Produce request
//	16 magic             1 byte    2
//	17 CRC-32C           4 bytes   of all that follows
//	21 attributes        2 bytes   codec (3 bits), log append time, transactional, control, delete horizon
//	23 last offset delta 4 bytes
//	27 base timestamp    8 bytes
//	35 max timestamp     8 bytes
//	43 producer id       8 bytes
//	51 producer epoch    2 bytes
//	53 base sequence     4 bytes
//	57 count             4 bytes
//	61 records
package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What Next may answer.
var (
	// ErrPartial says that the last batch of a fetch is cut off by the fetch's size limit: fetch it again.
	ErrPartial = errors.New("record batch cut off")
	// ErrMagic says that the log holds message format 0 or 1, which has no batches of this kind. Decoder reads it.
	ErrMagic = errors.New("message format older than 2")
	// ErrCorrupt says that the bytes are no record batch.
	ErrCorrupt = errors.New("corrupt record batch")
)

// The places of the header's fields.
const (
	atBaseOffset    = 0
	atLength        = 8
	atLeaderEpoch   = 12
	atMagic         = 16
	atCRC           = 17
	atAttributes    = 21 // the checksum covers from here to the end
	atLastDelta     = 23
	atBaseTimestamp = 27
	atMaxTimestamp  = 35
	atProducerID    = 43
	atProducerEpoch = 51
	atBaseSequence  = 53
	atCount         = 57
	headerSize      = 61
	lengthEnd       = 12 // the length counts from here
)

// The bits of the attributes.
const (
	maskCodec         = 0x07
	bitLogAppendTime  = 0x08
	bitTransactional  = 0x10
	bitControl        = 0x20
	bitDeleteHorizon  = 0x40 // KIP-534: the base timestamp is the time at which the log cleaner drops tombstones
	maskKnown         = 0x7f
	maxKnownCodecType = kgo.CodecZstd
)

// Batch is one whole batch with its header, a part of a fetched answer. It is made by Next or by an Encoder; the
// methods of any other slice may panic.
type Batch []byte

// Next cuts the first batch off the bytes of a fetched partition. Empty input is no batch: check for it before. The
// error is ErrPartial, ErrMagic or ErrCorrupt; rest is then b as it was.
func Next(b []byte) (first Batch, rest []byte, err error) {
	if len(b) <= atMagic {
		return nil, b, ErrPartial
	}
	length := int64(int32(binary.BigEndian.Uint32(b[atLength:])))
	if magic := b[atMagic]; magic != 2 {
		if magic > 2 {
			return nil, b, fmt.Errorf("%w: magic %d", ErrCorrupt, magic)
		}
		return nil, b, ErrMagic
	}
	size := length + lengthEnd
	if size < headerSize {
		return nil, b, fmt.Errorf("%w: length %d", ErrCorrupt, length)
	}
	if size > int64(len(b)) {
		return nil, b, ErrPartial
	}
	return Batch(b[:size:size]), b[size:], nil
}

func (b Batch) int16(at int) int16 { return int16(binary.BigEndian.Uint16(b[at:])) }
func (b Batch) int32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b Batch) int64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

func (b Batch) has(bit int16) bool { return b.int16(atAttributes)&bit != 0 }

// BaseOffset is the offset of the first record, or of the first one that compaction has taken away.
func (b Batch) BaseOffset() int64 { return b.int64(atBaseOffset) }

// SetBaseOffset notes where a batch that an Encoder made comes from, until Reframe. The checksum does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(offset))
}

// LastOffset is the offset of the last record, or of the last one that compaction has taken away.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.int32(atLastDelta)) }

// LeaderEpoch is the epoch of the leader that has written the batch.
func (b Batch) LeaderEpoch() int32 { return b.int32(atLeaderEpoch) }

// Count is the number of records.
func (b Batch) Count() int { return int(b.int32(atCount)) }

// Codec is the compression of the records.
func (b Batch) Codec() kgo.CompressionCodecType {
	return kgo.CompressionCodecType(b.int16(atAttributes) & maskCodec)
}

// LogAppendTime reports whether the broker has set the timestamps: every record's is MaxTimestamp, whatever the
// records themselves hold.
func (b Batch) LogAppendTime() bool { return b.has(bitLogAppendTime) }

// Transactional reports whether the batch is part of a transaction.
func (b Batch) Transactional() bool { return b.has(bitTransactional) }

// Control reports whether the batch is a marker of a transaction's end. Only brokers may write these.
func (b Batch) Control() bool { return b.has(bitControl) }

// DeleteHorizon reports whether the log cleaner has noted in the batch when it will drop its tombstones.
func (b Batch) DeleteHorizon() bool { return b.has(bitDeleteHorizon) }

// ProducerID is the producer that wrote the batch, -1 for none. A batch is of one producer only.
func (b Batch) ProducerID() int64 { return b.int64(atProducerID) }

// ProducerEpoch is the epoch of that producer.
func (b Batch) ProducerEpoch() int16 { return b.int16(atProducerEpoch) }

// BaseSequence is the producer's number of the first record, -1 for none.
func (b Batch) BaseSequence() int32 { return b.int32(atBaseSequence) }

// MaxTimestamp is the newest timestamp of the records, or the time of the append (LogAppendTime).
func (b Batch) MaxTimestamp() time.Time { return time.UnixMilli(b.int64(atMaxTimestamp)) }

// Gapless reports whether the batch holds a record for each of its offsets. A broker refuses any other in a Produce
// request (LogValidator: "Inconsistent batch offset range").
func (b Batch) Gapless() bool {
	n := b.int32(atCount)
	return n > 0 && int64(b.int32(atLastDelta))+1 == int64(n)
}

// Portable reports whether a broker takes the batch from a producer, after Reframe, and keeps every record as readers
// see it now. It does not if compaction has left gaps or a delete horizon; if it is a control batch; if the broker
// has set the timestamps, for the ones it hides would come to light; or if it uses what this package does not know.
func (b Batch) Portable() bool {
	attributes := b.int16(atAttributes)
	return b.Gapless() && attributes&^int16(maskKnown) == 0 && b.Codec() <= maxKnownCodecType &&
		attributes&(bitControl|bitLogAppendTime|bitDeleteHorizon) == 0
}

// Intact computes the checksum anew and compares it with the one in the header. It reads the whole batch.
func (b Batch) Intact() bool {
	return crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli)) == b.crc()
}

func (b Batch) crc() uint32 { return binary.BigEndian.Uint32(b[atCRC:]) }

// Reframe makes the batch the producer's own, in place: base offset 0, leader epoch -1, the transactional bit, and
// the producer's three fields. The records are not looked at. The checksum is not computed anew either, for that would
// make a batch that was damaged on the way a valid one; the old checksum is carried over to the new header,
// so that the broker that gets the batch refuses what the broker that sent it would have.
func (b Batch) Reframe(producerID int64, producerEpoch int16, baseSequence int32) {
	binary.BigEndian.PutUint64(b[atBaseOffset:], 0)
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], ^uint32(0)) // -1

	var change [atCount - atAttributes]byte // old XOR new of the fields that the checksum covers
	copy(change[:], b[atAttributes:atCount])
	binary.BigEndian.PutUint16(b[atAttributes:], binary.BigEndian.Uint16(b[atAttributes:])|bitTransactional)
	binary.BigEndian.PutUint64(b[atProducerID:], uint64(producerID))
	binary.BigEndian.PutUint16(b[atProducerEpoch:], uint16(producerEpoch))
	binary.BigEndian.PutUint32(b[atBaseSequence:], uint32(baseSequence))
	for i := range change {
		change[i] ^= b[atAttributes+i]
	}
	binary.BigEndian.PutUint32(b[atCRC:], b.crc()^crcOfChange(change[:], len(b)-atCount))
}
