package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/txn"
)

// trickle writes one record after the other, d apart, n in all.
func (w *world) trickle(topic string, p int32, n int, d time.Duration) {
	w.t.Helper()
	for range n {
		w.feed(topic, 1, p)
		w.pass(d)
	}
}

// longEpochs leaves the closing of an epoch to whatever the test is about.
func longEpochs(o *Options) {
	o.EpochInterval = time.Hour
	o.TxnTimeout, o.SessionTimeout, o.RebalanceTimeout = 50*time.Second, 60*time.Second, 70*time.Second
}

// triggers counts the epochs by trigger, without the first: it closes at once, for no barrier came before it.
func (r *running) triggers() map[string]int {
	n := map[string]int{}
	for _, e := range r.epochs() {
		if e.Epoch > 1 {
			n[e.Trigger]++
		}
	}
	return n
}

func TestTriggers(t *testing.T) {
	for _, tc := range []struct {
		name, trigger string
		change        func(*Options)
		check         func(t *testing.T, e EpochSummary) // of each epoch with that trigger
	}{
		{
			name: "interval", trigger: TriggerInterval,
			change: func(o *Options) { o.EpochInterval = 500 * time.Millisecond },
			check: func(t *testing.T, e EpochSummary) {
				if e.RecordsIn < 4 || e.RecordsIn > 6 {
					t.Errorf("%d records in 500 ms at 100 ms each", e.RecordsIn)
				}
			},
		},
		{
			name: "pause after the commit", trigger: TriggerInterval,
			change: func(o *Options) { o.EpochInterval, o.EpochMinPause = time.Millisecond, time.Second },
			check: func(t *testing.T, e EpochSummary) {
				if e.RecordsIn < 9 {
					t.Errorf("%d records in a pause of 1 s at 100 ms each", e.RecordsIn)
				}
			},
		},
		{
			name: "records", trigger: TriggerRecords,
			change: func(o *Options) { longEpochs(o); o.EpochMaxRecords = 7 },
			check: func(t *testing.T, e EpochSummary) {
				if e.RecordsIn != 7 {
					t.Errorf("%d records, the maximum is 7", e.RecordsIn)
				}
			},
		},
		{
			name: "bytes", trigger: TriggerBytes,
			change: func(o *Options) { longEpochs(o); o.EpochMaxBytes = 100 },
			check: func(t *testing.T, e EpochSummary) {
				if e.BytesIn < 100 || e.BytesIn > 150 {
					t.Errorf("%d bytes, the maximum is 100", e.BytesIn)
				}
			},
		},
		{
			name: "age", trigger: TriggerAge,
			change: func(o *Options) { o.EpochInterval = time.Hour },
			check: func(t *testing.T, e EpochSummary) {
				if age := e.Triggered.Sub(e.Opened); age < 2*time.Second || age > 3500*time.Millisecond {
					t.Errorf("closed at the age of %s, the limit is 8 s − 2 × 3 s", age)
				}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(1, "in", "out")
				b := w.start(w.options(tc.change))
				w.assigned(b, 1)
				w.trickle("in", 0, 100, 100*time.Millisecond)
				b.stopped()
				w.exact("out", "in")
				n := b.triggers()
				if n[tc.trigger] < 3 || n[tc.trigger]+n[TriggerStop] != len(b.epochs())-1 {
					t.Errorf("epochs closed by %v, want all by %q", n, tc.trigger)
				}
				for _, e := range b.epochs() {
					if e.Epoch > 1 && e.Trigger == tc.trigger {
						tc.check(t, e)
					}
				}
				if b.outcomes()[OutcomeAborted] > 0 {
					t.Errorf("outcomes %v", b.outcomes())
				}
			})
		})
	}
}

// TestTriggerStop: the last epoch is committed, not thrown away.
func TestTriggerStop(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options(longEpochs))
		w.assigned(b, 2)
		w.trickle("in", 1, 20, 10*time.Millisecond)
		w.pass(2 * restLongest) // all of it has been read
		b.stopped()
		w.exact("out", "in")
		if n := b.triggers()[TriggerStop]; n != 1 {
			t.Errorf("epochs closed by %v", b.triggers())
		}
	})
}

