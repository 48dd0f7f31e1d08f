package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/figures"
	"github.com/eosbridge/eosbridge/test/bench/variant"
)

// Idle measures variants that have nothing to do, all at the same time: they do not disturb each other.
type Idle struct {
	Workload   string
	Round      int // from 1
	Variants   []variant.Variant
	Partitions int
	Interval   time.Duration
	Settle     time.Duration // from the last record to what is measured
	Time       time.Duration // that is measured
}

// idler is one of them.
type idler struct {
	child    *child
	work     variant.Work
	in       Input
	run      figures.Run
	from     time.Duration // CPU time
	fromTick time.Duration // the same, coarse
}

// Idle makes the runs. Each variant first copies some records, so that it is at work and has committed.
func (r *Rig) Idle(ctx context.Context, i Idle) (runs []figures.Run, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout+i.Settle+i.Time, errTimeout)
	defer cancel()
	var all []*idler
	for _, v := range i.Variants {
		one, done, err := r.idler(ctx, i, v)
		defer done()
		if err != nil {
			return nil, fmt.Errorf("%s: round %d: %s: %w", i.Workload, i.Round, v.Name, err)
		}
		all = append(all, one)
	}
	if err := waitAll(ctx, all, i.Settle); err != nil {
		return nil, err
	}
	began, before := time.Now(), usageOf(nil, r.node())
	for _, one := range all {
		one.from, one.fromTick = preciseTime(one.child.pid()), cpuTime(one.child.pid())
	}
	if err := waitAll(ctx, all, i.Time); err != nil {
		return nil, err
	}
	passed, after := time.Since(began), usageOf(nil, r.node())
	for _, one := range all {
		pid := one.child.pid()
		used := preciseTime(pid) - one.from
		if one.from == 0 || used < 0 {
			used = cpuTime(pid) - one.fromTick
		}
		one.run.Set(figures.Core, used.Seconds()/passed.Seconds())
		one.run.Set(figures.Resident, residentMiB(pid))
		one.run.Set(figures.Peak, peakMiB(pid))
	}
	share := after.others(before) // the idlers' own share, which is small, is in it
	for _, one := range all {
		one.run.Set(figures.Others, share)
		if _, err := one.child.end(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", one.run.Name(), err)
		}
		if _, err := r.verify(ctx, one.child.variant, one.work, one.in, &one.run); err != nil {
			return nil, fmt.Errorf("%s: %w", one.run.Name(), err)
		}
		runs = append(runs, one.run)
	}
	return runs, nil
}

// idleRecords are what each variant copies before it idles.
const idleRecords = 800

// idler starts one variant and waits until it has copied its input.
func (r *Rig) idler(ctx context.Context, i Idle, v variant.Variant) (one *idler, done func(), err error) {
	one = &idler{run: figures.Run{Workload: i.Workload, Variant: v.Name, Round: i.Round}}
	done = func() {}
	if one.in, err = r.Load(ctx, "in", 200, Evenly(idleRecords, i.Partitions), "none"); err != nil {
		return nil, done, err
	}
	out, err := r.Topic(ctx, "out", i.Partitions)
	if err != nil {
		return nil, done, err
	}
	one.work = variant.Work{
		Bootstrap: r.cluster.Bootstrap(), In: one.in.Topic, Out: out, Partitions: i.Partitions, Group: "group-" + out,
		Interval: i.Interval, Compression: "none",
	}
	children, clean, err := r.launchAll(v, one.work, 1)
	done = func() { clean(); r.Drop(one.in.Topic, out) }
	if err != nil {
		return nil, done, err
	}
	one.child = children[0]
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		if err := awaitTick(ctx, tick, children); err != nil {
			return nil, done, err
		}
		ends, err := r.ends(ctx, out, i.Partitions)
		if err != nil {
			return nil, done, err
		}
		if total(ends) >= one.in.Records() {
			return one, done, nil
		}
	}
}

func waitAll(ctx context.Context, all []*idler, d time.Duration) error {
	if len(all) == 0 {
		return errors.New("no variant")
	}
	if err := all[0].child.wait(ctx, d); err != nil {
		return err
	}
	for _, one := range all {
		if err := one.child.ended(); err != nil {
			return err
		}
	}
	return nil
}
