package cli

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"regexp"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/bridge"
	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/internal/exposition"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
)

func runCommand() command {
	return command{
		name:    "run",
		summary: "bridge until it is told to stop",
		usage: `usage: eosbridge run [--until-end]
       eosbridge run --dry-run [--records N] [--for DURATION] [--until-end] [--sample N] [--json]

Reads the input topics, transforms, and writes the output topic; each checkpoint epoch commits its output and
the positions of its input in one Kafka transaction. The configuration comes from the environment.

  --until-end      end with status 0 once everything that the input holds now is committed

SIGTERM or SIGINT ends it in order: last barrier, commit, leave the group. A second one ends it at once.

A dry run reads from where the group's positions are, or BRIDGE_START, and transforms. It shows some of the records
before and after, and counts what became of them. It produces nothing, commits nothing, opens no transaction and joins
no group: it may run beside the bridge. The status is 1 if records were refused. It prints what is in records.

  --dry-run        read and transform, and nothing else
  --records N      end after so many records (10000)
  --for DURATION   end after this time (10s); Ctrl-C ends it, too, with the report
  --sample N       records of each kind to show: changed, dropped, failed (3)
  --json           print the report as JSON`,
		example: `KAFKA_BOOTSTRAP_SERVERS=localhost:9092 BRIDGE_INPUT_TOPICS=orders BRIDGE_OUTPUT_TOPIC=orders-clean \
BRIDGE_GROUP_ID=orders-bridge eosbridge run
BRIDGE_TRANSFORM='json_delete(customer.email)' eosbridge run --dry-run --records 1000`,
		run: run,
	}
}

func run(ctx context.Context, c *Context, args []string) error {
	flags := newFlags("run")
	untilEnd := flags.Bool("until-end", false, "")
	dry := flags.Bool("dry-run", false, "")
	var trial dryRunFlags
	flags.Int64Var(&trial.records, "records", 10_000, "")
	flags.DurationVar(&trial.lasts, "for", 10*time.Second, "")
	flags.IntVar(&trial.sample, "sample", 3, "")
	flags.BoolVar(&trial.json, "json", false, "")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := trial.check(*dry, given); err != nil {
		return err
	}
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	log := newLogger(c.Stderr, cfg.Log)
	o, err := bridgeOptions(cfg, log)
	if err != nil {
		return err
	}
	o.Version = c.build().Version
	tuneCollector(c.Environ, o.Memory)
	o.UntilEnd = *untilEnd
	if err := resolveSchemas(ctx, o.Chain); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before anything was begun
		}
		return err
	}
	if _, target := o.Chain.Registries(); target && *dry {
		return &exitError{exitConfig, errors.New("the chain has a schema_map_id, which registers schemas in the target registry, and a dry run changes nothing: leave it out of BRIDGE_TRANSFORM")}
	}
	if *dry {
		trial.untilEnd = *untilEnd
		return runDry(ctx, c, o, trial)
	}
	tracing, err := newTracing(cfg, &o)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	b, err := bridge.New(o)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	log.Info("eosbridge starts", "version", o.Version, "group", o.Group, "instance", o.Instance,
		"delivery", string(o.Delivery), "memory", config.Bytes(o.Memory).String())
	notifying, cancel := context.WithCancel(ctx)
	var manager sync.WaitGroup
	manager.Go(func() { newNotifier(c.Environ, log).run(notifying, b.Health) })
	defer manager.Wait()
	defer cancel()
	defer tracing.start(c.Abort)() // the last epoch's trace, too
	return b.Run(ctx, c.Abort)
}

