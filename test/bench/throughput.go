package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	sampleEvery  = 10 * time.Millisecond
	memoryEvery  = 10 // samples
	historyEvery = 500
	// quiet is how long the output must have stood still before we ask whether the
	// positions are at the end.
	quiet = 200 * time.Millisecond
)

// throughput copies a loaded topic once, as fast as the variant can.
func (r *rig) throughput(ctx context.Context, name string, w workload, in, variant string, round int) (m measurement, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.options.timeout, errTimeout)
	defer cancel()
	m = measurement{Workload: name, Variant: variant, Round: round, Records: w.records}
	out, err := r.topic(ctx, "out")
	if err != nil {
		return m, err
	}
	defer r.drop(out)
	group := "group-" + out
	c, err := r.start(variant, r.cluster.Bootstrap(), in, out, group)
	if err != nil {
		return m, err
	}
	defer c.kill()
	before := usageOf(c.pid(), r.node())
	profile := r.profile(ctx, c, fmt.Sprintf("%s-%s-%d", name, variant, round))
	samples, err := r.watch(ctx, c, in, out, group, w.records, &m, profile)
	if err != nil {
		return m, fmt.Errorf("%w\n%s", err, c.stderr.String())
	}
	after := usageOf(c.pid(), r.node())
	m.Others = after.others(before)
	m.BrokerPerMillion = perMillion(after.node-before.node, w.records)
	if err := profile.end(ctx); err != nil {
		return m, err
	}
	stalled, err := c.stalledSeconds(ctx)
	if err != nil {
		return m, err
	}
	last := samples[len(samples)-1].ends
	read, err := r.judge(ctx, &m, c, out, w, samples, stalled, last)
	if err != nil {
		return m, err
	}
	m.Verdict = read.finish(evenly(w.records))
	return m, nil
}

// judge stops the child, reads its output back and computes the rates.
func (r *rig) judge(ctx context.Context, m *measurement, c *child, out string, w workload, samples []sample, stalled float64, last [partitions]int64) (*checker, error) {
	// The ends are known only once the output is read, and that must not compete
	// with the child for the CPU: so the wall time of the stall is taken from the samples.
	first, still := window(samples)
	cpu, err := c.finish(ctx, m, c.started, still-first, stalled)
	if err != nil {
		return nil, err
	}
	m.CPUSeconds, m.CPUPerMillion = cpu.Seconds(), perMillion(cpu, w.records)
	read, err := readAll(ctx, r.cluster.Bootstrap(), out, w.size, last)
	if err != nil {
		return nil, err
	}
	begun, total, steady := rates(samples, w.records, read.ends)
	m.StartSeconds, m.RecordsPerSecond, m.SteadyPerSecond = begun.Seconds(), total, steady
	return read, nil
}

// window is when the output began and when it stood still.
func window(samples []sample) (first, still time.Duration) {
	for i, s := range samples {
		if s.sum() > 0 && first == 0 {
			first = s.at
		}
		if i == 0 || s.ends != samples[i-1].ends {
			still = s.at
		}
	}
	return first, still
}

// watch samples the output until everything is in it and the positions are committed.
func (r *rig) watch(ctx context.Context, c *child, in, out, group string, records int64, m *measurement, profile *profiling) ([]sample, error) {
	var samples []sample
	want := evenly(records)
	var changed, asked time.Time
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.exited:
			return nil, c.ended()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		ends, err := r.ends(ctx, out)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		if n := len(samples); n == 0 || samples[n-1].ends != ends {
			changed = now
		}
		s := sample{at: now.Sub(c.started), ends: ends}
		samples = append(samples, s)
		complete := reached(ends, want)
		if complete || len(samples)%memoryEvery == 0 {
			m.PeakMiB = max(m.PeakMiB, peakMiB(c.pid()))
		}
		if c.variant == variantBridge && len(samples)%historyEvery == 0 {
			if err := c.history.collect(ctx, c.face); err != nil {
				return nil, err
			}
		}
		if err := profile.progress(ctx, s.sum(), records); err != nil {
			return nil, err
		}
		if !complete || now.Sub(changed) < quiet || now.Sub(asked) < quiet {
			continue
		}
		asked = now
		if done, err := r.settled(ctx, group, in, want); err != nil || done {
			return samples, err
		}
	}
}

func perMillion(d time.Duration, records int64) float64 {
	return d.Seconds() / float64(records) * 1e6
}

// profileSeconds is the length of a CPU profile; the time after the end of the
// work adds nothing to it.
const profileSeconds = 8

// profiling takes profiles of one run; a nil one takes none.
type profiling struct {
	child  *child
	stem   string // path without the ending
	cpu    errgroup.Group
	halved bool
}

func (r *rig) profile(ctx context.Context, c *child, name string) *profiling {
	if r.options.profiles == "" {
		return nil
	}
	p := &profiling{child: c, stem: filepath.Join(r.options.profiles, name)}
	p.cpu.Go(func() error { // ends with the profile, or the child; waited for by end
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := c.pprof.get(ctx, "/debug/pprof/cmdline"); err == nil {
				return c.pprof.keep(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileSeconds), p.stem+"-cpu.pprof")
			}
			select {
			case <-tick.C:
			case <-c.exited:
				return c.ended()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	return p
}

// progress takes the heap when half of the output is there.
func (p *profiling) progress(ctx context.Context, done, all int64) error {
	if p == nil || p.halved || done < all/2 {
		return nil
	}
	p.halved = true
	return p.child.pprof.keep(ctx, "/debug/pprof/heap", p.stem+"-heap.pprof")
}

// end takes what was allocated since the start and waits for the CPU profile.
func (p *profiling) end(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.child.pprof.keep(ctx, "/debug/pprof/allocs", p.stem+"-allocs.pprof"); err != nil {
		return err
	}
	return p.cpu.Wait()
}
