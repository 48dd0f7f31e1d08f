package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// steady feeds a variant at a constant pace and measures in the middle of it.
func (r *rig) steady(ctx context.Context, name string, delay time.Duration, variant string, round int) (m measurement, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.options.timeout, errTimeout)
	defer cancel()
	m = measurement{Workload: name, Variant: variant, Round: round}
	in, err := r.topic(ctx, "in")
	if err != nil {
		return m, err
	}
	out, err := r.topic(ctx, "out")
	if err != nil {
		return m, err
	}
	defer r.drop(in, out)
	bootstrap := r.cluster.Bootstrap()
	if delay > 0 {
		proxy, err := newDistance(bootstrap, delay)
		if err != nil {
			return m, err
		}
		defer proxy.close()
		bootstrap = proxy.addr()
	}
	c, err := r.start(variant, bootstrap, in, out, "group-"+out)
	if err != nil {
		return m, err
	}
	defer c.kill()
	size := workloads["feed"].size
	l, err := listen(ctx, r.cluster.Bootstrap(), out, size)
	if err != nil {
		return m, err
	}
	defer l.close()

	stop := make(chan struct{})
	var sent [partitions]int64
	feeding, fctx := errgroup.WithContext(ctx)
	feeding.Go(func() error { // ended by stop
		var err error
		sent, err = feed(fctx, r.cluster.Bootstrap(), in, r.options.feedRate, size, stop)
		return err
	})
	began, stalled, err := r.middle(fctx, c, l, &m)
	close(stop)
	if err = errors.Join(err, feeding.Wait()); err != nil {
		return m, fmt.Errorf("%w\n%s", err, c.stderr.String())
	}
	for _, n := range sent {
		m.Records += n
	}
	if err := l.await(ctx, c, m.Records); err != nil {
		return m, err
	}
	if _, err := c.finish(ctx, &m, began, r.options.feedTime, stalled); err != nil {
		return m, err
	}
	l.close()
	m.Verdict = l.checker.finish(sent)
	m.LatencyP50, m.LatencyP99 = quantile(l.latencies, 0.5), quantile(l.latencies, 0.99)
	return m, nil
}

// middle waits for the output to flow and measures for a while.
func (r *rig) middle(ctx context.Context, c *child, l *listener, m *measurement) (began time.Time, stalled float64, err error) {
	if err := l.await(ctx, c, 1); err != nil {
		return began, 0, err
	}
	m.StartSeconds = time.Since(c.started).Seconds()
	if err := c.wait(ctx, r.options.settle); err != nil {
		return began, 0, err
	}
	before, err := c.stalledSeconds(ctx)
	if err != nil {
		return began, 0, err
	}
	began = time.Now()
	then := usageOf(c.pid(), r.node())
	l.measure(true)
	for left := r.options.feedTime; left > 0; left = r.options.feedTime - time.Since(began) {
		if err := c.wait(ctx, min(left, 5*time.Second)); err != nil {
			return began, 0, err
		}
		if c.variant == variantBridge {
			if err := c.history.collect(ctx, c.face); err != nil {
				return began, 0, err
			}
		}
	}
	l.measure(false)
	now := usageOf(c.pid(), r.node())
	after, err := c.stalledSeconds(ctx)
	passed := time.Since(began)
	records := int64(float64(r.options.feedRate) * passed.Seconds())
	m.CPUSeconds = (now.child - then.child).Seconds() / passed.Seconds() // of each second
	m.CPUPerMillion = perMillion(now.child-then.child, records)
	m.BrokerPerMillion = perMillion(now.node-then.node, records)
	m.Others = now.others(then)
	m.PeakMiB = peakMiB(c.pid())
	return began, after - before, err
}

// listener reads the output as it becomes visible.
type listener struct {
	cl     *kgo.Client
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	mu        sync.Mutex
	measuring bool
	latencies []float64 // milliseconds
	checker   *checker  // after close it may be used without the lock
	err       error
}

func listen(ctx context.Context, bootstrap, topic string, size int) (*listener, error) {
	cl, err := reader(bootstrap, topic)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &listener{cl: cl, cancel: cancel, done: make(chan struct{}), checker: newChecker(size)}
	go func() { // ended by close
		defer close(l.done)
		for ctx.Err() == nil {
			l.take(cl.PollFetches(ctx))
		}
	}()
	return l, nil
}

func (l *listener) take(fetches kgo.Fetches) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := fetches.Err0(); err != nil && !errors.Is(err, context.Canceled) {
		l.err = errors.Join(l.err, err)
	}
	fetches.EachRecord(func(r *kgo.Record) {
		if o, ok := l.checker.add(r); ok && l.measuring {
			l.latencies = append(l.latencies, milliseconds(now.Sub(o.sent)))
		}
	})
}

func (l *listener) measure(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measuring = on
}

// await waits until n records have arrived.
func (l *listener) await(ctx context.Context, c *child, n int64) error {
	for {
		l.mu.Lock()
		read, err := l.checker.verdict.Read, l.err
		l.mu.Unlock()
		if err != nil || read >= n {
			return err
		}
		if err := c.wait(ctx, sampleEvery); err != nil {
			return fmt.Errorf("%d of %d records arrived: %w", read, n, err)
		}
	}
}

// close ends the reader; it may be called twice.
func (l *listener) close() {
	l.cancel()
	<-l.done
	l.cl.Close()
}