// bridgeOptions turns the configuration into what the bridge needs.
func bridgeOptions(cfg *config.Config, log *slog.Logger) (bridge.Options, error) {
	refuse := func(err error) (bridge.Options, error) { return bridge.Options{}, &exitError{exitConfig, err} }
	client, dialer, err := wiredOptions(cfg, log)
	if err != nil {
		return refuse(err)
	}
	outside, err := schemaRegistries(cfg, log)
	if err != nil {
		return refuse(err)
	}
	chain, err := transform.ParseWith(cfg.Bridge.Transform, outside)
	if err != nil {
		return refuse(err)
	}
	start, err := offsets.ParseStart(cfg.Bridge.Start)
	if err != nil {
		return refuse(err)
	}
	registry := exposition.New(log)
	reading, writing := newClientMetrics("consumer", registry), newClientMetrics("producer", registry)
	dialer.Beside = func(node int32, key kmsg.Key, written, read int) {
		if key == kmsg.Fetch {
			reading.beside(node, written, read)
		} else {
			writing.beside(node, written, read)
		}
	}
	registry.MustRegister(collectors.NewGoCollector(), exposition.Process())
	b := cfg.Bridge
	o := bridge.Options{
		Group: b.GroupID, Instance: b.InstanceID, Prefix: b.TxnPrefix, Consumer: b.GroupProtocol == config.GroupProtocolConsumer,
		Inputs: b.InputTopics.Names(), Output: b.OutputTopic, ByKey: b.Partitioning == config.PartitioningKey, Chain: chain,
		Provenance: b.Provenance, PassThrough: b.PassThrough == config.PassThroughAuto, Compression: compression(b.Compression),
		OnError: bridge.OnError(b.OnError), DLQ: b.DLQTopic, ErrorLimit: b.ErrorLimit,
		Delivery: bridge.Delivery(b.Delivery), Start: start,
		EpochInterval: b.EpochInterval, IntervalChosen: cfg.IsSet("BRIDGE_EPOCH_INTERVAL"), EpochTimeout: b.EpochTimeout,
		EpochMaxInterval: b.EpochMaxInterval, EpochMinPause: b.EpochMinPause, EpochMaxRecords: int64(b.EpochMaxRecords), EpochMaxBytes: int64(b.EpochMaxBytes),
		TxnTimeout: b.TxnTimeout, SessionTimeout: b.SessionTimeout, RebalanceTimeout: b.RebalanceTimeout,
		LeaveOnStop: b.LeaveOnStop, StopTimeout: b.StopTimeout,
		Lanes: b.Lanes, Memory: memoryLimit(int64(b.MemoryLimit)),
		RestartMaxDelay: b.RestartMaxDelay, RestartLimit: b.RestartLimit,
		Client:    client,
		Link:      dialer,
		Fetching:  append(consumerOptions(cfg), kgo.WithHooks(reading)),
		Producing: []kgo.Opt{kgo.ProducerBatchCompression(compression(b.Compression)), kgo.WithHooks(writing)},
		HTTPAddr:  string(b.HTTPAddr), PprofAddr: string(b.PprofAddr),
		Registerer: registry, Metrics: registry, Log: log,
	}
	for _, s := range cfg.Settings() {
		o.Settings = append(o.Settings, bridge.Setting{Name: s.Name, Value: s.Value})
	}
	if o.Lanes == 0 {
		o.Lanes = runtime.GOMAXPROCS(0)
	}
	if cfg.IsSet("BRIDGE_COMPRESSION") {
		codec := codecType(b.Compression)
		o.Recompress = &codec
	}
	if p := b.InputTopics.Pattern(); p != "" {
		if o.Pattern, err = regexp.Compile(p); err != nil {
			return refuse(err)
		}
	}
	return o, nil
}

// memoryLimit answers the memory that the process may use.
func memoryLimit(asked int64) int64 {
	const fallback = 512 << 20
	limit := asked
	if limit == 0 {
		limit = fallback
		if cgroup, err := memlimit.FromCgroup(); err == nil && cgroup > 0 && cgroup < 1<<50 {
			limit = int64(cgroup) / 10 * 9 //nolint:gosec // bounded above
		}
	}
	return limit
}

// bridgeGCPercent is by how much the heap may grow between two collections; see tuneCollector.
const bridgeGCPercent = 400

// tuneCollector lets the garbage collector run by memory rather than by the growth of the heap: records are
// garbage soon after they are read, so collecting late costs no memory that was not granted and saves a fifth to
// a third of the CPU time per small record (docs/performance.md). Who sets GOGC or GOMEMLIMIT knows better.
func tuneCollector(environ map[string]string, memory int64) {
	if environ["GOGC"] == "" {
		debug.SetGCPercent(bridgeGCPercent)
	}
	if environ["GOMEMLIMIT"] == "" {
		debug.SetMemoryLimit(collectorLimit(memory))
	}
}

// collectorLimit is the memory of Go's runtime from which on it collects more often than the growth of the heap asks for.
// The runtime does not count the pages of the binary itself, and overshoots while it collects: a tenth and outsideGo are
// left for that. Half of a large limit, and the whole of one below collectLate, are enough: the live heap,
// which the shares in bridge/memory.go bound, is far below it, and a larger heap only misses the processor's cache.
func collectorLimit(memory int64) int64 {
	const outsideGo, collectLate, least = 24 << 20, 192 << 20, 16 << 20
	return max(min((memory-outsideGo)/10*9, max(collectLate, memory/2)), least)
}

func compression(name string) kgo.CompressionCodec {
	switch name {
	case "none":
		return kgo.NoCompression()
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "zstd":
		return kgo.ZstdCompression()
	default:
		return kgo.Lz4Compression()
	}
}

func codecType(name string) kgo.CompressionCodecType {
	switch name {
	case "none":
		return kgo.CodecNone
	case "gzip":
		return kgo.CodecGzip
	case "snappy":
		return kgo.CodecSnappy
	case "zstd":
		return kgo.CodecZstd
	default:
		return kgo.CodecLz4
	}
}
