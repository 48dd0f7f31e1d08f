package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/topics"
	"github.com/eosbridge/eosbridge/txn"
)

// session is one incarnation of the pipeline inside the process: from the fence to the first failure, or to
// the stop. Nothing of it outlives a failure but the numbers that Bridge keeps; the next session asks the
// broker for everything.
type session struct {
	*Bridge
	log *slog.Logger

	version  int16
	begun    txn.Epoch // the last epoch before this session
	interval time.Duration
	cl       *kgo.Client   // consumer
	made     chan struct{} // closed when cl may be read: the client calls back before NewClient has returned
	sink     txn.Participant

	ctx  context.Context // ends with the first failure, its cause
	fail context.CancelCauseFunc
	end  context.CancelFunc // stops in order, as a signal does

	late    context.Context // ends when a stop may take no longer, its cause the reason
	tooLate context.CancelCauseFunc

	budget    *budget
	lanes     []*lane
	passes    chan pass
	barriers  chan *epoch
	commits   chan *epoch
	aligner   Aligner
	carried   atomic.Int64              // newest epoch whose positions were carried
	lastEnd   atomic.Pointer[time.Time] // end of the last commit; nil before
	flight    flight
	assigned  assignment
	missing   int // looks in a row at which an input topic was gone; owned by watch
	wake      *wake
	isolation isolation
	raw       bool     // batches are passed through
	fetcher   *fetcher // if raw, made with cl

	group    atomic.Pointer[error]                 // what ended the group's loop
	blocked  atomic.Bool                           // a rebalance waits for AllowRebalance
	away     atomic.Int64                          // nanoseconds to a broker and back; 0 = unknown
	sharing  sync.Mutex                            // of shareFetches
	closing  atomic.Bool                           // the consumer is being closed: callbacks have nothing left to do
	stopping atomic.Bool                           // in order: no more input
	gained   atomic.Pointer[time.Time]             // since when partitions wait for stable positions; nil = none
	rules    atomic.Pointer[map[string]topicRules] // of output topics
}

// session recovers and bridges until a failure, or until ctx ends and the last epoch is settled.
func (b *Bridge) session(ctx, abort context.Context) error {
	b.enter(StateRecovering)
	s, err := b.recover(ctx)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, txn.ErrFatal) && !errors.Is(err, txn.ErrFenced) {
			return nil // stopped before anything was begun
		}
		return err
	}
	err = s.run(ctx, abort)
	return s.close(ctx, err)
}

// recover settles what an earlier incarnation left, in the order that makes it safe and quick: test whether
// the name is still ours, fence both ids, take the name over, then look at the positions.
func (b *Bridge) recover(ctx context.Context) (*session, error) {
	if b.member != "" {
		if err := b.leave(ctx, b.member); err != nil {
			return nil, err
		}
		// The member id is kept: should this start fail, the next one has to ask again.
	}
	s := &session{Bridge: b, log: b.log, begun: b.epoch, interval: b.opts.EpochInterval, budget: newBudget(budgetBytes(b.opts.Memory, 0, false)), made: make(chan struct{}), wake: &wake{c: make(chan struct{}, 1)}}
	s.isolation.begin(b.refusals.hint())
	s.ctx, s.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	s.late, s.tooLate = context.WithCancelCause(context.WithoutCancel(ctx))
	b.budget.Store(s.budget)
	s.assigned.ids = maps.Clone(b.topicIDs)
	ok := false
	defer func() {
		if !ok {
			s.fail(nil)
			if s.sink != nil {
				s.sink.Close()
			}
		}
	}()
	probing, cancel := context.WithTimeout(ctx, b.opts.EpochTimeout)
	defer cancel()
	var err error
	if s.version, err = txn.Probe(probing, b.admin, b.opts.Consumer); err != nil {
		return nil, txn.Classify(txn.CallInit, err)
	}
	s.choosePath()
	if err := s.checkLimits(probing); err != nil {
		return nil, err
	}
	crashpoint.At("recovery: before the fence")
	if err := s.openSink(ctx); err != nil {
		return nil, err
	}
	if err := s.takeName(ctx); err != nil {
		return nil, err
	}
	if err := s.prepareStart(ctx); err != nil {
		return nil, err
	}
	s.build()
	s.enter(StateJoining)
	if s.cl, err = kgo.NewClient(s.consumerOptions()...); err != nil {
		return nil, &txn.FatalError{Status: txn.StatusConfig, Err: err}
	}
	if s.raw {
		s.fetcher = newFetcher(s.cl, s.opts.Link, s.assigned.topicID, s.wake.poll, s.log)
		for _, l := range s.lanes {
			l.carrier.decoder, l.carrier.perBatch, l.carrier.finished = s.fetcher.old, s.fetcher.perBatch.Load, s.fetcher.finished
		}
	}
	close(s.made)
	ok = true
	return s, nil
}

