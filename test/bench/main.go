// Command bench measures what the bridge costs, side by side with a plain copy
// of the same topics by the same client library, on a real Apache Kafka that it
// starts itself:
//
//	make bench
//	make bench BENCHFLAGS='-w W1 -rounds 5 -variants bridge,plain,session'
//
// Three programs ("variants") do the same work, each as a process of its own:
//
//	bridge   the binary that is shipped, exactly-once, its defaults but for -compression
//	plain    kgo without any guarantee: at-least-once, one loop, tuned buffers
//	session  kgo's GroupTransactSession: exactly-once, one transaction, stop-the-world
//
// The last two are this program again, see copy.go and session.go. docs/performance.md
// tells what is measured, how, and how far the figures can be trusted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// run is the program: the benchmark, or one of the children that it starts.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		if child, ok := children[args[0]]; ok {
			return runChild(ctx, child, args[1:], stdout, stderr)
		}
	}
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	return bench(ctx, o, stdout, stderr)
}

// The variants.
const (
	variantBridge  = "bridge"
	variantPlain   = "plain"
	variantSession = "session"
)

// options are the flags.
type options struct {
	workloads []string
	variants  []string
	rounds    int
	records   int64 // 0 = the workload's own
	warmUp    int64

	feedRate int
	feedTime time.Duration
	settle   time.Duration
	delay    time.Duration

	bridge      string // path of the binary
	self        string // path of this program
	compression string
	interval    time.Duration
	env         map[string][]string // additional environment per variant
	profiles    string              // folder
	timeout     time.Duration

	json, markdown bool
	into           string // file
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{env: map[string][]string{}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	which := flags.String("w", "all", "workloads: W1 (1 KB), W2 (100 B), feed (steady load, stalls), a list of them, or all")
	variants := flags.String("variants", "bridge,plain", "programs to compare: bridge, plain, session")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds; in each, every variant runs once")
	flags.Int64Var(&o.records, "records", 0, "records of W1 and W2 (default 1,000,000 and 4,000,000)")
	flags.Int64Var(&o.warmUp, "warm-up", 1_000_000, "records that each variant copies before anything is measured: the broker's compiler must see both")
	flags.IntVar(&o.feedRate, "feed-rate", 4000, "records per second of feed")
	flags.DurationVar(&o.feedTime, "feed-time", 20*time.Second, "measured time of one run of feed")
	flags.DurationVar(&o.settle, "settle", 3*time.Second, "time of feed between the first output and the measured time")
	flags.DurationVar(&o.delay, "delay", 10*time.Millisecond, "feed runs once more with this added to every answer of the broker; 0 = not")
	flags.StringVar(&o.bridge, "bridge", "bin/eosbridge", "the binary to measure (make build)")
	flags.StringVar(&o.compression, "compression", "none", "of the output, in all variants: none, gzip, snappy, lz4, zstd")
	flags.DurationVar(&o.interval, "interval", 100*time.Millisecond, "epoch, transaction and commit interval")
	flags.StringVar(&o.profiles, "profiles", "", "folder for CPU and memory profiles of each run; they cost some per cent")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "give up on one run after this long")
	flags.BoolVar(&o.json, "json", false, "print everything that was measured as JSON")
	flags.BoolVar(&o.markdown, "markdown", false, "print the tables as Markdown")
	flags.StringVar(&o.into, "into", "", "write the Markdown between the marks of this file, e.g. docs/performance.md")
	flags.Func("env", "variant:KEY=VALUE for the variant's environment, e.g. bridge:BRIDGE_LANES=1; may be repeated", func(s string) error {
		variant, setting, ok := strings.Cut(s, ":")
		if !ok || !strings.Contains(setting, "=") {
			return errors.New("want variant:KEY=VALUE")
		}
		o.env[variant] = append(o.env[variant], setting)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *which == "all" {
		*which = "W1,W2,feed"
	}
	o.workloads, o.variants = strings.Split(*which, ","), strings.Split(*variants, ",")
	var err error
	if o.self, err = os.Executable(); err != nil {
		return nil, err
	}
	return o, o.check()
}

func (o *options) check() error {
	for _, w := range o.workloads {
		if _, ok := workloads[w]; !ok {
			return fmt.Errorf("-w %q: known are W1, W2 and feed", w)
		}
	}
	known := []string{variantBridge, variantPlain, variantSession}
	for _, v := range o.variants {
		if !slices.Contains(known, v) {
			return fmt.Errorf("-variants %q: known are %s", v, strings.Join(known, ", "))
		}
	}
	for v := range o.env {
		if !slices.Contains(known, v) {
			return fmt.Errorf("-env %q: known are %s", v, strings.Join(known, ", "))
		}
	}
	if _, err := codec(o.compression); err != nil {
		return err
	}
	if o.rounds < 1 || o.records < 0 || o.feedRate < 1 || o.interval <= 0 || o.delay < 0 {
		return errors.New("-rounds and -feed-rate must be at least 1, -interval above 0, -records and -delay not negative")
	}
	if slices.Contains(o.variants, variantBridge) {
		if _, err := os.Stat(o.bridge); err != nil {
			return fmt.Errorf("no bridge to measure: %w: run make build, or name it with -bridge", err)
		}
	}
	return nil
}

// lanes is how many lanes the bridge runs by default.
func lanes() int { return runtime.GOMAXPROCS(0) }
