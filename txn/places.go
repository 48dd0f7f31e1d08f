package txn

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
)

// places are the output partitions of an epoch. A partition enters the transaction with its first records, and the
// coordinator takes one newcomer at a time: positions that arrive meanwhile are told to come again
// (CONCURRENT_TRANSACTIONS), or the records are, for 20 ms and more. So positions that go out beside the flush wait until
// every partition is in. Its users are the lanes, the client's promises and the committer.
type places struct {
	mu      sync.Mutex
	in      map[offsets.TopicPartition]bool // false: of its records none has an answer
	pending int                             // how many are false
	settled chan struct{}                   // closed when none is; nil while nobody waits
}

func (p *places) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.in == nil {
		p.in = map[offsets.TopicPartition]bool{}
	}
	clear(p.in)
	p.pending = 0
}

// enter says that records for a partition are about to be sent.
func (p *places) enter(tp offsets.TopicPartition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.in[tp]; !ok {
		p.in[tp] = false
		p.pending++
	}
}

// answered says that records for a partition have their answer, whatever it is.
func (p *places) answered(tp offsets.TopicPartition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if in, ok := p.in[tp]; in || !ok {
		return
	}
	p.in[tp] = true
	if p.pending--; p.pending == 0 && p.settled != nil {
		close(p.settled)
		p.settled = nil
	}
}

// wait waits until nothing is pending. It answers whether that is so, or ctx has ended.
func (p *places) wait(ctx context.Context) bool {
	p.mu.Lock()
	if p.pending == 0 {
		p.mu.Unlock()
		return true
	}
	if p.settled == nil {
		p.settled = make(chan struct{})
	}
	settled := p.settled
	p.mu.Unlock()
	select {
	case <-settled:
		return true
	case <-ctx.Done():
		return false
	}
}

// to notes where a record of the handover goes. Nearly always that is where the one before went.
func (b *handover) to(r *kgo.Record) {
	tp := offsets.TopicPartition{Topic: r.Topic, Partition: r.Partition}
	if n := len(b.places); n > 0 && b.places[n-1] == tp {
		return
	}
	b.slot.places.enter(tp)
	b.places = append(b.places, tp)
}