func (s *session) openSink(ctx context.Context) error {
	var making sync.Mutex // kgo.ProducerBatchCompression's list is shared by the clients, and kgo writes to it
	o := txn.Options{
		Prefix: s.opts.Prefix, Instance: s.opts.Instance, Group: s.opts.Group,
		Client: func(extra ...kgo.Opt) (*kgo.Client, error) {
			making.Lock()
			defer making.Unlock()
			return kgo.NewClient(append(s.producerOptions(), extra...)...)
		},
		Admin: s.admin, Version: s.version, Batches: s.raw, ByKey: s.opts.ByKey, Timeout: s.opts.TxnTimeout,
		Link: s.opts.Link, Present: s.credential, TopicID: s.assigned.topicID, Log: s.log,
	}
	var err error
	if s.opts.Delivery != ExactlyOnce {
		s.sink, err = txn.OpenPlain(o)
		return err
	}
	if s.version < 2 && !s.opts.IntervalChosen {
		s.interval = max(s.interval, interval1)
	}
	if s.version < 2 && s.epoch == 0 {
		s.log.Warn("transaction.version is below 2: each epoch makes a producer anew; upgrade the cluster's feature for short epochs",
			"version", s.version, "interval", s.interval)
	}
	// A coordinator that finishes a transaction of ours answers CONCURRENT_TRANSACTIONS until then, at the
	// longest for the transaction's timeout and two rounds of the broker's 10 s sweep.
	fencing, cancel := context.WithTimeout(ctx, s.opts.TxnTimeout+20*time.Second)
	defer cancel()
	ring, err := txn.Open(fencing, o)
	if err != nil {
		return txn.Classify(txn.CallInit, err)
	}
	s.sink = ring
	return nil
}

// takeName frees our name from whoever holds it, once per process. With KIP-848 the broker keeps the name of
// a killed process for the session timeout; the classic protocol hands it to the newest by itself.
func (s *session) takeName(ctx context.Context) error {
	if s.left || !s.opts.Consumer {
		return nil
	}
	leaving, cancel := context.WithTimeout(ctx, s.opts.EpochTimeout)
	defer cancel()
	if _, err := txn.Leave(leaving, s.client, s.admin, s.name(), ""); err != nil {
		return txn.Classify(txn.CallGroup, err)
	}
	s.left = true
	crashpoint.At("recovery: name taken")
	return nil
}

// leave gives up our place and tests whether it was still ours.
func (b *Bridge) leave(ctx context.Context, member string) error {
	leaving, cancel := context.WithTimeout(ctx, b.opts.EpochTimeout)
	defer cancel()
	who, err := txn.Leave(leaving, b.client, b.admin, b.name(), member)
	if err != nil {
		return txn.Classify(txn.CallGroup, err)
	}
	if who == txn.OwnershipLost {
		return fmt.Errorf("%w: another process took over instance %q of group %q", txn.ErrFenced, b.opts.Instance, b.opts.Group)
	}
	return nil
}

