package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func producer(bootstrap string, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, more...)...)
}

// load fills a topic with the given number of records, as fast as it goes.
func load(ctx context.Context, bootstrap, topic string, records int64, size int) error {
	cl, err := producer(bootstrap, kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	var failure atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failure.CompareAndSwap(nil, &err)
		}
	}
	g, now := newGenerator(size), time.Now()
	for n := range records / partitions {
		for p := range int32(partitions) {
			cl.Produce(ctx, g.record(topic, p, n, now), promise)
		}
		if failure.Load() != nil {
			break
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return fmt.Errorf("load %s: %w", topic, err)
	}
	if err := failure.Load(); err != nil {
		return fmt.Errorf("load %s: %w", topic, *err)
	}
	return nil
}

// feedTick is how often the feeder sends.
const feedTick = 5 * time.Millisecond

// feed sends records to all partitions in turn, rate of them a second, until stop
// is closed, and answers how many each partition got.
func feed(ctx context.Context, bootstrap, topic string, rate, size int, stop <-chan struct{}) (sent [partitions]int64, err error) {
	cl, err := producer(bootstrap, kgo.ProducerLinger(0))
	if err != nil {
		return sent, err
	}
	defer cl.Close()
	var failure atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failure.CompareAndSwap(nil, &err)
		}
	}
	g, began := newGenerator(size), time.Now()
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	var total int64
	for running := true; running; {
		select {
		case <-tick.C:
		case <-stop:
			running = false
		case <-ctx.Done():
			return sent, context.Cause(ctx)
		}
		now := time.Now()
		for ; total < int64(float64(rate)*now.Sub(began).Seconds()); total++ {
			p := total % partitions
			cl.Produce(ctx, g.record(topic, int32(p), sent[p], now), promise)
			sent[p]++
		}
		if err := failure.Load(); err != nil {
			return sent, fmt.Errorf("feed %s: %w", topic, *err)
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return sent, fmt.Errorf("feed %s: %w", topic, err)
	}
	if err := failure.Load(); err != nil {
		return sent, fmt.Errorf("feed %s: %w", topic, *err)
	}
	return sent, nil
}
