// Package copies holds the programs that the bridge is measured against, on the same client library: a plain copy
// without a guarantee and the library's own exactly-once session, both with settings of someone who knows it. They
// run as processes of their own, see Main.
package copies

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/bench/variant"
)

// The programs' names.
const (
	Plain   = "plain"
	Session = "session"
)

// programs are what Main runs. Each ends with its context.
var programs = map[string]func(context.Context, options) (Report, error){
	Plain:   runPlain,
	Session: runSession,
}

// Known says whether there is a program of this name.
func Known(name string) bool { return programs[name] != nil }

// Report is the line that a program prints at its end.
type Report struct {
	Committed  int     `json:"committed"` // transactions
	Aborted    int     `json:"aborted"`
	Interval   float64 `json:"interval_ms"` // from one to the next, median
	Commit     float64 `json:"commit_ms"`   // from the end of input to the acknowledged commit, median
	Commit99   float64 `json:"commit99_ms"` // 99th percentile
	StallShare float64 `json:"stall_share"` // of the time from the first transaction to the last
}

// Variants are the programs as variants; self is the path of a binary that calls Main for them.
func Variants(self string) []variant.Variant {
	command := func(name string) func(variant.Work) (variant.Command, error) {
		return func(w variant.Work) (variant.Command, error) {
			c := variant.Command{Path: self, Args: append([]string{name}, arguments(w)...)}
			if w.Memory > 0 { // as the bridge does for itself
				c.Env = []string{"GOGC=400", "GOMEMLIMIT=" + strconv.FormatInt(w.Memory*15/32, 10)}
			}
			return c, nil
		}
	}
	return []variant.Variant{
		{
			Name: Session, ExactlyOnce: true, Reports: true, Command: command(Session),
			About: "franz-go's GroupTransactSession: one transaction after the other, nothing is read while one ends; linger 5 ms, batches up to 1 MiB, 4 MiB per partition and fetch, 64 MiB buffered, static member",
		},
		{
			Name: Plain, Command: command(Plain),
			About: "no guarantee: one loop, the fetched record is the one that is produced, positions are marked as acknowledged and committed each interval; the same buffers",
		},
	}
}

// options are the flags of the programs.
type options struct {
	bootstrap, in, out, group, instance, compression, pprof string
	interval, linger                                        time.Duration
	memory                                                  int64
}

// arguments is what parse reads back.
func arguments(w variant.Work) []string {
	return []string{
		"-bootstrap", w.Bootstrap, "-in", w.In, "-out", w.Out, "-group", w.Group, "-instance", w.Instance, "-compression", w.Compression,
		"-interval", w.Interval.String(), "-linger", w.Linger.String(), "-memory", strconv.FormatInt(w.Memory, 10), "-pprof", w.Pprof,
	}
}

func parse(name string, args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.bootstrap, "bootstrap", "", "host:port")
	flags.StringVar(&o.in, "in", "", "topic to read")
	flags.StringVar(&o.out, "out", "", "topic to write")
	flags.StringVar(&o.group, "group", "", "consumer group, and stem of the transactional id")
	flags.StringVar(&o.instance, "instance", "", "static member; empty = dynamic")
	flags.StringVar(&o.compression, "compression", "none", "of the output")
	flags.StringVar(&o.pprof, "pprof", "", "host:port of Go's profiler; empty = off")
	flags.DurationVar(&o.interval, "interval", 100*time.Millisecond, "of commits")
	flags.DurationVar(&o.linger, "linger", 0, "of the producer; 0 = 5ms")
	flags.Int64Var(&o.memory, "memory", 0, "bytes that buffers are sized for; 0 = for throughput")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.linger == 0 {
		o.linger = 5 * time.Millisecond
	}
	return o, nil
}

