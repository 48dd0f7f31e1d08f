package bridge

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFetchesAtALowRate: records that come one by one are not fetched one by one. (kfake)
func TestFetchesAtALowRate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options(func(o *Options) { o.EpochInterval = 100 * time.Millisecond }))
		w.assigned(b, 2)
		w.feed("in", 1, 0)
		w.caughtUp("in")
		fetches, began := w.observe(kmsg.Fetch), time.Now()
		for range 1000 {
			w.feed("in", 1, 0)
			w.pass(time.Millisecond)
		}
		passed := time.Since(began)
		if n := fetches.Hits(); n > int(passed/(5*time.Millisecond)) {
			t.Errorf("%d fetches in %s", n, passed)
		}
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
	})
}

// TestLateRecordsAreSwept: an epoch that closes by the clock takes along what has been fetched until then. (kfake)
func TestLateRecordsAreSwept(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		b := w.start(w.options(func(o *Options) { o.EpochInterval = 100 * time.Millisecond }))
		w.assigned(b, 1)
		w.feed("in", 1, 0) // closes at once, so much time is between the barriers
		w.caughtUp("in")
		w.feed("in", 1, 0)
		w.caughtUp("in")
		before := b.epochs()
		due := before[len(before)-1].Triggered.Add(b.opts.EpochInterval)
		w.feed("in", 1, 0)                             // opens the next epoch
		w.pass(time.Until(due) - 600*time.Microsecond) // the poll waits
		w.feed("in", 1, 0)                             // it ends, and the source rests until the barrier
		w.pass(300 * time.Microsecond)
		w.feed("in", 1, 0)
		w.caughtUp("in")
		if epochs := b.epochs()[len(before):]; len(epochs) != 1 || epochs[0].RecordsIn != 3 {
			t.Errorf("not one epoch of three records: %+v", epochs)
		}
		b.stopped()
		w.exact("out", "in")
	})
}

// TestIntervalZero: the next epoch closes as soon as the last is committed; while nothing comes, nothing happens. (kfake)
func TestIntervalZero(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wire.delay = 2 * time.Millisecond
		w.topics(2, "in", "out")
		b := w.start(w.options(func(o *Options) { o.EpochInterval, o.EpochMaxInterval = 0, 100*time.Millisecond }))
		w.assigned(b, 2)
		began := time.Now()
		for range 200 {
			w.feed("in", 1, 0, 1)
			w.pass(time.Millisecond)
		}
		w.caughtUp("in")
		passed := time.Since(began)
		if n := b.board.snapshot().Epoch; n < 10 || int64(n) > passed.Milliseconds() {
			t.Errorf("%d epochs in %s", n, passed)
		}
		for _, e := range b.epochs() {
			if e.RecordsIn == 0 || e.Outcome != OutcomeCommitted {
				t.Errorf("epoch %d: %d records, %s", e.Epoch, e.RecordsIn, e.Outcome)
			}
		}
		before, fetches, ends := b.board.snapshot().Epoch, w.observe(kmsg.Fetch), w.observe(kmsg.EndTxn)
		w.pass(time.Minute)
		if n := b.board.snapshot().Epoch; n != before || ends.Hits() != 0 {
			t.Errorf("%d epochs and %d transactions without input", n-before, ends.Hits())
		}
		if n := fetches.Hits(); n > 200 {
			t.Errorf("%d fetches in a minute without input", n)
		}
		b.stopped()
		w.exact("out", "in")
	})
}

// TestEpochsGrowWhileBehind: a backlog is read in longer epochs, and afterwards they are short again. (kfake)
func TestEpochsGrowWhileBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wire.delay = 2 * time.Millisecond // a backlog that takes no time would be read in one epoch
		w.topics(4, "in", "out")
		n := 600 // 24 MB, in fetches of 1 MiB
		if raced {
			n = 250
		}
		w.feedBytes(n, 0, 1, 2, 3)
		b := w.start(w.options(small, func(o *Options) { o.EpochInterval, o.EpochMaxInterval = 5*time.Millisecond, 80*time.Millisecond }))
		longest := 0.0
		w.until("all is copied", func() bool {
			longest = max(longest, b.board.snapshot().IntervalSeconds)
			return w.committed("g", "in", 0) == int64(n) && w.committed("g", "in", 3) == int64(n)
		})
		if longest < 0.02 {
			t.Errorf("the interval grew to %v s only", longest)
		}
		for range 3 {
			w.feed("in", 1, 0)
			w.caughtUp("in")
		}
		if got := b.board.snapshot().IntervalSeconds; got != 0.005 {
			t.Errorf("caught up, the interval is %v s", got)
		}
		b.stopped()
		w.exact("out", "in")
	})
}
