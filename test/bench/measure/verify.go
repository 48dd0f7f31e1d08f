package measure

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/eosbridge/eosbridge/test/bench/figures"
)

// checker holds what was read against what was sent. Partitions are independent of each other: several goroutines may
// add records of different ones.
type checker struct {
	size  int
	parts []progress
}

// progress is what was read of one partition. Records come as they were numbered, so only what deviates costs anything.
type progress struct {
	read, duplicated, disorder, altered int64

	next    int64              // number that should come
	missing map[int64]struct{} // numbers below it that have not come
	end     int64              // offset behind the last record
	markers []int64            // offsets of transaction markers
}

// farthest is how many numbers a record may be ahead before it is taken for altered rather than all before it for lost.
const farthest = 100_000_000

func newChecker(partitions, size int) *checker {
	return &checker{size: size, parts: make([]progress, partitions)}
}

// add takes the next record of its partition. The origin is returned for the latency; it is only valid if ok.
func (c *checker) add(r *kgo.Record) (o origin, ok bool) {
	if r.Partition < 0 || int(r.Partition) >= len(c.parts) {
		panic(fmt.Sprintf("read partition %d of %d", r.Partition, len(c.parts))) // we asked for those there are
	}
	p := &c.parts[r.Partition]
	if r.Attrs.IsControl() {
		p.markers = append(p.markers, r.Offset)
		return o, false
	}
	p.read++
	p.end = r.Offset + 1
	o, ok = originOf(r, c.size)
	if !ok || o.number > p.next+farthest {
		p.altered++
		return o, false
	}
	switch {
	case o.number == p.next:
		p.next++
	case o.number > p.next:
		if p.missing == nil {
			p.missing = map[int64]struct{}{}
		}
		for n := p.next; n < o.number; n++ {
			p.missing[n] = struct{}{}
		}
		p.next = o.number + 1
	default:
		if _, late := p.missing[o.number]; late {
			delete(p.missing, o.number)
			p.disorder++
		} else {
			p.duplicated++
		}
	}
	return o, true
}

// finish judges, given how many records each partition should hold. ahead allows it to hold more.
func (c *checker) finish(want []int64, ahead bool) (v figures.Verdict) {
	for i := range c.parts {
		p := &c.parts[i]
		v.Read += p.read
		v.Markers += int64(len(p.markers))
		v.Duplicated += p.duplicated
		v.OutOfOrder += p.disorder
		v.Altered += p.altered
		v.Lost += int64(len(p.missing)) + max(0, want[i]-p.next)
		if !ahead {
			v.Ahead += max(0, p.next-want[i])
		}
	}
	return v
}

// read is how many records came.
func (c *checker) read() (n int64) {
	for i := range c.parts {
		n += c.parts[i].read
	}
	return n
}

// records is how many records lie below the given offsets: what is left without the markers.
func (c *checker) records(ends []int64) (n int64) {
	for i, end := range ends {
		markers, _ := slices.BinarySearch(c.parts[i].markers, end)
		n += end - int64(markers)
	}
	return n
}

// reader is a read_committed client of some partitions that also sees the markers, so that it can tell that it has
// reached the end.
func reader(bootstrap, topic string, partitions []int32, wait time.Duration) (*kgo.Client, error) {
	start := make(map[int32]kgo.Offset, len(partitions))
	for _, p := range partitions {
		start[p] = kgo.NewOffset().At(0)
	}
	return kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(wait),
		kgo.FetchMaxPartitionBytes(4<<20),
	)
}

// readAll reads a topic from its start to the given ends into a checker, with one client for each core: it is the
// longest thing between two runs.
func readAll(ctx context.Context, bootstrap, topic string, size int, ends []int64) (*checker, error) {
	c := newChecker(len(ends), size)
	readers := min(runtime.GOMAXPROCS(0), len(ends))
	all, ctx := errgroup.WithContext(ctx)
	for i := range readers {
		var some []int32
		for p := i; p < len(ends); p += readers {
			if ends[p] > 0 {
				some = append(some, int32(p)) //nolint:gosec // a small number
			}
		}
		all.Go(func() error { return readSome(ctx, bootstrap, topic, some, ends, c) })
	}
	if err := all.Wait(); err != nil {
		return nil, fmt.Errorf("read %s back: %w", topic, err)
	}
	return c, nil
}

func readSome(ctx context.Context, bootstrap, topic string, partitions []int32, ends []int64, c *checker) error {
	if len(partitions) == 0 {
		return nil
	}
	cl, err := reader(bootstrap, topic, partitions, 100*time.Millisecond)
	if err != nil {
		return err
	}
	defer cl.Close()
	left := len(partitions)
	done := make(map[int32]bool, left)
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			c.add(r)
			if !done[r.Partition] && r.Offset+1 >= ends[r.Partition] {
				done[r.Partition] = true
				left--
			}
		})
	}
	return nil
}
