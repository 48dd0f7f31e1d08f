package audit

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// item is what is kept of a record.
type item struct {
	hash   uint64 // of key, value and headers
	offset int64
	time   int64  // milliseconds
	key    uint32 // hash of the key; 0 = null
	to     int32  // source: index of the target partition it has to be in; -1 = none

	// Target: where the record says it comes from.
	from       int32 // index of the source partition, or unnamed, or foreign
	appended   bool  // the broker has replaced the time
	output, of uint32
	origin     int64
}

// What stands in item.from in place of an index.
const (
	unnamed = -1 // no provenance headers
	foreign = -2 // they name a partition that is no input
)

// same says whether a target record is the source record, unaltered.
func (it *item) same(source *item) bool {
	return it.hash == source.hash && (it.appended || it.time == source.time)
}

// The names of the provenance headers, as docs/audit.md gives them.
const (
	headerPrefix = "eosbridge."
	nameTopic    = "topic"
	namePart     = "partition"
	nameOffset   = "offset"
	nameEpoch    = "epoch"
	nameOutput   = "output"
)

// unprefixed answers what follows the prefix, nil if the name does not begin with it.
func unprefixed(name []byte) []byte {
	if len(name) < len(headerPrefix) || string(name[:len(headerPrefix)]) != headerPrefix {
		return nil
	}
	return name[len(headerPrefix):]
}

// isOwn says whether a header is one of the five.
func isOwn(name []byte) bool {
	switch string(unprefixed(name)) { // does not allocate
	case nameTopic, namePart, nameOffset, nameEpoch, nameOutput:
		return true
	}
	return false
}

// Three odd numbers without a pattern, for the mixing.
const (
	salt0 = 0xa0761d6478bd642f
	salt1 = 0xe7037ed1a0b428db
	salt2 = 0x8ebc6af09c88c6e3
)

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// hashBytes goes on from h over the length and the bytes. Null and empty differ.
func hashBytes(h uint64, b []byte) uint64 {
	n := uint64(len(b)) + 1
	if b == nil {
		n = 0
	}
	h = mix(h^n^salt0, salt1)
	for len(b) >= 16 {
		h = mix(binary.LittleEndian.Uint64(b)^salt1, binary.LittleEndian.Uint64(b[8:])^h)
		b = b[16:]
	}
	if len(b) >= 8 {
		h = mix(binary.LittleEndian.Uint64(b)^salt2, h^salt0)
		b = b[8:]
	}
	if len(b) > 0 {
		var last [8]byte
		copy(last[:], b)
		h = mix(binary.LittleEndian.Uint64(last[:])^salt0, h^salt2)
	}
	return h
}

// contentOf hashes key, value and headers. With strip the provenance headers do not count.
func contentOf(r *view, strip bool) (content uint64, key uint32) {
	h := hashBytes(salt2, r.key)
	if r.key != nil {
		key = uint32(h>>32) | 1 //nolint:gosec // the upper half
	}
	h = hashBytes(h, r.value)
	for i := range r.headers {
		name := r.headers[i].name
		if strip && isOwn(name) {
			continue
		}
		h = hashBytes(hashBytes(h^salt1, name), r.headers[i].value)
	}
	return h, key
}

// named reads the provenance headers. The last five headers of a record are looked at first, since that is where a
// bridge puts them. index answers the number of a source partition, foreign if it is none. A header that is missing
// or makes no sense leaves the record unnamed.
func (it *item) named(headers []headerView, index func(topic []byte, partition int32) int32) {
	it.from = unnamed
	var topic []byte
	partition, offset := int64(-1), int64(-1)
	var output, of uint64
	for i := range headers {
		switch string(unprefixed(headers[i].name)) {
		case nameTopic:
			topic = headers[i].value
		case namePart:
			partition = decimal(headers[i].value)
		case nameOffset:
			offset = decimal(headers[i].value)
		case nameOutput:
			output, of = fraction(headers[i].value)
		}
	}
	const most = 1 << 31
	if topic == nil || partition < 0 || partition >= most || offset < 0 || output < 1 || of < output || of >= most {
		return
	}
	it.from = index(topic, int32(partition))
	it.origin, it.output, it.of = offset, uint32(output), uint32(of)
}

// decimal reads a number without allocating; -1 if it is none.
func decimal(b []byte) int64 {
	if len(b) == 0 || len(b) > 18 {
		if len(b) > 18 {
			if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
				return n
			}
		}
		return -1
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// fraction reads "2/3"; zeros if it is none.
func fraction(b []byte) (output, of uint64) {
	for i, c := range b {
		if c == '/' {
			a, n := decimal(b[:i]), decimal(b[i+1:])
			if a < 1 || n < a {
				return 0, 0
			}
			return uint64(a), uint64(n)
		}
	}
	return 0, 0
}

// partitionOf is where Kafka's Java producer puts a key: murmur2, positive, modulo. A record without a key keeps the
// number of its source partition, modulo.
func partitionOf(key []byte, source int32, partitions int) int32 {
	if key == nil {
		return int32(int(source) % partitions) //nolint:gosec // below partitions
	}
	return int32(int(murmur2(key)&0x7fffffff) % partitions) //nolint:gosec // below partitions
}

// murmur2 is Austin Appleby's 32-bit MurmurHash2 with the seed that org.apache.kafka.common.utils.Utils uses.
func murmur2(b []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(b)) //nolint:gosec // a key is shorter than 2 GiB
	i := 0
	for ; i+4 <= len(b); i += 4 {
		k := binary.LittleEndian.Uint32(b[i:]) * m
		h = h*m ^ (k^k>>24)*m
	}
	if tail := b[i:]; len(tail) > 0 {
		for j, c := range tail {
			h ^= uint32(c) << (8 * j)
		}
		h *= m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
