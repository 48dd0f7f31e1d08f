package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// keep lets a record through if the function says so.
func keep(t *testing.T, f func(r *transform.Record) bool) *transform.Spec {
	t.Helper()
	return scripted(t, &script{apply: func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
		if f(in) {
			out = append(out, *in)
		}
		return out, nil
	}})
}

// TestEverythingFiltered: positions move on without any transaction.
func TestEverythingFiltered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		never := map[string]*kfake.FaultHandle{}
		for _, key := range []kmsg.Key{kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
			never[key.Name()] = w.observe(key, func(f *kfake.Fault) {
				f.When = func(r kmsg.Request) bool {
					p, ok := r.(*kmsg.ProduceRequest)
					return !ok || p.TransactionID != nil // feed produces, too
				}
			})
		}
		b := w.start(w.options(func(o *Options) { o.Chain = keep(t, func(*transform.Record) bool { return false }) }))
		w.trickle("in", 0, 30, 100*time.Millisecond)
		w.trickle("in", 1, 30, 100*time.Millisecond)
		w.caughtUp("in")
		plain := w.observe(kmsg.OffsetCommit)
		w.trickle("in", 0, 30, 100*time.Millisecond)
		if n := plain.Hits(); n < 1 || n > 4 {
			t.Errorf("%d plain commits in 3 s, want about one per second", n)
		}
		b.stopped()
		if n := w.behind("g", "in"); n != 0 {
			t.Errorf("%d positions were thrown away at the stop", n)
		}
		for name, f := range never {
			if f.Hits() > 0 {
				t.Errorf("%d requests %s without output", f.Hits(), name)
			}
		}
		if n := b.outcomes(); n[OutcomeCarried] < 30 || n[OutcomeAborted]+n[OutcomeCommitted] > 0 {
			t.Errorf("outcomes %v", n)
		}
		if c := b.board.snapshot().LastCommitted; c.Epoch == 0 || c.At.IsZero() {
			t.Errorf("the plain commit is not a commit: %v", c)
		}
	})
}

// TestMixed: epochs with and without output in turn. Positions of the latter ride with the next transaction.
func TestMixed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		// Runs of 20 offsets: with one record per epoch, carried and committed epochs alternate in long rows.
		pass := func(offset int64) bool { return offset/20%2 == 1 }
		b := w.start(w.options(func(o *Options) {
			o.Chain, o.EpochMaxRecords = keep(t, func(r *transform.Record) bool { return pass(r.Offset) }), 1
		}))
		w.trickle("in", 0, 90, 10*time.Millisecond)
		w.feed("in", 90, 1)
		w.caughtUp("in")
		b.stopped()
		want, got := map[int32][]string{}, map[int32][]string{}
		for p, records := range w.read("in") {
			for _, r := range records {
				if pass(r.Offset) {
					want[p] = append(want[p], text(r))
				}
			}
		}
		for p, records := range w.read("out") {
			got[p] = texts(records)
		}
		w.same(got, want)
		if n := b.outcomes(); n[OutcomeCarried] < 10 || n[OutcomeCommitted] < 10 || n[OutcomeAborted] > 0 {
			t.Errorf("outcomes %v", n)
		}
	})
}

// TestCarriedThenRefused: a plain commit that is refused restarts the session, and a row of them ends the process:
// carrying is not committing.
func TestCarriedThenRefused(t *testing.T) {
	for _, count := range []int{1, -1} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(1, "in", "out")
				b := w.start(w.options(func(o *Options) {
					o.Chain, o.RestartLimit = keep(t, func(*transform.Record) bool { return false }), 3
				}))
				w.assigned(b, 1)
				w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.InvalidCommitOffsetSize, Count: count})
				w.feed("in", 10, 0)
				if count < 0 {
					b.fails(1, "3 restarts without a commit", "BRIDGE_RESTART_LIMIT", "INVALID_COMMIT_OFFSET_SIZE")
					return
				}
				w.caughtUp("in")
				b.stopped()
				if b.restarts() != 1 {
					t.Errorf("%d restarts", b.restarts())
				}
			})
		})
	}
}