// run is the life of the session. Every goroutine it starts has ended when it returns.
func (s *session) run(ctx, abort context.Context) error {
	ctx, s.end = context.WithCancel(ctx)
	defer s.end()
	stopTimer := context.AfterFunc(ctx, func() {
		s.stopping.Store(true)
		s.enter(StateStopping)
		s.wake.now()
		timer := time.NewTimer(s.opts.StopTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			s.giveUp(fmt.Errorf("%w: not settled within the stop timeout of %s", txn.ErrAborted, s.opts.StopTimeout))
		case <-abort.Done():
			s.giveUp(fmt.Errorf("%w: stopped at once by a second signal", txn.ErrAborted))
		case <-s.ctx.Done():
		}
	})
	defer stopTimer()
	var group errgroup.Group
	start := func(run func() error) {
		group.Go(func() error {
			err := run()
			if err != nil {
				s.fail(err)
			}
			return err
		})
	}
	for _, l := range s.lanes {
		start(func() error { return l.run(s.ctx) })
	}
	src := newSource(s)
	start(func() error { return s.coordinate(src.epoch) })
	start(s.commit)
	if s.raw {
		start(func() error { return s.fetcher.run(s.ctx) })
	}
	start(func() error { return src.run(ctx.Done()) })
	watching, done := context.WithCancel(s.ctx)
	go s.watch(watching) // ends with done or the session
	err := s.await(group.Wait)
	done()
	if errors.Is(err, errStuck) {
		return err
	}
	if last := src.epoch.n - 1; err == nil && s.opts.Delivery == AtMostOnce {
		flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.EpochTimeout)
		err = s.flushLast(flushing, last)
		cancel()
	}
	s.Bridge.epoch = src.epoch.n
	if s.ctx.Err() != nil {
		err = context.Cause(s.ctx) // the first failure, not the ones that followed from it
	}
	return err
}

// giveUp ends a stop that took too long. It also cuts off a commit that is under way: its outcome is unknown then,
// as after a crash, and the next start learns it.
func (s *session) giveUp(why error) {
	s.fail(why)
	s.tooLate(why)
}

// errStuck says that a goroutine of the session does not end.
var errStuck = errors.New("a transform does not return")

// await waits for the session's goroutines. A failed session gives them the time that a commit may take; then one of
// them hangs, which only the code of a transform can do. Nothing ends a goroutine from outside, and going on beside it
// would be two sessions at once: the process has to end.
func (s *session) await(group func() error) error {
	ended := make(chan error, 1)     // one result
	go func() { ended <- group() }() // ends with the last goroutine; after errStuck with the process
	select {
	case err := <-ended:
		return err
	case <-s.ctx.Done():
	}
	timer := time.NewTimer(s.opts.EpochTimeout + time.Second)
	defer timer.Stop()
	late := s.late.Done()
	for {
		select {
		case err := <-ended:
			return err
		case <-late:
			late = nil
			timer.Reset(time.Second)
		case <-timer.C:
			return &txn.FatalError{Status: txn.StatusFailure, Err: fmt.Errorf("%w (lanes %v): %w", errStuck, s.stuckLanes(), context.Cause(s.ctx))}
		}
	}
}

func (s *session) stuckLanes() []int {
	var stuck []int
	for _, l := range s.lanes {
		if !closed(l.gone) {
			stuck = append(stuck, l.id)
		}
	}
	return stuck
}

// build makes the lanes and channels. Capacities: a lane may pass two barriers before the coordinator looks
// (at-least-once); the coordinator works on one epoch while the committer holds one.
func (s *session) build() {
	n := s.opts.Lanes
	s.passes = make(chan pass, 2*n)
	s.barriers = make(chan *epoch, 1)
	s.commits = make(chan *epoch, 1)
	policy := s.newPolicy()
	var hands *crew
	if !s.opts.Chain.Identity() {
		hands = newCrew(n, func() converter { return s.converter(0, policy) })
	}
	for i := range n {
		l := &lane{
			id: i, in: make(chan work, laneDepth), gone: make(chan struct{}), passes: s.passes, sink: s.sink,
			convert: s.converter(i, policy), policy: policy,
			budget: s.budget, failed: s.fail, enlarge: s.enlarge, idling: idling{s.metrics.stalled, s.metrics.holding}, early: s.opts.Delivery == AtMostOnce,
			provenance: s.opts.Provenance,
			log:        s.log, tracker: offsets.NewTracker(),
		}
		if hands != nil {
			l.crew, l.pace = hands, &s.pace
		}
		if s.raw {
			l.carrier = s.newCarrier()
		}
		s.lanes = append(s.lanes, l)
	}
	s.assigned.lanes = n
}

