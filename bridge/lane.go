package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// laneDepth is how many pieces of work may wait for a lane: enough that the lane does not idle while the
// source polls, small enough that a barrier is not far behind.
const laneDepth = 8

// work is what comes in-band into a lane: records, or a barrier, or partitions to forget, or the end.
type work struct {
	epoch   *epoch
	tp      offsets.TopicPartition
	records []*kgo.Record
	raw     *delivery // in place of records
	size    int64
	dealt   time.Time // when the records were given to the lane
	barrier bool
	forget  []offsets.TopicPartition
	last    bool
}

// pass is a lane's word that it has passed a barrier.
type pass struct {
	lane      int
	barrier   Barrier
	positions offsets.Positions // what the lane has read since its last barrier
}

// outputs are transformed records that wait at the gate of their epoch.
type outputs struct {
	epoch   *epoch
	records []*kgo.Record
	raw     *parcel // in place of records
	piece   *piece
}

// piece is one batch of input on its way through a lane, until its last output is acknowledged.
type piece struct {
	tp     offsets.TopicPartition
	size   int64
	budget *budget

	// For the coordinates of a record that the broker refuses: kgo overwrites a record's own when it fails.
	records []*kgo.Record // outputs
	source  []int64       // offset of the input of each output
}

// lane transforms and produces a set of partitions, in order, with one chain instance and those of the crew. It belongs
// to one goroutine, run.
type lane struct {
	id      int
	in      chan work
	gone    chan struct{} // closed by run at its end: nobody reads in any more
	passes  chan<- pass
	sink    txn.Participant
	convert converter
	crew    *crew         // helps with pieces that take long; nil = nobody does
	each    time.Duration // what the chain needs for a record of this lane, about
	policy  *policy       // nil: an input that fails is the end
	pace    *pace         // of the chain; nil = identity
	budget  *budget
	failed  func(error)
	enlarge func(output string) bool // see session.enlarge
	idling  idling
	// provenance: outputs say in their headers which input they come from.
	provenance bool
	early      bool     // pass a barrier before the outputs in front of it are produced: at-most-once
	carrier    *carrier // nil: records are decoded, see raw.go
	log        *slog.Logger

	idle    atomic.Bool // waits for input, or at a gate
	tracker *offsets.Tracker
	pending []outputs
	waited  standstill // at the last barrier, until it is known whether input was behind it
}

// run ends with ctx or with the last work; the session waits for it.
func (l *lane) run(ctx context.Context) error {
	defer close(l.gone)
	for {
		// Here nothing waits but outputs, unless the source holds input back: see source.starving.
		var gate <-chan struct{}
		var since time.Time
		if len(l.pending) > 0 {
			gate, since = l.pending[0].epoch.gate, time.Now()
		}
		l.idle.Store(true)
		select {
		case <-ctx.Done():
			return nil
		case <-gate:
			l.idle.Store(false)
			l.idling.held(time.Since(since))
			l.release(ctx)
		case w := <-l.in:
			l.idle.Store(false)
			if gate != nil {
				l.idling.held(time.Since(since))
			}
			l.settleWait(w)
			if w.last {
				return l.drain(ctx)
			}
			if err := l.handle(ctx, w); err != nil {
				return err
			}
		}
	}
}

// drain produces what still waits at a gate after the last input; only at-most-once leaves any.
func (l *lane) drain(ctx context.Context) error {
	for len(l.pending) > 0 {
		if err := l.await(ctx, l.pending[0].epoch); err != nil {
			return nil //nolint:nilerr // the session has ended for another reason
		}
	}
	return nil
}

func (l *lane) handle(ctx context.Context, w work) error {
	switch {
	case w.forget != nil:
		for _, tp := range w.forget {
			l.tracker.Forget(tp)
		}
		return nil
	case w.barrier:
		if l.early {
			l.release(ctx)
		} else if err := l.await(ctx, w.epoch); err != nil {
			return nil //nolint:nilerr // the session has ended for another reason
		}
		select {
		case l.passes <- pass{lane: l.id, barrier: Barrier{w.epoch.n}, positions: l.tracker.Cut()}:
		case <-ctx.Done():
		}
		return nil
	case w.raw != nil:
		return l.carry(ctx, w)
	default:
		return l.take(ctx, w)
	}
}

