package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
	"github.com/eosbridge/eosbridge/internal/link"
	"github.com/eosbridge/eosbridge/offsets"
)

// Options is what a Participant needs. cli fills the client options, bridge the rest.
type Options struct {
	Prefix   string // of the transactional ids
	Instance string // middle of the transactional ids, and group.instance.id
	Group    string
	// Client opens a producer with further options; it knows the brokers, security and buffers.
	Client func(...kgo.Opt) (*kgo.Client, error)
	Admin  *kadm.Client
	// Version is the finalized transaction.version, see Probe.
	Version int16
	// Batches opens a ring of slots that produce whole batches (Ring.ProduceBatches) and no records. It needs
	// transaction.version 2 or later.
	Batches bool
	// Link, if not nil, made the Dial of the client, and carries whole batches.
	Link *link.Dialer
	// ByKey says that the client chooses the partitions of records.
	ByKey bool
	// Timeout is transaction.timeout.ms of our transactions.
	Timeout time.Duration
	// Present answers the membership of this moment: the pair first, the counters afterwards.
	Present func() Credential
	// TopicID answers the id of an input topic, zero when unknown (KIP-516).
	TopicID func(topic string) [16]byte
	Log     *slog.Logger
}

// slots is fixed: with two ids the next epoch produces while the last one commits, and a third would only
// wait (see doc.go).
const slots = 2

// Ring is the exactly-once Participant: two transactional producers in turn, epoch n on slot n mod 2.
type Ring struct {
	opts     Options
	progress *groupProgress
	slot     [slots]*slot
	free     [slots]chan error // holds one token while the slot may begin; the token is a failed renewal's error
	due      atomic.Int64      // the one epoch that may be committed next, 0 before the first Begin; a failure leaves it
	ended    time.Time         // when the last transaction was committed; Commit's
	brisk    time.Duration     // see complete
	keepBack time.Duration     // see complete

	carry carried

	renewals sync.WaitGroup
	stop     context.CancelFunc // ends renewals
	alive    context.Context    // until stop
}

var _ Participant = (*Ring)(nil)

// Open fences both ids and answers a ring that is ready for its first epoch. It is also the whole of
// recovery: the positions ride inside the transactions, so after the fence the broker's positions are the
// truth. Dial errors and CONCURRENT_TRANSACTIONS are retried until ctx ends.
func Open(ctx context.Context, o Options) (*Ring, error) {
	if o.Batches && o.Version < 2 {
		return nil, Fatalf(StatusBroken, "broken invariant: batches at transaction.version %d: 2 is needed", o.Version)
	}
	r := &Ring{
		opts:     o,
		progress: newGroupProgress(o),
		brisk:    2 * brokerBackoff, keepBack: brokerBackoff,
	}
	r.alive, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	group, gctx := errgroup.WithContext(ctx)
	for i := range r.slot {
		id := ID{Prefix: o.Prefix, Instance: o.Instance, Slot: i}
		r.slot[i] = &slot{id: id, log: o.Log, over: overRecords, client: func() (*kgo.Client, error) { return o.Client(slotOptions(id, o)...) }}
		if o.Batches {
			r.slot[i].over = func(cl *kgo.Client) producer { return newSender(r.alive, cl, id, o) }
		}
		r.free[i] = make(chan error, 1) // one token: the slot itself
		r.free[i] <- nil
		group.Go(func() error { return r.slot[i].open(gctx) })
	}
	if err := group.Wait(); err != nil {
		r.Close()
		return nil, err
	}
	crashpoint.At("recovery: both fenced")
	return r, nil
}

func newGroupProgress(o Options) *groupProgress {
	p := &groupProgress{group: o.Group, instance: o.Instance, admin: o.Admin, present: o.Present, topicID: o.TopicID}
	p.forget()
	return p
}

// produceTimeout is how long a broker may take for a Produce request before the client asks again. With kgo's 10 s a
// swallowed answer would cost most of an epoch's timeout; asking again is safe, by the sequence numbers.
const produceTimeout = 5 * time.Second

// slotOptions are the protocol's demands on a slot's client; they come last, so nothing overrides them.
func slotOptions(id ID, o Options) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.TransactionalID(id.String()),
		kgo.TransactionTimeout(o.Timeout),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// A swallowed answer must not cost the whole transaction timeout.
		kgo.RequestTimeoutOverhead(3 * time.Second),
		kgo.ProduceRequestTimeout(produceTimeout),
	}
	if o.Version < 2 {
		opts = append(opts, kgo.MaxVersions(below2()))
	}
	return append(opts, crashOptions()...)
}

// Begin implements Participant.
func (r *Ring) Begin(ctx context.Context, n Epoch) error {
	if last := r.slot[(n+1)%slots].at(); last == StateOpen || last == StatePositioned {
		return Fatalf(StatusBroken, "broken invariant: epoch %d begins before epoch %d is flushed", n, n-1)
	}
	i := n % slots
	select {
	case err := <-r.free[i]:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return Classify(CallInit, fmt.Errorf("wait for %s: %w", r.slot[i].id, context.Cause(ctx)))
	}
	r.due.CompareAndSwap(0, int64(n))
	return r.slot[i].failing(r.slot[i].begin())
}

