package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/txn"
)

// slowly holds up requests of one kind: the first n from now on take d. It answers how many were held up.
func (w *world) slowly(key kmsg.Key, n int64, d time.Duration, narrow ...func(kmsg.Request) bool) *atomic.Int64 {
	held := &atomic.Int64{}
	w.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		for _, holds := range narrow {
			if !holds(req) {
				return nil, nil, false
			}
		}
		if held.Load() >= n {
			return nil, nil, false
		}
		held.Add(1)
		w.SleepControl(func() { w.pass(d) })
		return nil, nil, false
	})
	return held
}

// isMember reports whether an instance is in the group.
func (w *world) isMember(group, instance string) bool {
	info := w.GroupInfo(group)
	if info == nil {
		return false
	}
	for _, m := range info.Members {
		if m.InstanceID != nil && *m.InstanceID == instance {
			return true
		}
	}
	return false
}

// TestStopIdle is quick, and leaves the group if it shall.
func TestStopIdle(t *testing.T) {
	for _, leave := range []bool{true, false} {
		for _, consumer := range []bool{true, false} {
			t.Run(fmt.Sprintf("leave %v, KIP-848 %v", leave, consumer), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					w.topics(2, "in", "out")
					w.feed("in", 10, 0, 1)
					b := w.start(w.options(func(o *Options) { o.LeaveOnStop, o.Consumer = leave, consumer }))
					w.assigned(b, 2)
					w.caughtUp("in")
					leaves := w.observe(kmsg.LeaveGroup)
					began := time.Now()
					b.stopped()
					if took := time.Since(began); took > 200*time.Millisecond {
						t.Errorf("the stop took %s", took)
					}
					// kfake does not let members of KIP-848 groups leave by LeaveGroup; Kafka does.
					if w.isMember("g", "a") == (leave && !consumer) || (leaves.Hits() > 0) != leave {
						t.Errorf("member afterwards: %v, after %d requests to leave", !leave, leaves.Hits())
					}
					if s := b.board.snapshot(); s.State != StateStopped || s.assignedPartitions() != 0 {
						t.Errorf("afterwards %s with %v", s.State, s.Assigned)
					}
					w.exact("out", "in")
				})
			})
		}
	}
}

// TestStopAtOnce: a stop that comes at any moment of the start ends it, and nothing stays behind.
func TestStopAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wire.delay = 3 * time.Millisecond
		w.topics(2, "in", "out")
		w.feed("in", 10, 0, 1)
		for i := range 60 {
			b := w.start(w.options())
			w.pass(time.Duration(i) * 2 * time.Millisecond)
			joining := b.board.snapshot().State == StateJoining
			b.stopped()
			w.settled("out")
			// While it joins, nobody but the broker knows the member id: that name stays until its session ends.
			if w.isMember("g", "a") && !joining {
				t.Errorf("a member after a stop %d ms after the start", 2*i)
			}
		}
		w.caughtUpBy(w.options())
		w.exact("out", "in")
	})
}

// TestStopBeforeTheBrokersAnswer: the stop does not wait for them.
func TestStopBeforeTheBrokersAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.slowly(kmsg.InitProducerID, 2, time.Hour)
		b := w.start(w.options())
		w.pass(2 * time.Second)
		began := time.Now()
		b.stopped()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the stop took %s", took)
		}
	})
}

// TestStopInTheMiddle: whatever the commit is waiting for when the stop comes, it ends within the stop timeout, and
// what is visible afterwards is what the positions say.
func TestStopInTheMiddle(t *testing.T) {
	for _, tc := range []struct {
		name  string
		key   kmsg.Key
		delay time.Duration
		clean bool
	}{
		{"flush", kmsg.Produce, 2 * time.Second, true},
		{"positions", kmsg.TxnOffsetCommit, 2 * time.Second, true},
		{"commit", kmsg.EndTxn, 2 * time.Second, true},
		{"flush that hangs", kmsg.Produce, time.Hour, false},
		{"positions that hang", kmsg.TxnOffsetCommit, time.Hour, false},
		{"commit that hangs", kmsg.EndTxn, time.Hour, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				b := w.start(w.options())
				w.assigned(b, 2)
				w.feed("in", 10, 0, 1)
				w.caughtUp("in")
				held := w.slowly(tc.key, 1, tc.delay, ofBridges)
				w.feed("in", 10, 0, 1)
				w.until("it waits", func() bool { return held.Load() == 1 })
				began := time.Now()
				b.stop()
				err := b.wait()
				if took := time.Since(began); took > b.opts.StopTimeout+5*time.Second {
					t.Errorf("the stop took %s", took)
				}
				if (err == nil) != tc.clean {
					t.Errorf("ended with %v", err)
				}
				if w.isMember("g", "a") {
					t.Error("still a member")
				}
				if tc.clean {
					w.exact("out", "in")
					return
				}
				w.caughtUpBy(w.options())
				w.exact("out", "in")
			})
		})
	}
}