// TestEpochEndsOnce: an epoch whose commit fails is told once, although the coordinator fails with it; what comes after
// the session's failure is no end of an epoch that was committed.
func TestEpochEndsOnce(t *testing.T) {
	for delivery, refused := range map[Delivery]kmsg.Key{ExactlyOnce: kmsg.EndTxn, AtLeastOnce: kmsg.OffsetCommit, AtMostOnce: kmsg.OffsetCommit} {
		t.Run(string(delivery), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(1, "in", "out")
				b := w.start(w.options(func(o *Options) { o.Delivery = delivery }))
				w.assigned(b, 1)
				w.Fault(kfake.Fault{Keys: []kmsg.Key{refused}, Err: kerr.UnknownServerError, Count: 1})
				w.trickle("in", 0, 100, 10*time.Millisecond)
				w.caughtUp("in")
				b.stopped()
				if b.restarts() != 1 {
					t.Errorf("%d restarts", b.restarts())
				}
				ends := map[txn.Epoch][]string{}
				for _, e := range b.epochs() {
					ends[e.Epoch] = append(ends[e.Epoch], e.Outcome+" "+e.Err)
				}
				for n, outcomes := range ends {
					if len(outcomes) > 1 {
						t.Errorf("epoch %d ended %d times: %q", n, len(outcomes), outcomes)
					}
				}
			})
		})
	}
}

// ledger follows produced records and committed offsets of one partition, at the broker's door.
type ledger struct {
	mu        sync.Mutex
	produced  int64 // records that arrived
	committed int64 // highest offset in an OffsetCommit
}

// follow watches the requests of a bridge without transactions; check is called before each takes effect.
func (w *world) follow(check func(l *ledger, kind string)) *ledger {
	l, input := &ledger{}, w.TopicInfo("in").TopicID
	w.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, topic := range kreq.(*kmsg.ProduceRequest).Topics {
			for _, p := range topic.Partitions {
				if topic.Topic == "in" || topic.TopicID == input {
					continue
				}
				var batch kmsg.RecordBatch
				if err := batch.ReadFrom(p.Records); err != nil {
					w.t.Errorf("a batch of the bridge: %v", err)
				}
				l.produced += int64(batch.NumRecords)
				check(l, "produce")
			}
		}
		return nil, nil, false
	})
	w.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, topic := range kreq.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range topic.Partitions {
				l.committed = max(l.committed, p.Offset)
				check(l, "commit")
			}
		}
		return nil, nil, false
	})
	return l
}

// TestDeliveryOrder: at-least-once commits positions after their outputs are produced, at-most-once before.
func TestDeliveryOrder(t *testing.T) {
	for _, tc := range []struct {
		delivery Delivery
		broken   func(l *ledger, kind string) bool
	}{
		{AtLeastOnce, func(l *ledger, kind string) bool { return kind == "commit" && l.committed > l.produced }},
		{AtMostOnce, func(l *ledger, kind string) bool { return kind == "produce" && l.produced > l.committed }},
	} {
		t.Run(string(tc.delivery), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(1, "in", "out")
				produces, commits := 0, 0
				w.follow(func(l *ledger, kind string) {
					if kind == "produce" {
						produces++
					} else {
						commits++
					}
					if tc.broken(l, kind) {
						t.Errorf("at a %s: %d records produced, offset %d committed", kind, l.produced, l.committed)
					}
				})
				b := w.start(w.options(func(o *Options) { o.Delivery = tc.delivery }))
				w.trickle("in", 0, 100, 10*time.Millisecond)
				w.feed("in", 100, 0)
				w.caughtUp("in")
				b.stopped()
				w.exact("out", "in")
				if produces < 5 || commits < 5 {
					t.Errorf("%d produces, %d commits: too few to tell", produces, commits)
				}
				if ids := w.transactionalIDs(); len(ids) > 0 {
					t.Errorf("transactional ids without exactly-once: %v", ids)
				}
			})
		})
	}
}

func (w *world) transactionalIDs() []string {
	w.t.Helper()
	all, err := w.adm.ListTransactions(w.t.Context(), nil, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return all.TransactionalIDs()
}

// TestWeakerDeliveryUnderFailure: at-least-once may repeat and never loses; at-most-once may lose and never
// repeats.
func TestWeakerDeliveryUnderFailure(t *testing.T) {
	for _, delivery := range []Delivery{AtLeastOnce, AtMostOnce} {
		for key, topic := range map[kmsg.Key]string{kmsg.OffsetCommit: "in", kmsg.Produce: "out"} {
			t.Run(fmt.Sprintf("%s/%s", delivery, key.Name()), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					w.topics(2, "in", "out")
					b := w.start(w.options(func(o *Options) { o.Delivery = delivery }))
					w.assigned(b, 2)
					for i := range int64(5) {
						w.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: topic, Err: kerr.UnknownServerError})
						w.feed("in", 20, 0, 1)
						w.until("it has failed", func() bool { return b.restarts() > i })
						w.caughtUp("in")
					}
					b.stopped()
					times := map[string]int{}
					for _, records := range w.read("out") {
						for _, r := range records {
							times[string(r.Value)]++
						}
					}
					for _, records := range w.read("in") {
						for _, r := range records {
							n := times[string(r.Value)]
							if delivery == AtLeastOnce && n < 1 || delivery == AtMostOnce && n > 1 {
								t.Errorf("record %s arrived %d times", r.Value, n)
							}
						}
					}
				})
			})
		}
	}
}