// Produce implements Participant.
func (r *Ring) Produce(ctx context.Context, n Epoch, records []*kgo.Record, done func(*kgo.Record, error)) {
	if r.opts.Batches { // kgo would ask for a producer id of its own, and fence ours
		err := Fatalf(StatusBroken, "broken invariant: epoch %d: records for topic %s on a ring of batches", n, records[0].Topic)
		r.slot[n%slots].fail(err)
		go done(records[0], err)
		return
	}
	r.slot[n%slots].produce(ctx, records, done)
}

// PreCommit implements Participant.
func (r *Ring) PreCommit(ctx context.Context, n Epoch) error {
	s := r.slot[n%slots]
	return s.failing(s.flush(ctx))
}

// SendOffsets implements Participant. Below transaction.version 2 it leaves them to Commit: AddOffsetsToTxn would come
// beside the client's AddPartitionsToTxn, of which the coordinator takes one at a time. The same would happen where only the
// client knows to which partition a record goes; see places.
func (r *Ring) SendOffsets(ctx context.Context, cp Checkpoint) (Steps, error) {
	if r.opts.Version < 2 || r.opts.ByKey {
		return Steps{}, nil
	}
	s, err := r.dueSlot(cp.Epoch, StateOpen, StateFlushed)
	if err != nil {
		return Steps{}, err
	}
	// Without output Commit carries them; a failure is PreCommit's to tell.
	if s.handed.Load() == 0 || !s.places.wait(ctx) || s.failed() != nil {
		return Steps{}, nil
	}
	if err := s.failing(r.sendOffsets(ctx, s, cp)); err != nil {
		return Steps{}, err
	}
	return Steps{OffsetsSent: s.positioned}, nil
}

// dueSlot answers the slot of the epoch that is due, which has to be in one of these states.
func (r *Ring) dueSlot(n Epoch, states ...State) (*slot, error) {
	if due := Epoch(r.due.Load()); n != due {
		return nil, Fatalf(StatusBroken, "broken invariant: commit of epoch %d while epoch %d is due", n, due)
	}
	s := r.slot[n%slots]
	if state := s.at(); !slices.Contains(states, state) {
		return nil, Fatalf(StatusBroken, "broken invariant: commit of epoch %d on %s, which is %s", n, s.id, state)
	}
	return s, nil
}

// Commit implements Participant. An epoch that is not committed leaves itself due, so nothing after it ever is.
func (r *Ring) Commit(ctx context.Context, cp Checkpoint) (Steps, error) {
	s, err := r.dueSlot(cp.Epoch, StateFlushed, StatePrepared)
	if err != nil {
		return Steps{}, err
	}
	steps, err := r.commit(ctx, s, cp)
	if err != nil {
		return steps, s.failing(err)
	}
	r.due.Add(1)
	crashpoint.At("commit: bookkeeping done")
	if steps.Carried {
		r.free[cp.Epoch%slots] <- nil
		return steps, nil
	}
	r.release(cp.Epoch%slots, steps.Committed.Sub(r.ended) < r.brisk)
	r.ended = steps.Committed
	return steps, nil
}

func (r *Ring) commit(ctx context.Context, s *slot, cp Checkpoint) (Steps, error) {
	var steps Steps
	if s.handed.Load() == 0 {
		if err := r.carry.add(cp); err != nil {
			return steps, err
		}
		steps.Carried = true
		return steps, s.step(EventCarry)
	}
	if s.at() == StateFlushed {
		if err := r.sendOffsets(ctx, s, cp); err != nil {
			return steps, err
		}
	}
	steps.OffsetsSent = s.positioned
	if err := s.end(ctx); err != nil {
		return steps, err
	}
	steps.Committed = time.Now()
	return steps, nil
}

// sendOffsets puts the positions of an epoch, and those that were carried, into its transaction.
func (r *Ring) sendOffsets(ctx context.Context, s *slot, cp Checkpoint) error {
	cp, err := r.carry.into(cp)
	if err != nil {
		return err
	}
	if err := r.progress.sendInTxn(ctx, s, r.opts.Version, cp); err != nil {
		return err
	}
	s.positioned = time.Now()
	if err := s.step(EventOffsets); err != nil {
		return err
	}
	s.logProducer(ctx, r.opts.Log, cp.Epoch)
	return nil
}

// brokerBackoff is how long a broker waits before it tries again to add a partition to a transaction whose predecessor is
// not complete (add.partitions.to.txn.retry.backoff.ms); the records of the whole request wait with it.
const brokerBackoff = 20 * time.Millisecond

// completePause is the time between EndTxn's answer, or a look at the transaction, and the next look: markers are mostly
// written by then.
const completePause = 2 * time.Millisecond

