package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// verdict is what became of the records.
type verdict struct {
	Read       int64 `json:"read"`
	Markers    int64 `json:"markers"` // of transactions: offsets that hold no record
	Duplicated int64 `json:"duplicated"`
	Lost       int64 `json:"lost"`
	OutOfOrder int64 `json:"out_of_order"` // smaller number than the one before in its partition
	Altered    int64 `json:"altered"`      // key, value, header or partition differ
}

// exact says that every record arrived once, in order and unchanged.
func (v verdict) exact() bool {
	return v.Duplicated == 0 && v.Lost == 0 && v.OutOfOrder == 0 && v.Altered == 0
}

func (v verdict) String() string {
	if v.exact() {
		return "exact"
	}
	return fmt.Sprintf("NOT EXACT: duplicated %d, lost %d, out of order %d, altered %d",
		v.Duplicated, v.Lost, v.OutOfOrder, v.Altered)
}

// checker holds what was read against what was sent. It belongs to one goroutine.
type checker struct {
	size    int
	verdict verdict
	last    [partitions]int64 // number
	ends    [partitions]int64 // offset behind the last record
	seen    [partitions][]bool
}

func newChecker(size int) *checker {
	c := &checker{size: size}
	for p := range c.last {
		c.last[p] = -1
	}
	return c
}

// add takes the next record of its partition. The origin is returned for the
// latency; it is only valid if ok.
func (c *checker) add(r *kgo.Record) (o origin, ok bool) {
	if r.Attrs.IsControl() {
		c.verdict.Markers++
		return o, false
	}
	c.verdict.Read++
	o, ok = originOf(r, c.size)
	if !ok || r.Partition < 0 || r.Partition >= partitions {
		c.verdict.Altered++
		return o, false
	}
	p := o.partition
	c.ends[p] = r.Offset + 1
	for int64(len(c.seen[p])) <= o.number {
		c.seen[p] = append(c.seen[p], false)
	}
	switch {
	case c.seen[p][o.number]:
		c.verdict.Duplicated++
	case o.number < c.last[p]:
		c.verdict.OutOfOrder++
	}
	c.seen[p][o.number] = true
	c.last[p] = max(c.last[p], o.number)
	return o, true
}

// finish judges, given how many records each partition was sent.
func (c *checker) finish(sent [partitions]int64) verdict {
	c.verdict.Lost = 0
	for p, n := range sent {
		for i := range n {
			if i >= int64(len(c.seen[p])) || !c.seen[p][i] {
				c.verdict.Lost++
			}
		}
	}
	return c.verdict
}

// evenly is how many of n records each partition is sent.
func evenly(n int64) (sent [partitions]int64) {
	for p := range sent {
		sent[p] = n / partitions
	}
	return sent
}

// reader is a read_committed client that also sees the markers, so that it can
// tell that it has reached the end.
func reader(bootstrap, topic string) (*kgo.Client, error) {
	start := make(map[int32]kgo.Offset, partitions)
	for p := range int32(partitions) {
		start[p] = kgo.NewOffset().At(0)
	}
	return kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
}

// readAll reads a topic from its start to the given ends into a checker.
func readAll(ctx context.Context, bootstrap, topic string, size int, ends [partitions]int64) (*checker, error) {
	cl, err := reader(bootstrap, topic)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	c := newChecker(size)
	var at [partitions]int64
	for !reached(at, ends) {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s back: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			c.add(r)
			at[r.Partition] = r.Offset + 1
		})
	}
	return c, nil
}
