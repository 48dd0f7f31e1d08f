package bridge

import (
	"fmt"
	"strconv"
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
	lag := "unknown"
	if !s.Lag.At.IsZero() {
		lag = strconv.FormatInt(s.Lag.Total, 10)
	}
	h.Summary = fmt.Sprintf("%s: %d partitions, lag %s", s.State, s.assignedPartitions(), lag)
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

// healthCheck is one line of a health answer.
type healthCheck struct {
	name   string
	reason string // why it failed; empty = ok
}

// String writes the line as Kubernetes' own components do.
func (c healthCheck) String() string {
	if c.reason == "" {
		return "[+]" + c.name + " ok"
	}
	return "[-]" + c.name + " failed: " + c.reason
}

// live answers whether a restart of the process could help: the loop has not moved for longer than
// maxSilence. It never depends on Kafka, or an outage of the brokers would restart every bridge.
func (b *board) live(maxSilence time.Duration) []healthCheck {
	loop := healthCheck{name: "loop"}
	if silence := b.sinceProgress(); silence > maxSilence {
		loop.reason = fmt.Sprintf("no progress for %s, allowed are %s", rounded(silence), rounded(maxSilence))
	}
	return []healthCheck{loop}
}

// looked notes whether the brokers answer a request that is made from time to time, records or not: a poll that brings
// nothing cannot tell an idle input from a broken line.
func (b *board) looked(err error) {
	if err == nil {
		b.silent.Store(nil)
		return
	}
	b.silent.Store(b.silent.Load().and(b.stamp(), err))
}

// waits notes that gained partitions have no positions yet, and positioned that they do.
func (b *board) waits() {
	now := b.now()
	b.waiting.CompareAndSwap(nil, &now)
}

func (b *board) positioned() { b.waiting.Store(nil) }

// waited is for how long gained partitions have had no positions; 0 = they have them.
func (b *board) waited() time.Duration {
	if since := b.waiting.Load(); since != nil {
		return b.now().Sub(*since)
	}
	return 0
}

// ready answers whether the bridge does its work: it is running, with partitions or standing by, and neither
// commits nor polls have been failing, nor positions been missing, for longer than tolerance (the epoch timeout).
//
// After a restart only the next commit ends a row of failed ones, and an idle input never brings one. So the
// row also counts as over once we have been running for twice the tolerance without another failure: an epoch that
// cannot commit fails within once that time of its barrier, and the barrier comes some time after the start.
func (b *board) ready(tolerance time.Duration) []healthCheck {
	s, now := b.snapshot(), b.now()
	state, commit, poll := healthCheck{name: "state"}, healthCheck{name: "commit"}, healthCheck{name: "poll"}
	if s.State != StateRunning {
		state.reason = fmt.Sprintf("%s for %s", s.State, rounded(now.Sub(s.Since)))
		if s.LastError != nil && s.State != StateStopped {
			state.reason += ", last error: " + s.LastError.Err
		}
	}
	if k := s.CommitFailing; k != nil && now.Sub(k.Since) > tolerance {
		quiet := now.Sub(k.Last)
		if s.Since.After(k.Last) {
			quiet = now.Sub(s.Since)
		}
		if s.State != StateRunning || quiet <= 2*tolerance {
			commit.reason = fmt.Sprintf("no commit for %s: %s", rounded(now.Sub(k.Since)), k.Err)
		}
	}
	if k := s.PollFailing; k != nil && now.Sub(k.Since) > tolerance {
		poll.reason = fmt.Sprintf("failing for %s: %s", rounded(now.Sub(k.Since)), k.Err)
	}
	if since := b.waiting.Load(); since != nil && s.State == StateRunning && now.Sub(*since) > tolerance {
		poll.reason = fmt.Sprintf("waiting for the group's positions for %s: a transaction holds them back, or its coordinator does not answer", rounded(now.Sub(*since)))
	}
	if k := b.silent.Load(); k != nil && poll.reason == "" && now.Sub(k.Since) > tolerance {
		poll.reason = fmt.Sprintf("the brokers do not answer, for %s: %s", rounded(now.Sub(k.Since)), k.Err)
	}
	return []healthCheck{state, commit, poll}
}

// rounded drops what nobody wants to read.
func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