// TestTriggerRebalance: a member that joins closes the open epoch; nothing is aborted, and it does not wait for
// the interval of an hour.
func TestTriggerRebalance(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		a := w.start(w.options(longEpochs))
		w.assigned(a, 4)
		w.trickle("in", 1, 5, 10*time.Millisecond)
		began := time.Now()
		b := w.start(w.options(longEpochs, instance("b")))
		for a.holds() != 2 || b.holds() != 2 {
			w.feed("in", 1, 0, 1, 2, 3)
			w.pass(100 * time.Millisecond)
			if time.Since(began) > 20*time.Second {
				t.Fatal("the second member waits for an epoch of the first")
			}
		}
		w.feed("in", 3, 0, 1, 2, 3)
		w.pass(time.Second) // they are in open epochs now
		b.stopped()
		a.stopped()
		w.exact("out", "in")
		if a.triggers()[TriggerRebalance] == 0 {
			t.Errorf("epochs closed by %v", a.triggers())
		}
		if n := a.outcomes()[OutcomeAborted] + b.outcomes()[OutcomeAborted]; n > 0 {
			t.Errorf("%d epochs aborted", n)
		}
	})
}

// TestIdle: without input nothing is committed, produced or fenced again.
func TestIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options())
		w.assigned(b, 2)
		w.pass(5 * time.Second)
		never := w.observe(kmsg.Produce, func(f *kfake.Fault) {
			f.Keys = []kmsg.Key{kmsg.Produce, kmsg.InitProducerID, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.OffsetCommit, kmsg.AddOffsetsToTxn, kmsg.JoinGroup}
		})
		w.pass(10 * time.Minute)
		if n := never.Hits(); n > 0 {
			t.Errorf("%d requests of an idle bridge", n)
		}
		if checks := b.board.ready(time.Second); checks[0].reason+checks[1].reason+checks[2].reason != "" {
			t.Errorf("not ready: %v", checks)
		}
		if quiet := b.board.sinceProgress(); quiet > 2*time.Second {
			t.Errorf("no sign of life for %s", quiet)
		}
		b.stopped()
		if len(b.epochs()) != 0 {
			t.Errorf("epochs without a record: %v", b.epochs())
		}
	})
}

// TestTransactionalSource: aborted records do not count, and markers move the positions: the lag reaches 0.
func TestTransactionalSource(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options())
		source := w.client(kgo.TransactionalID("source"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		transaction := func(end kgo.TransactionEndTry, n int) {
			if err := source.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				r := &kgo.Record{Topic: "in", Partition: int32(i % 2), Value: []byte(w.unique("in", 0))}
				if err := source.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := source.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
		transaction(kgo.TryCommit, 10)
		transaction(kgo.TryAbort, 10)
		transaction(kgo.TryCommit, 1) // the other partition sees nothing of it
		transaction(kgo.TryAbort, 4)
		w.caughtUp("in")
		transaction(kgo.TryAbort, 4) // nothing but an abort
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		for p, info := range w.PartitionInfos("in") {
			if at := w.committed("g", "in", int32(p)); at != info.HighWatermark {
				t.Errorf("partition %d: committed %d of %d", p, at, info.HighWatermark)
			}
		}
		if n := w.count("out"); n != 11 {
			t.Errorf("%d records, want 11", n)
		}
	})
}

// TestOpenTransactionInTheSource: what is not decided yet is not read; afterwards it is.
func TestOpenTransactionInTheSource(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		b := w.start(w.options())
		source := w.client(kgo.TransactionalID("source"))
		if err := source.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := source.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: []byte("undecided")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.feed("in", 10, 0)
		w.pass(10 * time.Second)
		if n := w.count("out"); n != 0 {
			t.Errorf("%d records passed an open transaction", n)
		}
		if err := source.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
	})
}

