package bridge

import "time"

// idling is where time goes in which a lane does nothing although there is something to do.
type idling struct {
	// stalled: input waits, and the lane neither transforms nor produces.
	stalled func(time.Duration)
	// held: outputs wait at the closed gate of their epoch, and there is no input to transform meanwhile.
	held func(time.Duration)
}

// standstill is the time that a lane has spent at a barrier whose gate was closed.
type standstill struct {
	from, to time.Time // zero = none
	outputs  bool      // outputs waited with it
}

// split divides it by the moment at which the next input was dealt to the lane: from then on input waited.
func (w standstill) split(dealt time.Time) (stalled, held time.Duration) {
	if dealt.Before(w.from) {
		dealt = w.from
	}
	if dealt.After(w.to) {
		dealt = w.to
	}
	if w.outputs {
		held = dealt.Sub(w.from)
	}
	return w.to.Sub(dealt), held
}

// settleWait books the wait at the last barrier, now that the work behind it has come.
func (l *lane) settleWait(next work) {
	if l.waited.from.IsZero() {
		return
	}
	dealt := l.waited.to
	if len(next.records) > 0 {
		dealt = next.dealt
	}
	stalled, held := l.waited.split(dealt)
	l.waited = standstill{}
	l.idling.stalled(stalled)
	l.idling.held(held)
}

// starving is called before the source waits for anything but the broker; what it answers is called after that. Lanes
// that are idle all the while, at a gate or not, are stalled if there are records to read. Those with input of their own
// book that themselves: see settleWait.
func (s *source) starving() (ended func()) {
	began, idle := time.Now(), s.idleLanes()
	return func() {
		if idle = min(idle, s.idleLanes()); idle > 0 && (s.undealt > 0 || s.cl.BufferedFetchRecords() > 0 || s.raw && s.fetcher.waiting()) {
			s.metrics.stalled(time.Since(began) * time.Duration(idle))
		}
	}
}

func (s *source) idleLanes() int {
	n := 0
	for _, l := range s.lanes {
		if l.idle.Load() && len(l.in) == 0 {
			n++
		}
	}
	return n
}