// converter is one for a lane, with a chain instance of its own.
func (s *session) converter(lane int, p *policy) converter {
	c := converter{lane: lane, target: func(input string) string { return topics.Expand(s.opts.Output, input) }, policy: p, restore: s.opts.Restore, log: s.log}
	if !s.opts.Chain.Identity() {
		c.chain = s.opts.Chain.New()
		c.chain.Until(s.ctx)
	}
	if s.opts.Provenance {
		c.extra = provenanceBytes
	}
	return c
}

// close ends the session's clients. A failure decides what the next session must learn from the broker.
func (s *session) close(ctx context.Context, err error) error {
	s.closing.Store(true)
	s.fail(err)
	patience := 10 * time.Second
	if s.late.Err() != nil {
		patience = time.Second
	}
	closeWithin(patience, s.cl.CloseAllowingRebalance)
	// Only now: with KIP-848 the client may have joined under a new id since the loss that ended the session.
	if member, _ := s.cl.GroupMetadata(); member != "" {
		s.member = member
	}
	err = s.lostBy(err)
	// Without an error it was in order, although stopping may be noted only later.
	stopping := err == nil || s.stopping.Load() || errors.Is(err, txn.ErrFatal)
	if err != nil && stopping {
		courtesy, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience/5)
		s.sink.Abort(courtesy)
		cancel()
	}
	closeWithin(patience, s.sink.Close)
	s.topicIDs = s.assigned.allIDs()
	s.board.assign(nil)
	s.board.openTxn(time.Time{})
	if !stopping || s.member == "" || err == nil && !s.opts.LeaveOnStop {
		return err
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience/2)
	defer cancel()
	crashpoint.At("stop: before the leave")
	leaveErr := s.leave(leaving, s.member)
	crashpoint.At("stop: left")
	s.member = ""
	if errors.Is(leaveErr, txn.ErrFenced) {
		return errors.Join(leaveErr, err)
	}
	if leaveErr != nil {
		s.log.Debug("group not left, the session timeout does it", "err", leaveErr)
	}
	return err
}

// closeWithin bounds a close that waits for a broker. A client that does not close in time is abandoned; the
// fence makes it harmless.
func closeWithin(d time.Duration, closeClient func()) {
	closed := make(chan struct{})
	go func() { // ends with the client; nobody waits longer than d
		closeClient()
		close(closed)
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}

// credential answers the membership of this moment (see txn.Credential).
func (s *session) credential() txn.Credential {
	return credential(s.cl.GroupMetadata, &s.lost, &s.revoked)
}

// credential reads the pair first and the counters afterwards: a pair of a later membership never comes with the
// counters of an earlier one.
func credential(pair func() (string, int32), lost, revoked *atomic.Uint64) txn.Credential {
	member, generation := pair()
	return txn.Credential{MemberID: member, Generation: generation, Lost: lost.Load(), Revoked: revoked.Load()}
}

// OnGroupManageError implements kgo.HookGroupManageError. kgo calls it after OnPartitionsLost, which has ended
// the session by then; what the error means is looked at when the client is closed.
func (s *session) OnGroupManageError(err error) {
	s.group.CompareAndSwap(nil, &err)
	s.fail(txn.Classify(txn.CallGroup, fmt.Errorf("group %s: %w", s.opts.Group, err)))
}

// lostBy answers what ended the session, after the group's own word on it.
func (s *session) lostBy(err error) error {
	group := s.group.Load()
	switch {
	case err == nil || group == nil:
		return err
	case txn.Denied(*group):
		return txn.Classify(txn.CallGroup, fmt.Errorf("group %s: %w", s.opts.Group, *group))
	default:
		// UNRELEASED_INSTANCE_ID, too: the holder may be ourselves, if the answer to our join was lost. The next
		// session's test of the name tells.
		return fmt.Errorf("%w (group: %w)", err, *group)
	}
}

// flight counts the epochs between their barrier and the end of their commit.
type flight struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed and replaced whenever n returns to 0
}

func (f *flight) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

func (f *flight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// wait answers nil when nothing is in flight, or the cause of ctx.
func (f *flight) wait(ctx context.Context) error {
	f.mu.Lock()
	if f.n == 0 {
		f.mu.Unlock()
		return nil
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle := f.idle
	f.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var (
	_ kgo.HookGroupManageError = (*session)(nil)
	_ kgo.HookBrokerE2E        = (*session)(nil)
)
