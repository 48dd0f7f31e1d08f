package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/figures"
	"github.com/eosbridge/eosbridge/test/bench/measure"
	"github.com/eosbridge/eosbridge/test/bench/page"
	"github.com/eosbridge/eosbridge/test/bench/variant"
	"github.com/eosbridge/eosbridge/test/kafka"
)

// bench runs the parts and writes what they found.
func bench(ctx context.Context, o *options, log io.Writer) error {
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return err
		}
	}
	if d := o.estimate(); d > 0 {
		fmt.Fprintf(log, "about %.0f min on a quiet machine: %s\n", d.Minutes(), strings.Join(o.parts, ", "))
	}
	var failed error
	for _, name := range o.parts {
		p, ok := partOf(name)
		if !ok { // the page only
			continue
		}
		if err := measurePart(ctx, o, p, log); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
			if ctx.Err() != nil {
				return failed
			}
		}
	}
	if o.page == "" {
		return failed
	}
	store, err := figures.Load(o.file)
	if err == nil {
		err = page.Write(o.page, store)
	}
	return errors.Join(failed, err)
}

// measurePart runs one part on a broker of its own and keeps its results.
func measurePart(ctx context.Context, o *options, p part, log io.Writer) error {
	began := time.Now()
	fmt.Fprintf(log, "\n%s: about %.1f min: %s\n", p.name, p.estimate(o.size).Minutes(), p.about)
	cluster, err := kafka.Run(ctx, measure.KafkaOptions())
	if err != nil {
		return err
	}
	b, err := newBoard(o, p, cluster, log)
	if err == nil {
		err = p.run(ctx, b)
		b.close()
	}
	if err = errors.Join(err, cluster.Close()); err != nil {
		return err
	}
	found := figures.Part{
		Name: p.name, Date: time.Now().UTC().Format(time.DateOnly), Machine: machine(), Kafka: cluster.Version(),
		Bridge: version(o.bridge), Go: runtime.Version(), Flags: o.flags, Seconds: time.Since(began).Round(time.Second).Seconds(),
		Variants: b.about, Runs: b.runs,
	}
	fmt.Fprintf(log, "%s took %.1f min\n", p.name, found.Seconds/60)
	store, err := figures.Load(o.file)
	if err == nil {
		store.Put(found)
		err = store.Save(o.file)
	}
	return errors.Join(err, inexact(found.Runs, b.all)) // the tables tell of it, too
}

// inexact is an error if any run of an exactly-once variant duplicated, lost, reordered or altered a record. One without
// that guarantee may repeat itself after a kill, and nothing else.
func inexact(runs []figures.Run, variants *catalogue) error {
	var faults []error
	for _, r := range runs {
		v := r.Verdict
		if !variants.all[r.Variant].ExactlyOnce && r.Workload == workKill {
			v.Duplicated, v.OutOfOrder = 0, 0
		}
		if !v.Exact() {
			faults = append(faults, fmt.Errorf("%s: %s", r.Name(), v))
		}
	}
	return errors.Join(faults...)
}

// board is what a part has at hand: the rig, the variants, and the list of runs.
type board struct {
	*measure.Rig
	o     *options
	size  sizes
	all   *catalogue
	log   io.Writer
	dir   string
	about map[string]string // of the variants that have run
	runs  []figures.Run
}

func newBoard(o *options, p part, cluster *kafka.Cluster, log io.Writer) (*board, error) {
	dir, err := os.MkdirTemp("", "eosbridge-bench-")
	if err != nil {
		return nil, err
	}
	rig, err := measure.NewRig(cluster, dir, log)
	if err != nil {
		return nil, err
	}
	rig.Profiles = o.profiles
	b := &board{Rig: rig, o: o, size: o.size, all: newCatalogue(o), log: log, dir: dir, about: map[string]string{}}
	if p.few {
		b.size.rounds = b.size.fewRounds
	}
	return b, nil
}

func (b *board) close() {
	b.Rig.Close()
	if err := os.RemoveAll(b.dir); err != nil {
		b.say("remove %s: %v", b.dir, err)
	}
}

// say tells whoever waits.
func (b *board) say(format string, args ...any) { fmt.Fprintf(b.log, format+"\n", args...) }

// variants are those of a part, or the ones that were asked for instead.
func (b *board) variants(names ...string) []variant.Variant {
	if len(b.o.variants) > 0 {
		names = b.o.variants
	}
	some, left := b.all.pick(names)
	for _, why := range left {
		b.say("%s", why)
	}
	return some
}

// keep remembers a run and tells whoever waits.
func (b *board) keep(runs ...figures.Run) {
	for _, r := range runs {
		b.runs = append(b.runs, r)
		b.about[r.Variant] = b.all.all[r.Variant].About
		b.say("%s", page.Line(r))
	}
}

// interleave runs every job once in each round, each round beginning with another one.
func interleave[J any](ctx context.Context, rounds int, jobs []J, do func(ctx context.Context, round int, job J) error) error {
	for round := range rounds {
		for _, i := range figures.Turn(len(jobs), round) {
			if err := do(ctx, round+1, jobs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// copies interleaves copies.
func (b *board) copies(ctx context.Context, jobs []measure.Copy) error {
	return interleave(ctx, b.size.rounds, jobs, func(ctx context.Context, round int, c measure.Copy) error {
		c.Round = round
		run, err := b.Copy(ctx, c)
		if err != nil {
			return err
		}
		b.keep(run)
		return nil
	})
}

// feeds interleaves feeds.
func (b *board) feeds(ctx context.Context, jobs []measure.Feed) error {
	return interleave(ctx, b.size.rounds, jobs, func(ctx context.Context, round int, f measure.Feed) error {
		f.Round = round
		run, err := b.Feed(ctx, f)
		if err != nil {
			return err
		}
		b.keep(run)
		return nil
	})
}

// warm lets the broker's compiler see the work before it counts: each variant copies something, unmeasured.
func (b *board) warm(ctx context.Context, size int, variants []variant.Variant) error {
	records := b.size.warm
	if size > 500 {
		records /= 10
	}
	if records == 0 {
		return nil
	}
	in, err := b.Load(ctx, "in-warm", size, measure.Evenly(records, partitions), "none")
	if err != nil {
		return err
	}
	defer b.Drop(in.Topic)
	b.say("warm-up of the broker")
	for _, v := range variants {
		if v.Slow {
			continue // its own warm-up is what takes long
		}
		c := measure.Copy{Workload: "warm-up", Variant: v, Input: in, Interval: interval, Compression: "none", Box: 4 * time.Second}
		if _, err := b.Copy(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// machine names the processor and the cores.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s)", runtime.NumCPU(), model)
}

// version asks the bridge for its own.
func version(binary string) string {
	out, err := exec.Command(filepath.Clean(binary), "version").Output()
	if err != nil {
		return "of unknown version"
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(out)), ",") // the rest is Go's and the library's
	return strings.TrimPrefix(name, "eosbridge ")
}
