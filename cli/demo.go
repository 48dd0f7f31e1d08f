package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

const (
	demoMaxRecords = 10_000_000 // about ten minutes
	demoMaxKills   = 1000
)

// demoOptions are the demo's flags.
type demoOptions struct {
	kafka   string
	records int64
	kills   int
	seed    uint64
	keep    bool
}

func demoCommand() command {
	return command{
		name:    "demo",
		summary: "watch records arrive exactly once while the bridge is killed again and again",
		usage: `usage: eosbridge demo [--kafka host:port[,...]] [--records N] [--kills N] [--seed N] [--keep]

Feeds records into a topic at a steady pace and runs 'eosbridge run' as a child process that copies them to
another topic. The child is killed with SIGKILL about once a second, half of the time soon after its start, half
of the time after it has committed, and started again at once. Meanwhile a read_committed reader checks what
comes out: every record once, whole, in its partition, in order. The last line is the verdict.

Without --kafka the broker is embedded (kfake, a simulation of Kafka in a process of its own with its data in a
temporary folder). With --kafka the demo runs on that cluster, in topics and a consumer group of its own whose
names begin with eosbridge-demo-, and deletes them afterwards. BRIDGE_* variables of the environment play no part;
with --kafka, the KAFKA_* variables say how to get in (encryption, login).

The exit status is 0 if the verdict is yes, 1 if it is no or there is none.

  --kafka host:port   use this cluster instead of the embedded broker
  --records N         records to feed, 1 to 10000000 (40000)
  --kills N           kills, 0 to 1000 (14)
  --seed N            choose the moments of the kills by this number (a new one each time)
  --keep              do not delete the topics and the group, or the embedded broker's data`,
		example: "eosbridge demo\neosbridge demo --kafka localhost:9092 --kills 30",
		run:     runDemo,
	}
}

func runDemo(ctx context.Context, c *Context, args []string) error {
	if len(args) == 2 && args[0] == demoBrokerWord {
		// Lives as long as its parent, whatever signals a terminal sends to both.
		return serveDemoBroker(c.Abort, args[1], c.Stdin, c.Stdout)
	}
	options, err := parseDemo(args)
	if err != nil {
		return err
	}
	if c.Executable == "" {
		return errors.New("the path of this program is unknown: it cannot be started again as the bridge")
	}
	d := demo{
		options: options, out: c.Stdout, err: c.Stderr, access: demoAccess(c.Environ), abort: c.Abort,
		executable: func(args ...string) *exec.Cmd {
			cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Executable, args...)
			cmd.Env = []string{} // nil would mean all of ours
			return cmd
		},
	}
	return d.play(ctx)
}

func parseDemo(args []string) (demoOptions, error) {
	var o demoOptions
	flags := newFlags("demo")
	flags.StringVar(&o.kafka, "kafka", "", "")
	flags.Int64Var(&o.records, "records", 40_000, "")
	flags.IntVar(&o.kills, "kills", 14, "")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "")
	flags.BoolVar(&o.keep, "keep", false, "")
	if err := parseFlags(flags, args); err != nil {
		return o, err
	}
	if o.records < 1 || o.records > demoMaxRecords {
		return o, usageErrorf("--records %d: use 1 to %d", o.records, demoMaxRecords)
	}
	if o.kills < 0 || o.kills > demoMaxKills {
		return o, usageErrorf("--kills %d: use 0 to %d", o.kills, demoMaxKills)
	}
	if o.kafka == "" {
		return o, nil
	}
	for broker := range strings.SplitSeq(o.kafka, ",") {
		host, port, err := net.SplitHostPort(broker)
		if _, errPort := strconv.ParseUint(port, 10, 16); err != nil || errPort != nil || host == "" {
			return o, usageErrorf("--kafka %q: use host:port, or several of them with commas", o.kafka)
		}
	}
	return o, nil
}

// notExactError is a demo that ran to its end and found a fault; the report has said so.
type notExactError struct{}

func (notExactError) Error() string { return "the bridge was not exactly once" }

