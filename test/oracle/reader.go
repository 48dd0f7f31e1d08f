package oracle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Reading says what a reader reads.
type Reading struct {
	Brokers []string
	Topics  []string
	// Uncommitted reads what transactions have not committed, too. Only the
	// oracle's own tests use it: such a reader must be found out.
	Uncommitted bool
	// Transactions, if set, hear of each record: it was shown.
	Transactions *Transactions
	// Also, if set, is called with each record after the checker.
	Also func(*kgo.Record)
}

// Reader reads topics from their start, without a group, and hands every record
// to a checker. Transaction markers count as read, so that a reader's position
// can reach the last stable offset.
type Reader struct {
	client  *kgo.Client
	adm     *kadm.Client
	topics  []string
	checker *Checker // nil in a Follower
	each    func(*kgo.Record)
	cancel  context.CancelFunc
	done    chan struct{}

	mu        sync.Mutex
	positions map[Source]int64 // next offset
	moved     chan struct{}    // closed when a position moves or an error is noted
	err       error
}

// Read starts a reader; Close it. It reads until then, whatever becomes of ctx's
// parent test phase, or until ctx ends.
func Read(ctx context.Context, what Reading, checker *Checker) (*Reader, error) {
	isolation := kgo.ReadCommitted()
	if what.Uncommitted {
		isolation = kgo.ReadUncommitted()
	}
	r, err := newReader(what.Brokers, what.Topics, kgo.FetchIsolationLevel(isolation))
	if err != nil {
		return nil, err
	}
	r.checker = checker
	r.each = func(record *kgo.Record) {
		if record.Attrs.IsControl() {
			return
		}
		checker.Observe(record)
		if what.Transactions != nil {
			what.Transactions.Show(record)
		}
		if what.Also != nil {
			what.Also(record)
		}
	}
	r.start(ctx)
	return r, nil
}

func newReader(brokers, topics []string, opts ...kgo.Opt) (*Reader, error) {
	client, err := kgo.NewClient(append(opts,
		kgo.SeedBrokers(brokers...),
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(250*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(5*time.Second), // a topic that grows is noticed soon
	)...)
	if err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	return &Reader{
		client: client, adm: kadm.NewClient(client), topics: topics, done: make(chan struct{}),
		positions: make(map[Source]int64), moved: make(chan struct{}),
	}, nil
}

func (r *Reader) start(ctx context.Context) {
	ctx, r.cancel = context.WithCancel(ctx)
	go r.loop(ctx) // ended by Close, which waits for it
}

// Close stops reading.
func (r *Reader) Close() {
	r.cancel()
	<-r.done
	r.client.Close()
}

func (r *Reader) loop(ctx context.Context) {
	defer close(r.done)
	for {
		fetches := r.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			r.note(fmt.Errorf("reader: %s/%d: %w", topic, partition, err))
		})
		fetches.EachRecord(r.each)
		r.move(fetches)
	}
}

func (r *Reader) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	close(r.moved)
	r.moved = make(chan struct{})
}

func (r *Reader) move(fetches kgo.Fetches) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if n := len(p.Records); n > 0 {
			r.positions[Source{Topic: p.Topic, Partition: p.Partition}] = p.Records[n-1].Offset + 1
		}
	})
	close(r.moved)
	r.moved = make(chan struct{})
}

// CatchUp waits until everything that is committed now has been read.
func (r *Reader) CatchUp(ctx context.Context) error {
	ends, err := r.adm.ListCommittedOffsets(ctx, r.topics...)
	if err != nil {
		return fmt.Errorf("reader: last stable offsets: %w", err)
	}
	return r.Reach(ctx, ends)
}

// Reach waits until the reader is at or beyond each of the offsets.
func (r *Reader) Reach(ctx context.Context, ends kadm.ListedOffsets) error {
	if err := ends.Error(); err != nil {
		return fmt.Errorf("reader: list offsets: %w", err)
	}
	for {
		behind, moved, err := r.behind(ends)
		if err != nil || behind == "" {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("reader: %s: %w", behind, ctx.Err())
		}
	}
}

// behind names a partition that the reader has not read up to ends.
func (r *Reader) behind(ends kadm.ListedOffsets) (string, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	behind := ""
	ends.Each(func(o kadm.ListedOffset) {
		at := r.positions[Source{Topic: o.Topic, Partition: o.Partition}]
		if at < o.Offset {
			behind = fmt.Sprintf("%s/%d is read up to %d of %d", o.Topic, o.Partition, at, o.Offset)
		}
	})
	return behind, r.moved, r.err
}

// ReadAll reads everything that is committed now into a fresh checker of the
// same kind as like, and returns it.
func ReadAll(ctx context.Context, what Reading, like *Checker) (*Checker, error) {
	checker := like.like()
	reader, err := Read(ctx, what, checker)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	if err := reader.CatchUp(ctx); err != nil {
		return nil, err
	}
	return checker, nil
}
