package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// some answers n records with everything that a record may hold.
func some(n int) []*kgo.Record {
	var records []*kgo.Record
	for i := range n {
		r := &kgo.Record{
			Key: fmt.Appendf(nil, "key-%d", i), Value: bytes.Repeat([]byte{byte(i)}, i%97),
			Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i%7)),
		}
		switch i % 5 {
		case 1:
			r.Key = nil
		case 2:
			r.Key, r.Value = []byte{}, nil
		case 3:
			r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte{0, 255}}, {Key: "", Value: nil}, {Key: "a", Value: []byte{}}}
		}
		records = append(records, r)
	}
	return records
}

func encoder(t testing.TB, limit int, codecs ...kgo.CompressionCodec) *Encoder {
	t.Helper()
	e, err := NewEncoder(limit, codecs...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// whole answers one batch of n records.
func whole(t testing.TB, n int, codecs ...kgo.CompressionCodec) Batch {
	t.Helper()
	all := encoder(t, 1<<30, codecs...).Encode(some(n))
	if len(all) != 1 {
		t.Fatalf("%d batches, want 1", len(all))
	}
	return all[0]
}

func TestNext(t *testing.T) {
	a, b := whole(t, 3), whole(t, 5)
	log := slices.Concat(a, b)
	first, rest, err := Next(log)
	if err != nil || !bytes.Equal(first, a) || !bytes.Equal(rest, b) {
		t.Fatalf("first %d bytes, rest %d, %v", len(first), len(rest), err)
	}
	if cap(first) != len(first) {
		t.Error("an append to the first batch would run into the next")
	}
	second, rest, err := Next(rest)
	if err != nil || !bytes.Equal(second, b) || len(rest) != 0 {
		t.Fatalf("second %d bytes, rest %d, %v", len(second), len(rest), err)
	}
	for n := range len(a) {
		if _, rest, err := Next(a[:n]); !errors.Is(err, ErrPartial) || len(rest) != n {
			t.Fatalf("%d bytes of a batch: rest %d, %v", n, len(rest), err)
		}
	}
}

func TestNextRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(Batch)
		want  error
	}{
		"format 0":         {func(b Batch) { b[atMagic] = 0 }, ErrMagic},
		"format 1":         {func(b Batch) { b[atMagic] = 1 }, ErrMagic},
		"format 3":         {func(b Batch) { b[atMagic] = 3 }, ErrCorrupt},
		"negative length":  {func(b Batch) { binary.BigEndian.PutUint32(b[atLength:], 1<<31) }, ErrCorrupt},
		"length of minus1": {func(b Batch) { binary.BigEndian.PutUint32(b[atLength:], ^uint32(0)) }, ErrCorrupt},
		"no room for a header": {func(b Batch) {
			binary.BigEndian.PutUint32(b[atLength:], headerSize-lengthEnd-1)
		}, ErrCorrupt},
		"length near the largest": {func(b Batch) { binary.BigEndian.PutUint32(b[atLength:], 1<<31-1) }, ErrPartial},
	} {
		t.Run(name, func(t *testing.T) {
			b := whole(t, 2)
			test.spoil(b)
			if first, rest, err := Next(b); !errors.Is(err, test.want) || first != nil || len(rest) != len(b) {
				t.Errorf("first %d bytes, rest %d, error %v, want %v", len(first), len(rest), err, test.want)
			}
		})
	}
}

// TestReframe: the carried checksum is the one that a computation over all bytes gives, at every length of what
// follows the header.
func TestReframe(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 2, 3, 7, 8, 63, 64, 65, 1 << 16, 1<<20 + 13}
	for range 200 {
		sizes = append(sizes, random.IntN(5000))
	}
	for _, size := range sizes {
		b := make(Batch, headerSize+size)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		stamp(b)
		before := slices.Clone(b)
		pid, epoch, seq := int64(random.Uint64()), int16(random.Uint32()), int32(random.Uint32())
		b.Reframe(pid, epoch, seq)
		if !b.Intact() {
			t.Fatalf("size %d: checksum %08x is not that of the bytes", size, b.crc())
		}
		if b.ProducerID() != pid || b.ProducerEpoch() != epoch || b.BaseSequence() != seq || !b.Transactional() ||
			b.BaseOffset() != 0 || b.LeaderEpoch() != -1 {
			t.Fatalf("size %d: header %x", size, []byte(b[:headerSize]))
		}
		// Nothing else moves.
		binary.BigEndian.PutUint16(before[atAttributes:], binary.BigEndian.Uint16(before[atAttributes:])|bitTransactional)
		for _, at := range [][2]int{{atBaseOffset, atLength}, {atLeaderEpoch, atMagic}, {atCRC, atAttributes}, {atProducerID, atCount}} {
			copy(before[at[0]:at[1]], b[at[0]:at[1]])
		}
		if !bytes.Equal(b, before) {
			t.Fatalf("size %d: bytes outside of the producer's fields changed", size)
		}
	}
}

// stamp computes the checksum.
func stamp(b Batch) {
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli)))
}

// TestReframeKeepsDamage: what was damaged before is as damaged afterwards, wherever the bit is that the checksum
// covers and Reframe does not set.
func TestReframeKeepsDamage(t *testing.T) {
	clean := whole(t, 40, kgo.Lz4Compression())
	random := rand.New(rand.NewPCG(3, 4))
	for at := atCRC; at < len(clean); at++ {
		if at >= atProducerID && at < atCount {
			continue // overwritten
		}
		b := slices.Clone(clean)
		b[at] ^= 1 << random.IntN(8)
		if b.Intact() {
			t.Fatalf("byte %d: the checksum does not see the flipped bit", at)
		}
		b.Reframe(77, 3, 9)
		if b.Intact() {
			t.Fatalf("byte %d: Reframe has made a damaged batch a valid one", at)
		}
	}
}

func TestPortable(t *testing.T) {
	for name, test := range map[string]struct {
		change func(Batch)
		want   bool
	}{
		"plain":            {func(Batch) {}, true},
		"of a transaction": {func(b Batch) { b[atAttributes+1] |= bitTransactional }, true},
		"control":          {func(b Batch) { b[atAttributes+1] |= bitControl }, false},
		"append time":      {func(b Batch) { b[atAttributes+1] |= bitLogAppendTime }, false},
		"delete horizon":   {func(b Batch) { b[atAttributes+1] |= bitDeleteHorizon }, false},
		"unknown bit":      {func(b Batch) { b[atAttributes] |= 1 }, false},
		"unknown low bit":  {func(b Batch) { b[atAttributes+1] |= 0x80 }, false},
		"unknown codec":    {func(b Batch) { b[atAttributes+1] |= 5 }, false},
		"zstd":             {func(b Batch) { b[atAttributes+1] |= 4 }, true},
		"gap":              {func(b Batch) { b[atLastDelta+3]++ }, false},
		"no records":       {func(b Batch) { clear(b[atCount:headerSize]) }, false},
		"less than none": {func(b Batch) {
			binary.BigEndian.PutUint32(b[atCount:], ^uint32(0))
			binary.BigEndian.PutUint32(b[atLastDelta:], ^uint32(1))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := whole(t, 3)
			test.change(b)
			if got := b.Portable(); got != test.want {
				t.Errorf("portable %v, want %v", got, test.want)
			}
		})
	}
}
