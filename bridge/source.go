package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// pollRecords bounds one poll: large enough to spread its cost, small enough that the budget and the limits of an
// epoch are looked at often.
const pollRecords = 10_000

// idlePoll is how long a wait for something else than the clock may take.
const idlePoll = time.Second

// quietPoll is how long a poll may wait while no epoch is open. What has to be looked at meanwhile wakes it: a stop, the
// group, a failure. It ends at times all the same, to show that the loop turns.
const quietPoll = 4 * time.Second

// source polls, deals each partition's records to its lane, and puts barriers in-band. It alone calls
// AllowRebalance, and only when no record is in an open epoch: the barrier is the one point at which the group
// may rebalance.
type source struct {
	*session
	epoch       *epoch
	lastBarrier time.Time
	cadence     cadence
	timer       *time.Timer // of pause
	undealt     int         // records of the last poll that no lane has got yet
}

func newSource(s *session) *source {
	timer := time.NewTimer(0)
	timer.Stop()
	return &source{session: s, epoch: newEpoch(s.Bridge.epoch + 1), cadence: newCadence(s.interval, s.opts.EpochMaxInterval), timer: timer}
}

// run ends when stop is closed and the last barrier is out, or with the session; the session waits for it.
func (s *source) run(stop <-chan struct{}) error {
	defer func() {
		if s.raw {
			s.fetcher.stop()
		}
		for i := range s.lanes {
			s.send(i, work{last: true})
		}
		close(s.barriers)
	}()
	s.board.touch(func(st *Status) { st.IntervalSeconds = s.cadence.interval.Seconds() })
	for s.ctx.Err() == nil {
		s.board.progress()
		stopping := closed(stop)
		if stopping && s.epoch.opened.IsZero() {
			return nil
		}
		reason, hard := s.due(stopping)
		switch {
		case reason != "" && closed(s.epoch.closable):
			if err := s.sweep(reason); err != nil {
				return err
			}
			s.barrier(reason)
		case hard:
			s.starved(idlePoll)
		case s.budget.exhausted():
			s.epoch.read.limited = true
			s.starved(s.untilDue())
		default:
			got, err := s.poll()
			if err != nil {
				return err
			}
			s.rest(got)
		}
	}
	return nil
}

// rest lets records gather, unless the barrier may come now.
func (s *source) rest(got reading) {
	left := s.dueIn()
	if s.epoch.alone || left <= 0 && closed(s.epoch.closable) {
		return
	}
	if d := got.rest(left); d > 0 {
		s.pause(d)
	}
}

// due answers why the epoch should close now. A hard reason also forbids to read on; the others merely
// stretch the epoch while no barrier may follow.
func (s *source) due(stopping bool) (reason string, hard bool) {
	e := s.epoch
	switch {
	case e.opened.IsZero():
		return "", false
	case stopping:
		return TriggerStop, true
	case s.blocked.Load():
		return TriggerRebalance, true
	case e.alone:
		return TriggerAlone, true
	case e.read.records >= s.opts.EpochMaxRecords:
		return TriggerRecords, false
	case e.bytesIn >= s.opts.EpochMaxBytes:
		return TriggerBytes, false
	case time.Since(e.opened) >= s.opts.TxnTimeout-2*s.opts.EpochTimeout:
		return TriggerAge, true
	case s.dueIn() <= 0:
		return TriggerInterval, false
	default:
		return "", false
	}
}

// untilDue is how long a poll may take.
func (s *source) untilDue() time.Duration {
	if s.epoch.opened.IsZero() {
		return min(quietPoll, s.opts.EpochTimeout/4)
	}
	d := s.dueIn()
	if d <= 0 { // due already: the opening of the gate wakes us
		return idlePoll
	}
	return min(d, idlePoll)
}

// dueIn is the time until the interval and the pause after the last commit are over.
func (s *source) dueIn() time.Duration {
	d := s.cadence.interval - time.Since(s.lastBarrier)
	if end := s.lastEnd.Load(); end != nil && s.opts.EpochMinPause > 0 {
		d = max(d, s.opts.EpochMinPause-time.Since(*end))
	}
	return d
}

