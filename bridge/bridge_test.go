package bridge

import "testing"

func TestCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		w.feed("in", 1000, 0, 1, 2, 3)
		b := w.start(w.options())
		w.caughtUp("in")
		w.feed("in", 1000, 0, 1, 2, 3)
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
	})
}

func TestCopyInRealTime(t *testing.T) {
	inRealTime(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		w.feed("in", 1000, 0, 1, 2, 3)
		b := w.start(w.options())
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
	})
}
