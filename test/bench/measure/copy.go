package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/copies"
	"github.com/eosbridge/eosbridge/test/bench/figures"
	"github.com/eosbridge/eosbridge/test/bench/variant"
)

// Copy is one run that copies a loaded topic as fast as the variant can, for some time.
type Copy struct {
	Workload, Point string
	Round           int // from 1
	Variant         variant.Variant
	Input           Input
	Interval        time.Duration
	Compression     string
	Memory          int64         // 0 = the variant's own choice
	Instances       int           // 0 = 1
	Delay           time.Duration // added to every answer of the broker
	// Settle is the time between the first committed output and the steady state; a slow variant gets more.
	Settle time.Duration
	// Box is the longest that the steady state lasts. It ends earlier where nearly all of the input is used up.
	Box time.Duration
}

const (
	beginEvery  = 5 * time.Millisecond   // until there is output: that moment is a figure
	sampleEvery = 50 * time.Millisecond  // of the output, later
	manyEvery   = 250 * time.Millisecond // for topics of many partitions
	many        = 64
	// nearlyAll of the input ends the steady state: all but one in so many. Near the end partitions run dry.
	nearlyAll   = 33
	historyTime = 5 * time.Second
	// slowSettle is what a slow variant gets at least: by then a virtual machine has compiled what it runs.
	slowSettle = 6 * time.Second
)

// stretch is the steady state of a run: what was seen at its two ends.
type stretch struct {
	first    time.Time // of the committed output
	from, to moment
	start    time.Duration // until first
}

// moment is one look at everything.
type moment struct {
	usage usage
	ends  []int64
	told  told
}

// Copy makes the run. The error is about the run itself; what became of the records is in the verdict.
func (r *Rig) Copy(ctx context.Context, c Copy) (run figures.Run, err error) {
	run = figures.Run{Workload: c.Workload, Point: c.Point, Variant: c.Variant.Name, Round: c.Round}
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout+c.Box, errTimeout)
	defer cancel()
	out, err := r.Topic(ctx, "out", c.Input.Partitions())
	if err != nil {
		return run, err
	}
	defer r.Drop(out)
	bootstrap, far, err := r.away(c.Delay)
	if err != nil {
		return run, err
	}
	defer far()
	w := variant.Work{
		Bootstrap: bootstrap, In: c.Input.Topic, Out: out, Partitions: c.Input.Partitions(), Group: "group-" + out,
		Interval: c.Interval, Compression: c.Compression, Memory: c.Memory,
	}
	children, clean, err := r.launchAll(c.Variant, w, max(1, c.Instances))
	defer clean()
	if err != nil {
		return run, err
	}
	profiled := r.profile(ctx, children[0], run)
	s, err := r.watch(ctx, c, children, out)
	if err = errors.Join(err, profiled()); err == nil {
		err = r.conclude(ctx, c, w, children, s, &run)
	}
	if err != nil {
		if errors.Is(err, errTimeout) {
			err = fmt.Errorf("%w: %s", err, r.standing(w))
			children[0].dump()
		}
		return run, fmt.Errorf("%s: %w\n%s", run.Name(), err, children[0].stderr.String())
	}
	return run, nil
}

// standing is what the broker shows of a run: of one that takes too long it tells whether the program or the broker does.
func (r *Rig) standing(w variant.Work) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stable, stableErr := r.offsets(ctx, w.Out, w.Partitions, 1)
	all, allErr := r.offsets(ctx, w.Out, w.Partitions, 0)
	positions, positionsErr := r.positions(ctx, w.Group, w.In, w.Partitions)
	return fmt.Sprintf("%s: last stable offsets %d (%v), ends %d (%v), positions of %s %d (%v)",
		w.Out, stable, stableErr, all, allErr, w.Group, positions, positionsErr)
}

// away is the address of the broker, or that of a proxy that makes it far away.
func (r *Rig) away(delay time.Duration) (bootstrap string, done func(), err error) {
	if delay == 0 {
		return r.cluster.Bootstrap(), func() {}, nil
	}
	proxy, err := newDistance(r.cluster.Bootstrap(), delay)
	if err != nil {
		return "", nil, err
	}
	return proxy.addr(), proxy.close, nil
}

// launchAll starts the instances of a variant; clean ends what still runs of them.
func (r *Rig) launchAll(v variant.Variant, w variant.Work, instances int) (children []*child, clean func(), err error) {
	var dirs []string
	clean = func() {
		for _, c := range children {
			c.kill()
		}
		for _, dir := range dirs {
			if err := os.RemoveAll(dir); err != nil {
				r.say("remove what a run left: %v", err)
			}
		}
	}
	for i := range instances {
		w.Instance = fmt.Sprintf("bench-%d", i)
		if w.Dir, err = r.folder(); err != nil {
			return children, clean, err
		}
		dirs = append(dirs, w.Dir)
		c, err := r.start(v, w)
		if err != nil {
			return children, clean, err
		}
		children = append(children, c)
	}
	return children, clean, nil
}

// look takes everything in at one moment.
func (r *Rig) look(ctx context.Context, children []*child, ends []int64) (m moment, err error) {
	m = moment{ends: ends, usage: usageOf(children, r.node())}
	m.told, err = tell(ctx, children)
	return m, err
}

