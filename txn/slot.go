package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
	"github.com/eosbridge/eosbridge/offsets"
)

// slot is one transactional producer. Its epochs follow each other; two slots in turn make the ring.
type slot struct {
	id     ID
	log    *slog.Logger
	client func() (*kgo.Client, error)
	over   func(*kgo.Client) producer // what the slot produces with

	mu    sync.Mutex // guards state, cause, cl and the fields below it
	state State
	cause error // of StateFailed
	cl    *kgo.Client
	out   producer // over cl
	begun bool     // out is in a transaction; stays true over an epoch without output
	ended bool     // EndTxn was sent: the outcome is the broker's to decide

	renewing sync.RWMutex // held while cl is made anew; read-held by others that send through cl

	handed atomic.Int64                           // records given to the client in this epoch
	acked  atomic.Int64                           // records whose promise succeeded
	opened atomic.Pointer[time.Time]              // first record of this epoch, by the monotonic clock; nil before
	proof  atomic.Pointer[offsets.TopicPartition] // a partition that has acknowledged records of this epoch
	places places                                 // of this epoch

	failMu  sync.Mutex
	failure error // the first failed promise of this epoch

	positioned time.Time // when the positions were acknowledged; the committer's
}

func (s *slot) step(e Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.state
	if from == StateFailed && (e == EventFlush || e == EventOffsets) {
		return s.cause // these two are on their way together, and the other one has failed
	}
	crashpoint.Step(from, e, "before")
	to, err := next(from, e)
	s.state = to
	crashpoint.Step(from, e, "after")
	if err != nil {
		return fmt.Errorf("txn id %s: %w", s.id, err)
	}
	return nil
}

func (s *slot) at() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// failing marks the slot as failed if err is an error, and answers err.
func (s *slot) failing(err error) error {
	if err == nil {
		return nil
	}
	s.mu.Lock()
	if s.cause == nil {
		s.cause = err
	}
	s.mu.Unlock()
	_ = s.step(EventFail) // every state may fail
	return err
}

// current answers the client, nil once the slot is closed.
func (s *slot) current() *kgo.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cl
}

// open makes a client and fences: InitProducerID aborts what a dead incarnation left open, and refuses
// everything that a living one may still send under our id (KIP-98, KIP-360).
func (s *slot) open(ctx context.Context) error {
	cl, err := s.client()
	if err != nil {
		return &FatalError{Status: StatusConfig, Err: fmt.Errorf("client of %s: %w", s.id, err)}
	}
	out := s.over(cl)
	began := time.Now()
	pid, epoch, err := fence(ctx, out, s.log)
	if err != nil {
		out.close()
		return fmt.Errorf("fence %s: %w", s.id, Classify(CallInit, err))
	}
	if pid < 0 {
		out.close()
		return Fatalf(StatusConfig, "fence %s: the brokers have no transactions (InitProducerID is unknown to them)", s.id)
	}
	s.log.Debug("fenced", "txn_id", s.id.String(), "producer_id", pid, "producer_epoch", epoch, "elapsed", time.Since(began))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cl, s.out, s.begun, s.ended, s.state, s.cause = cl, out, false, false, StateReady, nil
	crashpoint.At("recovery: one id fenced")
	return nil
}

// fence asks for the producer id until it is granted. CONCURRENT_TRANSACTIONS is retried below it, a failed dial is
// not, so the back-off for that is ours.
func fence(ctx context.Context, out producer, log *slog.Logger) (int64, int16, error) {
	var last error
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		pid, epoch, err := out.identity(ctx)
		if err != nil && ctx.Err() != nil && last != nil {
			err = fmt.Errorf("%w, after %w", err, last) // which says whether a broker was ever reached
		}
		if err == nil || ctx.Err() != nil || !retriableInit(err) {
			return pid, epoch, err
		}
		last = err
		log.Debug("fence not answered, trying again", "elapsed", delay, "err", err)
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return 0, 0, err
		case <-timer.C:
		}
	}
}

// retriableInit holds for failures of InitProducerID that a new attempt may cure: it can be repeated without
// harm, for each attempt only fences again.
func retriableInit(err error) bool {
	var kafka *kerr.Error
	if errors.As(err, &kafka) {
		return kafka.Retriable || errors.Is(err, kerr.ConcurrentTransactions)
	}
	return !errors.Is(err, kgo.ErrClientClosed)
}

// begin takes the slot for an epoch. No request is sent: the broker opens the transaction with the first record.
func (s *slot) begin() error {
	if err := s.step(EventBegin); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed.Store(0)
	s.acked.Store(0)
	s.opened.Store(nil)
	s.proof.Store(nil)
	s.places.reset()
	if s.begun {
		return nil
	}
	if err := s.out.begin(); err != nil {
		return fmt.Errorf("%w: begin %s: %w", ErrAborted, s.id, err)
	}
	s.begun = true
	return nil
}

// handover counts the promises of records that were handed over together.
type handover struct {
	slot   *slot // nil: nothing is counted there
	size   int64
	places []offsets.TopicPartition  // complete before the last record is handed over
	place  [1]offsets.TopicPartition // room for places: nearly always there is one
	left   atomic.Int64
	first  atomic.Pointer[batchFailure]
	done   func(*kgo.Record, error)
}

type batchFailure struct {
	record *kgo.Record
	err    error
}

