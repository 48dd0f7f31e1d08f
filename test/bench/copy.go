package main

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
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// copyOptions are the flags of the children plain and session.
type copyOptions struct {
	bootstrap, in, out, group, compression, pprof string
	interval                                      time.Duration
}

// arguments is what parseCopy reads back.
func (o copyOptions) arguments() []string {
	return []string{
		"-bootstrap", o.bootstrap, "-in", o.in, "-out", o.out, "-group", o.group,
		"-compression", o.compression, "-interval", o.interval.String(), "-pprof", o.pprof,
	}
}

func parseCopy(name string, args []string, stderr io.Writer) (o copyOptions, err error) {
	flags := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.bootstrap, "bootstrap", "", "host:port")
	flags.StringVar(&o.in, "in", "", "topic to read")
	flags.StringVar(&o.out, "out", "", "topic to write")
	flags.StringVar(&o.group, "group", "", "consumer group")
	flags.StringVar(&o.compression, "compression", "none", "of the output")
	flags.StringVar(&o.pprof, "pprof", "", "host:port of Go's profiler; empty = off")
	flags.DurationVar(&o.interval, "interval", 100*time.Millisecond, "of commits")
	return o, flags.Parse(args)
}

// children are the programs that bench starts besides the bridge. Each runs
// until ctx ends.
var children = map[string]func(context.Context, copyOptions) (epochs, float64, error){
	variantPlain:   runPlain,
	variantSession: runSession,
}

// childReport is the line that a child prints at its end.
type childReport struct {
	Epochs     epochs  `json:"epochs"`
	StallShare float64 `json:"stall_share"`
}

func runChild(ctx context.Context, child func(context.Context, copyOptions) (epochs, float64, error), args []string, stdout, stderr io.Writer) error {
	o, err := parseCopy("child", args, stderr)
	if err != nil {
		return err
	}
	if o.pprof != "" {
		listener, err := net.Listen("tcp", o.pprof)
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
	e, stall, err := child(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(childReport{Epochs: e, StallShare: stall})
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

// client are the options that plain and session share. The buffers are what a
// careful user of the library would choose for throughput; smaller ones cost
// CPU, larger ones memory.
func (o copyOptions) client() ([]kgo.Opt, error) {
	compression, err := codec(o.compression)
	if err != nil {
		return nil, err
	}
	return []kgo.Opt{
		kgo.SeedBrokers(o.bootstrap),
		kgo.ConsumerGroup(o.group),
		kgo.ConsumeTopics(o.in),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxPartitionBytes(4 << 20),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(compression),
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.ProducerBatchMaxBytes(1 << 20),
		kgo.MaxBufferedRecords(200_000),
		kgo.MaxBufferedBytes(64 << 20),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
	}, nil
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
func runPlain(ctx context.Context, o copyOptions) (epochs, float64, error) {
	opts, err := o.client()
	if err != nil {
		return epochs{}, 0, err
	}
	cl, err := kgo.NewClient(append(opts, kgo.AutoCommitMarks(), kgo.AutoCommitInterval(o.interval))...)
	if err != nil {
		return epochs{}, 0, err
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
			return epochs{}, 0, err
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
		return epochs{}, 0, err
	}
	ending, cancel := context.WithTimeout(producing, 10*time.Second)
	defer cancel()
	if err := cl.Flush(ending); err != nil {
		return epochs{}, 0, err
	}
	return epochs{}, 0, cl.CommitMarkedOffsets(ending)
}

// errFailed tells a failure from a stop.
var errFailed = errors.New("produce")