// await waits until e may be produced to, and produces what waited.
func (l *lane) await(ctx context.Context, e *epoch) error {
	if !e.open() {
		began := time.Now()
		l.idle.Store(true)
		select {
		case <-e.gate:
			l.idle.Store(false)
			l.waited = standstill{from: began, to: time.Now(), outputs: len(l.pending) > 0}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l.release(ctx)
	return nil
}

// release produces whatever waits at an open gate.
func (l *lane) release(ctx context.Context) {
	for len(l.pending) > 0 && l.pending[0].epoch.open() {
		o := l.pending[0]
		l.pending[0] = outputs{}
		l.pending = l.pending[1:]
		l.produce(ctx, o)
	}
	if len(l.pending) == 0 {
		l.pending = nil
	}
}

func (l *lane) take(ctx context.Context, w work) error {
	last := w.records[len(w.records)-1]
	position := offsets.Position{Offset: last.Offset + 1, LeaderEpoch: last.LeaderEpoch}
	p := &piece{tp: w.tp, size: w.size, budget: l.budget}
	records, source, err := l.turn(ctx, w.tp, w.records)
	if err != nil {
		return err
	}
	if err := l.tracker.Advance(w.tp, position); err != nil {
		return &txn.FatalError{Status: txn.StatusBroken, Err: fmt.Errorf("broken invariant: lane %d: %w", l.id, err)}
	}
	if len(records) == 0 {
		l.budget.give(w.size)
		return nil
	}
	if l.provenance {
		added := stamp(records, source, w, l.policy.letters())
		l.budget.take(added)
		p.size += added
	}
	p.records, p.source = records, source
	l.hand(ctx, outputs{epoch: w.epoch, records: records, piece: p})
	return nil
}

// hand produces outputs, or keeps them at their gate.
func (l *lane) hand(ctx context.Context, o outputs) {
	l.release(ctx)
	if len(l.pending) > 0 || !o.epoch.open() {
		l.pending = append(l.pending, o)
		return
	}
	l.produce(ctx, o)
}

func (l *lane) produce(ctx context.Context, o outputs) {
	if o.raw != nil {
		l.ship(ctx, o)
		return
	}
	o.epoch.recordsOut.Add(int64(len(o.records)))
	o.epoch.bytesOut.Add(bytesOf(o.records))
	if dlq := l.policy.letters(); dlq != "" {
		o.epoch.lettersOut.Add(countOf(o.records, dlq))
	}
	l.sink.Produce(ctx, o.epoch.n, o.records, func(failed *kgo.Record, err error) {
		switch {
		case err == nil:
			o.piece.budget.give(o.piece.size)
		case errors.Is(err, kerr.MessageTooLarge) && l.enlarge(failed.Topic):
			l.failed(fmt.Errorf("%w: a record for topic %s needs a larger batch than usual (key %d bytes, value %d bytes): from now on batches may be as large as the topic allows",
				txn.ErrAborted, failed.Topic, len(failed.Key), len(failed.Value)))
		default:
			l.failed(l.refused(o, failed, err))
		} // after a failure the session ends, and its budget with it
	})
}

// failure names the input of an output that could not be produced.
func (p *piece) failure(failed *kgo.Record, err error) error {
	at := "unknown"
	for i, r := range p.records {
		if r == failed {
			at = fmt.Sprint(p.source[i])
			break
		}
	}
	if !txn.Refused(err) {
		return txn.Classify(txn.CallProduce, fmt.Errorf("topic %s partition %d: %w", failed.Topic, failed.Partition, err))
	}
	return txn.Fatalf(txn.StatusFailure,
		"output topic %s refused the record from topic %s partition %d offset %s (key %d bytes, value %d bytes): %w: "+
			"raise the topic's limit (max.message.bytes, timestamp bounds) or change the record with a transform",
		failed.Topic, p.tp.Topic, p.tp.Partition, at, len(failed.Key), len(failed.Value), err)
}

// countOf is how many records go to a topic.
func countOf(records []*kgo.Record, topic string) (n int64) {
	for _, r := range records {
		if r.Topic == topic {
			n++
		}
	}
	return n
}

// bytesOf is the payload of records: keys, values and headers.
func bytesOf(records []*kgo.Record) int64 {
	var n int
	for _, r := range records {
		n += len(r.Key) + len(r.Value)
		for i := range r.Headers {
			n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
		}
	}
	return int64(n)
}
