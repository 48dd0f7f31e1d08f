package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// Guards of the protocol that overlap with others: with one of them gone a whole bridge still works most of the
// time, so each is looked at by itself. Pure, but for the last ones, which run against kfake.

// guarded is a session without clients, over a sink that is made by hand.
func guarded(t *testing.T, ctx context.Context, sink txn.Participant) *session { //nolint:revive // the test's own comes first
	t.Helper()
	w := &world{t: t, book: &logbook{}}
	b, err := New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	s := &session{Bridge: b, log: b.log, late: t.Context(), sink: sink, wake: &wake{c: make(chan struct{}, 1)}}
	s.ctx, s.fail = context.WithCancelCause(ctx)
	t.Cleanup(func() { s.fail(nil) })
	return s
}

// patient is a sink whose commits report whether their context has ended.
type patient struct {
	txn.Participant // nothing else is called
	during          func()
	ended           error
}

// Commit implements txn.Participant.
func (p *patient) Commit(ctx context.Context, _ txn.Checkpoint) (txn.Steps, error) {
	p.during()
	p.ended = ctx.Err()
	return txn.Steps{}, nil
}

// TestCommitOutlivesAFailure: a commit that is under way is not cut off when the session fails or is told to stop,
// for its outcome would be unknown; only a stop that may take no longer does that.
func TestCommitOutlivesAFailure(t *testing.T) {
	t.Parallel()
	sink := &patient{}
	s := guarded(t, t.Context(), sink)
	late, tooLate := context.WithCancel(t.Context())
	s.late = late
	e := newEpoch(1)
	e.triggered = time.Now()
	s.flight.start()
	sink.during = func() { s.fail(errors.New("another goroutine has failed")) }
	if err := s.commitEpoch(e); err != nil || sink.ended != nil {
		t.Errorf("a failing session cut the commit off: %v, %v", sink.ended, err)
	}
	e = newEpoch(2)
	e.triggered = time.Now()
	s.flight.start()
	sink.during = tooLate
	if err := s.commitEpoch(e); err != nil || !errors.Is(sink.ended, context.Canceled) {
		t.Errorf("a stop that may take no longer left the commit alone: %v, %v", sink.ended, err)
	}
}

// TestEpochDeadline: an epoch has the epoch timeout, counted from its barrier, and its end says so.
func TestEpochDeadline(t *testing.T) {
	t.Parallel()
	s := guarded(t, t.Context(), nil)
	e := newEpoch(9)
	e.triggered = time.Now().Add(-s.opts.EpochTimeout)
	ctx, cancel := s.deadline(e)
	defer cancel()
	if at, ok := ctx.Deadline(); !ok || !at.Equal(e.triggered.Add(s.opts.EpochTimeout)) {
		t.Errorf("the deadline is %v, want %s after the barrier at %v", at, s.opts.EpochTimeout, e.triggered)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, txn.ErrAborted) {
		t.Errorf("a late epoch ends with %v", cause)
	}
}

