package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// errNotExact is a demo that ran to its end and found a fault.
var errNotExact = errors.New("the bridge was not exactly once")

// demoOptions are the demo's flags.
type demoOptions struct {
	kafka   string
	records int64
	kills   int
	seed    uint64
	keep    bool
}

// demo is a run with all it needs around it.
type demo struct {
	options    demoOptions
	out, err   io.Writer
	temp       string                         // where the embedded broker's folder goes, "" for the usual place
	executable func(args ...string) *exec.Cmd // this binary, with a clean environment
}

// play runs the demo, clears away and then prints the report, whose verdict is
// the last line.
func (d demo) play(ctx context.Context) error {
	report, err := d.run(ctx)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(d.out)
	if err := report.write(d.out); err != nil {
		return err
	}
	if !report.exact() {
		return errNotExact
	}
	return nil
}

// run sets the stage, runs and clears away.
func (d demo) run(ctx context.Context) (report demoReport, err error) {
	names := newDemoNames()
	plan := planDemo(d.options.records, d.options.kills, d.options.seed)
	run := &demoRun{
		plan: plan, seed: d.options.seed, screen: newDemoScreen(d.out),
		gentle: func(b *demoBridge) { _ = b.kill() },
	}
	bootstrap := d.options.kafka
	if bootstrap == "" {
		broker, cleanUp, err := d.embed(ctx)
		if err != nil {
			return report, err
		}
		defer cleanUp()
		bootstrap = broker.address
		run.broker, run.failure = broker.exited, broker.failure
	} else {
		// On the user's cluster even an interrupted bridge leaves its group
		// and ends its transaction, if it can do so at once.
		run.gentle = func(b *demoBridge) {
			soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), demoStopTime/6)
			defer cancel()
			_ = b.stop(soon)
		}
	}
	cluster, err := openDemoCluster(strings.Split(bootstrap, ","), names)
	if err != nil {
		return report, err
	}
	defer cluster.close()
	run.cluster = cluster
	run.bridge = func() *exec.Cmd {
		cmd := d.executable("run")
		cmd.Env = append(cmd.Env, demoBridgeEnviron(bootstrap, names)...)
		return cmd
	}
	d.announce(bootstrap, names, plan)
	if err := cluster.create(ctx); err != nil {
		return report, err
	}
	if d.options.kafka != "" {
		defer func() { err = errors.Join(err, d.clearAway(ctx, cluster)) }()
	}
	return run.run(ctx)
}

// embed starts the embedded broker with its data in a temporary folder. cleanUp
// ends it and removes the folder, unless it is to be kept.
func (d demo) embed(ctx context.Context) (*demoBroker, func(), error) {
	dir, err := os.MkdirTemp(d.temp, "eosbridge-demo-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder for the embedded broker: %w", err)
	}
	remove := func() {
		if d.options.keep {
			_, _ = fmt.Fprintf(d.out, "kept the embedded broker's data in %s\n", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			_, _ = fmt.Fprintf(d.err, "could not remove %s: %v\n", dir, err)
		}
	}
	broker, err := startDemoBroker(ctx, d.executable("demo", demoBrokerWord, dir))
	if err != nil {
		remove()
		return nil, nil, err
	}
	return broker, func() { broker.stop(); remove() }, nil
}

// announce says what is about to happen, and where.
func (d demo) announce(bootstrap string, names demoNames, plan demoPlan) {
	killed := "never killed, for"
	if d.options.kills > 0 {
		killed = fmt.Sprintf("killed %d times in", d.options.kills)
	}
	_, _ = fmt.Fprintf(d.out, "%s records through one bridge, %s about %.0f s (seed %d)\n",
		grouped(d.options.records), killed, plan.duration.Seconds(), d.options.seed)
	where := "embedded at " + bootstrap + " (kfake; for a real cluster: eosbridge demo --kafka host:port)"
	if d.options.kafka != "" {
		where = "your cluster at " + bootstrap
	}
	_, _ = fmt.Fprintf(d.out, "  broker   %s\n  topics   %s → %s, %d partitions each\n\n",
		where, names.input, names.output, demoPartitions)
}

// clearAway deletes what the demo made on the user's cluster, or says what stays.
func (d demo) clearAway(ctx context.Context, cluster *demoCluster) error {
	names := cluster.names
	if d.options.keep {
		_, _ = fmt.Fprintf(d.out, "kept topics %s and %s and group %s\n", names.input, names.output, names.group)
		return nil
	}
	// After an interrupt too, hence not the run's context.
	if err := cluster.remove(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("clear away after the demo: %w", err)
	}
	_, _ = fmt.Fprintf(d.out, "deleted topics %s and %s and group %s\n", names.input, names.output, names.group)
	return nil
}
