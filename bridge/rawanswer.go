package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/offsets"
)

// header is the size of a batch's own fields, before its records.
const header = 61

// readAnswer takes apart what was fetched of a partition from a position on. It answers nil if that is nothing. old
// decodes message formats before 2.
//
// Markers and the batches of aborted transactions are left out, and move the position. A batch belongs to one producer,
// and so to one transaction: no record has to be looked at.
func readAnswer(from offsets.Position, p *kmsg.FetchResponseTopicPartition, old decode) (*delivery, error) {
	d := &delivery{after: from}
	aborted := abortedIn(p)
	for rest := p.RecordBatches; len(rest) > 0; {
		b, behind, err := batch.Next(rest)
		switch {
		case errors.Is(err, batch.ErrPartial), errors.Is(err, batch.ErrMagic) && d.after != from:
			rest = nil // to be fetched again, then as the first
			continue
		case errors.Is(err, batch.ErrMagic):
			return readOld(from, rest, old)
		case err == nil && b.Count() < 0:
			err = batch.ErrCorrupt
		}
		if err != nil {
			return nil, fmt.Errorf("%w: after offset %d: %w", kerr.CorruptMessage, d.after.Offset-1, err)
		}
		rest = behind
		if b.LastOffset() < d.after.Offset {
			continue // brokers do not send it
		}
		d.after = offsets.Position{Offset: b.LastOffset() + 1, LeaderEpoch: b.LeaderEpoch()}
		if aborted.holds(b) || b.Control() || b.Count() == 0 {
			continue
		}
		d.batches = append(d.batches, b)
		d.count += int64(b.Count())
		d.bytes += int64(len(b) - header)
	}
	if d.after == from {
		return nil, nil
	}
	return d, nil
}

// decode answers the records of a batch from an offset on, and the offset behind them.
type decode func(from int64, b batch.Batch) ([]*kgo.Record, int64, error)

func readOld(from offsets.Position, b batch.Batch, old decode) (*delivery, error) {
	records, next, err := old(from.Offset, b)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", kerr.CorruptMessage, err)
	case next == from.Offset:
		return nil, nil
	}
	d := &delivery{records: records, count: int64(len(records)), bytes: int64(len(b))}
	d.after = offsets.Position{Offset: next, LeaderEpoch: -1}
	if len(records) > 0 {
		d.after.LeaderEpoch = records[len(records)-1].LeaderEpoch
	}
	return d, nil
}

// aborts are the aborted transactions of an answer: for each producer the offsets at which they begin, ascending.
type aborts map[int64][]int64

func abortedIn(p *kmsg.FetchResponseTopicPartition) aborts {
	if len(p.AbortedTransactions) == 0 {
		return nil
	}
	a := aborts{}
	for _, t := range p.AbortedTransactions {
		a[t.ProducerID] = append(a[t.ProducerID], t.FirstOffset)
	}
	for _, first := range a {
		slices.Sort(first)
	}
	return a
}

// holds reports whether a batch belongs to an aborted transaction. Batches are shown to it in the order of the log: the
// marker of an abort ends the producer's first one.
func (a aborts) holds(b batch.Batch) bool {
	first := a[b.ProducerID()]
	if len(first) == 0 || !b.Transactional() || b.BaseOffset() < first[0] {
		return false
	}
	if b.Control() && abortMarker(b) {
		a[b.ProducerID()] = first[1:]
	}
	return true
}

// abortMarker tells the two markers apart. The key of their one record holds a version and a type, which is 0 for an
// abort.
func abortMarker(b batch.Batch) bool {
	r := b[header:]
	var n int
	for _, skip := range []int{1, 0, 0, 0} { // length, and one byte of attributes; timestamp; offset; length of the key
		_, n = binary.Varint(r)
		if n <= 0 || n+skip > len(r) {
			return false
		}
		r = r[n+skip:]
	}
	return len(r) >= 4 && binary.BigEndian.Uint16(r[2:]) == 0
}
