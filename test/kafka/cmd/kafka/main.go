// Command kafka runs a real Apache Kafka for people: it prints the bootstrap
// address and runs until Ctrl-C. The data is gone afterwards.
//
//	go run ./test/kafka/cmd/kafka --version 4.4.0 --nodes 1
//	go run ./test/kafka/cmd/kafka --fetch 4.4.0 3.9.1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/eosbridge/eosbridge/test/kafka"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "kafka:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o := kafka.Options{Properties: map[string]string{}, Features: map[string]int16{}}
	flags := flag.NewFlagSet("kafka", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Version, "version", kafka.V44, "version of Apache Kafka")
	flags.IntVar(&o.Nodes, "nodes", 1, "1 or 3")
	fetch := flags.Bool("fetch", false, "only prepare the versions given as arguments in the cache")
	flags.Func("property", "key=value for server.properties; may be repeated", func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want key=value")
		}
		o.Properties[key] = value
		return nil
	})
	flags.Func("feature", "name=level to finalize, e.g. transaction.version=1; may be repeated", func(s string) error {
		name, value, _ := strings.Cut(s, "=")
		level, err := strconv.ParseInt(value, 10, 16)
		if err != nil {
			return errors.New("want name=level")
		}
		o.Features[name] = int16(level)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *fetch {
		for _, version := range flags.Args() {
			dir, _, err := kafka.Prepare(ctx, version)
			if err != nil {
				return err
			}
			fmt.Fprintln(stdout, dir)
		}
		return nil
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	c, err := kafka.Run(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fmt.Fprintln(stdout, c.Bootstrap())
	for _, n := range c.Nodes() {
		fmt.Fprintf(stderr, "node %d: %s pid %d log %s\n", n.ID(), n.Addr(), n.Pid(), n.LogPath())
	}
	fmt.Fprintln(stderr, "Ctrl-C ends it and removes its data")
	<-ctx.Done()
	return nil
}
