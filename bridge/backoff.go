package bridge

import (
	"math/rand/v2"
	"time"
)

// backoff is a delay that doubles, with jitter over its upper half.
type backoff struct{ most, step time.Duration }

func newBackoff(most time.Duration) *backoff { return &backoff{most: most} }

// reset begins again with short delays.
func (b *backoff) reset() { b.step = 0 }

// next answers the next delay, at most limit.
func (b *backoff) next(limit time.Duration) time.Duration {
	const first = 100 * time.Millisecond
	b.step = min(max(first, 2*b.step), b.most)
	step := min(b.step, limit)
	return step/2 + rand.N(step/2+1) //nolint:gosec // jitter, not a secret
}
