package main

import (
	"context"
	"fmt"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/copies"
	"github.com/eosbridge/eosbridge/test/bench/figures"
	"github.com/eosbridge/eosbridge/test/bench/measure"
	"github.com/eosbridge/eosbridge/test/bench/variant"
)

// What all parts have in common.
const (
	partitions = 8
	interval   = 100 * time.Millisecond
	sizeW1     = 1024
	sizeW2     = 100
	feedRate   = 2000
	feedSize   = 200
	farDelay   = 10 * time.Millisecond
	killRate   = 5000
	killSeed   = 5
)

// Names of workloads, as the page knows them.
const (
	workW1      = "W1"
	workW2      = "W2"
	workLZ4     = "W2 lz4"
	workFeed    = "feed"
	workFeedFar = "feed +10 ms"
	workIdle    = "idle"
	workStart   = "start"
	workKill    = "kill"
)

// part is one interleaved run of the benchmark.
type part struct {
	name, about string
	few         bool // a curve: fewer rounds
	estimate    func(sizes) time.Duration
	run         func(context.Context, *board) error
}

// parts in the order in which they run.
var parts = []part{
	{"main", "1 KB and 100 B at full speed: bridge, pass-through, session, plain", false, estimateMain, runMain},
	{"lz4", "100 B, compressed with lz4: pass-through against decoding", false, estimateLZ4, runLZ4},
	{"feed", "2,000 records/s of 200 B: latency, cost, stall; direct and with 10 ms added to every answer", false, estimateFeed, runFeed},
	{"life", "start, kill -9 at random moments, idling", true, estimateLife, runLife},
	{"memory", "full speed within 64, 128 and 256 MiB", true, estimateMemory, runMemory},
	{"scale", "partitions, instances, large records, a hot partition, distance", true, estimateScale, runScale},
	{"seeded", "the bridge against itself with a lane made 10 % dearer on purpose", false, estimateSeeded, runSeeded},
	{"peers", "everything against Kafka Streams, Flink and librdkafka", false, estimatePeers, runPeers},
}

func partOf(name string) (part, bool) {
	for _, p := range parts {
		if p.name == name {
			return p, true
		}
	}
	return part{}, false
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return append(names, pageOnly)
}

// boxed are copies of one input by several variants.
func boxed(workload string, in measure.Input, compression string, settle, box time.Duration, variants []variant.Variant) (jobs []measure.Copy) {
	for _, v := range variants {
		jobs = append(jobs, measure.Copy{
			Workload: workload, Variant: v, Input: in, Interval: interval, Compression: compression, Settle: settle, Box: box,
		})
	}
	return jobs
}

// loaded loads an input, has the jobs made of it run, and drops it.
func (b *board) loaded(ctx context.Context, size int, counts []int64, compression string, jobs func(measure.Input) []measure.Copy) error {
	in, err := b.Load(ctx, "in", size, counts, compression)
	if err != nil {
		return err
	}
	defer b.Drop(in.Topic)
	return b.copies(ctx, jobs(in))
}

func runMain(ctx context.Context, b *board) error {
	variants := b.variants(nameBridge, nameRaw, copies.Session, copies.Plain)
	if err := b.warm(ctx, sizeW1, variants); err != nil {
		return err
	}
	err := b.loaded(ctx, sizeW1, measure.Evenly(b.size.w1, partitions), "none", func(in measure.Input) []measure.Copy {
		return boxed(workW1, in, "none", b.size.settle, b.size.box, variants)
	})
	if err != nil {
		return err
	}
	return b.loaded(ctx, sizeW2, measure.Evenly(b.size.w2, partitions), "none", func(in measure.Input) []measure.Copy {
		return boxed(workW2, in, "none", b.size.settle, b.size.box, variants)
	})
}

func estimateMain(s sizes) time.Duration {
	w1 := seconds(float64(s.w1) / 430_000)
	w2 := seconds(float64(s.w2) / 1_700_000)
	one := 4*aroundRun + 7*w1/2 + 4*seconds(float64(s.w1)/readBackBig) + 4*aroundRun + 7*w2/2 + 4*seconds(float64(s.w2)/readBack)
	return aroundPart + seconds(float64(s.w1)/loadRateBig+float64(s.w2)/loadRate) + time.Duration(s.rounds)*one
}

func runLZ4(ctx context.Context, b *board) error {
	variants := b.variants(nameBridge, nameRaw, copies.Session)
	if err := b.warm(ctx, sizeW2, variants); err != nil {
		return err
	}
	return b.loaded(ctx, sizeW2, measure.Evenly(b.size.w2*2/3, partitions), "lz4", func(in measure.Input) []measure.Copy {
		return boxed(workLZ4, in, "lz4", b.size.settle, b.size.box/2, variants)
	})
}

func estimateLZ4(s sizes) time.Duration {
	records := float64(s.w2) * 2 / 3
	one := 3*aroundRun + 5*s.box/4 + 3*seconds(records*2/3/readBack) // pass-through needs less than its box
	return aroundPart + seconds(records/loadRate) + time.Duration(s.rounds)*one
}

// fed are feeds through several variants.
func (b *board) fed(workload string, delay, measured time.Duration, variants []variant.Variant) (jobs []measure.Feed) {
	for _, v := range variants {
		jobs = append(jobs, measure.Feed{
			Workload: workload, Variant: v, Partitions: partitions, Size: feedSize, Rate: feedRate, Interval: interval, Compression: "none",
			Delay: delay, Settle: b.size.feedSettle, Time: measured,
		})
	}
	return jobs
}

