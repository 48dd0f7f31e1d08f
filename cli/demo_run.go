package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

const (
	demoStallTime    = 30 * time.Second // without a new record in the output
	demoStopTime     = 30 * time.Second // for the bridge to stop after SIGTERM
	demoFeedTick     = 10 * time.Millisecond
	demoLongestCatch = time.Second // a machine that slept must not be fed an hour at once
)

// demoRun is one run on a cluster whose topics exist. Goroutines: feed, read,
// watch, show and runBridges, all waited for by run.
type demoRun struct {
	plan    demoPlan
	cluster *demoCluster
	screen  *demoScreen           // show only
	bridge  func() *exec.Cmd      // a new life of the bridge, not started
	broker  <-chan struct{}       // closed when the embedded broker has ended; nil on the user's cluster
	failure func() error          // why it ended
	gentle  func(*demoBridge)     // ends a bridge when the run is interrupted
	acked   [demoPartitions]int64 // feed only, until it has returned

	in, out, epochs atomic.Int64
	killed          atomic.Int64
	commit          chan struct{} // capacity 1: "at least one epoch was committed since you last looked"

	mu       sync.Mutex
	tally    *tally
	living   *demoBridge
	lastKill time.Time // zero once an epoch was committed after it
	resumed  []time.Duration
}

// run feeds, bridges, kills and reads until the output is complete, and judges it.
func (r *demoRun) run(ctx context.Context) (demoReport, error) {
	r.tally = newTally(r.plan.perPartition)
	r.commit = make(chan struct{}, 1)
	var report demoReport

	group, ctx := errgroup.WithContext(ctx)
	aside, done := context.WithCancel(ctx)
	fed := make(chan struct{})
	group.Go(func() error { return r.feed(ctx, fed) })
	group.Go(func() error { return r.read(aside) })
	group.Go(func() error { return r.watch(aside) })
	group.Go(func() error { r.show(aside); return nil })
	group.Go(func() error {
		defer done()
		var err error
		if report.afterCommit, err = r.runBridges(ctx, fed); err != nil {
			return err
		}
		if report.end, err = r.cluster.settle(ctx); err != nil {
			return err
		}
		return demoPoll(ctx, func() error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !r.tally.reached(report.end.lastStable) {
				return errors.New("the reader did not reach the end of the output")
			}
			return nil
		})
	})
	if err := group.Wait(); err != nil {
		return report, err
	}
	report.kills = int(r.killed.Load())
	report.resumed = r.resumed
	report.verdict = r.tally.judge(r.acked[:])
	return report, nil
}

// feed sends the records at the plan's pace and closes fed when the input has
// acknowledged them all.
func (r *demoRun) feed(ctx context.Context, fed chan<- struct{}) error {
	client, topic := r.cluster.client, r.cluster.names.input
	var failed error
	var once sync.Once
	var counts [demoPartitions]atomic.Int64
	acknowledge := func(record *kgo.Record, err error) {
		if err != nil {
			once.Do(func() { failed = fmt.Errorf("feed %s: %w", topic, err) })
			return
		}
		counts[record.Partition].Add(1)
		r.in.Add(1)
	}
	ticker := time.NewTicker(demoFeedTick)
	defer ticker.Stop()
	last, credit := time.Now(), 0.0
	var sent, total int64
	for _, n := range r.plan.perPartition {
		total += n
	}
	for sent < total {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		now := time.Now()
		credit += r.plan.due(min(now.Sub(last), demoLongestCatch), sent, int(r.killed.Load()))
		last = now
		for ; credit >= 1 && sent < total; credit-- {
			partition := int32(sent % demoPartitions)
			key, value := demoRecord(partition, sent/demoPartitions)
			client.Produce(ctx, &kgo.Record{Topic: topic, Partition: partition, Key: key, Value: value}, acknowledge)
			sent++
		}
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	for p := range counts {
		r.acked[p] = counts[p].Load()
	}
	// Flush has waited for every acknowledge.
	if failed == nil {
		close(fed)
	}
	return failed
}

// read shows the output to the tally until ctx ends.
func (r *demoRun) read(ctx context.Context) error {
	reader, err := r.cluster.openReader()
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil // the flow that ended it knows why
		}
		var failed error
		fetches.EachError(func(topic string, partition int32, err error) {
			failed = fmt.Errorf("read partition %d of %s: %w", partition, topic, err)
		})
		r.mu.Lock()
		fetches.EachRecord(func(record *kgo.Record) {
			if err := addTo(r.tally, record); err != nil && failed == nil {
				failed = err
			}
		})
		r.out.Store(r.tally.shown())
		r.mu.Unlock()
		if failed != nil {
			return failed
		}
	}
}

