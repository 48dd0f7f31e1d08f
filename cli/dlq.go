package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/bridge"
	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
)

// replayGroup is what the replay adds to the pipeline's group and transactional prefix: it has its own positions.
const replayGroup = ".dlq"

func dlqCommand() command {
	return command{
		name:    "dlq",
		summary: "list dead letters, and replay them into the input topics exactly once",
		usage: `usage: eosbridge dlq list [--json] [--limit N]
       eosbridge dlq replay

list shows what lies in BRIDGE_DLQ_TOPIC: where each record comes from, and why it is there.

replay writes the dead letters of this pipeline (BRIDGE_GROUP_ID) back to the topic and partition that they came from,
as they were, without the headers that say why; then it ends. It writes and advances its own positions, those of the
group '<BRIDGE_GROUP_ID>.dlq', in the same transactions: whenever it is killed and started again, each dead letter
is written once. The next replay goes on where this one ended. Correct first what the records failed at, or they
come back as new dead letters. Needed besides what the bridge needs: Write on the input topics, Read on
BRIDGE_DLQ_TOPIC, and the group and transactional ids with that ending.

  --json      list: print a JSON object per line
  --limit N   list: show the first N only (0 = all)`,
		example: `BRIDGE_ON_ERROR=dlq BRIDGE_DLQ_TOPIC=orders-dlq KAFKA_BOOTSTRAP_SERVERS=localhost:9092 \
BRIDGE_INPUT_TOPICS=orders BRIDGE_OUTPUT_TOPIC=orders-clean BRIDGE_GROUP_ID=orders-bridge eosbridge dlq replay`,
		run: runDLQ,
	}
}

func runDLQ(ctx context.Context, c *Context, args []string) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "list":
		return listLetters(ctx, c, args)
	case "replay":
		return replayLetters(ctx, c, args)
	case "":
		return usageErrorf("a subcommand is missing: use eosbridge dlq list, or dlq replay")
	}
	return usageErrorf("unknown subcommand %q: use eosbridge dlq list, or dlq replay", name)
}

// loadLetters reads the configuration, which has to name a topic for dead letters.
func loadLetters(c *Context) (*config.Config, error) {
	cfg, err := loadConfig(c)
	if err == nil && cfg.Bridge.DLQTopic == "" {
		err = &exitError{exitConfig, errors.New("BRIDGE_DLQ_TOPIC is not set: give this command the configuration of the bridge, with BRIDGE_ON_ERROR=dlq")}
	}
	return cfg, err
}

func replayLetters(ctx context.Context, c *Context, args []string) error {
	if err := parseFlags(newFlags("dlq replay"), args); err != nil {
		return err
	}
	cfg, err := loadLetters(c)
	if err != nil {
		return err
	}
	log := newLogger(c.Stderr, cfg.Log)
	o, err := replayOptions(ctx, cfg, log)
	if err != nil {
		return err
	}
	o.Version = c.build().Version
	tuneCollector(c.Environ, o.Memory)
	b, err := bridge.New(o)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	log.Info("dead letters are replayed", "topic", cfg.Bridge.DLQTopic, "group", o.Group, "instance", o.Instance)
	if err := b.Run(ctx, c.Abort); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Stdout, "replayed %s dead letters of topic %s\n", grouped(b.Written()), cfg.Bridge.DLQTopic)
	return err
}

// replayOptions is a bridge from the dead letters to the inputs, with the group of the replay.
func replayOptions(ctx context.Context, cfg *config.Config, log *slog.Logger) (bridge.Options, error) {
	o, err := bridgeOptions(cfg, log)
	if err != nil {
		return o, err
	}
	topics := o.Inputs
	if o.Pattern != nil {
		if topics, err = matching(ctx, o.Client, o.Pattern, cfg.Bridge.DLQTopic); err != nil {
			return o, err
		}
	}
	o.Restore = &bridge.Restore{Group: o.Group, Topics: topics}
	o.Inputs, o.Pattern, o.Output, o.ByKey, o.Provenance, o.PassThrough = []string{cfg.Bridge.DLQTopic}, nil, "", false, false, false
	if o.Chain, err = transform.Parse(""); err != nil {
		return o, err
	}
	o.OnError, o.DLQ = bridge.Fail, ""
	o.Delivery, o.Start, o.UntilEnd = bridge.ExactlyOnce, offsets.Start{Kind: offsets.StartEarliest}, true
	o.Group, o.Prefix = o.Group+replayGroup, o.Prefix+replayGroup
	o.HTTPAddr, o.PprofAddr = "", "" // the bridge beside us may have them
	return o, nil
}