// release gives a slot back. At transaction.version < 2 its client was made anew before. If epochs follow each other
// quickly, the markers of the last transaction are waited for. Both happen in the background, behind the epoch of the other
// slot. Begin waits for the token and so for that.
func (r *Ring) release(i Epoch, soon bool) {
	if r.opts.Version >= 2 {
		err := r.slot[i].step(EventRenew)
		if err != nil || !soon {
			r.free[i] <- err
			return
		}
		r.renewals.Go(func() { // ends after keepBack at the latest; Close waits for it
			r.complete(r.slot[i])
			r.free[i] <- nil
		})
		return
	}
	ctx, cancel := context.WithTimeout(r.alive, r.opts.Timeout)
	r.renewals.Go(func() { // ends with the renewal, which its context bounds; Close waits for it
		defer cancel()
		err := r.slot[i].renew(ctx)
		crashpoint.At("commit: client renewed")
		r.free[i] <- err
	})
}

// complete waits until the coordinator has written all markers of the slot's transaction, or keepBack is over: who
// produces on the id before that waits for brokerBackoff, and finds it often only where commits are less than brisk apart.
// It is no more than a kindness to the next epoch, so a failure to ask says nothing.
func (r *Ring) complete(s *slot) {
	ctx, cancel := context.WithTimeout(r.alive, r.keepBack)
	defer cancel()
	tick := time.NewTicker(completePause)
	defer tick.Stop()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{s.id.String()}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		cl := s.current()
		if cl == nil {
			return
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil || len(resp.TransactionStates) != 1 || resp.TransactionStates[0].State != "PrepareCommit" {
			return
		}
	}
}

// Settle implements Participant.
func (r *Ring) Settle(ctx context.Context, olderThan time.Duration) (bool, error) {
	return r.carry.settle(olderThan, func(p offsets.Positions, cred Credential) error {
		return r.plain(ctx, p, cred)
	})
}

// plain commits through the client of a slot, which is not renewed meanwhile.
func (r *Ring) plain(ctx context.Context, p offsets.Positions, cred Credential) error {
	s := r.slot[0]
	if !s.renewing.TryRLock() {
		s = r.slot[1]
		s.renewing.RLock()
	}
	defer s.renewing.RUnlock()
	cl := s.current()
	if cl == nil {
		return fmt.Errorf("%w: %s has no client", ErrAborted, s.id)
	}
	return r.progress.commitPlain(ctx, cl, p, cred)
}

// CommitStart implements Participant.
func (r *Ring) CommitStart(ctx context.Context, p offsets.Positions, cred Credential) error {
	return r.plain(ctx, p, cred)
}

// Forget implements Participant.
func (r *Ring) Forget(leaving []offsets.TopicPartition) { r.carry.forget(leaving) }

// OpenSince implements Participant.
func (r *Ring) OpenSince() (time.Time, bool) {
	var oldest time.Time
	for _, s := range r.slot {
		if at := s.opened.Load(); at != nil && (oldest.IsZero() || at.Before(oldest)) {
			oldest = *at
		}
	}
	return oldest, !oldest.IsZero()
}

// Abort implements Participant.
func (r *Ring) Abort(ctx context.Context) {
	for _, s := range r.slot {
		s.abort(ctx)
	}
}

// Close implements Participant.
func (r *Ring) Close() {
	r.stop()
	r.renewals.Wait()
	for _, s := range r.slot {
		if s != nil {
			s.close()
		}
	}
}

// carried holds the positions of epochs without output until something commits them.
type carried struct {
	mu        sync.Mutex
	positions offsets.Positions
	cred      Credential // of the newest barrier that left something
	since     time.Time  // of the oldest
}

func (c *carried) add(cp Checkpoint) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(cp.Positions) == 0 {
		return nil
	}
	if len(c.positions) == 0 {
		c.positions, c.since = offsets.Positions{}, time.Now()
	}
	if err := c.positions.Merge(cp.Positions); err != nil {
		return &FatalError{Status: StatusBroken, Err: fmt.Errorf("broken invariant: epoch %d: %w", cp.Epoch, err)}
	}
	c.cred = cp.Credential
	return nil
}

// into merges what was carried into a checkpoint that is about to be committed.
func (c *carried) into(cp Checkpoint) (Checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.positions) == 0 {
		return cp, nil
	}
	if err := c.positions.Merge(cp.Positions); err != nil {
		return cp, &FatalError{Status: StatusBroken, Err: fmt.Errorf("broken invariant: epoch %d: %w", cp.Epoch, err)}
	}
	cp.Positions, c.positions = c.positions, nil
	return cp, nil
}

func (c *carried) forget(leaving []offsets.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.positions.Drop(leaving...)
}

func (c *carried) settle(olderThan time.Duration, commit func(offsets.Positions, Credential) error) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.positions) == 0 || time.Since(c.since) < olderThan {
		return false, nil
	}
	if err := commit(c.positions, c.cred); err != nil {
		// Refused or unanswered: the membership that sent it must end before anything else is committed.
		if errors.Is(err, ErrFatal) {
			return false, err
		}
		return false, fmt.Errorf("carried positions: %w", err)
	}
	c.positions = nil
	return true, nil
}
