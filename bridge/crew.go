package bridge

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
)

// quickRecord is a time per record below which a piece is not shared: to produce a record costs about as much, and a lane
// does that alone.
const quickRecord = 2 * time.Microsecond

// leastPart is the shortest part of a piece. A hand that is called for it costs some microseconds.
const leastPart = 100 * time.Microsecond

// partsEach is how many parts of a piece there are for each that converts it: some records take longer than others.
const partsEach = 4

// crew lends lanes a hand with pieces that take long, so that one partition with much to do is not bound to one
// processor. A piece is cut into consecutive parts, the lane and the hands convert one after the other, each with a chain
// instance of its own, and the lane joins the outputs in the order of the inputs before it goes on: whatever follows in
// the lane, a barrier too, finds the piece as if the lane had been alone. Lanes that have such pieces themselves leave
// fewer hands to the others; there are as many as there are lanes, less one.
type crew struct {
	lanes int

	mu   sync.Mutex
	rest []*converter // the hands that nobody has called
	busy int          // lanes with a piece that is worth to be shared, and the hands they have
}

func newCrew(lanes int, another func() converter) *crew {
	c := &crew{lanes: lanes}
	for range lanes - 1 {
		hand := another()
		c.rest = append(c.rest, &hand)
	}
	return c
}

// call answers up to n hands, which are the caller's until it gives them back by dismiss.
func (c *crew) call(n int) []*converter {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy++
	n = max(min(n, len(c.rest), c.lanes-c.busy), 0)
	c.busy += n
	hands := append([]*converter(nil), c.rest[len(c.rest)-n:]...)
	c.rest = c.rest[:len(c.rest)-n]
	return hands
}

func (c *crew) dismiss(hands []*converter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy -= 1 + len(hands)
	c.rest = append(c.rest, hands...)
}

// partSize is how many of n records one part has, if each takes so long; n = do not share.
func (c *crew) partSize(n int, each time.Duration) int {
	if c == nil || c.lanes < 2 || each < quickRecord {
		return n
	}
	least := int((leastPart + each - 1) / each)
	parts := c.lanes * partsEach
	return min(max(least, (n+parts-1)/parts), n)
}

// turn converts a piece, see converter.batch, and learns from the time it took.
func (l *lane) turn(ctx context.Context, tp offsets.TopicPartition, records []*kgo.Record) (outputs []*kgo.Record, source []int64, err error) {
	var done int
	var spent time.Duration
	began := time.Now()
	if size := l.crew.partSize(len(records), l.each); size < len(records) {
		hands := l.crew.call((len(records)+size-1)/size - 1)
		outputs, source, done, spent, err = share(ctx, &l.convert, hands, tp, records, size)
		l.crew.dismiss(hands)
	} else {
		outputs, source, done, err = l.convert.batch(ctx, tp, records)
		spent = time.Since(began)
	}
	if l.pace != nil {
		l.pace.took(done, spent)
		l.each = (l.each + spent/time.Duration(max(done, 1))) / 2
	}
	return outputs, source, err
}

// part is what became of some consecutive records of a piece.
type part struct {
	outputs []*kgo.Record
	source  []int64
	done    int
	err     error
}

// share is converter.batch by several converters, size records at a time. spent is the time that they needed together.
// All of them have ended when it returns.
func share(ctx context.Context, own *converter, hands []*converter, tp offsets.TopicPartition, records []*kgo.Record, size int) (outputs []*kgo.Record, source []int64, done int, spent time.Duration, err error) {
	if len(hands) == 0 {
		size = len(records)
	}
	parts := make([]part, (len(records)+size-1)/size)
	var next, total atomic.Int64
	var failed atomic.Bool
	// Parts are begun in their order, and what is begun is ended: before a part that failed all have been converted.
	convert := func(c *converter) {
		began := time.Now()
		for !failed.Load() {
			i := int(next.Add(1)) - 1
			if i >= len(parts) {
				break
			}
			p, from, to := &parts[i], i*size, min((i+1)*size, len(records))
			p.outputs, p.source, p.done, p.err = c.batch(ctx, tp, records[from:to:to])
			if p.err != nil {
				failed.Store(true)
			}
		}
		total.Add(int64(time.Since(began)))
	}
	var working sync.WaitGroup
	for _, hand := range hands {
		hand.lane = own.lane
		working.Go(func() { convert(hand) })
	}
	convert(own)
	working.Wait()
	outputs, source, done, err = join(parts, records, size)
	return outputs, source, done, time.Duration(total.Load()), err
}

// join puts the parts together in their order, in place as long as no outputs come to lie where those of a later part
// still are. Of several errors it is the first record's, as if the records had been converted one after the other.
func join(parts []part, records []*kgo.Record, size int) (outputs []*kgo.Record, source []int64, done int, err error) {
	n := 0
	for i := range parts {
		done += parts[i].done
		n += len(parts[i].outputs)
		if err == nil {
			err = parts[i].err
		}
	}
	if err != nil {
		return nil, nil, done, err
	}
	outputs, source = records[:0], make([]int64, 0, n)
	inPlace := true
	for i := range parts {
		if inPlace && len(outputs)+len(parts[i].outputs) > min((i+1)*size, len(records)) {
			inPlace = false
			outputs = append(make([]*kgo.Record, 0, n), outputs...)
		}
		outputs = append(outputs, parts[i].outputs...)
		source = append(source, parts[i].source...)
	}
	return outputs, source, done, nil
}
