package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/txn"
)

// TestOffsetsBesideTheFlush: positions go out while the last outputs are on their way, and the history says so. (kfake)
func TestOffsetsBesideTheFlush(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options())
		w.assigned(b, 2)
		w.slowly(kmsg.Produce, 1_000_000, 20*time.Millisecond, func(r kmsg.Request) bool {
			return r.(*kmsg.ProduceRequest).TransactionID != nil
		})
		stop := w.feeding("in", 5*time.Millisecond, 0, 1)
		w.pass(2 * time.Second)
		stop()
		w.caughtUp("in")
		b.stopped()
		beside := 0
		for _, e := range b.epochs() {
			if e.Outcome != OutcomeCommitted || e.Committed < e.Flushed || e.Committed < e.OffsetsSent || e.OffsetsSent < e.Aligned {
				t.Errorf("epoch %d is told as %+v", e.Epoch, e)
			}
			if e.OffsetsSent < e.Flushed {
				beside++
			}
		}
		if beside == 0 {
			t.Error("no epoch has sent its positions before it was flushed")
		}
		w.exact("out", "in")
	})
}

// TestCommitSavesARoundTrip: with every answer 10 ms late, a commit takes 10 ms less than where the positions have to wait
// for the flush, because only the client knows to which partition a record goes. (kfake, in the bubble's time)
func TestCommitSavesARoundTrip(t *testing.T) {
	const late = 10 * time.Millisecond
	var medians [2]time.Duration // with BRIDGE_PARTITIONING=preserve, and with key
	t.Run("both", func(t *testing.T) {
		for i, byKey := range []bool{false, true} {
			t.Run(fmt.Sprintf("by key %v", byKey), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					w.topics(2, "in", "out")
					w.wire.late = late
					b := w.start(w.options(func(o *Options) {
						o.EpochInterval, o.ByKey, o.PassThrough = 100*time.Millisecond, byKey, false // by key nothing is passed through
					}))
					w.assigned(b, 2)
					stop := w.feeding("in", 5*time.Millisecond, 0, 1)
					w.pass(5 * time.Second)
					stop()
					w.caughtUp("in")
					b.stopped()
					var took []time.Duration
					for _, e := range b.epochs() {
						took = append(took, e.Committed-e.Aligned)
					}
					slices.Sort(took)
					medians[i] = took[len(took)/2]
				})
			})
		}
	})
	t.Logf("from aligned to committed, median: %s, by key %s", medians[0], medians[1])
	if saved := medians[1] - medians[0]; saved < late*3/4 {
		t.Errorf("%s are saved, want %s", saved, late)
	}
}

// TestOffsetsFollowTheLastEnd: while the end of an epoch is not acknowledged, the positions of the next one do not go out,
// although it is aligned and waits for nothing else. (kfake)
func TestOffsetsFollowTheLastEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options())
		w.assigned(b, 2)
		var under atomic.Int64
		early := false
		w.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			under.Add(1)
			w.SleepControl(func() { w.pass(120 * time.Millisecond) })
			under.Add(-1)
			return nil, nil, false
		})
		w.ControlKey(int16(kmsg.TxnOffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			early = early || under.Load() > 0
			return nil, nil, false
		})
		stop := w.feeding("in", 5*time.Millisecond, 0, 1)
		w.pass(2 * time.Second)
		stop()
		w.caughtUp("in")
		b.stopped()
		if early {
			t.Error("positions have gone out beside an EndTxn")
		}
		w.exact("out", "in")
	})
}

// early is a sink whose positions go out as a test says.
type early struct {
	txn.Participant // nothing else is called
	send            func(ctx context.Context) (txn.Steps, error)
}

// SendOffsets implements txn.Participant.
func (s *early) SendOffsets(ctx context.Context, _ txn.Checkpoint) (txn.Steps, error) {
	return s.send(ctx)
}

// TestPrepare: an epoch is prepared when its positions are sent and its outputs are flushed; of two failures the first
// says how it ended, once, and ends the other. What is sent is not cut off by a failure that has nothing to do with it.
func TestPrepare(t *testing.T) {
	t.Parallel()
	refused, unflushed := errors.New("positions refused"), errors.New("outputs refused")
	elsewhere := errors.New("something else has failed")
	sent := func(context.Context) (txn.Steps, error) {
		return txn.Steps{OffsetsSent: time.Now().Add(time.Millisecond)}, nil
	}
	hangs := func(ctx context.Context) (txn.Steps, error) {
		<-ctx.Done()
		return txn.Steps{}, ctx.Err()
	}
	for _, c := range []struct {
		name    string
		send    func(ctx context.Context) (txn.Steps, error)
		flush   time.Duration // how long it takes, unless the session ends before
		fails   error         // of the flush
		failure time.Duration // when something else fails; 0 = never
		want    error
		after   time.Duration
		offsets bool // are told to have been sent
	}{
		{name: "positions first", send: sent, flush: time.Second, after: time.Second},
		{name: "outputs first", send: func(context.Context) (txn.Steps, error) {
			<-time.After(2 * time.Second)
			return txn.Steps{}, nil
		}, flush: time.Second, after: 2 * time.Second},
		{name: "outputs fail behind positions", send: sent, flush: time.Second, fails: unflushed, want: unflushed, after: time.Second, offsets: true},
		{name: "outputs fail while positions wait", send: hangs, flush: time.Second, fails: unflushed, want: unflushed, after: time.Second},
		{name: "positions fail while outputs wait", send: func(context.Context) (txn.Steps, error) { return txn.Steps{}, refused }, flush: time.Hour, want: refused, after: time.Millisecond},
		{name: "failure elsewhere, outputs wait", send: hangs, flush: time.Hour, failure: time.Second, want: context.Canceled, after: time.Second + time.Millisecond},
		{name: "failure elsewhere, outputs flushed", send: func(ctx context.Context) (txn.Steps, error) {
			<-time.After(2 * time.Second)
			return txn.Steps{}, ctx.Err()
		}, flush: time.Millisecond, failure: time.Second, after: 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := guarded(t, t.Context(), &early{send: c.send})
				e := newEpoch(1)
				e.triggered = time.Now()
				began := time.Now()
				go func() { // what flush does; ends with the flush or the session
					select {
					case <-time.After(c.flush):
						e.flushErr = c.fails
					case <-s.ctx.Done(): // noticed a moment after the positions have: which of the two is first is told
						<-time.After(time.Millisecond)
						e.flushErr = errors.New("cut off")
					}
					close(e.flushing)
					if e.flushErr != nil {
						s.fail(e.flushErr)
					}
				}()
				if c.failure > 0 {
					time.AfterFunc(c.failure, func() { s.fail(elsewhere) })
				}
				err := s.prepare(e)
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.after || !closed(e.flushing) {
					t.Errorf("%v after %s, flush ended %t; want %v after %s", err, took, closed(e.flushing), c.want, c.after)
				}
				told := s.history.latest()
				if (len(told) == 1) != (c.want != nil) || len(told) > 0 && (told[0].Err != c.want.Error() || (told[0].OffsetsSent > 0) != c.offsets) {
					t.Errorf("told as %+v", told)
				}
			})
		})
	}
}
