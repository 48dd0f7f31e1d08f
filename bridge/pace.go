package bridge

import (
	"sync/atomic"
	"time"
)

// pace is how long a record takes in the slowest lane. A barrier waits in a lane behind all that was dealt to it before,
// so with a slow chain less may be dealt at a time: else no epoch would be aligned within its time-out, and the records
// of an aborted one come again. It outlives a session, for what is known of a chain stays true.
type pace struct {
	perRecord atomic.Int64 // nanoseconds; 0 = quick
	unknown   atomic.Bool  // there is a chain, and it has done nothing yet
}

// pollUnknown is how much is dealt at a time to a chain of which nothing is known: a full lane of it is done in time
// by chains that take up to 8 ms for a record, with the default epoch timeout.
const pollUnknown = 200

// paceSample is the shortest time that tells something about a chain: less may be the scheduler's doing, and harms no
// epoch.
const paceSample = 50 * time.Millisecond

// took notes that n records of one piece took d, all converters of the piece together: the crew's hands may be with
// another lane when what is dealt now gets its turn. It goes up at once and comes down in steps.
func (p *pace) took(n int, d time.Duration) {
	if n > 0 {
		p.unknown.Store(false)
	}
	each := int64(d) / int64(max(n, 1))
	if before := p.perRecord.Load(); each <= before {
		p.perRecord.Store((before + each) / 2)
	} else if d >= paceSample {
		p.perRecord.Store(each)
	}
}

// records is how many may be dealt at a time, so that a full lane is through with them in a quarter of the epoch timeout.
func (p *pace) records(timeout time.Duration) int {
	each := p.perRecord.Load()
	switch {
	case p.unknown.Load():
		return pollUnknown
	case each == 0:
		return pollRecords
	}
	return int(min(max(int64(timeout)/4/(laneDepth+2)/each, 1), pollRecords))
}
