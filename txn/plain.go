package txn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
)

// Plain is the Participant of the two weaker guarantees: an idempotent producer without transactions, and
// positions committed on their own. Which guarantee results is a matter of order: PreCommit before Commit and
// a replay repeats outputs (at-least-once); Commit before the first Produce and a failure loses them
// (at-most-once). bridge decides.
type Plain struct {
	cl       *kgo.Client
	progress *groupProgress

	mu   sync.Mutex
	open map[Epoch]*outstanding // epochs between Begin and PreCommit
}

// outstanding counts the batches of one epoch that are not acknowledged. kgo's Flush would wait for the next
// epoch's records as well, which this participant allows to be produced meanwhile.
type outstanding struct {
	batches sync.WaitGroup
	failed  atomic.Pointer[batchFailure]
}

var _ Participant = (*Plain)(nil)

// OpenPlain answers a Participant without transactions.
func OpenPlain(o Options) (*Plain, error) {
	cl, err := o.Client(kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RequestTimeoutOverhead(3*time.Second), kgo.ProduceRequestTimeout(produceTimeout))
	if err != nil {
		return nil, &FatalError{Status: StatusConfig, Err: fmt.Errorf("client of the producer: %w", err)}
	}
	return &Plain{cl: cl, progress: newGroupProgress(o), open: map[Epoch]*outstanding{}}, nil
}

// Begin implements Participant.
func (p *Plain) Begin(_ context.Context, n Epoch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[n] = &outstanding{}
	return nil
}

// Produce implements Participant.
func (p *Plain) Produce(ctx context.Context, n Epoch, records []*kgo.Record, done func(*kgo.Record, error)) {
	p.mu.Lock()
	o := p.open[n]
	p.mu.Unlock()
	o.batches.Add(1)
	b := &handover{size: int64(len(records)), done: func(r *kgo.Record, err error) {
		if err != nil {
			o.failed.CompareAndSwap(nil, &batchFailure{r, err})
		}
		done(r, err)
		o.batches.Done()
	}}
	b.left.Store(b.size)
	promise := b.promise
	for _, r := range records {
		p.cl.Produce(ctx, r, promise)
	}
}

// PreCommit implements Participant.
func (p *Plain) PreCommit(ctx context.Context, n Epoch) error {
	p.mu.Lock()
	o := p.open[n]
	delete(p.open, n)
	p.mu.Unlock()
	acked := make(chan struct{})
	go func() { // ends when the promises do, at the latest with Close
		o.batches.Wait()
		close(acked)
	}()
	select {
	case <-acked:
	case <-ctx.Done():
		return Classify(CallProduce, fmt.Errorf("flush epoch %d: %w", n, context.Cause(ctx)))
	}
	if f := o.failed.Load(); f != nil {
		return Classify(CallProduce, fmt.Errorf("topic %s partition %d: %w", f.record.Topic, f.record.Partition, f.err))
	}
	return nil
}

// SendOffsets implements Participant. A plain commit is true at once: it has to wait for the outputs.
func (p *Plain) SendOffsets(context.Context, Checkpoint) (Steps, error) { return Steps{}, nil }

// Commit implements Participant.
func (p *Plain) Commit(ctx context.Context, cp Checkpoint) (Steps, error) {
	if len(cp.Positions) == 0 {
		return Steps{Carried: true}, nil
	}
	if err := p.progress.commitPlain(ctx, p.cl, cp.Positions, cp.Credential); err != nil {
		return Steps{}, err
	}
	now := time.Now()
	return Steps{OffsetsSent: now, Committed: now}, nil
}

// Settle implements Participant; nothing is ever carried.
func (p *Plain) Settle(context.Context, time.Duration) (bool, error) { return false, nil }

// CommitStart implements Participant.
func (p *Plain) CommitStart(ctx context.Context, at offsets.Positions, cred Credential) error {
	return p.progress.commitPlain(ctx, p.cl, at, cred)
}

// Forget implements Participant; nothing is ever carried.
func (p *Plain) Forget([]offsets.TopicPartition) {}

// OpenSince implements Participant; there are no transactions.
func (p *Plain) OpenSince() (time.Time, bool) { return time.Time{}, false }

// Abort implements Participant; there is nothing to take back.
func (p *Plain) Abort(context.Context) {}

// Close implements Participant.
func (p *Plain) Close() { p.cl.Close() }
