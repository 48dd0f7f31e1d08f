package bridge

import (
	"fmt"
	"time"
)

// Health is what a service manager wants to know: the answers of /livez and /readyz, and a line for people.
type Health struct {
	Live  bool // the loop has made progress; never depends on Kafka
	Ready bool // running, with partitions or standing by, and nothing has been failing for longer than the epoch timeout
	// Summary is one line without a line break: the state, what was committed last, the lag; or why it is not ready.
	Summary string
}

// Health looks at the bridge. It may be called at any time, by any goroutine.
func (b *Bridge) Health() Health {
	h := Health{Live: healthy(b.board.live(b.maxSilence())), Ready: true}
	for _, check := range b.board.ready(b.opts.EpochTimeout) {
		if check.reason != "" {
			h.Ready = false
			h.Summary = oneLine(check.reason)
			return h
		}
	}
	s := b.board.snapshot()
	h.Summary = fmt.Sprintf("%s: %d partitions, lag %d", s.State, s.assignedPartitions(), s.Lag.Total)
	if at := s.LastCommitted.At; !at.IsZero() {
		h.Summary += fmt.Sprintf(", epoch %d committed at %s", s.LastCommitted.Epoch, at.UTC().Format(time.TimeOnly))
	}
	return h
}

// maxSilence is how long the loop may stand still before it is not alive any more.
func (b *Bridge) maxSilence() time.Duration { return 2*b.opts.EpochTimeout + b.opts.TxnTimeout }

func healthy(checks []healthCheck) bool {
	for _, check := range checks {
		if check.reason != "" {
			return false
		}
	}
	return true
}
