// Command audit measures `eosbridge audit` on a real Apache Kafka that it starts itself:
//
//	make bench-audit
//	make bench-audit AUDITFLAGS='-records 1000000 -provenance'
//
// It writes records of 100 bytes to a topic, lets the bridge copy them, and audits the copy. What it prints is the
// time from the start of the process to its end, the peak of its memory (VmHWM) and its CPU time.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/kafka"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "audit:", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	records    int64
	size       int
	partitions int
	rounds     int
	provenance bool
	transform  string
	key        bool
	binary     string
	profile    string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("audit", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Int64Var(&o.records, "records", 10_000_000, "records")
	flags.IntVar(&o.size, "size", 100, "bytes of a value")
	flags.IntVar(&o.partitions, "partitions", 4, "partitions of both topics")
	flags.IntVar(&o.rounds, "rounds", 3, "audits")
	flags.BoolVar(&o.provenance, "provenance", false, "with provenance headers")
	flags.BoolVar(&o.key, "key", false, "partition by key: one comparison over all partitions")
	flags.StringVar(&o.transform, "transform", "", "a chain, such as set_header(x=y): compare by origin")
	flags.StringVar(&o.binary, "bridge", "bin/eosbridge", "the binary (make build)")
	flags.StringVar(&o.profile, "env", "", "NAME=value for the audit's environment, such as GODEBUG=gctrace=1")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "starting Apache Kafka %s\n", kafka.V44)
	c, err := kafka.Run(ctx, kafka.Options{
		Version: kafka.V44,
		JVM:     []string{"-server", "-Xms1g", "-Xmx1g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := load(ctx, c.Bootstrap(), o); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	environ := []string{
		"KAFKA_BOOTSTRAP_SERVERS=" + c.Bootstrap(), "BRIDGE_INPUT_TOPICS=in", "BRIDGE_OUTPUT_TOPIC=out",
		"BRIDGE_GROUP_ID=bench", "BRIDGE_INSTANCE_ID=bench", "BRIDGE_HTTP_ADDR=off", "BRIDGE_COMPRESSION=none", "LOG_LEVEL=warn",
		"BRIDGE_PROVENANCE=" + strconv.FormatBool(o.provenance), "BRIDGE_TRANSFORM=" + o.transform,
	}
	if o.key {
		environ = append(environ, "BRIDGE_PARTITIONING=key")
	}
	fmt.Fprintln(stderr, "the bridge copies")
	began := time.Now()
	bridge := exec.CommandContext(ctx, o.binary, "run", "--until-end")
	bridge.Env, bridge.Stderr = environ, stderr
	if err := bridge.Run(); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	fmt.Fprintf(stderr, "copied in %.1f s\n", time.Since(began).Seconds())
	for range o.rounds {
		if err := audit(ctx, o, environ, stdout, stderr); err != nil {
			return err
		}
	}
	return nil
}

// load writes the input.
func load(ctx context.Context, bootstrap string, o options) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1<<20),
		kgo.MaxBufferedRecords(200_000), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if answers, err := adm.CreateTopics(ctx, int32(o.partitions), 1, nil, "in", "out"); err != nil || answers.Error() != nil {
		return errors.Join(err, answers.Error())
	}
	var failed error
	filler := bytes.Repeat([]byte("x"), o.size)
	for i := range o.records {
		value := append(make([]byte, 0, o.size+20), strconv.FormatInt(i, 10)...)
		value = append(value, filler[:max(0, o.size-len(value))]...)
		r := &kgo.Record{Topic: "in", Partition: int32(i % int64(o.partitions)), Key: value[:min(len(value), 12)], Value: value}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	return errors.Join(cl.Flush(ctx), failed)
}

// audit runs the command once and prints a line about it.
func audit(ctx context.Context, o options, environ []string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, o.binary, "audit", "--json")
	cmd.Env, cmd.Stderr = environ, stderr
	if o.profile != "" {
		cmd.Env = append(environ[:len(environ):len(environ)], o.profile)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	peak := make(chan int64, 1)
	gone := make(chan struct{})
	go func() { peak <- watch(cmd.Process.Pid, gone) }() // ended by gone
	err := cmd.Wait()
	took := time.Since(began)
	close(gone)
	var report struct {
		Verdict string
		Sources []struct{ Records int64 }
	}
	if jsonErr := json.Unmarshal(out.Bytes(), &report); jsonErr != nil {
		return errors.Join(err, jsonErr)
	}
	var records int64
	for _, s := range report.Sources {
		records += s.Records
	}
	state := cmd.ProcessState
	_, err = fmt.Fprintf(stdout, "%s: %d records on each side in %.1f s: %.0f records/s, CPU %.1f s, peak %d MiB\n", report.Verdict, records,
		took.Seconds(), float64(records)/took.Seconds(), (state.UserTime() + state.SystemTime()).Seconds(), <-peak)
	return err
}

// watch answers the highest VmHWM of a process in MiB.
func watch(pid int, gone <-chan struct{}) (peak int64) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-gone:
			return peak
		case <-ticker.C:
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				if kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64); err == nil {
					peak = max(peak, kib/1024)
				}
			}
		}
	}
}
