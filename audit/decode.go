package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Batches are decoded here and not by the client: each record is hashed and forgotten at once, so nothing has to be
// allocated for it, and a mistake in the decoder that the bridge reads with would not be made a second time.
// The format is that of KIP-98 (magic 2), as org.apache.kafka.common.record.DefaultRecordBatch has it.

// view is a record as it lies in a batch. It is good until the next one.
type view struct {
	offset     int64
	time       int64 // milliseconds
	appended   bool  // the broker has set the time
	key, value []byte
	headers    []headerView
}

type headerView struct{ name, value []byte }

// errOldFormat says that a batch has one of the formats before Kafka 0.11.
var errOldFormat = errors.New("a message format older than 2 (Kafka 0.11): rewrite the topic, the audit cannot read it")

const (
	batchHead    = 61
	fromCRC      = 21 // the checksum covers the rest of a batch from here
	isControl    = 0x20
	inTxn        = 0x10
	isAppended   = 0x08
	isCompressed = 0x07
)

// decoder decodes the answers of one partition.
type decoder struct {
	decompressor kgo.Decompressor
	table        *crc32.Table
	one          view
}

func newDecoder() *decoder {
	return &decoder{decompressor: kgo.DefaultDecompressor(), table: crc32.MakeTable(crc32.Castagnoli)}
}

// decode calls each with every record from an offset on that a read_committed reader sees, in order, and answers the
// offset to read on from: the end of the last whole batch.
func (d *decoder) decode(answer *kmsg.FetchResponseTopicPartition, from int64, each func(*view)) (next int64, err error) {
	aborted := map[int64][]int64{} // first offsets by producer id
	for _, a := range answer.AbortedTransactions {
		aborted[a.ProducerID] = append(aborted[a.ProducerID], a.FirstOffset)
	}
	for _, list := range aborted {
		slices.Sort(list)
	}
	next = from
	for raw := answer.RecordBatches; len(raw) >= batchHead; {
		length := 12 + int(int32(binary.BigEndian.Uint32(raw[8:]))) //nolint:gosec // as the format has it
		if length < batchHead {
			return next, fmt.Errorf("%w: length %d", errUnreadable, length)
		}
		if len(raw) < length {
			return next, nil // the answer ends within a batch
		}
		last, err := d.batch(raw[:length], from, aborted, each)
		if err != nil {
			return next, err
		}
		next = max(next, last+1)
		raw = raw[length:]
	}
	return next, nil
}

// batch decodes one batch and answers its last offset.
func (d *decoder) batch(raw []byte, from int64, aborted map[int64][]int64, each func(*view)) (last int64, err error) {
	first := int64(binary.BigEndian.Uint64(raw)) //nolint:gosec // as the format has it
	if raw[16] != 2 {
		return 0, errOldFormat
	}
	if got, want := crc32.Checksum(raw[fromCRC:], d.table), binary.BigEndian.Uint32(raw[17:]); got != want {
		return 0, fmt.Errorf("%w: offset %d: checksum %08x, want %08x", errUnreadable, first, got, want)
	}
	attributes := binary.BigEndian.Uint16(raw[fromCRC:])
	last = first + int64(int32(binary.BigEndian.Uint32(raw[23:]))) //nolint:gosec // as the format has it
	producer := int64(binary.BigEndian.Uint64(raw[43:]))           //nolint:gosec // as the format has it
	if last < from {
		return last, nil
	}
	list := aborted[producer]
	gone := attributes&inTxn != 0 && len(list) > 0 && first >= list[0]
	if attributes&isControl != 0 {
		if gone && isAbort(raw[batchHead:]) {
			aborted[producer] = list[1:]
		}
		return last, nil
	}
	if gone {
		return last, nil
	}
	records := raw[batchHead:]
	if codec := attributes & isCompressed; codec != 0 {
		if records, err = d.decompressor.Decompress(records, kgo.CompressionCodecType(codec)); err != nil { //nolint:gosec // three bits
			return 0, fmt.Errorf("%w: offset %d: %w", errUnreadable, first, err)
		}
	}
	return last, d.records(raw, records, first, from, each)
}

// records decodes the records of a batch.
func (d *decoder) records(head, in []byte, first, from int64, each func(*view)) error {
	base := int64(binary.BigEndian.Uint64(head[27:])) //nolint:gosec // as the format has it
	most := int64(binary.BigEndian.Uint64(head[35:])) //nolint:gosec // as the format has it
	appended := binary.BigEndian.Uint16(head[fromCRC:])&isAppended != 0
	r := &d.one
	for n := binary.BigEndian.Uint32(head[57:]); n > 0; n-- {
		c := cursor{in: in}
		length := c.number()
		if length < 1 || int64(len(c.in)) < length {
			return fmt.Errorf("%w: a record of the batch at offset %d has %d bytes, %d are left", errUnreadable, first, length, len(c.in))
		}
		in = c.in[length:]
		c.in = c.in[1:length] // without the attributes, which have no meaning
		r.time, r.appended = base+c.number(), appended
		if appended {
			r.time = most
		}
		r.offset = first + c.number()
		r.key, r.value = c.bytes(), c.bytes()
		r.headers = r.headers[:0]
		for k := c.number(); k > 0 && !c.bad; k-- {
			r.headers = append(r.headers, headerView{c.bytes(), c.bytes()})
		}
		if c.bad {
			return fmt.Errorf("%w: a record of the batch at offset %d", errUnreadable, first)
		}
		if r.offset >= from {
			each(r)
		}
	}
	return nil
}

// isAbort says whether a control batch, which holds one record, is the marker of an abort: its key is a version and
// a type, both of 16 bits, and the type is 0 (org.apache.kafka.common.record.ControlRecordType).
func isAbort(in []byte) bool {
	c := cursor{in: in}
	c.number() // length
	if len(c.in) > 0 {
		c.in = c.in[1:] // attributes
	}
	c.number() // time
	c.number() // offset
	key := c.bytes()
	return !c.bad && len(key) >= 4 && key[2] == 0 && key[3] == 0
}

// cursor reads a record's fields. After the first that does not fit all are zero.
type cursor struct {
	in  []byte
	bad bool
}

// number reads a zigzag varint.
func (c *cursor) number() int64 {
	n, used := binary.Varint(c.in)
	if used <= 0 {
		c.bad, c.in = true, nil
		return 0
	}
	c.in = c.in[used:]
	return n
}

// bytes reads a length and as many bytes; -1 is null.
func (c *cursor) bytes() []byte {
	n := c.number()
	if n < 0 {
		return nil
	}
	if n > int64(len(c.in)) {
		c.bad, c.in = true, nil
		return nil
	}
	b := c.in[:n:n]
	c.in = c.in[n:]
	return b
}