// TestTruncatedBehind: retention has taken records that were never read. Going on would hide it.
func TestTruncatedBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.feed("in", 10, 0)
		w.caughtUpBy(w.options())
		w.feed("in", 20, 0)
		if err := w.DeleteRecords("in", 0, 25); err != nil {
			t.Fatal(err)
		}
		b := w.start(w.options())
		b.fails(txn.StatusFailure, "source truncated", "topic in partition 0 is offset 10", "from offset 25 to 30", "--reset-offsets")
		if n := w.count("out"); n != 10 {
			t.Errorf("%d records, want 10", n)
		}
		if b.restarts() != 0 {
			t.Errorf("%d restarts", b.restarts())
		}
		w.gone("g")
	})
}

// TestTruncatedAhead: the log ends before our position, as after an unclean leader election.
func TestTruncatedAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.feed("in", 10, 0)
		w.caughtUpBy(w.options())
		if err := w.DeleteTopic("in"); err != nil {
			t.Fatal(err)
		}
		w.topic("in", 1)
		w.anew()
		w.feed("in", 3, 0)
		w.commitAt("g", "in", 0, 10) // Kafka drops the positions of a deleted topic; a log that was cut keeps them
		b := w.start(w.options())
		b.fails(txn.StatusFailure, "source truncated", "topic in partition 0 is offset 10", "from offset 0 to 3")
	})
}

// TestTopicMadeAnew while it is read: its positions mean nothing any more.
func TestTopicMadeAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "other", "out")
		w.feed("in", 10, 0)
		b := w.start(w.options(func(o *Options) { o.Inputs = []string{"in", "other"} }))
		w.caughtUp("in", "other")
		if err := w.DeleteTopic("in"); err != nil {
			t.Fatal(err)
		}
		w.topic("in", 1)
		w.anew()
		w.feed("in", 5, 0)
		b.fails(txn.StatusFailure, "input topic in was", "made anew", "delete the group's positions")
		if n := w.count("out"); n != 10 {
			t.Errorf("%d records, want those of the old topic", n)
		}
	})
}

// TestTopicMadeAnewDuringARestart: the next session remembers which topic it was.
func TestTopicMadeAnewDuringARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.feed("in", 10, 0)
		b := w.start(w.options())
		w.caughtUp("in")
		w.wire.unplug()
		if err := w.DeleteTopic("in"); err != nil {
			t.Fatal(err)
		}
		w.topic("in", 1)
		w.pass(5 * time.Second)
		w.wire.plug()
		b.fails(txn.StatusFailure, "input topic in was", "made anew")
	})
}

// TestTopicDeleted: a listed topic that is gone ends the process by name. The client would ask for it in a loop
// without a pause.
func TestTopicDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wire.delay = 20 * time.Millisecond // that loop must take time in a bubble
		w.topics(1, "in", "other", "out")
		w.feed("in", 10, 0)
		b := w.start(w.options(func(o *Options) { o.Inputs = []string{"in", "other"} }))
		w.caughtUp("in", "other")
		if err := w.DeleteTopic("in"); err != nil {
			t.Fatal(err)
		}
		w.feed("other", 10, 0)
		w.until("the other topic is copied", func() bool { return w.committed("g", "other", 0) == 10 })
		b.fails(txn.StatusFailure, "input topic in was deleted", "BRIDGE_INPUT_TOPICS")
	})
}

// TestTopicDeletedOfAPattern: the others go on, and the client stops asking for it.
func TestTopicDeletedOfAPattern(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wire.delay = 20 * time.Millisecond
		w.topics(1, "in", "in-other", "out")
		w.feed("in", 10, 0)
		b := w.start(w.options(func(o *Options) { o.Inputs, o.Pattern = nil, regexp.MustCompile(`^(?:in.*)$`) }))
		w.caughtUp("in", "in-other")
		if err := w.DeleteTopic("in"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		requests := w.observe(kmsg.Fetch)
		w.pass(time.Minute)
		if n := requests.Hits(); n > 200 {
			t.Errorf("%d fetches in a minute without input", n)
		}
		w.feed("in-other", 10, 0)
		w.until("the other topic is copied", func() bool { return w.committed("g", "in-other", 0) == 10 })
		w.until("the topic is given back", func() bool { return b.holds() == 1 })
		b.stopped()
		if b.restarts() != 0 {
			t.Errorf("%d restarts", b.restarts())
		}
	})
}

