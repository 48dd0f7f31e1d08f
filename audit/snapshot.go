package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eosbridge/eosbridge/offsets"
)

// snapshot is what the cluster looked like when the audit began.
type snapshot struct {
	inputs  map[string]topic
	outputs map[string]topic
	feeds   map[string][]string // output topic: the inputs that go there by default
	letters topic               // of dead letters

	committed map[offsets.TopicPartition]int64
	ends      map[offsets.TopicPartition]int64 // source: last stable offset; target: what is compared
	starts    map[offsets.TopicPartition]int64
	from      map[offsets.TopicPartition]int64 // --from
	open      map[offsets.TopicPartition]bool  // target: a transaction did not end in time
}

type topic struct {
	id         [16]byte
	partitions int
	compacted  bool
	appended   bool // the broker sets the time
	// configured is false if the topic's settings may not be read.
	configured bool
}

// look takes the snapshot. The order is what makes it true beside a running bridge; see the package comment.
func look(ctx context.Context, o *Options, adm *kadm.Client) (*snapshot, error) {
	s := &snapshot{feeds: map[string][]string{}, open: map[offsets.TopicPartition]bool{}}
	if err := s.topics(ctx, o, adm); err != nil {
		return nil, err
	}
	if err := s.positions(ctx, o, adm); err != nil {
		return nil, err
	}
	outputs, inputs := slices.Sorted(maps.Keys(s.outputs)), slices.Sorted(maps.Keys(s.inputs))
	if o.DLQ != "" {
		outputs = append(outputs, o.DLQ)
	}
	ends, err := adm.ListEndOffsets(ctx, outputs...)
	if s.ends, err = listed2(ends, err, outputs); err != nil {
		return nil, fmt.Errorf("ends of the target: %w", err)
	}
	if err := s.await(ctx, o, adm, outputs); err != nil {
		return nil, err
	}
	stable, err := adm.ListCommittedOffsets(ctx, inputs...)
	sourceEnds, err := listed2(stable, err, inputs)
	if err != nil {
		return nil, fmt.Errorf("ends of the source: %w", err)
	}
	maps.Copy(s.ends, sourceEnds)
	both := append(slices.Clone(outputs), inputs...)
	starts, err := adm.ListStartOffsets(ctx, both...)
	if s.starts, err = listed2(starts, err, both); err != nil {
		return nil, fmt.Errorf("log starts: %w", err)
	}
	s.from, err = o.From.resolve(ctx, adm, inputs)
	return s, err
}

// topics finds the inputs and outputs.
func (s *snapshot) topics(ctx context.Context, o *Options, adm *kadm.Client) error {
	var names []string
	if o.Pattern == nil {
		names = o.Inputs
	}
	found, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	never := outputPatterns(o)
	s.inputs = map[string]topic{}
	for name, d := range found {
		if o.Pattern != nil {
			excluded := slices.ContainsFunc(never, func(r *regexp.Regexp) bool { return r.MatchString(name) })
			if !o.Pattern.MatchString(name) || d.IsInternal || strings.HasPrefix(name, "__") || excluded {
				continue
			}
		}
		if d.Err != nil {
			return fmt.Errorf("input topic %q: %w", name, denied(d.Err, "Describe", "topic", name))
		}
		s.inputs[name] = topic{id: d.ID, partitions: len(d.Partitions)}
	}
	outputs := map[string]bool{}
	for _, name := range o.Routes {
		outputs[name] = true
	}
	for _, in := range slices.Sorted(maps.Keys(s.inputs)) {
		out := strings.ReplaceAll(o.Output, "{topic}", in)
		outputs[out] = true
		s.feeds[out] = append(s.feeds[out], in)
	}
	if len(outputs) == 0 {
		return errors.New("no topic matches BRIDGE_INPUT_TOPICS: there is nothing to audit")
	}
	if found, err = adm.ListTopics(ctx, slices.Sorted(maps.Keys(outputs))...); err != nil {
		return fmt.Errorf("list output topics: %w", err)
	}
	s.outputs = map[string]topic{}
	for name := range outputs {
		d := found[name]
		if d.Err != nil {
			return fmt.Errorf("output topic %q: %w", name, denied(d.Err, "Describe", "topic", name))
		}
		s.outputs[name] = topic{id: d.ID, partitions: len(d.Partitions)}
	}
	if o.DLQ != "" {
		found, err := adm.ListTopics(ctx, o.DLQ)
		if err == nil {
			err = found[o.DLQ].Err
		}
		if err != nil {
			return fmt.Errorf("topic %q of dead letters: %w", o.DLQ, denied(err, "Describe", "topic", o.DLQ))
		}
		s.letters = topic{id: found[o.DLQ].ID, partitions: len(found[o.DLQ].Partitions)}
	}
	s.settings(ctx, adm, s.inputs)
	s.settings(ctx, adm, s.outputs)
	return nil
}