func (notExactError) Quiet() bool { return true }

// demo is a run with all it needs around it.
type demo struct {
	options  demoOptions
	out, err io.Writer
	access   map[string]string // variables to get into the user's cluster
	temp     string            // where the embedded broker's folder goes, "" for the usual place
	abort    context.Context   // its end ends even the clearing away
	// executable is this binary with a clean environment, not started. Its
	// end is the demo's to decide, gentle or not, and no context's.
	executable func(args ...string) *exec.Cmd
}

// play runs the demo, clears away and then prints the report, whose verdict is
// the last line.
func (d demo) play(ctx context.Context) error {
	report, err := d.run(ctx)
	if ctx.Err() != nil {
		// Whatever else went wrong, did so because of that.
		return fmt.Errorf("demo without a verdict: %w", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(d.out)
	if err := report.write(d.out); err != nil {
		return err
	}
	if !report.exact() {
		return notExactError{}
	}
	return nil
}

// run sets the stage, runs and clears away.
func (d demo) run(ctx context.Context) (report demoReport, err error) {
	names := newDemoNames()
	plan := planDemo(d.options.records, d.options.kills, d.options.seed)
	run := &demoRun{
		plan: plan, screen: newDemoScreen(d.out),
		gentle: func(b *demoBridge) { _ = b.kill() },
	}
	bootstrap, access := d.options.kafka, d.access
	if bootstrap == "" {
		broker, cleanUp, err := d.embed(ctx)
		if err != nil {
			return report, err
		}
		defer cleanUp()
		bootstrap, access = broker.address, nil
		run.broker, run.failure = broker.exited, broker.failure
	} else {
		// On the user's cluster even an interrupted bridge leaves its group
		// and ends its transaction, if it can do so at once.
		run.gentle = func(b *demoBridge) {
			soon, cancel := context.WithTimeout(d.abort, demoStopTime/6)
			defer cancel()
			_ = b.stop(soon)
		}
	}
	environ := demoEnviron(bootstrap, names, access)
	cluster, err := openDemoCluster(environ, names)
	if err != nil {
		return report, err
	}
	defer cluster.close()
	run.cluster = cluster
	run.bridge = func() *exec.Cmd {
		cmd := d.executable("run")
		for _, name := range slices.Sorted(maps.Keys(environ)) {
			cmd.Env = append(cmd.Env, name+"="+environ[name])
		}
		return cmd
	}
	d.announce(bootstrap, names, plan)
	if err := cluster.create(ctx); err != nil {
		return report, err
	}
	if d.options.kafka != "" {
		defer func() { err = errors.Join(err, d.clearAway(cluster)) }()
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
			fmt.Fprintf(d.out, "kept the embedded broker's data in %s\n", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintf(d.err, "could not remove %s: %v\n", dir, err)
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
	fmt.Fprintf(d.out, "%s records through one bridge, %s about %.0f s (seed %d)\n",
		grouped(d.options.records), killed, plan.duration.Seconds(), d.options.seed)
	where := "embedded at " + bootstrap + " (kfake; for a real cluster: eosbridge demo --kafka host:port)"
	if d.options.kafka != "" {
		where = "your cluster at " + bootstrap
	}
	fmt.Fprintf(d.out, "  broker   %s\n  topics   %s → %s, %d partitions each\n\n",
		where, names.input, names.output, demoPartitions)
}

// clearAway deletes what the demo made on the user's cluster, or says what stays.
func (d demo) clearAway(cluster *demoCluster) error {
	names := cluster.names
	if d.options.keep {
		fmt.Fprintf(d.out, "kept topics %s and %s and group %s\n", names.input, names.output, names.group)
		return nil
	}
	// After an interrupt too, hence not the run's context.
	if err := cluster.remove(d.abort); err != nil {
		return fmt.Errorf("clear away after the demo: %w", err)
	}
	fmt.Fprintf(d.out, "deleted topics %s and %s and group %s\n", names.input, names.output, names.group)
	return nil
}