// TestFetchErrors: what the client gets over by itself, and what ends the session or the process.
func TestFetchErrors(t *testing.T) {
	t.Parallel()
	s := &source{session: &session{log: testLog(t), Bridge: &Bridge{board: newBoard(Status{}, nil, nil)}}}
	for _, tc := range []struct {
		err    error
		status int // 0 = go on, -1 = restart
	}{
		{context.DeadlineExceeded, 0},
		{context.Canceled, 0},
		{&kgo.ErrGroupSession{Err: kerr.UnknownMemberID}, 0},
		{io.EOF, 0},
		{kerr.NotLeaderForPartition, -1}, // seen only when the client has given the partition up
		{kerr.UnknownTopicOrPartition, -1},
		{fmt.Errorf("wrapped: %w", kerr.ReplicaNotAvailable), -1},
		{kgo.ErrClientClosed, -1},
		{kerr.UnknownServerError, -1},
		{errors.New("anything else"), -1},
		{kerr.TopicAuthorizationFailed, txn.StatusDenied},
		{kerr.CorruptMessage, txn.StatusFailure},
		{kerr.UnsupportedCompressionType, txn.StatusFailure},
		{kerr.InconsistentTopicID, txn.StatusFailure},
		{kerr.UnknownTopicID, txn.StatusFailure},
		{&kgo.ErrDataLoss{Topic: "t", Partition: 3, ConsumedTo: 20, ResetTo: 15}, txn.StatusFailure},
	} {
		err := s.fetchError("t", 3, tc.err)
		var fatal *txn.FatalError
		switch {
		case tc.status == 0 && err == nil:
		case tc.status == -1 && errors.Is(err, txn.ErrAborted):
		case tc.status > 0 && errors.As(err, &fatal) && fatal.Status == tc.status:
		default:
			t.Errorf("%v: %v, want status %d", tc.err, err, tc.status)
		}
	}
}

// TestFetchErrorsNameWhatIsLost holds the message of a log that was cut: both offsets and both epochs.
func TestFetchErrorsNameWhatIsLost(t *testing.T) {
	t.Parallel()
	s := &source{session: &session{log: testLog(t), Bridge: &Bridge{board: newBoard(Status{}, nil, nil)}}}
	err := s.fetchError("orders", 3, &kgo.ErrDataLoss{Topic: "orders", Partition: 3, ConsumedTo: 200, ConsumedToEpoch: 7, ResetTo: 150, ResetToEpoch: 6})
	const want = "source truncated: topic orders partition 3 was read up to offset 200 (leader epoch 7), its log now continues at offset 150 (leader epoch 6)"
	if got := fmt.Sprint(err); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("got %s", got)
	}
}

// TestWake: a call is never lost, whether it comes before, during or between polls.
func TestWake(t *testing.T) {
	t.Parallel()
	w := &wake{c: make(chan struct{}, 1)}
	w.now()
	ctx, cancel := w.context(t.Context(), time.Hour)
	if ctx.Err() == nil {
		t.Error("a call before the poll is lost")
	}
	cancel()
	ctx, cancel = w.context(t.Context(), time.Hour)
	if ctx.Err() != nil {
		t.Error("one call ended two polls")
	}
	w.now()
	if ctx.Err() == nil {
		t.Error("a call during the poll is lost")
	}
	cancel()
	w.now()
	w.now()
	select {
	case <-w.c:
	default:
		t.Error("a call before a pause is lost")
	}
	ctx, cancel = w.context(t.Context(), 0)
	defer cancel()
	<-ctx.Done()
}