// watch follows the output through the steady state.
func (r *Rig) watch(ctx context.Context, c Copy, children []*child, out string) (s stretch, err error) {
	every, nearly := sampleEvery, c.Input.Records()-c.Input.Records()/nearlyAll
	if c.Input.Partitions() > many {
		every = manyEvery
	}
	settle := c.Settle
	if c.Variant.Slow {
		settle = max(settle, slowSettle)
	}
	collected := time.Now()
	tick := time.NewTicker(beginEvery)
	defer tick.Stop()
	for {
		if err := awaitTick(ctx, tick, children); err != nil {
			return s, err
		}
		ends, err := r.ends(ctx, out, c.Input.Partitions())
		if err != nil {
			return s, err
		}
		now, sum := time.Now(), total(ends)
		switch {
		case sum == 0:
			continue
		case s.first.IsZero():
			s.first, s.start = now, now.Sub(children[0].started)
			tick.Reset(every)
			s.from, err = r.look(ctx, children, ends)
		case sum >= nearly || now.Sub(s.from.usage.at) >= c.Box && s.from.usage.at.Sub(s.first) >= settle:
			s.to, err = r.look(ctx, children, ends)
			return s, err
		case now.Sub(s.first) >= settle && s.from.usage.at.Sub(s.first) < settle:
			s.from, err = r.look(ctx, children, ends)
		case now.Sub(collected) >= historyTime:
			collected = now
			err = collect(ctx, children)
		}
		if err != nil {
			return s, err
		}
	}
}

// awaitTick waits, and fails if a child ends meanwhile.
func awaitTick(ctx context.Context, tick *time.Ticker, children []*child) error {
	select {
	case <-tick.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, c := range children {
		if err := c.ended(); err != nil {
			return err
		}
	}
	return nil
}

// conclude stops the children, reads their output back and fills in the run.
func (r *Rig) conclude(ctx context.Context, c Copy, w variant.Work, children []*child, s stretch, run *figures.Run) error {
	if err := collect(ctx, children); err != nil {
		return err
	}
	run.Set(figures.Peak, peakOf(children))
	used, err := endAll(ctx, children)
	if err != nil {
		return err
	}
	read, err := r.verify(ctx, c.Variant, w, c.Input, run)
	if err != nil {
		return err
	}
	describe(run, s, read, children)
	if n := run.Verdict.Read; n > 0 {
		run.Set(figures.LifeCPU, used.Seconds()/float64(n)*1e6)
	}
	return nil
}

func peakOf(children []*child) (peak float64) {
	for _, c := range children {
		peak = max(peak, peakMiB(c.pid()))
	}
	return peak
}

func endAll(ctx context.Context, children []*child) (used time.Duration, err error) {
	for _, c := range children {
		one, stopped := c.end(ctx)
		used += one
		err = errors.Join(err, stopped)
	}
	return used, err
}

// verify reads the output of a run that has ended. It must hold exactly what the committed positions say was read.
func (r *Rig) verify(ctx context.Context, v variant.Variant, w variant.Work, in Input, run *figures.Run) (*checker, error) {
	ends, err := r.stableEnds(ctx, w.Out, in.Partitions())
	if err != nil {
		return nil, err
	}
	positions, err := r.positions(ctx, w.Group, w.In, in.Partitions())
	if err != nil {
		return nil, err
	}
	read, err := readAll(ctx, r.cluster.Bootstrap(), w.Out, in.Size, ends)
	if err != nil {
		return nil, err
	}
	run.Verdict = read.finish(positions, v.LoosePositions)
	run.Records = run.Verdict.Read
	if total(positions) == 0 && !v.LoosePositions {
		return nil, errors.New("no positions were committed")
	}
	return read, nil
}

// describe fills in what the steady state says.
func describe(run *figures.Run, s stretch, read *checker, children []*child) {
	run.Set(figures.Start, s.start.Seconds())
	run.Set(figures.Others, s.to.usage.others(s.from.usage))
	wall := s.to.usage.at.Sub(s.from.usage.at)
	records := float64(read.records(s.to.ends) - read.records(s.from.ends))
	run.Set(figures.Steady, wall.Seconds())
	if wall > 0 && records > 0 {
		run.Set(figures.Rate, records/wall.Seconds())
		run.Set(figures.CPU, (s.to.usage.child-s.from.usage.child).Seconds()/records*1e6)
		run.Set(figures.BrokerCPU, (s.to.usage.node-s.from.usage.node).Seconds()/records*1e6)
	}
	describeEpochs(run, s.from, s.to, children)
}

// describeEpochs fills in what the program itself has told about the time between two moments.
func describeEpochs(run *figures.Run, from, to moment, children []*child) {
	wall := to.usage.at.Sub(from.usage.at)
	switch v := children[0].variant; {
	case v.Face && wall > 0:
		lanes := float64(len(children) * runtime.GOMAXPROCS(0))
		run.Set(figures.Stall, (to.told.stall-from.told.stall)/wall.Seconds()/lanes)
		if to.told.splits {
			run.Set(figures.Held, (to.told.held-from.told.held)/wall.Seconds()/lanes)
		}
		if n := to.told.committed - from.told.committed; n > 0 {
			run.Set(figures.Interval, milliseconds(wall)*float64(len(children))/n)
		}
		if n := to.told.all - from.told.all; n > 0 {
			run.Set(figures.Passed, (to.told.passed-from.told.passed)/n)
		}
		all := history{}
		for _, c := range children {
			all.merge(c.history)
		}
		took, aborted := all.commits(from.usage.at)
		run.Aborted = aborted
		if len(took) > 0 {
			run.Set(figures.Commit, figures.Quantile(took, 0.5))
			run.Set(figures.Commit99, figures.Quantile(took, 0.99))
		}
	case v.Reports:
		var report copies.Report
		lines := strings.Split(children[0].stdout.String(), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil || report.Committed == 0 {
			return
		}
		run.Aborted = report.Aborted
		run.Set(figures.Stall, report.StallShare)
		if report.Committed > 1 {
			run.Set(figures.Interval, report.Interval)
		}
		run.Set(figures.Commit, report.Commit)
		run.Set(figures.Commit99, report.Commit99)
	}
}

func total(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