func runFeed(ctx context.Context, b *board) error {
	variants := b.variants(nameBridge, nameFast, copies.Session, copies.Plain)
	if err := b.warm(ctx, feedSize, variants); err != nil {
		return err
	}
	if err := b.warmCommits(ctx); err != nil {
		return err
	}
	jobs := b.fed(workFeed, 0, b.size.feedTime, variants)
	return b.feeds(ctx, append(jobs, b.fed(workFeedFar, farDelay, b.size.feedTime, b.variants(nameBridge, nameFast, copies.Session))...))
}

// warmCommits lets the broker's compiler see many thousand commits: it gets to their code late, and until then 5 ms
// epochs nearly fill a core of the broker's. (Without this their p99 fell from round to round, from 42 ms to 13.)
func (b *board) warmCommits(ctx context.Context) error {
	if b.size.feedWarm == 0 {
		return nil
	}
	for _, f := range b.fed("warm-up", 0, b.size.feedWarm, b.variants(nameFast)) {
		if _, err := b.Feed(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func estimateFeed(s sizes) time.Duration {
	return aroundPart + s.feedWarm + time.Duration(7*s.rounds)*(aroundRun+s.feedSettle+s.feedTime)
}

func runLife(ctx context.Context, b *board) error {
	tested := b.variants(nameBridge, copies.Session)
	if err := b.warm(ctx, feedSize, tested); err != nil {
		return err
	}
	if err := b.starts(ctx, b.size.starts, tested); err != nil {
		return err
	}
	if err := b.idles(ctx, b.size.rounds, b.variants(nameBridge, copies.Session, copies.Plain)); err != nil {
		return err
	}
	if err := b.kill(ctx, tested[0], b.size.kills); err != nil || len(tested) < 2 {
		return err
	}
	return b.kill(ctx, tested[1], max(1, b.size.kills/5))
}

func estimateLife(s sizes) time.Duration {
	kills := time.Duration(s.kills)*1500*time.Millisecond + time.Duration(s.kills/5)*8*time.Second
	return aroundPart + time.Duration(2*s.starts)*2*time.Second + time.Duration(s.fewRounds)*(s.idleTime+s.feedSettle+3*time.Second) + kills
}

// startValues are the values of a start: the copies are too short for others.
var startValues = []string{figures.Start, figures.Others}

// starts measures the time from exec to the first commit, with input waiting.
func (b *board) starts(ctx context.Context, rounds int, variants []variant.Variant) error {
	in, err := b.Load(ctx, "in", feedSize, measure.Evenly(80_000, partitions), "none")
	if err != nil {
		return err
	}
	defer b.Drop(in.Topic)
	return interleave(ctx, rounds, boxed(workStart, in, "none", 0, time.Second, variants), func(ctx context.Context, round int, c measure.Copy) error {
		c.Round = round
		run, err := b.Copy(ctx, c)
		if err == nil {
			b.keep(run.Only(startValues...))
		}
		return err
	})
}

// idles measures all variants at once that have nothing to do.
func (b *board) idles(ctx context.Context, rounds int, variants []variant.Variant) error {
	for round := range rounds {
		runs, err := b.Idle(ctx, measure.Idle{
			Workload: workIdle, Round: round + 1, Variants: variants, Partitions: partitions, Interval: interval,
			Settle: b.size.feedSettle, Time: b.size.idleTime,
		})
		if err != nil {
			return err
		}
		b.keep(runs...)
	}
	return nil
}

func (b *board) kill(ctx context.Context, v variant.Variant, kills int) error {
	runs, err := b.Kill(ctx, measure.Kill{
		Workload: workKill, Variant: v, Kills: kills, Seed: killSeed, Partitions: partitions, Size: feedSize, Rate: killRate,
		Interval: interval, Least: b.size.leastLife, Most: b.size.mostLife,
	})
	if err != nil {
		return err
	}
	b.keep(runs...)
	return nil
}

// memoryLimits are the points of the curve.
var memoryLimits = []int64{64 << 20, 128 << 20, 256 << 20}

func runMemory(ctx context.Context, b *board) error {
	variants := b.variants(nameBridge, copies.Session, copies.Plain)
	if err := b.warm(ctx, sizeW2, variants); err != nil {
		return err
	}
	limited := func(workload string, in measure.Input) (jobs []measure.Copy) {
		for _, limit := range memoryLimits[:b.size.limits] {
			for _, job := range boxed(workload, in, "none", b.size.settle, b.size.shortBox, variants) {
				job.Memory, job.Point = limit, fmt.Sprintf("%d MiB", limit>>20)
				jobs = append(jobs, job)
			}
		}
		return jobs
	}
	longest := (b.size.shortBox + b.size.settle).Seconds() * 1.3
	err := b.loaded(ctx, sizeW1, measure.Evenly(b.most(longest*550_000), partitions), "none", func(in measure.Input) []measure.Copy {
		return limited(workW1, in)
	})
	if err != nil {
		return err
	}
	return b.loaded(ctx, sizeW2, measure.Evenly(b.most(longest*2_200_000), partitions), "none", func(in measure.Input) []measure.Copy {
		return limited(workW2, in)
	})
}

// most is how many records a short run needs, which are few where nothing is to be measured.
func (b *board) most(records float64) int64 {
	if b.size.warm == 0 {
		return b.size.curve
	}
	return int64(records)
}

func estimateMemory(s sizes) time.Duration {
	runs := time.Duration(len(memoryLimits) * 3 * s.fewRounds)
	return aroundPart + seconds(15) + runs*(copyTime(s.shortBox, s.settle, 430_000, readBackBig)+copyTime(s.shortBox, s.settle, 1_700_000, readBack))
}
