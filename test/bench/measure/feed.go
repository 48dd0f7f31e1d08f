package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/eosbridge/eosbridge/test/bench/figures"
	"github.com/eosbridge/eosbridge/test/bench/variant"
)

// Feed is one run under a steady load, far below what the variant could do.
type Feed struct {
	Workload, Point  string
	Round            int // from 1
	Variant          variant.Variant
	Partitions, Size int
	Rate             int // records a second
	Interval         time.Duration
	Compression      string
	Delay            time.Duration // added to every answer of the broker
	Settle           time.Duration // between the first output and what is measured
	Time             time.Duration // that is measured
}

// steady is a running feed: the feeder, the reader, the work between them.
type steady struct {
	work     variant.Work
	in       Input
	listener *listener
	stop     func() error // ends the feeder
	close    func()
}

// Feed makes the run.
func (r *Rig) Feed(ctx context.Context, f Feed) (run figures.Run, err error) {
	run = figures.Run{Workload: f.Workload, Point: f.Point, Variant: f.Variant.Name, Round: f.Round}
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout+f.Settle+f.Time, errTimeout)
	defer cancel()
	s, err := r.steady(ctx, f)
	if err != nil {
		return run, err
	}
	defer s.close()
	children, clean, err := r.launchAll(f.Variant, s.work, 1)
	defer clean()
	if err != nil {
		return run, err
	}
	from, to, err := r.middle(ctx, f, children, s.listener, &run)
	if err = errors.Join(err, s.stop()); err == nil {
		err = r.settle(ctx, s, children, &run)
	}
	if err != nil {
		return run, fmt.Errorf("%s: %w\n%s", run.Name(), err, children[0].stderr.String())
	}
	wall := to.usage.at.Sub(from.usage.at)
	run.Set(figures.Core, (to.usage.child-from.usage.child).Seconds()/wall.Seconds())
	run.Set(figures.BrokerCore, (to.usage.node-from.usage.node).Seconds()/wall.Seconds())
	run.Set(figures.Others, to.usage.others(from.usage))
	describeEpochs(&run, from, to, children)
	return run, nil
}

// steady starts the feeder and the reader.
func (r *Rig) steady(ctx context.Context, f Feed) (*steady, error) {
	in, err := r.Topic(ctx, "in", f.Partitions)
	if err != nil {
		return nil, err
	}
	out, err := r.Topic(ctx, "out", f.Partitions)
	if err != nil {
		return nil, err
	}
	bootstrap, far, err := r.away(f.Delay)
	if err != nil {
		return nil, err
	}
	l, err := listen(ctx, r.cluster.Bootstrap(), out, f.Partitions, f.Size)
	if err != nil {
		far()
		return nil, err
	}
	s := &steady{
		in: Input{Topic: in, Size: f.Size, Counts: make([]int64, f.Partitions)}, listener: l,
		work: variant.Work{
			Bootstrap: bootstrap, In: in, Out: out, Partitions: f.Partitions, Group: "group-" + out,
			Interval: f.Interval, Compression: f.Compression,
		},
	}
	feeding, fctx := errgroup.WithContext(ctx)
	end := make(chan struct{})
	feeding.Go(func() error { // ended by stop
		return feed(fctx, r.cluster.Bootstrap(), s.in, f.Rate, end)
	})
	s.stop = sync.OnceValue(func() error { close(end); return feeding.Wait() })
	s.close = func() {
		_ = s.stop() // asked for its error before, if it matters
		l.close()
		far()
		r.Drop(in, out)
	}
	return s, nil
}

// middle waits for the output to flow and measures for a while.
func (r *Rig) middle(ctx context.Context, f Feed, children []*child, l *listener, run *figures.Run) (from, to moment, err error) {
	c := children[0]
	if err := l.await(ctx, c, 1); err != nil {
		return from, to, err
	}
	run.Set(figures.Start, time.Since(c.started).Seconds())
	settle := f.Settle
	if c.variant.Slow {
		settle = max(settle, slowSettle)
	}
	if err := c.wait(ctx, settle); err != nil {
		return from, to, err
	}
	if from, err = r.look(ctx, children, nil); err != nil {
		return from, to, err
	}
	l.measure(true)
	for left := f.Time; left > 0; left = f.Time - time.Since(from.usage.at) {
		if err := errors.Join(c.wait(ctx, min(left, historyTime)), collect(ctx, children)); err != nil {
			return from, to, err
		}
	}
	l.measure(false)
	to, err = r.look(ctx, children, nil)
	run.Set(figures.Peak, peakOf(children))
	return from, to, err
}

// settle waits for the rest, stops the children and judges.
func (r *Rig) settle(ctx context.Context, s *steady, children []*child, run *figures.Run) error {
	if err := s.listener.await(ctx, children[0], s.in.Records()); err != nil {
		return err
	}
	if _, err := endAll(ctx, children); err != nil {
		return err
	}
	s.listener.close()
	run.Records = s.in.Records()
	run.Verdict = s.listener.checker.finish(s.in.Counts, false)
	if l := s.listener.latencies; len(l) > 0 {
		run.Set(figures.Latency, figures.Quantile(l, 0.5))
		run.Set(figures.Latency99, figures.Quantile(l, 0.99))
	}
	return nil
}

// listener reads the output as it becomes visible.
type listener struct {
	cl     *kgo.Client
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	mu        sync.Mutex
	measuring bool
	latencies []float64     // milliseconds
	checker   *checker      // after close it may be used without the lock
	arrived   chan struct{} // closed and made anew with every fetch that brought records
	err       error
}

func listen(ctx context.Context, bootstrap, topic string, partitions, size int) (*listener, error) {
	all := make([]int32, partitions)
	for p := range all {
		all[p] = int32(p) //nolint:gosec // a small number
	}
	cl, err := reader(bootstrap, topic, all, 500*time.Millisecond)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &listener{
		cl: cl, cancel: cancel, done: make(chan struct{}), checker: newChecker(partitions, size), arrived: make(chan struct{}),
	}
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
	before := l.checker.read()
	fetches.EachRecord(func(r *kgo.Record) {
		if o, ok := l.checker.add(r); ok && l.measuring {
			l.latencies = append(l.latencies, milliseconds(now.Sub(o.sent)))
		}
	})
	if l.checker.read() > before || l.err != nil {
		close(l.arrived)
		l.arrived = make(chan struct{})
	}
}

func (l *listener) measure(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measuring = on
}

// count is how many records have arrived, and a channel that is closed when there are more.
func (l *listener) count() (read int64, more <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checker.read(), l.arrived, l.err
}

// await waits until n records have arrived.
func (l *listener) await(ctx context.Context, c *child, n int64) error {
	for {
		read, more, err := l.count()
		if err != nil || read >= n {
			return err
		}
		select {
		case <-more:
		case <-c.exited:
			return fmt.Errorf("%d of %d records arrived: %w", read, n, c.ended())
		case <-ctx.Done():
			return fmt.Errorf("%d of %d records arrived: %w", read, n, context.Cause(ctx))
		}
	}
}

// close ends the reader; it may be called twice.
func (l *listener) close() {
	l.cancel()
	<-l.done
	l.cl.Close()
}
