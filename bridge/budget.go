package bridge

import "sync/atomic"

// budget bounds the memory of decoded batches, from the poll until the last output of a batch is
// acknowledged: a record that is still held keeps its whole batch in memory. The source asks before each poll,
// so the budget is overshot by one poll at the most.
type budget struct {
	limit int64
	used  atomic.Int64
	freed chan struct{} // one token: "look again"; more would say nothing new
}

func newBudget(limit int64) *budget {
	return &budget{limit: limit, freed: make(chan struct{}, 1)}
}

func (b *budget) take(n int64)    { b.used.Add(n) }
func (b *budget) exhausted() bool { return b.used.Load() >= b.limit }

func (b *budget) give(n int64) {
	before := b.used.Add(-n) + n
	if before >= b.limit && before-n < b.limit {
		select {
		case b.freed <- struct{}{}:
		default:
		}
	}
}
