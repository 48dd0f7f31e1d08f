package bridge

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// What a broker refuses although the checks in the lanes have let it through (policy.examine): a broker says which batch it
// refuses, not which record, and by then other records of the epoch are in the transaction. So the epoch aborts, and the
// inputs that the refused batch may stem from are read again one by one, each alone in its epoch: one that is refused
// alone is the one. Its epoch aborts too, and when it is read again the error policy applies to it, and none of its
// outputs goes out.
//
// All of this is a hint in memory, and decides only how inputs are grouped and which of them the policy applies to.
// Positions come from the broker, as ever; a process that dies begins again from nothing and comes to the same end.

// errRefused ends a session so that the next one can single out what was refused, or leave it out.
var errRefused = errors.New("an output was refused")

// span is a range of offsets of one input partition, both ends included.
type span struct{ from, to int64 }

// refusals are kept over the sessions of a process. The zero value is ready.
type refusals struct {
	limit int // inputs in a row that brokers may refuse; 0 = any number

	mu       sync.Mutex // guards all below
	row      int        // refused inputs since an epoch with output was committed
	suspects map[offsets.TopicPartition]span
	verdicts map[offsets.TopicPartition]map[int64]failure

	known atomic.Int64 // verdicts; converters look at this first
}

// suspect notes that one of these inputs was refused. The first word of a partition counts: what is said later is about
// batches behind the refused one, which the client gives up with it.
func (r *refusals) suspect(tp offsets.TopicPartition, s span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.suspects[tp]; ok && was.from <= s.from {
		return
	}
	if r.suspects == nil {
		r.suspects = map[offsets.TopicPartition]span{}
	}
	r.suspects[tp] = s
}

// condemn notes that this input was refused, alone. The error ends the process: too many in a row.
func (r *refusals) condemn(tp offsets.TopicPartition, offset int64, f failure) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdicts == nil {
		r.verdicts = map[offsets.TopicPartition]map[int64]failure{}
	}
	if r.verdicts[tp] == nil {
		r.verdicts[tp] = map[int64]failure{}
	}
	r.verdicts[tp][offset] = f
	r.known.Add(1)
	if r.row++; r.limit > 0 && r.row > r.limit {
		return txn.Fatalf(txn.StatusFailure, "%d records in a row were refused (BRIDGE_ERROR_LIMIT=%d), the last one is topic %s partition %d offset %d: %w: "+
			"correct what they fail at, or raise the limit", r.row, r.limit, tp.Topic, tp.Partition, offset, f.err)
	}
	return nil
}

