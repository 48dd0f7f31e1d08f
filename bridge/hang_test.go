package bridge

import (
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// hanging makes a chain that does not return from the record at an offset of partition 0 until the test ends.
func hanging(t *testing.T, w *world, offset int64) func(*Options) {
	free := make(chan struct{})
	t.Cleanup(func() { close(free) })
	s := perRecord(func(r *transform.Record) error {
		if r.Partition == 0 && r.Offset == offset {
			<-free
		}
		return nil
	})
	return func(o *Options) { o.Chain = scripted(w.t, s) }
}

// TestTransformHangs: nothing can end a goroutine that does not return, so the process ends, and says why. What was
// in flight is not committed.
func TestTransformHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.feed("in", 10, 0, 1)
		b := w.start(w.options(hanging(t, w, 15)))
		w.caughtUp("in")
		before := w.positions("g")
		w.feed("in", 10, 0)
		b.fails(txn.StatusFailure, "a transform does not return", "lane")
		if after := w.positions("g"); after != before {
			t.Errorf("positions moved from %s to %s", before, after)
		}
	})
}

// TestTransformHangsBehindAQueue: so many records come after the one that hangs that no barrier gets into the lane.
func TestTransformHangsBehindAQueue(t *testing.T) {
	for name, offset := range map[string]int64{"nothing produced yet": 0, "in an open transaction": 15} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(1, "in", "out")
				b := w.start(w.options(hanging(t, w, offset), func(o *Options) { o.EpochInterval = time.Second }))
				w.assigned(b, 1)
				w.trickle("in", 0, 40, 2*time.Millisecond)
				b.fails(txn.StatusFailure, "a transform does not return", "lane")
				if n := w.behind("g", "in"); n < 40-offset {
					t.Errorf("only %d of 40 records are not committed, the one with offset %d hung", n, offset)
				}
			})
		})
	}
}

// TestTransformHangsAtAStop: a second signal ends the process although a lane hangs.
func TestTransformHangsAtAStop(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		b := w.start(w.options(hanging(t, w, 5), func(o *Options) { o.EpochTimeout, o.TxnTimeout = time.Minute, 4*time.Minute }))
		w.assigned(b, 1)
		w.feed("in", 10, 0)
		w.pass(time.Second)
		began := time.Now()
		b.stop()
		b.abort()
		if err := b.wait(); err == nil || !strings.Contains(err.Error(), "a transform does not return") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the end took %s", took)
		}
	})
}