// TestCredentialReadsThePairFirst: a loss that comes between the two reads shows in the counters. The other order
// would give a later membership's pair the counters of an earlier one.
func TestCredentialReadsThePairFirst(t *testing.T) {
	t.Parallel()
	var lost, revoked atomic.Uint64
	got := credential(func() (string, int32) {
		lost.Add(1)
		revoked.Add(2)
		return "m", 3
	}, &lost, &revoked)
	if want := (txn.Credential{MemberID: "m", Generation: 3, Lost: 1, Revoked: 2}); got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

// holder is a sink that remembers what it is told to settle and to forget.
type holder struct {
	txn.Participant // nothing else is called
	settled         func()
	forgotten       []offsets.TopicPartition
}

// Settle implements txn.Participant.
func (h *holder) Settle(context.Context, time.Duration) (bool, error) {
	h.settled()
	return false, nil
}

// Forget implements txn.Participant.
func (h *holder) Forget(leaving []offsets.TopicPartition) {
	h.forgotten = append(h.forgotten, leaving...)
}

// TestRevocation: until a revocation returns the partitions are ours, and an epoch that drains may say so: it is
// counted last. What was read of the partitions and is not committed yet is forgotten, by the sink and by the lane.
func TestRevocation(t *testing.T) {
	t.Parallel()
	sink := &holder{}
	s := guarded(t, t.Context(), sink)
	l := &lane{in: make(chan work, laneDepth), gone: make(chan struct{})}
	s.lanes, s.assigned.lanes = []*lane{l}, 1
	leaving, staying := offsets.TopicPartition{Topic: "in", Partition: 1}, offsets.TopicPartition{Topic: "in", Partition: 2}
	s.assigned.add(leaving)
	s.assigned.add(staying)
	s.flight.start() // an epoch behind its barrier
	s.revoked.Store(7)
	drained := false
	sink.settled = func() {
		if !drained {
			t.Error("carried positions are settled before the epochs in flight have ended")
		}
		if n := s.revoked.Load(); n != 7 {
			t.Errorf("counted as revoked (%d) while it drains", n)
		}
		if len(sink.forgotten) > 0 {
			t.Error("forgotten before it is settled")
		}
	}
	returned := make(chan struct{})
	go func() { // ends with the revocation
		defer close(returned)
		s.onRevoked(t.Context(), nil, map[string][]int32{"in": {1}})
	}()
	select {
	case <-returned:
		t.Error("the revocation has not waited for the epoch in flight")
	case <-time.After(20 * time.Millisecond): // it waits: no more can be said
	}
	drained = true
	s.flight.end()
	<-returned
	if n := s.revoked.Load(); n != 8 {
		t.Errorf("counted %d revocations, want 8", n)
	}
	if !slices.Equal(sink.forgotten, []offsets.TopicPartition{leaving}) {
		t.Errorf("the sink has forgotten %v", sink.forgotten)
	}
	if w := <-l.in; !slices.Equal(w.forget, []offsets.TopicPartition{leaving}) {
		t.Errorf("the lane is told %+v", w)
	}
	sink.settled = func() {}
	s.onRevoked(t.Context(), nil, nil) // the end of a group session, with nothing to take
	if n := s.revoked.Load(); n != 8 || s.ctx.Err() != nil {
		t.Errorf("an empty revocation counts: %d, %v", n, context.Cause(s.ctx))
	}
}

// TestLossIsCounted, forgets, and ends the session.
func TestLossIsCounted(t *testing.T) {
	t.Parallel()
	sink := &holder{}
	s := guarded(t, t.Context(), sink)
	s.onLost(t.Context(), nil, map[string][]int32{"in": {3}})
	if n := s.lost.Load(); n != 1 {
		t.Errorf("counted %d losses", n)
	}
	if len(sink.forgotten) != 1 || !errors.Is(context.Cause(s.ctx), txn.ErrAborted) {
		t.Errorf("forgotten %v, session ended by %v", sink.forgotten, context.Cause(s.ctx))
	}
	s.closing.Store(true)
	s.onLost(t.Context(), nil, nil)
	if n := s.lost.Load(); n != 2 {
		t.Errorf("a loss while closing is not counted: %d", n)
	}
}

// TestLaneForgets: after a revocation a lane's next barrier names nothing that it had read of the partition.
func TestLaneForgets(t *testing.T) {
	t.Parallel()
	passes := make(chan pass, 1)
	l := &lane{passes: passes, tracker: offsets.NewTracker(), idling: ignored()}
	gone, stays := offsets.TopicPartition{Topic: "in", Partition: 1}, offsets.TopicPartition{Topic: "in", Partition: 2}
	for _, tp := range []offsets.TopicPartition{gone, stays} {
		if err := l.tracker.Advance(tp, offsets.Position{Offset: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.handle(t.Context(), work{forget: []offsets.TopicPartition{gone}}); err != nil {
		t.Fatal(err)
	}
	e := newEpoch(1)
	close(e.gate)
	if err := l.handle(t.Context(), work{epoch: e, barrier: true}); err != nil {
		t.Fatal(err)
	}
	if p := <-passes; len(p.positions) != 1 || p.positions[stays].Offset != 10 {
		t.Errorf("the barrier carries %v", p.positions)
	}
}

// order is a sink that notes what it is given.
type order struct {
	txn.Participant // nothing else is called
	produced        atomic.Int64
}

// Produce implements txn.Participant.
func (o *order) Produce(_ context.Context, _ txn.Epoch, records []*kgo.Record, _ func(*kgo.Record, error)) {
	o.produced.Add(int64(len(records)))
}

// TestBarrierBehindOutputs: a lane passes a barrier only when the outputs in front of it are produced, and that is
// when the gate of their epoch is open. With at-most-once it is the other way round.
func TestBarrierBehindOutputs(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		sink, passes := &order{}, make(chan pass, 1)
		l := &lane{
			passes: passes, tracker: offsets.NewTracker(), sink: sink, early: early, idling: ignored(),
			convert: converter{target: func(in string) string { return in }}, budget: newBudget(1 << 20),
		}
		e := newEpoch(1)
		if err := l.handle(t.Context(), work{epoch: e, tp: offsets.TopicPartition{Topic: "in"}, records: []*kgo.Record{{}}}); err != nil {
			t.Fatal(err)
		}
		handled := make(chan error, 1) // one result
		go func() { handled <- l.handle(t.Context(), work{epoch: e, barrier: true}) }()
		if early {
			if err := <-handled; err != nil || len(passes) != 1 || sink.produced.Load() != 0 {
				t.Errorf("at-most-once: %v, %d passes, %d produced", err, len(passes), sink.produced.Load())
			}
			continue
		}
		select {
		case err := <-handled:
			t.Errorf("the barrier has overtaken what was in front of it: %v", err)
			return
		case <-time.After(20 * time.Millisecond): // it waits: no more can be said
		}
		close(e.gate)
		if err := <-handled; err != nil || len(passes) != 1 || sink.produced.Load() != 1 {
			t.Errorf("%v, %d passes, %d produced", err, len(passes), sink.produced.Load())
		}
	}
}

// TestGroupErrors: what the group said when it ended the client decides what the failure means.
func TestGroupErrors(t *testing.T) {
	t.Parallel()
	why := fmt.Errorf("%w: partitions lost", txn.ErrAborted)
	for name, test := range map[string]struct {
		group  error
		status int // 0 = another session
	}{
		"nothing":           {nil, 0},
		"held, maybe by us": {kerr.UnreleasedInstanceID, 0},
		"denied":            {kerr.GroupAuthorizationFailed, txn.StatusDenied},
		"gone":              {kerr.UnknownMemberID, 0},
	} {
		s := guarded(t, t.Context(), nil)
		if test.group != nil {
			s.OnGroupManageError(test.group)
		}
		err := s.lostBy(why)
		if final := errors.Is(err, txn.ErrFatal) || errors.Is(err, txn.ErrFenced); final != (test.status != 0) {
			t.Errorf("%s: %v", name, err)
		} else if final && exitCodeOf(err) != test.status {
			t.Errorf("%s: status %d: %v", name, exitCodeOf(err), err)
		}
		if s.lostBy(nil) != nil {
			t.Errorf("%s: an orderly end became an error", name)
		}
	}
}

// TestNameIsTaken: with KIP-848 a process frees its name before it joins, once: the broker would keep it for a killed
// predecessor. The classic protocol gives the name to the newest by itself, and leaving would cost the group's
// initial delay.
func TestNameIsTaken(t *testing.T) {
	protocols(t, func(t *testing.T, w *world, protocol func(*Options)) {
		w.topics(1, "in", "out")
		var mu sync.Mutex
		var asked []string
		for _, key := range []kmsg.Key{kmsg.LeaveGroup, kmsg.JoinGroup, kmsg.ConsumerGroupHeartbeat} {
			w.ControlKey(key.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
				w.KeepControl()
				mu.Lock()
				defer mu.Unlock()
				switch r := r.(type) {
				case *kmsg.LeaveGroupRequest:
					for _, m := range r.Members {
						asked = append(asked, fmt.Sprintf("leave %q", m.MemberID))
					}
				case *kmsg.JoinGroupRequest:
					asked = append(asked, "join")
				case *kmsg.ConsumerGroupHeartbeatRequest:
					if r.MemberEpoch == 0 {
						asked = append(asked, "join")
					}
				}
				return nil, nil, false
			})
		}
		b := w.start(w.options(protocol))
		w.assigned(b, 1)
		w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownServerError}) // a second session
		w.feed("in", 10, 0)
		w.caughtUp("in")
		b.stopped()
		mu.Lock()
		defer mu.Unlock()
		taken := 0
		for _, what := range asked {
			if what == `leave ""` {
				taken++
			}
		}
		want := 0
		if b.opts.Consumer {
			want = 1
			if asked[0] != `leave ""` {
				t.Errorf("joined before the name was freed: %q", asked)
			}
		}
		if taken != want || b.restarts() != 1 {
			t.Errorf("the name was freed %d times in %d sessions, want %d: %q", taken, b.restarts()+1, want, asked)
		}
	})
}

