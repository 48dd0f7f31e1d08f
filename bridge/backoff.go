package bridge

import (
	"math/rand/v2"
	"time"
)

// backoff is an exponential delay with full jitter over its upper half.
type backoff struct {
	limit, most, step time.Duration
}

func newBackoff(most time.Duration) *backoff { return &backoff{most: most, limit: most} }

// reset begins again with short delays.
func (b *backoff) reset() { b.step, b.limit = 0, b.most }

// cap bounds the delays to come, until reset.
func (b *backoff) cap(limit time.Duration) { b.limit = min(b.most, limit) }

func (b *backoff) next() time.Duration {
	const first = 100 * time.Millisecond
	b.step = min(max(first, 2*b.step), b.limit)
	return b.step/2 + rand.N(b.step/2+1) //nolint:gosec // jitter, not a secret
}
