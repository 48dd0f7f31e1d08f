package bridge

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStartNamesOnlyItsOwn (found by the model, test/model): two members begin a new topic in a group that has members
// already, so that each commits as a member where to begin. One of them is late with it: it must not take back what the
// other one has committed meanwhile.
func TestStartNamesOnlyItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out", "second")
		w.feed("in", 5, 0, 1, 2, 3)
		w.feed("second", 5, 0, 1, 2, 3)
		old := w.start(w.options(instance("old")))
		w.caughtUp("in")
		both := func(o *Options) { o.Inputs = []string{"in", "second"} }
		// Both look for positions before either has committed any.
		late := w.slowly(kmsg.OffsetCommit, 1, 200*time.Millisecond, startOf("a"))
		w.slowly(kmsg.OffsetCommit, 1, 20*time.Millisecond, startOf("b"))
		a := w.start(w.options(both))
		b := w.start(w.options(both, instance("b")))
		w.until("all share", func() bool { return a.holds() > 0 && b.holds() > 0 && a.holds()+b.holds()+old.holds() == 8 })
		w.caughtUp("in", "second")
		w.pass(5 * time.Second)
		w.caughtUp("in", "second")
		if late.Load() == 0 {
			t.Error("nobody was late")
		}
		b.stopped()
		a.stopped()
		old.stopped()
		w.caughtUpBy(w.options(both))
		w.exact("out", "in", "second")
	})
}

// startOf picks the commits that a member makes outside a transaction. Ids of members begin with their instance's.
func startOf(instance string) func(kmsg.Request) bool {
	return func(r kmsg.Request) bool {
		return strings.HasPrefix(r.(*kmsg.OffsetCommitRequest).MemberID, instance+"-")
	}
}

// TestStartOfAStalledInstance: the start commit of an instance stalls for as long as another one lives. It must not take
// back what that one has committed. (Without membership it would: the group is empty again.)
func TestStartOfAStalledInstance(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		w.feed("in", 5, 0, 1, 2, 3)
		var n atomic.Int64
		w.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			if n.Add(1) == 1 {
				w.SleepControl(func() { w.pass(4 * time.Second) })
			}
			return nil, nil, false
		})
		b := w.start(w.options(instance("b")))
		w.until("first start is under way", func() bool { return n.Load() == 1 })
		a := w.start(w.options())
		w.caughtUp("in")
		a.stopped()
		w.pass(10 * time.Second)
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
	})
}