func (b *handover) promise(r *kgo.Record, err error) {
	if err != nil {
		b.first.CompareAndSwap(nil, &batchFailure{r, err})
		if b.slot != nil {
			b.slot.fail(fmt.Errorf("topic %s partition %d: %w", r.Topic, r.Partition, err))
		}
	}
	if b.left.Add(-1) > 0 {
		return
	}
	for _, tp := range b.places {
		b.slot.places.answered(tp)
	}
	f := b.first.Load()
	if f == nil {
		if b.slot != nil {
			b.slot.acknowledge(r.Topic, r.Partition, b.size)
		}
		b.done(nil, nil)
		return
	}
	b.done(f.record, f.err)
}

func (s *slot) produce(ctx context.Context, records []*kgo.Record, done func(*kgo.Record, error)) {
	b := &handover{slot: s, size: int64(len(records)), done: done}
	b.places = b.place[:0]
	b.left.Store(b.size)
	s.hand(b.size)
	promise := b.promise
	cl := s.current() // Produce may wait for room, and Close end that
	if cl == nil {
		for _, r := range records {
			promise(r, kgo.ErrClientClosed)
		}
		return
	}
	for _, r := range records {
		b.to(r)
		cl.Produce(ctx, r, promise)
	}
	s.handedOver()
}

// hand counts records that are about to be given to the producer.
func (s *slot) hand(n int64) {
	if s.handed.Add(n) == n {
		now := time.Now()
		s.opened.CompareAndSwap(nil, &now)
	}
}

func (s *slot) handedOver() { crashpoint.At("epoch: records handed over") }

// acknowledge counts n records, of which the last went to this partition.
func (s *slot) acknowledge(topic string, partition int32, n int64) {
	if s.proof.Load() == nil {
		s.proof.Store(&offsets.TopicPartition{Topic: topic, Partition: partition})
	}
	s.acked.Add(n)
	crashpoint.At("epoch: records acknowledged")
}

// fail remembers the first failure. kgo would commit the transaction without the record that failed.
func (s *slot) fail(err error) {
	s.failMu.Lock()
	defer s.failMu.Unlock()
	if s.failure == nil {
		s.failure = err
	}
}

func (s *slot) failed() error {
	s.failMu.Lock()
	defer s.failMu.Unlock()
	return s.failure
}

// flush waits for every promise of the epoch, then looks at them.
func (s *slot) flush(ctx context.Context) error {
	if err := s.out.flush(ctx); err != nil {
		if f := s.failed(); f != nil {
			err = f
		}
		return Classify(CallProduce, fmt.Errorf("flush %s: %w", s.id, err))
	}
	if err := s.failed(); err != nil {
		return Classify(CallProduce, err)
	}
	if h, a := s.handed.Load(), s.acked.Load(); h != a {
		return Fatalf(StatusBroken, "broken invariant: %s flushed with %d of %d records acknowledged", s.id, a, h)
	}
	return s.step(EventFlush)
}

// logProducer names the transaction that is about to be ended as the brokers' logs name it: each of them has its
// own producer id and producer epoch.
func (s *slot) logProducer(ctx context.Context, log *slog.Logger, n Epoch) {
	if !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	pid, epoch, err := s.out.identity(ctx) // known since the first record
	if err != nil {
		pid, epoch = -1, -1
	}
	log.Debug("epoch offsets sent", "epoch", n, "txn_id", s.id.String(), "producer_id", pid, "producer_epoch", epoch)
}

// end commits. The producer may answer nil without committing when nothing was produced, and commits what it has when
// a record failed or came late, so all of it is looked at once more.
func (s *slot) end(ctx context.Context) error {
	if h, a := s.handed.Load(), s.acked.Load(); a == 0 || h != a {
		return Fatalf(StatusBroken, "broken invariant: %s would commit %d of %d records", s.id, a, h)
	}
	if err := s.failed(); err != nil {
		return Classify(CallProduce, err)
	}
	if err := s.visible(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	crashpoint.At("commit: EndTxn ready")
	if err := s.out.end(ctx, true); err != nil {
		return Classify(CallEnd, fmt.Errorf("%s: %w", s.id, err))
	}
	crashpoint.At("commit: EndTxn answered")
	s.mu.Lock()
	s.begun, s.ended = false, false
	s.mu.Unlock()
	s.opened.Store(nil)
	return s.step(EventEnd)
}

// visible waits until the producer's own books show that there is something to commit, see records.knows.
func (s *slot) visible(ctx context.Context) error {
	tp := *s.proof.Load()
	if s.out.knows(tp) {
		return nil
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !s.out.knows(tp) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: the client does not know partition %s, to which it has produced: %w", ErrAborted, s.id, tp, ctx.Err())
		}
	}
	return nil
}

// renew makes the client anew before the slot's next epoch. Below transaction.version 2 the producer epoch does
// not move with EndTxn, so a late copy of EndTxn or TxnOffsetCommit could still hit the next transaction of this
// id (KAFKA-17754), and kgo cannot fence again under a live client.
func (s *slot) renew(ctx context.Context) error {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if err := s.step(EventRenew); err != nil {
		return err
	}
	s.close()
	crashpoint.At("commit: client closed")
	return s.open(ctx)
}

func (s *slot) abort(ctx context.Context) {
	s.mu.Lock()
	out, begun := s.out, s.begun && s.handed.Load() > 0 && !s.ended
	s.mu.Unlock()
	if out == nil || !begun {
		return
	}
	if err := out.drop(ctx); err != nil {
		return // the next fence aborts it
	}
	if err := out.end(ctx, false); err != nil {
		s.log.Debug("abort not acknowledged, the next fence does it", "txn_id", s.id.String(), "err", err)
	}
}

func (s *slot) close() {
	s.mu.Lock()
	out := s.out
	s.cl, s.out = nil, nil
	s.mu.Unlock()
	if out != nil {
		out.close()
	}
}