// starved is a pause that a limit asks for.
func (s *source) starved(atMost time.Duration) {
	defer s.starving()()
	s.pause(atMost)
}

// pause waits without polling until something has changed.
func (s *source) pause(atMost time.Duration) {
	s.timer.Reset(atMost)
	defer s.timer.Stop()
	select {
	case <-s.budget.freed:
	case <-s.wake.c:
	case <-s.timer.C:
	case <-s.ctx.Done():
	}
}

// barrier closes the epoch. The credential is captured while a rebalance is still blocked.
func (s *source) barrier(reason string) {
	e := s.epoch
	e.triggered, e.trigger = time.Now(), reason
	e.cred = s.credential()
	e.next = newEpoch(e.n + 1)
	s.epoch, s.lastBarrier = e.next, e.triggered
	e.read.limited = e.read.limited || reason == TriggerRecords || reason == TriggerBytes
	e.read.unread = e.left()
	s.cadence.closed(e.read)
	s.board.touch(func(st *Status) {
		st.Epoch = e.next.n
		st.IntervalSeconds = s.cadence.interval.Seconds()
	})
	s.flight.start()
	s.log.Debug("epoch barrier", "epoch", e.n, "trigger", reason, "records_in", e.read.records)
	for i := range e.lanes {
		s.send(i, work{epoch: e, barrier: true})
	}
	select {
	case s.barriers <- e:
	case <-s.ctx.Done():
	}
	crashpoint.At("epoch: barrier injected")
	if reason == TriggerStop {
		crashpoint.At("stop: last barrier")
	}
	s.allowRebalance()
}

func (s *source) allowRebalance() {
	s.blocked.Store(false)
	s.cl.AllowRebalance()
}

func (s *source) send(lane int, w work) {
	select {
	case s.lanes[lane].in <- w:
		return
	default:
	}
	defer s.starving()()
	select {
	case s.lanes[lane].in <- w:
	case <-s.ctx.Done():
	}
}

func (s *source) poll() (reading, error) {
	ctx, cancel := s.wake.context(s.ctx, s.untilDue())
	fetches := s.pollClient(ctx, cancel)
	cancel()
	got, err := s.take(fetches)
	if got.records == 0 && s.isolation.on.Load() && s.assigned.size() > 0 && s.gained.Load() == nil {
		s.isolation.nothing(s.cl)
	}
	if err == nil && s.epoch.opened.IsZero() {
		s.allowRebalance() // a poll that timed out counts as a poll
	}
	return got, err
}

// sweep takes what has been fetched already into an epoch that closes by the clock.
func (s *source) sweep(reason string) error {
	if reason != TriggerInterval || s.budget.exhausted() {
		return nil
	}
	_, err := s.take(s.cl.PollRecords(nil, s.atATime())) //nolint:staticcheck // nil: it waits for nothing
	return err
}

// atATime is how many records a poll may bring.
func (s *session) atATime() int {
	if s.isolation.on.Load() {
		return 1
	}
	return s.pace.records(s.opts.EpochTimeout)
}

// take deals what a poll has brought, and says how much that was.
func (s *source) take(fetches kgo.Fetches) (got reading, err error) {
	var failure error
	fetches.EachError(func(topic string, partition int32, err error) {
		if failure == nil {
			failure = s.fetchError(topic, partition, err)
		}
	})
	if failure != nil {
		return got, failure
	}
	s.undealt = fetches.NumRecords()
	now := time.Now()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) > 0 {
			got.records += int64(len(p.Records))
			got.unread += s.deal(p, now)
		}
	})
	if s.raw {
		return s.takeFetched()
	}
	return got, nil
}

// recordOverhead is what a decoded record takes besides its payload: kgo.Record and its place in slices.
const recordOverhead = 200