// recorder is a sink that remembers what it is asked to commit.
type recorder struct {
	txn.Participant // nothing else is called
	commits         []txn.Checkpoint
	deadline        time.Time
	err             error
}

// Commit implements txn.Participant.
func (r *recorder) Commit(ctx context.Context, cp txn.Checkpoint) (txn.Steps, error) {
	r.commits = append(r.commits, cp)
	r.deadline, _ = ctx.Deadline()
	return txn.Steps{}, r.err
}

// TestCommitOfAnEpoch: what is committed is what stood at the barrier, membership included, and it may take as long
// as is left of the epoch timeout.
func TestCommitOfAnEpoch(t *testing.T) {
	t.Parallel()
	w := &world{t: t, book: &logbook{}}
	for _, failure := range []error{nil, fmt.Errorf("%w: test", txn.ErrInDoubt)} {
		b, err := New(w.options())
		if err != nil {
			t.Fatal(err)
		}
		sink := &recorder{err: failure}
		s := &session{Bridge: b, log: b.log, ctx: t.Context(), late: t.Context(), sink: sink}
		e := newEpoch(7)
		e.triggered = time.Now().Add(-time.Second)
		e.cred = txn.Credential{MemberID: "at the barrier", Generation: 3, Lost: 1, Revoked: 2}
		e.positions = offsets.Positions{{Topic: "in", Partition: 1}: {Offset: 42, LeaderEpoch: 5}}
		s.flight.start()
		if err := s.commitEpoch(e); !errors.Is(err, failure) {
			t.Errorf("%v, want %v", err, failure)
		}
		if len(sink.commits) != 1 {
			t.Fatalf("%d commits", len(sink.commits))
		}
		if cp := sink.commits[0]; cp.Epoch != 7 || cp.Credential != e.cred || !maps.Equal(cp.Positions, e.positions) {
			t.Errorf("committed %+v", cp)
		}
		if want := e.triggered.Add(b.opts.EpochTimeout); !sink.deadline.Equal(want) {
			t.Errorf("deadline %s, want %s", sink.deadline, want)
		}
		waiting, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := s.flight.wait(waiting); (err == nil) != (failure == nil) {
			t.Errorf("after %v a revocation sees %v", failure, err)
		}
		cancel()
		if outcome := b.history.latest()[0]; (outcome.Outcome == OutcomeCommitted) != (failure == nil) || outcome.Partitions != 1 {
			t.Errorf("after %v the history says %+v", failure, outcome)
		}
		if closed(e.done) != (failure == nil) {
			t.Errorf("after %v the epoch is done: %v", failure, closed(e.done))
		}
	}
}

// TestAlignFails: a lane that breaks the rules of barriers, or of positions, breaks the process.
func TestAlignFails(t *testing.T) {
	t.Parallel()
	tp := offsets.TopicPartition{Topic: "in"}
	for name, passes := range map[string][]pass{
		"twice":             {{lane: 0, barrier: Barrier{1}}, {lane: 0, barrier: Barrier{1}}},
		"a lane too many":   {{lane: 5, barrier: Barrier{1}}},
		"before its start":  {{lane: 0, barrier: Barrier{2}}},
		"positions go back": {{lane: 0, barrier: Barrier{1}, positions: offsets.Positions{tp: {Offset: 9}}}, {lane: 1, barrier: Barrier{1}, positions: offsets.Positions{tp: {Offset: 8}}}},
	} {
		s := &session{log: slog.New(&logbook{}), passes: make(chan pass, 4)}
		e := newEpoch(1)
		e.lanes[0], e.lanes[1] = true, true
		for _, p := range passes {
			s.passes <- p
		}
		var fatal *txn.FatalError
		if err := s.align(t.Context(), e); !errors.As(err, &fatal) || fatal.ExitCode() != txn.StatusBroken {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAlignEnds with the epoch's deadline, and says why.
func TestAlignEnds(t *testing.T) {
	t.Parallel()
	s := &session{log: slog.New(&logbook{}), passes: make(chan pass)}
	e := newEpoch(1)
	e.lanes[3] = true
	why := fmt.Errorf("%w: test", txn.ErrAborted)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := s.align(ctx, e); !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
}