// outputPatterns match what is never an input of a regular expression.
func outputPatterns(o *Options) []*regexp.Regexp {
	var list []*regexp.Regexp
	if o.Output != "{topic}" {
		list = append(list, regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(o.Output), regexp.QuoteMeta("{topic}"), ".+")+"$"))
	}
	for _, route := range o.Routes {
		list = append(list, regexp.MustCompile("^"+regexp.QuoteMeta(route)+"$"))
	}
	if o.DLQ != "" {
		list = append(list, regexp.MustCompile("^"+regexp.QuoteMeta(o.DLQ)+"$"))
	}
	return list
}

// settings reads what the topics' settings say about compaction and times. Without the right to do so they stay
// unknown, and what depends on them is told as such.
func (s *snapshot) settings(ctx context.Context, adm *kadm.Client, topics map[string]topic) {
	configs, err := adm.DescribeTopicConfigs(ctx, slices.Sorted(maps.Keys(topics))...)
	if err != nil {
		return
	}
	for _, c := range configs {
		t, ok := topics[c.Name]
		if !ok || c.Err != nil {
			continue
		}
		for _, v := range c.Configs {
			if v.Value == nil {
				continue
			}
			switch v.Key {
			case "cleanup.policy":
				t.compacted, t.configured = strings.Contains(*v.Value, "compact"), true
			case "message.timestamp.type":
				t.appended = *v.Value == "LogAppendTime"
			}
		}
		topics[c.Name] = t
	}
}

// positions reads what the group has committed. It does not wait for open transactions: what is committed is enough.
func (s *snapshot) positions(ctx context.Context, o *Options, adm *kadm.Client) error {
	s.committed = map[offsets.TopicPartition]int64{}
	fetched, err := adm.FetchOffsets(ctx, o.Group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("positions of group %q: %w", o.Group, denied(err, "Describe", "group", o.Group))
	}
	for topic, partitions := range fetched {
		for p, at := range partitions {
			if _, ours := s.inputs[topic]; !ours || at.At < 0 && at.Err == nil {
				continue
			}
			if at.Err != nil {
				return fmt.Errorf("position of group %q in %s: %w", o.Group, logged(offsets.TopicPartition{Topic: topic, Partition: p}), denied(at.Err, "Describe", "topic", topic))
			}
			s.committed[offsets.TopicPartition{Topic: topic, Partition: p}] = at.At
		}
	}
	return nil
}

// await waits until every transaction with records below the ends of the target is decided.
func (s *snapshot) await(ctx context.Context, o *Options, adm *kadm.Client, outputs []string) error {
	deadline := time.Now().Add(o.Patience)
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		stable, err := adm.ListCommittedOffsets(ctx, outputs...)
		at, err := listed2(stable, err, outputs)
		if err != nil {
			return fmt.Errorf("last stable offsets of the target: %w", err)
		}
		late := false
		clear(s.open)
		for tp, end := range s.ends {
			if at[tp] < end {
				late, s.open[tp] = true, true
			}
		}
		if !late {
			return nil
		}
		if time.Now().After(deadline) {
			for tp := range s.open {
				s.ends[tp] = at[tp]
			}
			return nil
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// listed2 checks an answer about offsets and flattens it.
func listed2(answer kadm.ListedOffsets, err error, topics []string) (map[offsets.TopicPartition]int64, error) {
	if err != nil {
		return nil, err
	}
	flat := map[offsets.TopicPartition]int64{}
	answer.Each(func(o kadm.ListedOffset) {
		if o.Err != nil && err == nil {
			err = fmt.Errorf("%s: %w", logged(offsets.TopicPartition{Topic: o.Topic, Partition: o.Partition}), denied(o.Err, "Describe", "topic", o.Topic))
		}
		flat[offsets.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = o.Offset
	})
	for _, name := range topics {
		if len(answer[name]) == 0 && err == nil {
			err = fmt.Errorf("topic %q: %w", name, kerr.UnknownTopicOrPartition)
		}
	}
	return flat, err
}

// names lists the topics of both sides.
func (s *snapshot) names() (inputs, outputs []string) {
	return slices.Sorted(maps.Keys(s.inputs)), slices.Sorted(maps.Keys(s.outputs))
}
