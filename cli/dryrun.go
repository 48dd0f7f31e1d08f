package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/bridge"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
)

// dryRunFlags are the settings of run --dry-run.
type dryRunFlags struct {
	records  int64
	lasts    time.Duration
	sample   int
	json     bool
	untilEnd bool
}

// reachWithin is how long the cluster may take to tell where to read.
const reachWithin = 30 * time.Second

// dryRun reads what the bridge would read and transforms it, and that is all: it has no producer, joins no group, and
// commits nothing. Partitions are read by assignment, from where the group's positions are now.
type dryRun struct {
	flags dryRunFlags
	opts  bridge.Options
	tally *dryTally

	next map[offsets.TopicPartition]int64 // what is read next
	ends map[offsets.TopicPartition]int64 // with untilEnd: where a partition ends, until it is reached
}

func runDry(ctx context.Context, c *Context, o bridge.Options, flags dryRunFlags) error {
	d := dryRun{flags: flags, opts: o, tally: newDryTally(o.Group, o.Chain, flags.sample), next: map[offsets.TopicPartition]int64{}, ends: map[offsets.TopicPartition]int64{}}
	if err := d.place(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := d.read(ctx); err != nil {
		return err
	}
	d.tally.Seconds = time.Since(began).Seconds()
	d.tally.finish()
	var err error
	if flags.json {
		err = printJSON(c.Stdout, d.tally)
	} else {
		err = d.tally.write(c.Stdout)
	}
	if err == nil && d.tally.Failed > 0 {
		err = failedDryRun{}
	}
	return err
}

// failedDryRun is the end of a dry run in which records were refused; the report has told.
type failedDryRun struct{}

func (failedDryRun) Error() string { return "records were refused" }

func (failedDryRun) Quiet() bool { return true }

// place finds the partitions and where to begin in them, as the bridge would.
func (d *dryRun) place(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	client, err := kgo.NewClient(d.opts.Client...)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := d.inputs(ctx, admin)
	if err == nil {
		err = d.positions(ctx, admin, topics)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = &exitError{exitUnavailable, err}
	}
	return err
}

// inputs lists the topics to read.
func (d *dryRun) inputs(ctx context.Context, admin *kadm.Client) ([]string, error) {
	topics, err := admin.ListTopics(ctx, d.opts.Inputs...)
	if err != nil {
		return nil, fmt.Errorf("list input topics: %w", err)
	}
	var names []string
	reads := d.opts.Reads()
	for _, t := range topics.Sorted() {
		if !reads(t.Topic) {
			continue
		}
		if errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			return nil, &exitError{exitConfig, fmt.Errorf("input topic %q does not exist (BRIDGE_INPUT_TOPICS): create it, or correct the name", t.Topic)}
		}
		if t.Err != nil {
			return nil, fmt.Errorf("input topic %q: %w", t.Topic, t.Err)
		}
		names = append(names, t.Topic)
	}
	if len(names) == 0 {
		return nil, &exitError{exitConfig, errors.New("no topic matches BRIDGE_INPUT_TOPICS")}
	}
	return names, nil
}

// positions reads where the group is, without waiting for transactions that are open, and decides where to begin in
// partitions without a position: in topics that have none at all by BRIDGE_START, in others at the earliest record.
func (d *dryRun) positions(ctx context.Context, admin *kadm.Client, topics []string) error {
	lags, err := offsets.Lags(ctx, admin, d.opts.Group, topics)
	if err != nil {
		return err
	}
	started := map[string]bool{}
	for _, l := range lags {
		started[l.Topic] = started[l.Topic] || l.Committed >= 0
	}
	var fresh []string
	for _, topic := range topics {
		if !started[topic] {
			fresh = append(fresh, topic)
		}
	}
	first, err := offsets.Resolve(ctx, admin, d.opts.Start, fresh)
	if err != nil {
		return err
	}
	for _, l := range lags {
		d.tally.Partitions++
		at := l.Committed
		switch start, ok := first[l.TopicPartition]; {
		case ok:
			at = start.Offset
		case at < 0:
			at = l.LogStart
		default:
			d.tally.Positioned++
		}
		if at < l.LogStart {
			d.tally.Warnings = append(d.tally.Warnings, fmt.Sprintf("%s: the position %d lies before the first record that is left, %d: the bridge would stop there", l.TopicPartition, at, l.LogStart))
			at = l.LogStart
		}
		d.next[l.TopicPartition] = at
		if at < l.LastStable {
			d.ends[l.TopicPartition] = l.LastStable
		}
	}
	return nil
}

// read transforms records until there are enough, the time is over, the end is reached, or it is told to stop.
func (d *dryRun) read(ctx context.Context) error {
	assigned := map[string]map[int32]kgo.Offset{}
	for tp, at := range d.next {
		if assigned[tp.Topic] == nil {
			assigned[tp.Topic] = map[int32]kgo.Offset{}
		}
		assigned[tp.Topic][tp.Partition] = kgo.NewOffset().At(at)
	}
	client, err := kgo.NewClient(slices.Concat(d.opts.Client, d.opts.Fetching, []kgo.Opt{
		kgo.ConsumePartitions(assigned),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.KeepControlRecords(), // their offsets count for the end
	})...)
	if err != nil {
		return &exitError{exitConfig, err}
	}
	defer client.Close()
	over, cancel := context.WithTimeout(ctx, d.flags.lasts)
	defer cancel()
	chain := d.opts.Chain.New()
	for over.Err() == nil && d.tally.Read < d.flags.records && (!d.flags.untilEnd || len(d.ends) > 0) {
		fetches := client.PollRecords(over, int(min(d.flags.records-d.tally.Read, pollAtMost)))
		for _, failed := range fetches.Errors() {
			if over.Err() == nil {
				return fmt.Errorf("read topic %s partition %d: %w", failed.Topic, failed.Partition, failed.Err)
			}
		}
		fetches.EachRecord(func(r *kgo.Record) { d.take(chain, r) })
	}
	return nil
}

// pollAtMost bounds the records of one poll.
const pollAtMost = 10_000

// take transforms one record.
func (d *dryRun) take(chain *transform.Chain, r *kgo.Record) {
	tp := offsets.TopicPartition{Topic: r.Topic, Partition: r.Partition}
	if end, ok := d.ends[tp]; ok && r.Offset+1 >= end {
		delete(d.ends, tp)
	}
	if r.Attrs.IsControl() {
		return
	}
	in := transform.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		in.Headers = append(in.Headers, transform.Header{Key: h.Key, Value: h.Value})
	}
	out, err := chain.Apply(&in, nil)
	output := strings.ReplaceAll(d.opts.Output, "{topic}", r.Topic)
	d.tally.add(&in, out, err, output)
}

// check refuses flags that only a dry run has without one, and values out of range; given has the names of those given.
func (f *dryRunFlags) check(dry bool, given map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if own := name == "records" || name == "for" || name == "sample" || name == "json"; own && !dry {
			return usageErrorf("--%s belongs to --dry-run; see eosbridge run --help", name)
		}
	}
	switch {
	case f.records < 1:
		return usageErrorf("--records %d: use 1 or more", f.records)
	case f.lasts <= 0:
		return usageErrorf("--for %s: use more than 0", f.lasts)
	case f.sample < 0 || f.sample > 1000:
		return usageErrorf("--sample %d: use 0 to 1000", f.sample)
	}
	return nil
}
