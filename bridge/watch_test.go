package bridge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
)

func untilEnd(o *Options) { o.UntilEnd = true }

// TestUntilEnd: the bridge ends by itself once everything that was there at its start is committed.
func TestUntilEnd(t *testing.T) {
	for _, tc := range []struct {
		name   string
		feed   []int32
		change func(*testing.T, *world, *Options)
	}{
		{"all partitions", []int32{0, 1, 2}, nil},
		{"one partition", []int32{1}, nil},
		{"nothing there", nil, nil},
		{"everything filtered", []int32{0, 1, 2}, func(t *testing.T, _ *world, o *Options) {
			o.Chain = keep(t, func(*transform.Record) bool { return false })
		}},
		{"from the end", []int32{0, 1, 2}, func(_ *testing.T, _ *world, o *Options) { o.Start.Kind = offsets.StartLatest }},
		{"at-least-once", []int32{0, 1, 2}, func(_ *testing.T, _ *world, o *Options) { o.Delivery = AtLeastOnce }},
		{"at-most-once", []int32{0, 1, 2}, func(_ *testing.T, _ *world, o *Options) { o.Delivery = AtMostOnce }},
		{"records that retention took", []int32{0, 1, 2}, func(t *testing.T, w *world, _ *Options) {
			for p := range int32(3) {
				if err := w.DeleteRecords("in", p, 50); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"KIP-848", []int32{0, 1, 2}, func(_ *testing.T, _ *world, o *Options) { o.Consumer = true }},
		{"slow to read", []int32{0, 1, 2}, func(_ *testing.T, w *world, _ *Options) { w.slowly(kmsg.Fetch, 1, 5*time.Second) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(3, "in", "out")
				if len(tc.feed) > 0 {
					w.feed("in", 50, tc.feed...)
				}
				o := w.options(untilEnd)
				if tc.change != nil {
					tc.change(t, w, &o)
				}
				b := w.start(o)
				if err := b.wait(); err != nil {
					t.Fatal(err)
				}
				if n := w.behind("g", "in"); n != 0 {
					t.Errorf("%d records are not committed", n)
				}
				if tc.change == nil || o.Delivery != ExactlyOnce || tc.name == "slow to read" {
					w.exact("out", "in")
				}
				if !o.Consumer && w.isMember("g", "a") {
					t.Error("still a member")
				}
			})
		})
	}
}

// TestUntilEndOfAMovingTopic ends although records keep coming, and survives failures on the way.
func TestUntilEndOfAMovingTopic(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.feed("in", 1000, 0)
		w.slowly(kmsg.EndTxn, 3, 5*time.Second) // longer than an epoch may take
		b := w.start(w.options(untilEnd, func(o *Options) { o.EpochMaxRecords = 100 }))
		stop := w.feeding("in", 20*time.Millisecond, 0)
		if err := b.wait(); err != nil {
			t.Fatal(err)
		}
		stop()
		if at := w.committed("g", "in", 0); at < 1000 {
			t.Errorf("ended at offset %d", at)
		}
		w.caughtUpBy(w.options())
		w.exact("out", "in")
	})
}

// TestHangingOutput: a transaction is given up before the broker's timeout does it.
func TestHangingOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		b := w.start(w.options(longEpochs))
		w.assigned(b, 1)
		release := w.stuck()
		w.feed("in", 10, 0)
		w.until("it fails", func() bool { return b.restarts() > 0 })
		open := b.epochs()
		for _, e := range open {
			if e.Outcome == OutcomeCommitted {
				t.Errorf("epoch %d is committed", e.Epoch)
			}
		}
		release()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
	})
}

// TestSlowTransform: a transform that takes longer than an epoch may last is no failure as long as records come out
// in time; the epoch is the limit.
func TestSlowTransform(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.feed("in", 30, 0, 1)
		s := perRecord(func(*transform.Record) error {
			w.pass(20 * time.Millisecond)
			return nil
		})
		b := w.caughtUpBy(w.options(func(o *Options) { o.Chain, o.EpochMaxRecords = scripted(t, s), 10 }))
		w.exact("out", "in")
		if b.restarts() != 0 {
			t.Errorf("%d restarts", b.restarts())
		}
	})
}