// matching lists the topics that a regular expression stands for.
func matching(ctx context.Context, opts []kgo.Opt, pattern *regexp.Regexp, except string) ([]string, error) {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	defer cl.Close()
	found, err := kadm.NewClient(cl).ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var names []string
	for _, name := range found.Names() {
		if pattern.MatchString(name) && !strings.HasPrefix(name, "__") && name != except {
			names = append(names, name)
		}
	}
	return names, nil
}

// listedLetter is a dead letter in the list for programs.
type listedLetter struct {
	At     int64 `json:"at"` // offset in the topic of dead letters
	Within int32 `json:"in_partition"`
	bridge.Letter
	Key   []byte `json:"key"`
	Bytes int    `json:"value_bytes"`
}

func listLetters(ctx context.Context, c *Context, args []string) error {
	flags := newFlags("dlq list")
	asJSON := flags.Bool("json", false, "")
	limit := flags.Int("limit", 0, "")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if *limit < 0 {
		return usageErrorf("--limit %d: use 0 or more", *limit)
	}
	cfg, err := loadLetters(c)
	if err != nil {
		return err
	}
	opts, err := kafkaOptions(cfg, newLogger(c.Stderr, cfg.Log))
	if err != nil {
		return &exitError{exitConfig, err}
	}
	if *asJSON {
		lines := json.NewEncoder(c.Stdout)
		lines.SetEscapeHTML(false)
		return eachLetter(ctx, opts, cfg.Bridge.DLQTopic, *limit, func(l listedLetter) error { return lines.Encode(l) })
	}
	table := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "dead letter\trecord\tclass\tmessage")
	err = eachLetter(ctx, opts, cfg.Bridge.DLQTopic, *limit, func(l listedLetter) error {
		_, err := fmt.Fprintf(table, "%d/%d\t%s/%d/%d\t%s\t%q\n", l.Within, l.At, l.Topic, l.Partition, l.Offset, l.Class, l.Message)
		return err
	})
	return errors.Join(err, table.Flush())
}

// eachLetter calls show for each dead letter that a read_committed reader sees now, partition by partition.
func eachLetter(ctx context.Context, opts []kgo.Opt, topic string, limit int, show func(listedLetter) error) error {
	cl, err := kgo.NewClient(append(slices.Clip(opts), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("look at topic %s: %w", topic, err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("look at topic %s: %w", topic, err)
	}
	if err := errors.Join(starts.Error(), ends.Error()); err != nil {
		return fmt.Errorf("look at topic %s: %w", topic, err)
	}
	shown := 0
	for _, end := range ends.Offsets().Sorted() {
		start, _ := starts.Lookup(topic, end.Partition)
		cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {end.Partition: kgo.NewOffset().At(start.Offset)}})
		for at := start.Offset; at < end.At; {
			fetches := cl.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return fmt.Errorf("read topic %s partition %d: %w", topic, end.Partition, err)
			}
			for _, r := range fetches.Records() {
				if r.Partition != end.Partition {
					continue
				}
				if at = r.Offset + 1; r.Offset >= end.At || r.Attrs.IsControl() {
					continue
				}
				letter, _, ok := bridge.ReadLetter(r.Headers)
				if !ok {
					continue
				}
				if err := show(listedLetter{r.Offset, r.Partition, letter, r.Key, len(r.Value)}); err != nil {
					return err
				}
				if shown++; shown == limit {
					return nil
				}
			}
		}
		cl.RemoveConsumePartitions(map[string][]int32{topic: {end.Partition}})
	}
	return nil
}
