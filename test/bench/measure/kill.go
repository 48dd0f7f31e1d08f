package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/figures"
	"github.com/eosbridge/eosbridge/test/bench/variant"
)

// Kill kills a variant again and again under a steady load.
type Kill struct {
	Workload         string
	Variant          variant.Variant
	Kills            int
	Seed             uint64 // of the moments
	Partitions, Size int
	Rate             int // records a second
	Interval         time.Duration
	// Least and Most bound how long a process lives after its first output. A slow variant lives longer.
	Least, Most time.Duration
}

const (
	// restartAfter is the time from the end of a process to the next start: what was on its way to the reader
	// arrives meanwhile and is not mistaken for output of the next.
	restartAfter = 100 * time.Millisecond
	// Slow is a recovery whose cause is looked for.
	Slow = 500 * time.Millisecond
	// slowLife is how much longer a slow variant lives.
	slowLife = 2 * time.Second
)

// Kill makes one run for each kill. All runs bear the verdict on the output as a whole.
func (r *Rig) Kill(ctx context.Context, k Kill) (runs []figures.Run, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout+time.Duration(k.Kills)*(time.Minute+k.Most), errTimeout)
	defer cancel()
	s, err := r.steady(ctx, Feed{
		Variant: k.Variant, Partitions: k.Partitions, Size: k.Size, Rate: k.Rate, Interval: k.Interval, Compression: "none",
	})
	if err != nil {
		return nil, err
	}
	defer s.close()
	children, clean, err := r.launchAll(k.Variant, s.work, 1)
	defer clean()
	if err != nil {
		return nil, err
	}
	s.work.Instance = "bench-0"
	c := children[0]
	s.work.Dir = c.dir
	chance := rand.New(rand.NewPCG(k.Seed, 0)) //nolint:gosec // moments, not secrets
	if err = s.listener.await(ctx, c, 1); err == nil {
		for i := range k.Kills {
			run := figures.Run{Workload: k.Workload, Variant: k.Variant.Name, Round: i + 1}
			life := k.Least + time.Duration(chance.Int64N(int64(k.Most-k.Least)))
			if k.Variant.Slow {
				life += slowLife
			}
			if c, err = r.killOnce(ctx, s, c, life, &run); err != nil {
				break
			}
			defer c.kill()
			r.say("%s: recovered in %.2f s %s", run.Name(), run.Values[figures.Recovery], run.Note)
			runs = append(runs, run)
		}
	}
	verdict, err := r.afterKills(ctx, s, c, k.Variant, errors.Join(err, s.stop()))
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w\n%s", k.Workload, k.Variant.Name, err, c.stderr.String())
	}
	for i := range runs {
		runs[i].Verdict, runs[i].Records = verdict, s.in.Records()
	}
	return runs, nil
}

// killOnce lets c live for a while, kills it and starts the next.
func (r *Rig) killOnce(ctx context.Context, s *steady, c *child, life time.Duration, run *figures.Run) (*child, error) {
	if err := c.wait(ctx, life); err != nil {
		return c, err
	}
	c.kill()
	pause := time.NewTimer(restartAfter)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return c, context.Cause(ctx)
	}
	before, _, err := s.listener.count()
	if err != nil {
		return c, err
	}
	next, err := r.start(c.variant, s.work)
	if err != nil {
		return c, err
	}
	if err := s.listener.await(ctx, next, before+1); err != nil {
		return next, err
	}
	took := time.Since(next.started)
	run.Set(figures.Life, life.Seconds())
	run.Set(figures.Recovery, took.Seconds())
	if took > Slow {
		run.Note = pauseIn(next.stderr.String(), next.started)
	}
	return next, nil
}

// afterKills lets the last process finish, and judges the output.
func (r *Rig) afterKills(ctx context.Context, s *steady, c *child, v variant.Variant, err error) (verdict figures.Verdict, _ error) {
	if err != nil {
		return verdict, err
	}
	if err := s.listener.await(ctx, c, s.in.Records()); err != nil && v.ExactlyOnce {
		return verdict, err
	}
	if _, err := c.end(ctx); err != nil {
		return verdict, err
	}
	s.listener.close()
	return s.listener.checker.finish(s.in.Counts, false), nil
}

// pauseIn finds the longest silence in the log of a start, and says between which lines it was: that is what the
// start has waited for. A log without times says nothing.
func pauseIn(log string, started time.Time) string {
	last, before := started, "the start"
	var longest time.Duration
	note := "no log"
	for line := range strings.Lines(log) {
		at, message, ok := logLine(line)
		if !ok || at.Before(started) {
			continue
		}
		if d := at.Sub(last); d > longest {
			longest = d
			note = fmt.Sprintf("%.2f s between %q and %q", d.Seconds(), before, message)
		}
		last, before = at, message
	}
	if silent := time.Since(last); silent > longest && note != "no log" {
		note = fmt.Sprintf("%.2f s between %q and the output", silent.Seconds(), before)
	}
	return note
}

// logLine reads a line of slog's text form: its time, and all that follows msg=.
func logLine(line string) (at time.Time, message string, ok bool) {
	rest, found := strings.CutPrefix(line, "time=")
	if !found {
		return at, "", false
	}
	stamp, rest, _ := strings.Cut(rest, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	_, message, found = strings.Cut(rest, "msg=")
	return at, strings.TrimSpace(message), err == nil && found
}