// TestSweep: a transaction that a dead instance left open is aborted after joining, and one of others is left alone.
func TestSweep(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out", "elsewhere")
		leave := func(id, topic string) {
			cl := w.client(kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute))
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("left by " + id)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		leave("g.dead.0", "out")
		leave("stranger.dead.0", "elsewhere")
		w.pass(time.Minute)
		w.feed("in", 10, 0)
		b := w.start(w.options())
		w.caughtUp("in")
		w.until("readers see the output", func() bool {
			p := w.PartitionInfo("out", 0)
			return p.LastStableOffset == p.HighWatermark
		})
		b.stopped()
		w.exact("out", "in")
		if p := w.PartitionInfo("elsewhere", 0); p.LastStableOffset != 0 {
			t.Error("a stranger's transaction was touched")
		}
	})
}

// TestLagShown: the status and its readers learn the lag of the assigned partitions.
func TestLagShown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		release := w.stuck()
		b := w.start(w.options(func(o *Options) {
			o.EpochTimeout, o.TxnTimeout, o.SessionTimeout, o.RebalanceTimeout = 40*time.Second, 100*time.Second, 110*time.Second, 120*time.Second
		}))
		w.assigned(b, 2)
		w.feed("in", 10, 0, 1)
		w.until("the lag is shown", func() bool { return b.board.snapshot().Lag.Total == 20 })
		release()
		w.until("it is gone", func() bool { return b.board.snapshot().Lag.Total == 0 })
		b.stopped()
		if n := len(b.board.snapshot().Lag.Partitions); n != 0 {
			t.Errorf("%d partitions show a lag after the stop", n)
		}
	})
}

// TestOpenTransactionShown: the status tells since when a transaction is open.
func TestOpenTransactionShown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		b := w.start(w.options(longEpochs))
		w.assigned(b, 1)
		w.feed("in", 1, 0) // closes at once
		w.caughtUp("in")
		w.feed("in", 1, 0)
		w.pass(10 * time.Second)
		s := b.board.snapshot()
		if s.OpenTxn.AgeSeconds < 9 || s.OpenTxn.AgeSeconds > 11 || s.OpenTxn.Share < 0.15 {
			t.Errorf("open: %+v", s.OpenTxn)
		}
		if s.Epoch != 2 || s.LastCommitted.Epoch != 1 {
			t.Errorf("epoch %d runs, %d is committed", s.Epoch, s.LastCommitted.Epoch)
		}
		b.stopped()
		if s := b.board.snapshot(); !s.OpenTxn.Since.IsZero() {
			t.Errorf("open after the stop: %+v", s.OpenTxn)
		}
	})
}

// TestLifeOfAState: the states come in their order, and each change is logged once.
func TestLifeOfAState(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.feed("in", 10, 0)
		w.caughtUpBy(w.options())
		var got []string
		for _, line := range w.book.with("state changed") {
			got = append(got, line[strings.LastIndex(line, "=")+1:])
		}
		if want := []string{"joining", "running", "stopping", "stopped"}; !slices.Equal(got, want) {
			t.Errorf("states %v, want %v", got, want)
		}
	})
}

// TestAHealthyHourIsSilent above debug, as ten minutes of it show.
func TestAHealthyHourIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options(func(o *Options) { o.EpochInterval = 5 * time.Second }))
		w.assigned(b, 2)
		w.feed("in", 1, 0, 1)
		w.caughtUp("in")
		before := w.book.loud()
		for range 10 {
			w.feed("in", 1, 0, 1)
			w.pass(time.Minute)
		}
		if after := w.book.loud(); after != before {
			t.Errorf("%d lines in 10 minutes", after-before)
		}
		b.stopped()
		w.exact("out", "in")
	})
}
