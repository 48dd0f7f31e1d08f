package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/copies"
	"github.com/eosbridge/eosbridge/test/bench/measure"
	"github.com/eosbridge/eosbridge/test/bench/variant"
)

// point is one point of a curve: an input, and how it is copied.
type point struct {
	workload, name string
	size           int
	counts         []int64
	instances      int
	delay          time.Duration
	alone          bool // only the bridge
	sameInput      bool // as the point before
}

// points of scale. All inputs are loaded first, so that the points of all curves are interleaved.
func (b *board) points() []point {
	n := b.size.curve
	even := func(partitions int) []int64 { return measure.Evenly(n, partitions) }
	large := func(size int64) []int64 { return measure.Evenly(max(partitions, b.size.curveBytes/size), partitions) }
	return []point{
		{workload: workPartitions, name: "1", size: sizeW2, counts: even(1)},
		{workload: workPartitions, name: "100", size: sizeW2, counts: even(100)},
		{workload: workPartitions, name: "1,000", size: sizeW2, counts: even(b.size.manyPartitions)},
		{workload: workPartitions, name: "10", size: sizeW2, counts: even(10)},
		{workload: workInstances, name: "1", size: sizeW2, counts: even(10), alone: true, sameInput: true},
		{workload: workInstances, name: "2", size: sizeW2, counts: even(10), instances: 2, alone: true, sameInput: true},
		{workload: workInstances, name: "4", size: sizeW2, counts: even(10), instances: 4, alone: true, sameInput: true},
		{workload: workDistance, name: "+5 ms", size: sizeW2, counts: even(10), delay: 5 * time.Millisecond, sameInput: true},
		{workload: workDistance, name: "+20 ms", size: sizeW2, counts: even(10), delay: 20 * time.Millisecond, sameInput: true},
		{workload: workShape, name: "one hot partition among 8", size: sizeW2, counts: measure.Hot(n, partitions)},
		{workload: workShape, name: "10 KB records", size: 10 << 10, counts: large(10 << 10)},
		{workload: workShape, name: "1 MB records", size: 1_000_000, counts: large(1_000_000)},
	}
}

// The curves of scale.
const (
	workPartitions = "partitions"
	workInstances  = "instances"
	workDistance   = "distance"
	workShape      = "shape of the input"
	workCommit     = "commit, 2,000 records/s"
)

// commitPartitions are those of the curve of commit latency against output partitions, under a load that leaves the
// broker time: at full speed the flush of what was produced hides the commit.
var commitPartitions = []int{1, 10, 100, 1000}

func runScale(ctx context.Context, b *board) error {
	variants := b.variants(nameBridge, copies.Session)
	if err := b.warm(ctx, sizeW2, variants); err != nil {
		return err
	}
	var jobs []measure.Copy
	var topics []string
	defer func() { b.Drop(topics...) }()
	var in measure.Input
	for i, p := range b.points() {
		if (i+1)%b.size.everyPoint != 0 {
			continue
		}
		if !p.sameInput {
			var err error
			if in, err = b.Load(ctx, "in", p.size, p.counts, "none"); err != nil {
				return err
			}
			topics = append(topics, in.Topic)
		}
		jobs = append(jobs, b.scaled(p, in, variants)...)
	}
	if err := b.copies(ctx, jobs); err != nil {
		return err
	}
	return b.feeds(ctx, b.commitCurve(variants))
}

// scaled are the copies of one point.
func (b *board) scaled(p point, in measure.Input, variants []variant.Variant) []measure.Copy {
	if p.alone {
		variants = variants[:min(1, len(variants))]
	}
	jobs := boxed(p.workload, in, "none", b.size.settle, b.size.shortBox, variants)
	for i := range jobs {
		jobs[i].Point, jobs[i].Instances, jobs[i].Delay = p.name, p.instances, p.delay
	}
	return jobs
}

// commitCurve are feeds through more and more partitions.
func (b *board) commitCurve(variants []variant.Variant) (jobs []measure.Feed) {
	for i, n := range commitPartitions {
		if (i+1)%b.size.everyPoint != 0 {
			continue
		}
		n = min(n, b.size.manyPartitions)
		for _, f := range b.fed(workCommit, 0, b.size.shortBox, variants) {
			f.Partitions, f.Point = n, thousands(n)
			jobs = append(jobs, f)
		}
	}
	return jobs
}

// thousands writes 1,000.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

func estimateScale(s sizes) time.Duration {
	copied := time.Duration(21*s.fewRounds) * copyTime(s.shortBox, s.settle, 1_500_000, readBack)
	fed := time.Duration(2*len(commitPartitions)*s.fewRounds) * (aroundRun + s.feedSettle + s.shortBox)
	return aroundPart + seconds(5*float64(s.curve)/loadRate+2*float64(s.curveBytes)/5e8) + copied + fed
}
