package bridge

import "sync/atomic"

// budget bounds the memory of decoded batches, from the poll until the last output of a batch is
// acknowledged: a record that is still held keeps its whole batch in memory. The source asks before each poll,
// so the budget is overshot by one poll at the most.
type budget struct {
	limit atomic.Int64
	used  atomic.Int64
	freed chan struct{} // one token: "look again"; more would say nothing new
}

func newBudget(limit int64) *budget {
	b := &budget{freed: make(chan struct{}, 1)}
	b.limit.Store(limit)
	return b
}

func (b *budget) take(n int64)    { b.used.Add(n) }
func (b *budget) exhausted() bool { return b.used.Load() >= b.limit.Load() }

func (b *budget) give(n int64) {
	before := b.used.Add(-n) + n
	if limit := b.limit.Load(); before >= limit && before-n < limit {
		b.free()
	}
}

// resize changes the limit. Nothing is taken back.
func (b *budget) resize(limit int64) {
	if b.limit.Swap(limit) < limit {
		b.free()
	}
}

func (b *budget) free() {
	select {
	case b.freed <- struct{}{}:
	default:
	}
}