// verdict answers why an input was refused, if it was.
func (r *refusals) verdict(tp offsets.TopicPartition, offset int64) (failure, bool) {
	if r.known.Load() == 0 {
		return failure{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.verdicts[tp][offset]
	return f, ok
}

// committed forgets what lies below committed positions. output says that the epoch had output besides dead letters.
func (r *refusals) committed(positions offsets.Positions, output bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if output {
		r.row = 0
	}
	for tp, at := range positions {
		if s, ok := r.suspects[tp]; ok && s.to < at.Offset {
			delete(r.suspects, tp)
		}
		for offset := range r.verdicts[tp] {
			if offset < at.Offset {
				delete(r.verdicts[tp], offset)
				r.known.Add(-1)
			}
		}
	}
}

// hint answers what is to be singled out.
func (r *refusals) hint() map[offsets.TopicPartition]span {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := make(map[offsets.TopicPartition]span, len(r.suspects))
	for tp, s := range r.suspects {
		if _, known := r.verdicts[tp][s.to]; !known || s.from < s.to {
			left[tp] = s // else the one suspect has its verdict
		}
	}
	return left
}

// refused answers the error that ends the session when an output could not be produced.
func (l *lane) refused(o outputs, failed *kgo.Record, err error) error {
	p := l.policy
	if p == nil || l.early || !txn.Refused(err) { // at-most-once: its position is committed, so it is lost, as promised
		return o.piece.failure(failed, err)
	}
	at := o.piece.refusedSpan(p.batch(failed.Topic))
	if failed.Topic == p.dlq {
		return refusedLetter(p.dlq, o.piece.tp, at.from, err)
	}
	if !o.epoch.alone {
		p.refused.suspect(o.piece.tp, at)
		return fmt.Errorf("%w: %w: topic %s refused a batch with outputs of topic %s partition %d offsets %d to %d, which come again one by one: %w",
			txn.ErrAborted, errRefused, failed.Topic, o.piece.tp.Topic, o.piece.tp.Partition, at.from, at.to, err)
	}
	if err := p.refused.condemn(o.piece.tp, at.from, refusedFailure(failed.Topic, err)); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w: topic %s refused the record of topic %s partition %d offset %d: %w",
		txn.ErrAborted, errRefused, failed.Topic, o.piece.tp.Topic, o.piece.tp.Partition, at.from, err)
}

// refusedSpan answers the inputs whose outputs were in the refused batch. The client fails all that waits for the same
// partition, in order, with the batch that was refused, which has at most limit bytes. A failed record has no offset.
func (p *piece) refusedSpan(limit int32) span {
	s := span{-1, -1}
	size := int64(batchHeader)
	for i, r := range p.records {
		if r.Offset >= 0 {
			continue
		}
		if s.from < 0 {
			s.from = p.source[i]
		}
		if size += bytesOf(p.records[i : i+1]); size > int64(limit) && s.to >= 0 {
			break
		}
		s.to = p.source[i]
	}
	if s.from < 0 { // the client has said nothing of them
		return span{p.source[0], p.source[len(p.source)-1]}
	}
	return s
}

// refusedFailure says what a broker has refused. Only the code's own words are taken: what a client adds to them may
// differ from one time to the next.
func refusedFailure(topic string, err error) failure {
	f := failure{class: failedRefused, target: topic, attempts: 2}
	var code *kerr.Error
	if !errors.As(err, &code) {
		f.err = fmt.Errorf("output topic %s: %w", topic, err)
		return f
	}
	f.err = fmt.Errorf("output topic %s: %w", topic, code)
	switch {
	case errors.Is(code, kerr.MessageTooLarge), errors.Is(code, kerr.RecordListTooLarge):
		f.class = failedTooLarge
	case errors.Is(code, kerr.InvalidTimestamp):
		f.class = failedTimestamp
	}
	return f
}

// isolation singles out the inputs that a broker may have refused: while it lasts each epoch has one input, and only the
// partitions with suspects are read. The zero value is over.
type isolation struct {
	on    atomic.Bool
	quiet time.Time // since when polls bring nothing; source's

	mu     sync.Mutex // guards all below
	left   map[offsets.TopicPartition]span
	paused map[string][]int32
}

// quietFor is how long partitions with suspects may bring nothing: the suspects are gone then, or with another member.
const quietFor = 5 * time.Second

func (i *isolation) begin(left map[offsets.TopicPartition]span) {
	i.left, i.paused = left, map[string][]int32{}
	i.on.Store(len(left) > 0)
}

// follow is told where partitions of ours begin, before they are read.
func (i *isolation) follow(cl *kgo.Client, fetched map[string]map[int32]kgo.Offset) {
	if !i.on.Load() {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for topic, partitions := range fetched {
		for p, at := range partitions {
			tp := offsets.TopicPartition{Topic: topic, Partition: p}
			if s, ok := i.left[tp]; ok && at.EpochOffset().Offset <= s.to {
				continue
			}
			delete(i.left, tp)
			i.paused[topic] = append(i.paused[topic], p)
			cl.PauseFetchPartitions(map[string][]int32{topic: {p}})
		}
	}
	i.perhapsOver(cl)
}

// dealt is told of an input that a lane has got.
func (i *isolation) dealt(cl *kgo.Client, tp offsets.TopicPartition, offset int64) {
	i.quiet = time.Time{}
	i.mu.Lock()
	defer i.mu.Unlock()
	if s, ok := i.left[tp]; ok && offset >= s.to {
		delete(i.left, tp)
		i.perhapsOver(cl)
	}
}

// gone is told of partitions that leave us.
func (i *isolation) gone(cl *kgo.Client, leaving []offsets.TopicPartition) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, tp := range leaving {
		delete(i.left, tp)
	}
	i.perhapsOver(cl)
}

// nothing is told of a poll that has brought nothing, from partitions that can be read.
func (i *isolation) nothing(cl *kgo.Client) {
	if i.quiet.IsZero() {
		i.quiet = time.Now()
	}
	if time.Since(i.quiet) < quietFor {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.left)
	i.perhapsOver(cl)
}

// perhapsOver reads on everywhere once nothing is left. mu is held.
func (i *isolation) perhapsOver(cl *kgo.Client) {
	if len(i.left) == 0 && i.on.Swap(false) {
		cl.ResumeFetchPartitions(i.paused)
	}
}