// watch ends the run when the embedded broker is gone, or when nothing new
// comes out for a long time.
func (r *demoRun) watch(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last, since := int64(-1), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.broker:
			return fmt.Errorf("the embedded broker ended in the middle of the demo: %w", r.failure())
		case <-ticker.C:
		}
		if out := r.out.Load(); out != last {
			last, since = out, time.Now()
		} else if time.Since(since) > demoStallTime {
			return r.stalled()
		}
	}
}

func (r *demoRun) stalled() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	stalled := &demoBridgeError{What: fmt.Sprintf("brought no record through for %v", demoStallTime)}
	if r.living != nil {
		stalled.Log = r.living.log.tail()
	}
	return stalled
}

// show draws the progress until ctx ends.
func (r *demoRun) show(ctx context.Context) {
	ticker := time.NewTicker(r.screen.period())
	defer ticker.Stop()
	defer r.screen.clear()
	start := time.Now()
	var total int64
	for _, n := range r.plan.perPartition {
		total += n
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r.screen.show(demoProgress{
			elapsed: time.Since(start), total: total, in: r.in.Load(), out: r.out.Load(),
			kills: int(r.killed.Load()), allKills: len(r.plan.kills), epochs: r.epochs.Load(),
		})
	}
}

// runBridges lives through the plan's kills, then through the last life, which
// ends with SIGTERM once the group has committed all of the input. It returns
// how many kills came after a commit.
func (r *demoRun) runBridges(ctx context.Context, fed <-chan struct{}) (afterCommit int, err error) {
	for _, kill := range r.plan.kills {
		committed, err := r.liveAndDie(ctx, kill, fed)
		if err != nil {
			return afterCommit, err
		}
		if committed {
			afterCommit++
		}
	}
	bridge, err := r.start()
	if err != nil {
		return afterCommit, err
	}
	drained := make(chan error, 1) // the one answer
	watching, stop := context.WithCancel(ctx)
	defer stop()
	// Ends with watching at the latest.
	go func() {
		select {
		case <-fed:
			drained <- r.cluster.drained(watching)
		case <-watching.Done():
			drained <- watching.Err()
		}
	}()
	select {
	case err = <-drained:
	case <-bridge.exited:
		return afterCommit, bridge.endedByItself()
	}
	if err != nil {
		r.gentle(bridge)
		return afterCommit, err
	}
	deadline, cancel := context.WithTimeout(ctx, demoStopTime)
	defer cancel()
	return afterCommit, bridge.stop(deadline)
}

// liveAndDie is one life that ends with a kill; committed says that the kill
// came within a moment after a commit, as planned.
func (r *demoRun) liveAndDie(ctx context.Context, kill plannedKill, fed <-chan struct{}) (committed bool, err error) {
	bridge, err := r.start()
	if err != nil {
		return false, err
	}
	if err := r.wait(ctx, bridge, kill.life); err != nil {
		return false, err
	}
	if kill.afterCommit {
		select { // forget the commits so far: the next one counts
		case <-r.commit:
		default:
		}
		select {
		case <-r.commit:
			committed = true
		case <-fed: // no further commit may come
		case <-bridge.exited:
			return false, bridge.endedByItself()
		case <-ctx.Done():
			r.gentle(bridge)
			return false, ctx.Err()
		}
		if err := r.wait(ctx, bridge, kill.moment); err != nil {
			return false, err
		}
	}
	now := time.Now()
	if err := bridge.kill(); err != nil {
		return false, err
	}
	r.killed.Add(1)
	r.mu.Lock()
	r.lastKill = now
	r.mu.Unlock()
	return committed, nil
}

// start begins a new life.
func (r *demoRun) start() (*demoBridge, error) {
	bridge, err := startDemoBridge(r.bridge(), r.committed)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.living = bridge
	r.mu.Unlock()
	return bridge, nil
}

// wait lets the bridge live for a time.
func (r *demoRun) wait(ctx context.Context, bridge *demoBridge, life time.Duration) error {
	timer := time.NewTimer(life)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-bridge.exited:
		return bridge.endedByItself()
	case <-ctx.Done():
		r.gentle(bridge)
		return ctx.Err()
	}
}

// committed takes note of one committed epoch; the bridge's log calls it.
func (r *demoRun) committed() {
	r.epochs.Add(1)
	select {
	case r.commit <- struct{}{}:
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lastKill.IsZero() {
		r.resumed = append(r.resumed, time.Since(r.lastKill))
		r.lastKill = time.Time{}
	}
}
