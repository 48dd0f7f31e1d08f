package oracle

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Feed describes how much is fed, where, and how fast.
type Feed struct {
	Brokers []string
	Sources []Source
	Total   int64 // records over all sources; 0 = until the context ends
	Rate    int   // records per second over all sources; 0 = as fast as it goes
	// TransactionalID, if set, makes the feed transactional: every tick of 10 ms
	// commits one transaction.
	TransactionalID string
	// Rotten is the number of records in a transaction that is aborted before
	// each one that commits: they must never be seen in the output.
	Rotten int
}

// Feeder writes records at a steady pace, so that faults hit a working bridge
// and not its start only.
type Feeder struct {
	feed   Feed
	form   Form
	input  *Input
	client *kgo.Client

	mu      sync.Mutex
	sources []Source
	failed  error
}

// tick is the pace's grain.
const tick = 10 * time.Millisecond

// NewFeeder connects a feeder; Close it.
func NewFeeder(feed Feed, form Form, input *Input) (*Feeder, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(feed.Brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if feed.TransactionalID != "" {
		opts = append(opts, kgo.TransactionalID(feed.TransactionalID))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("feeder: %w", err)
	}
	return &Feeder{feed: feed, form: form, input: input, client: client, sources: slices.Clone(feed.Sources)}, nil
}

// Close releases the client.
func (f *Feeder) Close() { f.client.Close() }

// AddSource feeds another partition, too, as soon as the cluster shows it.
func (f *Feeder) AddSource(ctx context.Context, s Source) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if leader, _, err := f.client.PartitionLeader(s.Topic, s.Partition); err == nil && leader >= 0 {
			break
		}
		f.client.ForceMetadataRefresh()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("feeder: %s does not appear: %w", s, ctx.Err())
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sources = append(f.sources, s)
	return nil
}

// Run feeds until Total is reached or ctx ends, and then waits for every answer.
// A record whose produce fails is an error: the account must be certain.
func (f *Feeder) Run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	// A record that was handed over is waited for even when ctx has ended.
	settle := context.WithoutCancel(ctx)
	start := time.Now()
	var sent int64
	for ctx.Err() == nil && (f.feed.Total == 0 || sent < f.feed.Total) {
		n := f.due(time.Since(start), sent)
		if err := f.batch(settle, sent, n); err != nil {
			return err
		}
		sent += n
		if f.feed.Rate > 0 {
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	}
	deadline, cancel := context.WithTimeout(settle, time.Minute)
	defer cancel()
	if err := f.client.Flush(deadline); err != nil {
		return fmt.Errorf("feeder: flush: %w", err)
	}
	return f.err()
}

// due is how many records the pace asks for now. A feeder that fell behind (a
// stalled machine) catches up by at most a second's worth at a time.
func (f *Feeder) due(elapsed time.Duration, sent int64) int64 {
	n := int64(1000)
	if f.feed.Rate > 0 {
		n = min(int64(elapsed.Seconds()*float64(f.feed.Rate))-sent, int64(f.feed.Rate))
	}
	if f.feed.Total > 0 {
		n = min(n, f.feed.Total-sent)
	}
	return max(n, 0)
}

func (f *Feeder) batch(ctx context.Context, sent, n int64) error {
	if f.feed.TransactionalID == "" {
		f.produce(ctx, sent, n)
		return f.err()
	}
	if n == 0 {
		return nil
	}
	if f.feed.Rotten > 0 {
		if err := f.abortSome(ctx); err != nil {
			return err
		}
	}
	if err := f.client.BeginTransaction(); err != nil {
		return fmt.Errorf("feeder: begin: %w", err)
	}
	f.produce(ctx, sent, n)
	if err := f.client.Flush(ctx); err != nil {
		return fmt.Errorf("feeder: flush: %w", err)
	}
	if err := f.err(); err != nil {
		return err
	}
	if err := f.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("feeder: commit: %w", err)
	}
	return nil
}

// abortSome writes records that no reader may see.
func (f *Feeder) abortSome(ctx context.Context) error {
	if err := f.client.BeginTransaction(); err != nil {
		return fmt.Errorf("feeder: begin: %w", err)
	}
	for i := range f.feed.Rotten {
		s := f.source(int64(i))
		r := &kgo.Record{Topic: s.Topic, Partition: s.Partition, Value: []byte("aborted by the feeder")}
		f.client.Produce(ctx, r, func(_ *kgo.Record, err error) { f.fail(err) })
	}
	if err := f.client.Flush(ctx); err != nil {
		return fmt.Errorf("feeder: flush: %w", err)
	}
	if err := f.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return fmt.Errorf("feeder: abort: %w", err)
	}
	return f.err()
}

func (f *Feeder) produce(ctx context.Context, sent, n int64) {
	for i := range n {
		o := f.input.Hand(f.source(sent + i))
		f.client.Produce(ctx, f.form.Record(o), func(r *kgo.Record, err error) {
			if err != nil {
				f.fail(fmt.Errorf("feeder: %s: %w", o, err))
				return
			}
			f.input.Ack(o, r.Offset)
		})
	}
}

func (f *Feeder) source(i int64) Source {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sources[i%int64(len(f.sources))]
}

func (f *Feeder) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed = err
	}
}

func (f *Feeder) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}