// taking is an identity that needs so long for each record.
func taking(cost time.Duration) *script {
	return &script{apply: func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
		<-time.After(cost)
		return append(out, *in), nil
	}}
}

// TestBacklogHoldsNobodyUp: a member that finds records at each poll, for as long as the group can wait, lets others
// join all the same.
func TestBacklogHoldsNobodyUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.feed("in", 30_000, 0, 1)
		slow := func(o *Options) {
			o.Chain = scripted(t, taking(time.Millisecond))
			o.Memory, o.RebalanceTimeout = 16<<20, 12*time.Second
			o.Fetching = append(o.Fetching, kgo.FetchMaxPartitionBytes(64<<10))
		}
		a := w.start(w.options(slow))
		w.assigned(a, 2)
		w.pass(time.Second)
		b := w.start(w.options(slow, instance("b")))
		w.until("both share", func() bool { return a.holds() == 1 && b.holds() == 1 })
		if behind := w.behind("g", "in"); behind < 10_000 {
			t.Errorf("only %d records were left when the joiner got its part: the backlog proves nothing", behind)
		}
		w.caughtUp("in")
		a.stopped()
		b.stopped()
		w.exact("out", "in")
		if n := a.restarts() + b.restarts(); n > 0 {
			t.Errorf("%d restarts", n)
		}
	})
}
