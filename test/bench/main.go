// Command bench measures the bridge beside what else could do its work, on a real Apache Kafka that it starts itself:
//
//	make bench                            # all parts, one after the other
//	make bench BENCHFLAGS='main feed'     # some of them
//	make bench BENCHFLAGS='-size quick'   # whether it works; figures of so short runs say little
//	make bench BENCHFLAGS=page            # docs/performance.md and its plots anew from docs/performance.json
//
// Each part is one interleaved run. Its results replace those it had in docs/performance.json, and the page is made
// anew. docs/performance.md tells what is measured, how, and how far the figures can be trusted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/copies"
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
	if len(args) > 0 && copies.Known(args[0]) {
		return copies.Main(ctx, args[0], args[1:], stdout, stderr)
	}
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	return bench(ctx, o, stderr)
}

// options are the flags and the parts that were asked for.
type options struct {
	parts    []string
	size     sizes
	variants []string // none = the part's own

	bridge   string // path of the binary
	self     string // path of this program
	peers    string // folder of the built peers
	env      map[string][]string
	profiles string // folder
	file     string // of all results
	page     string
	flags    string // as given, but for those that do not change what is measured
}

// pageOnly is what is asked for to measure nothing.
const pageOnly = "page"

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{env: map[string][]string{}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "usage: bench [flags] [part…]\n\nparts, in their order when none is named, and how long each takes on a quiet machine of two cores:\n")
		for _, p := range parts {
			fmt.Fprintf(stderr, "  %-8s %5.1f min  %s\n", p.name, p.estimate(presets["full"]).Minutes(), p.about)
		}
		fmt.Fprintf(stderr, "  %-8s            the page anew, nothing is measured\n\nflags:\n", pageOnly)
		flags.PrintDefaults()
	}
	size := flags.String("size", "full", "full; quick: short runs, two rounds; tiny: does it work at all")
	rounds := flags.Int("rounds", 0, "rounds; in each, every variant runs once (default: the part's own)")
	variants := flags.String("variants", "", "only these, and others that the part does not know by itself")
	flags.StringVar(&o.bridge, "bridge", "bin/eosbridge", "the binary to measure (make build)")
	flags.StringVar(&o.peers, "peers", ".cache/peers", "folder of the built peers (make peers)")
	flags.StringVar(&o.profiles, "profiles", "", "folder for CPU and memory profiles of each copy; they cost some per cent")
	flags.StringVar(&o.file, "json", "docs/performance.json", "file of all results")
	flags.StringVar(&o.page, "page", "docs/performance.md", "page to write; empty = none")
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
	o.parts = flags.Args()
	if len(o.parts) == 0 {
		for _, p := range parts {
			o.parts = append(o.parts, p.name)
		}
	}
	if *variants != "" {
		o.variants = strings.Split(*variants, ",")
	}
	var ok bool
	if o.size, ok = presets[*size]; !ok {
		return nil, fmt.Errorf("-size %q: known are full, quick and tiny", *size)
	}
	if *rounds > 0 {
		o.size.rounds, o.size.fewRounds = *rounds, *rounds
	}
	flags.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"size", "rounds", "variants", "env"}, f.Name) {
			o.flags = strings.TrimSpace(o.flags + " -" + f.Name + "=" + f.Value.String())
		}
	})
	for v, settings := range o.env {
		o.flags += " (" + v + ": " + strings.Join(settings, " ") + ")"
	}
	var err error
	if o.self, err = os.Executable(); err != nil {
		return nil, err
	}
	return o, o.check()
}

func (o *options) check() error {
	for _, name := range o.parts {
		if name == pageOnly {
			continue
		}
		if _, ok := partOf(name); !ok {
			return fmt.Errorf("part %q: there are %s", name, strings.Join(partNames(), ", "))
		}
		if _, err := os.Stat(o.bridge); err != nil {
			return fmt.Errorf("no bridge to measure: %w: run make build, or name it with -bridge", err)
		}
	}
	return nil
}

// estimate is how long the named parts take.
func (o *options) estimate() (sum time.Duration) {
	for _, name := range o.parts {
		if p, ok := partOf(name); ok {
			sum += p.estimate(o.size)
		}
	}
	return sum
}