// Main runs the program of a name until ctx ends and prints its Report.
func Main(ctx context.Context, name string, args []string, stdout, stderr io.Writer) error {
	o, err := parse(name, args, stderr)
	if err != nil {
		return err
	}
	if o.pprof != "" {
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", o.pprof)
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		go func() { _ = server.Serve(listener) }() // ends with the process
	}
	report, err := programs[name](ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(report)
}

func codec(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.CompressionCodec{}, fmt.Errorf("compression %q: known are none, gzip, snappy, lz4, zstd", name)
}

// pollRecords bounds one poll, as the bridge does.
const pollRecords = 10_000

// client are the options that both programs share. The buffers are what a careful user of the library would choose for
// throughput; smaller ones cost CPU, larger ones memory. With a limit they shrink with it.
func (o options) client() ([]kgo.Opt, error) {
	compression, err := codec(o.compression)
	if err != nil {
		return nil, err
	}
	fetch, buffered := int64(4<<20), int64(64<<20)
	if o.memory > 0 {
		fetch, buffered = min(fetch, o.memory/64), min(buffered, o.memory/8)
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.bootstrap),
		kgo.ConsumerGroup(o.group),
		kgo.ConsumeTopics(o.in),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(int32(min(50<<20, buffered))), //nolint:gosec // at most 50 MiB
		kgo.FetchMaxPartitionBytes(int32(fetch)),        //nolint:gosec // at most 4 MiB
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(compression),
		kgo.ProducerLinger(o.linger),
		kgo.ProducerBatchMaxBytes(1 << 20),
		kgo.MaxBufferedRecords(200_000),
		kgo.MaxBufferedBytes(int(buffered)),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
	}
	if o.instance != "" {
		opts = append(opts, kgo.InstanceID(o.instance))
	}
	return opts, nil
}

// fetchFailure is the first error of a poll that no retry will cure.
func fetchFailure(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.Canceled) && !errors.Is(e.Err, context.DeadlineExceeded) {
			return fmt.Errorf("read %s partition %d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	return nil
}

// runPlain copies without a guarantee beyond at-least-once: what the broker
// acknowledged is marked, what is marked is committed now and then. The record
// that was fetched is the one that is produced: nothing is allocated per record.
func runPlain(ctx context.Context, o options) (Report, error) {
	opts, err := o.client()
	if err != nil {
		return Report{}, err
	}
	cl, err := kgo.NewClient(append(opts, kgo.AutoCommitMarks(), kgo.AutoCommitInterval(o.interval))...)
	if err != nil {
		return Report{}, err
	}
	defer cl.Close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	producing := context.WithoutCancel(ctx) // a stop drains what was read
	check := func(_ *kgo.Record, err error) {
		if err != nil {
			fail(fmt.Errorf("%w: %w", errFailed, err))
		}
	}
	for ctx.Err() == nil {
		fetches := cl.PollRecords(ctx, pollRecords)
		if err := fetchFailure(fetches); err != nil {
			return Report{}, err
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) == 0 {
				return
			}
			last := p.Records[len(p.Records)-1]
			next := map[string]map[int32]kgo.EpochOffset{
				p.Topic: {p.Partition: {Epoch: last.LeaderEpoch, Offset: last.Offset + 1}},
			}
			for _, r := range p.Records[:len(p.Records)-1] {
				r.Topic = o.out
				cl.Produce(producing, r, check)
			}
			last.Topic = o.out
			// The last one: a partition's records are acknowledged in order.
			cl.Produce(producing, last, func(r *kgo.Record, err error) {
				check(r, err)
				if err == nil {
					cl.MarkCommitOffsets(next)
				}
			})
		})
	}
	if err := context.Cause(ctx); errors.Is(err, errFailed) {
		return Report{}, err
	}
	ending, cancel := context.WithTimeout(producing, 10*time.Second)
	defer cancel()
	if err := cl.Flush(ending); err != nil {
		return Report{}, err
	}
	return Report{}, cl.CommitMarkedOffsets(ending)
}

// errFailed tells a failure from a stop.
var errFailed = errors.New("produce")
