package measure

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Input is a topic full of numbered records.
type Input struct {
	Topic  string
	Size   int     // of a value, bytes
	Counts []int64 // records of each partition
}

// Partitions is how many there are.
func (in Input) Partitions() int { return len(in.Counts) }

// Records is how many there are.
func (in Input) Records() (n int64) {
	for _, c := range in.Counts {
		n += c
	}
	return n
}

// Evenly spreads records over partitions.
func Evenly(records int64, partitions int) []int64 {
	counts := make([]int64, partitions)
	for p := range counts {
		counts[p] = max(1, records/int64(partitions))
	}
	return counts
}

// Hot gives all but a hundredth of the records to one partition.
func Hot(records int64, partitions int) []int64 {
	counts := Evenly(records/100, partitions)
	counts[partitions/2] = records - records/100
	return counts
}

func producer(bootstrap string, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, more...)...)
}

// failure keeps the first error of many promises.
type failure struct{ first atomic.Pointer[error] }

func (f *failure) promise(_ *kgo.Record, err error) {
	if err != nil {
		f.first.CompareAndSwap(nil, &err)
	}
}

func (f *failure) err() error {
	if err := f.first.Load(); err != nil {
		return *err
	}
	return nil
}

// Load makes a topic and fills it as fast as it goes. The batches are those of an ordinary producer of this client
// library that is in a hurry.
func (r *Rig) Load(ctx context.Context, stem string, size int, counts []int64, compression string) (Input, error) {
	in := Input{Size: size, Counts: counts}
	var err error
	if in.Topic, err = r.Topic(ctx, stem, len(counts)); err != nil {
		return in, err
	}
	r.say("loading %s: %d records of %d bytes into %d partitions", in.Topic, in.Records(), size, len(counts))
	if err := load(ctx, r.cluster.Bootstrap(), in, compression); err != nil {
		return in, fmt.Errorf("load %s: %w", in.Topic, err)
	}
	ends, err := r.ends(ctx, in.Topic, in.Partitions())
	if err != nil {
		return in, fmt.Errorf("load %s: %w", in.Topic, err)
	}
	if !slices.Equal(ends, in.Counts) {
		return in, fmt.Errorf("load %s: it ends at %d, want %d", in.Topic, ends, in.Counts)
	}
	return in, nil
}

func load(ctx context.Context, bootstrap string, in Input, compression string) error {
	codec := kgo.NoCompression()
	if compression == "lz4" {
		codec = kgo.Lz4Compression()
	}
	cl, err := producer(bootstrap, kgo.MaxBufferedRecords(100_000), kgo.MaxBufferedBytes(64<<20), kgo.ProducerBatchCompression(codec),
		kgo.ProducerBatchMaxBytes(max(1<<20, int32(in.Size)+(1<<16)))) //nolint:gosec // some MiB
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed failure
	g, now := newGenerator(in.Size), time.Now()
	for n, left := int64(0), true; left && failed.err() == nil; n++ {
		left = false
		for p, count := range in.Counts {
			if n < count {
				left = true
				cl.Produce(ctx, g.record(in.Topic, int32(p), n, now), failed.promise) //nolint:gosec // a small number
			}
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return failed.err()
}

// feedTick is how often the feeder sends: at 2,000 records a second two at a time.
const feedTick = time.Millisecond

// feed sends records to all partitions in turn, rate of them a second, each without waiting for more, until stop is
// closed, and answers how many each partition got.
func feed(ctx context.Context, bootstrap string, in Input, rate int, stop <-chan struct{}) error {
	cl, err := producer(bootstrap, kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed failure
	g, began := newGenerator(in.Size), time.Now()
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	var total int64
	for running := true; running; {
		select {
		case <-tick.C:
		case <-stop:
			running = false
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now := time.Now()
		for ; total < int64(float64(rate)*now.Sub(began).Seconds()); total++ {
			p := total % int64(len(in.Counts))
			cl.Produce(ctx, g.record(in.Topic, int32(p), in.Counts[p], now), failed.promise) //nolint:gosec // a small number
			in.Counts[p]++
		}
		if err := failed.err(); err != nil {
			return fmt.Errorf("feed %s: %w", in.Topic, err)
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return fmt.Errorf("feed %s: %w", in.Topic, err)
	}
	return failed.err()
}
