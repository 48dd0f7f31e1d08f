package bridge

import "time"

// reading is what was read, by one poll or in an epoch, and what is known to be there still.
type reading struct {
	records int64
	unread  int64 // records up to the last stable offsets
	limited bool  // a limit of the epoch, or the memory budget, stopped it
}

// behind holds if as much is waiting as was read: the source is not kept up with.
func (r reading) behind() bool {
	return r.limited || r.unread > 0 && r.unread >= r.records
}

// Bounds of rest. The longest still spreads the work over an epoch; the shortest is about what a fetch from a near broker
// takes. From restBelow records on, a fetch costs little beside its records.
const (
	restLongest  = 25 * time.Millisecond
	restShortest = time.Millisecond
	restNear     = 4 * time.Millisecond // before the barrier: a poll brings what the broker had at the poll before
	restBelow    = 1000
)

// rest is how long records may gather after a poll, with so much time left until the barrier. Nothing becomes visible
// before the barrier, so at low rates the source need not look for each record: it looks rarely while the barrier is far
// off, and once more shortly before it. The client fetches anew only when the last answer was taken, so this bounds the
// requests to the broker as well. While nothing comes, the broker holds the fetch, and no rest is needed.
func (r reading) rest(left time.Duration) time.Duration {
	switch {
	case r.records == 0, r.records >= restBelow, r.unread > 0, r.limited:
		return 0
	case left <= 0: // the barrier waits for the epoch before, whose end wakes us
		return restShortest
	default:
		return min(max((left-restNear)*3/4, restShortest), restLongest, left)
	}
}

// cadence is the interval between barriers: longer while the source is behind, for each epoch costs a commit; the least
// as soon as it has caught up. It is pure, and belongs to the source.
type cadence struct {
	least, most time.Duration
	interval    time.Duration // in force
}

// cadenceStep is the first interval above none.
const cadenceStep = 5 * time.Millisecond

func newCadence(least, most time.Duration) cadence {
	return cadence{least: least, most: max(least, most), interval: least}
}

// closed adapts the interval to an epoch that has just closed.
func (c *cadence) closed(epoch reading) {
	if epoch.behind() {
		c.interval = min(max(2*c.interval, cadenceStep), c.most)
	} else {
		c.interval = c.least
	}
}