// TestSecondSignal ends a stop at once; the next start makes good what was cut off.
func TestSecondSignal(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options())
		w.assigned(b, 2)
		held := w.slowly(kmsg.Produce, 1, time.Minute, ofBridges)
		w.feed("in", 10, 0, 1)
		w.until("it waits", func() bool { return held.Load() == 1 })
		b.stop()
		w.pass(time.Second)
		began := time.Now()
		b.abort()
		if err := b.wait(); !errors.Is(err, txn.ErrAborted) || !strings.Contains(err.Error(), "second signal") {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("a second signal took %s", took)
		}
		if n := w.count("out"); n != 0 {
			t.Errorf("%d records are visible", n)
		}
		w.caughtUpBy(w.options())
		w.exact("out", "in")
	})
}

// TestStopWhileRestarting: a process that waits to start again holds its place in the group; it gives it up.
func TestStopWhileRestarting(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options(func(o *Options) { o.RestartMaxDelay = time.Minute }))
		w.assigned(b, 2)
		w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Count: -1})
		w.feed("in", 10, 0, 1)
		w.until("it has failed for a while", func() bool { return b.restarts() == 3 })
		w.pass(10 * time.Millisecond)
		b.stopped()
		if w.isMember("g", "a") {
			t.Error("still a member: others wait for the session timeout")
		}
	})
}

// TestRestartLimit ends a process that never commits, and gives its place to others.
func TestRestartLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options(func(o *Options) { o.RestartLimit = 5 }))
		w.assigned(b, 2)
		w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Count: -1})
		w.feed("in", 10, 0, 1)
		b.fails(txn.StatusFailure, "5 restarts without a commit", "BRIDGE_RESTART_LIMIT", "UNKNOWN_SERVER_ERROR")
		if n := w.count("out"); n != 0 {
			t.Errorf("%d records are visible", n)
		}
		if w.isMember("g", "a") {
			t.Error("still a member: others wait for the session timeout")
		}
	})
}

// TestAnswersLost: the broker has done what was asked and the connection breaks before the answer, at each
// request of the protocol in turn.
func TestAnswersLost(t *testing.T) {
	for _, key := range []kmsg.Key{
		kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.InitProducerID, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat,
		kmsg.OffsetFetch, kmsg.Fetch, kmsg.Metadata, kmsg.OffsetCommit, kmsg.LeaveGroup,
	} {
		t.Run(key.Name(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				// Every third record is dropped in runs, so that plain commits are sent, too.
				b := w.start(w.options())
				w.assigned(b, 2)
				for range 10 {
					var armed atomic.Bool
					armed.Store(true)
					w.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
						if p, ok := r.(*kmsg.ProduceRequest); ok && p.TransactionID == nil || !armed.CompareAndSwap(true, false) {
							return nil, nil, false
						}
						w.DropControl()
						w.wire.sever()
						return nil, nil, false
					})
					w.trickle("in", 0, 5, 20*time.Millisecond)
					w.trickle("in", 1, 5, 20*time.Millisecond)
					w.caughtUp("in")
					armed.Store(false)
				}
				w.until("it runs", func() bool { return b.board.snapshot().State == StateRunning })
				b.stopped()
				w.exact("out", "in")
			})
		})
	}
}

// TestBrokersAway: an outage of any length costs nothing but time; it does not count against the limit of restarts.
func TestBrokersAway(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options(func(o *Options) { o.RestartLimit = 3 }))
		w.feed("in", 10, 0, 1)
		w.caughtUp("in") // before the first commit there is a limit
		for i := range 4 {
			w.feed("in", 10, 0, 1)
			w.pass(time.Duration(i*7) * time.Millisecond) // at different points of an epoch
			w.wire.unplug()
			w.pass(3 * time.Minute)
			if checks := b.board.ready(b.opts.EpochTimeout); checks[0].reason == "" {
				t.Error("ready without brokers")
			}
			w.wire.plug()
			began := time.Now()
			w.caughtUp("in")
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("back after %s", took)
			}
		}
		b.stopped()
		w.exact("out", "in")
	})
}

// TestBrokersNeverThere ends with its own status: the address may be wrong.
func TestBrokersNeverThere(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.wire.unplug()
		b := w.start(w.options())
		w.pass(2 * time.Minute)
		b.fails(txn.StatusUnavailable, "brokers unreachable", "connection refused")
	})
}

// TestFlight: waiting ends when everything that was in flight has ended, or with the context.
func TestFlight(t *testing.T) {
	t.Parallel()
	var f flight
	if err := f.wait(t.Context()); err != nil {
		t.Error(err)
	}
	f.start()
	f.start()
	waits := make(chan error, 2)
	for range 2 {
		go func() { waits <- f.wait(t.Context()) }()
	}
	f.end()
	select {
	case err := <-waits:
		t.Errorf("one epoch is still in flight, and the wait answered %v", err)
	default:
	}
	f.end()
	for range 2 {
		if err := <-waits; err != nil {
			t.Error(err)
		}
	}
	f.start()
	errTest := errors.New("test")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	if err := f.wait(ctx); !errors.Is(err, errTest) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestCloseWithin(t *testing.T) {
	t.Parallel()
	began := time.Now()
	closeWithin(time.Hour, func() {})
	release := make(chan struct{})
	closeWithin(time.Millisecond, func() { <-release })
	close(release)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %s", took)
	}
}