// deal answers how many records are left of the partition.
func (s *source) deal(p kgo.FetchTopicPartition, now time.Time) (unread int64) {
	e := s.epoch
	tp := offsets.TopicPartition{Topic: p.Topic, Partition: p.Partition}
	payload := bytesOf(p.Records)
	size := payload + recordOverhead*int64(len(p.Records))
	if e.opened.IsZero() {
		e.opened = now
	}
	e.read.records += int64(len(p.Records))
	e.bytesIn += payload
	s.budget.take(size)
	lane := s.assigned.lane(tp)
	e.lanes[lane] = true
	unread = max(p.LastStableOffset-(p.Records[len(p.Records)-1].Offset+1), 0)
	e.leave(tp, unread)
	s.undealt -= len(p.Records)
	if s.isolation.on.Load() {
		e.alone = true
		s.isolation.dealt(s.cl, tp, p.Records[len(p.Records)-1].Offset)
	}
	s.send(lane, work{epoch: e, tp: tp, records: p.Records, size: size, dealt: now})
	return unread
}

// fetchError answers the error that ends the session, or nil for what the client gets over by itself.
func (s *source) fetchError(topic string, partition int32, err error) error {
	var session *kgo.ErrGroupSession
	var loss *kgo.ErrDataLoss
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		s.board.polled(nil)
		return nil
	case errors.As(err, &session):
		return nil // OnPartitionsLost has come with it
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%w: %w", txn.ErrAborted, err)
	case errors.As(err, &loss):
		return txn.Fatalf(txn.StatusFailure,
			"source truncated: topic %s partition %d was read up to offset %d (leader epoch %d), its log now continues at offset %d (leader epoch %d): "+
				"records were lost upstream (unclean leader election?); compare source and target, then reset the group's positions",
			loss.Topic, loss.Partition, loss.ConsumedTo, loss.ConsumedToEpoch, loss.ResetTo, loss.ResetToEpoch)
	case errors.Is(err, kerr.OffsetOutOfRange):
		return s.outOfRange(topic, partition, err)
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		return txn.Fatalf(txn.StatusFailure,
			"input topic %s was deleted or made anew while it was read: its positions mean nothing any more; delete the group's positions of it, then start again: %w", topic, err)
	case txn.Denied(err):
		return txn.Classify(txn.CallFetch, fmt.Errorf("topic %s partition %d: %w", topic, partition, err))
	case errors.Is(err, kerr.CorruptMessage), errors.Is(err, kerr.UnsupportedCompressionType):
		return txn.Fatalf(txn.StatusFailure, "topic %s partition %d cannot be read on: %w", topic, partition, err)
	case kgo.IsRetryableBrokerErr(err):
		s.board.polled(err)
		s.log.Debug("fetch failed, the client tries again", "topic", topic, "partition", partition, "err", err)
		return nil
	default:
		// Also a code that is called retriable. What a fetch may repeat the client keeps to itself; it shows such a code
		// only when OffsetFetch has answered it for a partition, which this session of the group then never reads.
		return txn.Classify(txn.CallFetch, fmt.Errorf("topic %s partition %d: %w", topic, partition, err))
	}
}

// outOfRange names the position that the log no longer has.
func (s *source) outOfRange(topic string, partition int32, err error) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.opts.EpochTimeout)
	defer cancel()
	start, end, position := int64(-1), int64(-1), int64(-1)
	if lags, lagErr := offsets.Lags(ctx, s.admin, s.opts.Group, []string{topic}); lagErr == nil {
		for _, l := range lags {
			if l.Partition == partition {
				start, end, position = l.LogStart, l.LastStable, l.Committed
			}
		}
	}
	return txn.Fatalf(txn.StatusFailure,
		"source truncated: the position of topic %s partition %d is offset %d, but its log goes from offset %d to %d: "+
			"the records between are gone (retention, or a deletion); accept the gap by resetting the group's positions "+
			"(kafka-consumer-groups.sh --reset-offsets), then start again: %w", topic, partition, position, start, end, err)
}

// wake ends a poll, or a pause, from another goroutine.
type wake struct {
	c chan struct{} // one token: "look again"

	mu     sync.Mutex
	cancel context.CancelFunc // of the running poll
	asked  bool               // now was called since the last poll began
}

// now makes the source look at its state again.
func (w *wake) now() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = true
	if w.cancel != nil {
		w.cancel()
	}
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// poll ends a poll, but no pause.
func (w *wake) poll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
}

// context answers the context of one poll.
func (w *wake) context(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(parent, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked {
		cancel()
	}
	w.asked, w.cancel = false, cancel
	select {
	case <-w.c:
	default:
	}
	return ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cancel = nil
		cancel()
	}
}
