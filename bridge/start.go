package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/topics"
	"github.com/eosbridge/eosbridge/txn"
)

// checkLimits compares our timeouts with the broker's.
func (s *session) checkLimits(ctx context.Context) error {
	if !s.opts.Consumer {
		return nil
	}
	// With KIP-848 the broker sets the session timeout.
	meta, err := s.admin.BrokerMetadata(ctx)
	if err != nil {
		return txn.Classify(txn.CallGroup, fmt.Errorf("read metadata: %w", err))
	}
	configs, err := s.admin.DescribeBrokerConfigs(ctx, meta.Controller)
	if err == nil {
		_, err = configs.On(fmt.Sprint(meta.Controller), nil)
	}
	if err != nil {
		s.log.Debug("group.consumer.session.timeout.ms not read, its default of 45 s is taken for granted", "err", err)
		return nil
	}
	for _, c := range configs {
		for _, v := range c.Configs {
			if v.Key != "group.consumer.session.timeout.ms" || v.Value == nil {
				continue
			}
			if session, err := time.ParseDuration(*v.Value + "ms"); err == nil {
				if err := txn.BelowSession(s.opts.TxnTimeout, session); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// How long a topic may look broken before it counts as that, and the time between two looks: longer than the client
// keeps an answer (MetadataMinAge, see New).
const (
	lookFor   = 2 * time.Second
	lookAgain = 300 * time.Millisecond
)

// look lists topics, again and again while one of them has an error: a broker that has just started may not know a
// topic that is there, and an exit status that says so keeps a process down.
func (s *session) look(ctx context.Context, names ...string) (kadm.TopicDetails, error) {
	limit := time.Now().Add(lookFor)
	for {
		topics, err := s.admin.ListTopics(ctx, names...)
		if err != nil || time.Now().After(limit) || !slices.ContainsFunc(names, func(name string) bool {
			err := topics[name].Err
			return err != nil && !txn.Denied(err)
		}) {
			return topics, err
		}
		if !wait(ctx, lookAgain) {
			return topics, nil
		}
	}
}

// inputs lists the input topics that exist, with their ids.
func (s *session) inputs(ctx context.Context) (kadm.TopicDetails, error) {
	if s.opts.Pattern == nil {
		topics, err := s.look(ctx, s.opts.Inputs...)
		if err != nil {
			return nil, txn.Classify(txn.CallFetch, fmt.Errorf("list input topics: %w", err))
		}
		for _, name := range s.opts.Inputs {
			d := topics[name]
			switch {
			case errors.Is(d.Err, kerr.UnknownTopicOrPartition), d.Err == nil && len(d.Partitions) == 0:
				return nil, txn.Fatalf(txn.StatusConfig, "input topic %q does not exist (BRIDGE_INPUT_TOPICS): create it, or correct the name", name)
			case d.Err != nil && !kerr.IsRetriable(d.Err):
				return nil, txn.Classify(txn.CallFetch, fmt.Errorf("input topic %q: %w", name, d.Err))
			}
		}
		return topics, nil
	}
	all, err := s.admin.ListTopics(ctx)
	if err != nil {
		return nil, txn.Classify(txn.CallFetch, fmt.Errorf("list topics: %w", err))
	}
	reads := s.opts.Reads()
	for name := range all {
		if !reads(name) {
			delete(all, name)
		}
	}
	return all, nil
}

// plan says which topics are read and written.
func (o *Options) plan() topics.Plan {
	p := topics.Plan{Names: o.Inputs, Pattern: o.Pattern, Output: o.Output, Targets: o.Chain.Targets(), Letters: o.letters(), ByKey: o.ByKey}
	if o.Restore != nil {
		p.Restored = o.Restore.Topics
	}
	return p
}

// Reads tells topics that are inputs from others.
func (o *Options) Reads() func(topic string) bool { return o.plan().Reads() }

// prepareStart decides, before we join, where topics without a position begin, and makes it durable: a kill
// before the first epoch must not decide anew.
func (s *session) prepareStart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.TxnTimeout+s.opts.EpochTimeout)
	defer cancel()
	topics, err := s.inputs(ctx)
	if err != nil {
		return err
	}
	if err := s.sameTopics(topics); err != nil {
		return err
	}
	if err := s.checkOutputs(ctx, topics); err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(topics))
	if err := s.markEnds(ctx, names); err != nil {
		return err
	}
	if s.started {
		return nil
	}
	start := s.opts.Start
	if start.Kind == offsets.StartUnset {
		start.Kind = offsets.StartEarliest
	}
	first, err := offsets.FirstStart(ctx, s.admin, s.opts.Group, names, start)
	if err != nil {
		return txn.Classify(txn.CallGroup, fmt.Errorf("resolve the start: %w", err))
	}
	if len(first) > 0 && s.opts.Start.Kind == offsets.StartUnset {
		if err := s.refuseWrittenOutput(ctx, first); err != nil {
			return err
		}
	}
	s.first = first // committed as a member, see commitStart
	s.started = true
	return nil
}

// refuseWrittenOutput stops a start that looks like the first one but is not: positions that have expired
// would let every record of the input be written again.
//
// Instances that start together look like that to each other: one commits where it begins, and writes, after another
// has read the positions and before it looks at the output. Therefore the positions are read again after the output, and
// while another instance is in the group, which may be about to commit where its partitions begin, they are waited for as
// long as an epoch may take.
func (s *session) refuseWrittenOutput(ctx context.Context, first offsets.Positions) error {
	var inputs []string
	for tp := range first {
		inputs = append(inputs, tp.Topic)
	}
	plan := s.opts.plan()
	written, err := offsets.Written(ctx, s.admin, plan.Written(inputs))
	if err != nil {
		return txn.Classify(txn.CallFetch, fmt.Errorf("look at the output: %w", err))
	}
	output := func(input string) string { // that is written, or none
		of := plan.Written([]string{input})
		if i := slices.IndexFunc(of, func(topic string) bool { return slices.Contains(written, topic) }); i >= 0 {
			return of[i]
		}
		return ""
	}
	inputs = slices.DeleteFunc(inputs, func(input string) bool { return output(input) == "" })
	giveUp := time.Now().Add(s.opts.EpochTimeout)
	for waits := 0; ; waits++ {
		if inputs, err = offsets.Unstarted(ctx, s.admin, s.opts.Group, inputs); err != nil {
			return txn.Classify(txn.CallGroup, fmt.Errorf("look at the positions again: %w", err))
		}
		if len(inputs) == 0 {
			return nil
		}
		others, err := s.others(ctx)
		if err != nil {
			return err
		}
		if len(others) == 0 || time.Now().After(giveUp) {
			return txn.Fatalf(txn.StatusConfig, "%s? %s", offsets.Expired(s.opts.Group, inputs[0], output(inputs[0])), offsets.ExpiredRemedy)
		}
		if waits == 0 {
			s.log.Info("waiting for positions that another instance may be about to commit", "topics", inputs,
				"instances", others, "at_most", s.opts.EpochTimeout.String())
		}
		if !wait(ctx, startPause) {
			return context.Cause(ctx)
		}
	}
}

// startPause is the time between two looks at whether another instance has begun a topic.
const startPause = 100 * time.Millisecond

// others are the other instances in the group, sorted.
func (s *session) others(ctx context.Context) ([]string, error) {
	alive, err := txn.LiveInstances(ctx, s.admin, s.opts.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, txn.Classify(txn.CallGroup, err)
	}
	delete(alive, s.opts.Instance)
	return slices.Sorted(maps.Keys(alive)), nil
}

// markEnds notes where the input ends now, for run --until-end.
func (s *session) markEnds(ctx context.Context, topics []string) error {
	if !s.opts.UntilEnd || s.targets != nil {
		return nil
	}
	ends, err := offsets.Resolve(ctx, s.admin, offsets.Start{Kind: offsets.StartLatest}, topics)
	if err != nil {
		return txn.Classify(txn.CallFetch, fmt.Errorf("look at the end of the input: %w", err))
	}
	s.targets = ends
	return nil
}

// checkAssigned runs before a record of new partitions is read.
func (s *session) checkAssigned(ctx context.Context, added map[string][]int32) error {
	if len(added) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.EpochTimeout)
	defer cancel()
	topics, err := s.look(ctx, slices.Sorted(maps.Keys(added))...)
	if err != nil {
		return txn.Classify(txn.CallFetch, fmt.Errorf("look at the assigned topics: %w", err))
	}
	if err := s.sameTopics(topics); err != nil {
		return err
	}
	return s.checkOutputs(ctx, topics)
}

// sameTopics demands that input topics are those that the process began with, also sessions ago.
func (s *session) sameTopics(topics kadm.TopicDetails) error {
	for name, d := range topics {
		if d.ID == (kadm.TopicID{}) {
			continue // it is gone, or the broker knows no ids
		}
		if was := s.assigned.topicID(name); was != ([16]byte{}) && was != d.ID {
			return txn.Fatalf(txn.StatusFailure, "input topic %s was made anew while the bridge ran: its positions mean nothing any more; "+
				"delete the group's positions of it, then start again", name)
		}
		s.assigned.setID(name, d.ID)
	}
	return nil
}

// checkOutputs demands that every output partition exists, and reads what records the topics accept. The
// bridge never creates a topic.
func (s *session) checkOutputs(ctx context.Context, inputs kadm.TopicDetails) error {
	partitions := map[string]int{}
	for name, d := range inputs {
		partitions[name] = len(d.Partitions)
	}
	needs := s.opts.plan().Needs(partitions)
	if len(needs) == 0 {
		return nil
	}
	names := make([]string, len(needs))
	for i, need := range needs {
		names[i] = need.Topic
	}
	found, err := s.look(ctx, names...)
	if err != nil {
		return txn.Classify(txn.CallProduce, fmt.Errorf("look at the output topics: %w", err))
	}
	for _, need := range needs {
		d := found[need.Topic]
		switch have := len(d.Partitions); {
		case errors.Is(d.Err, kerr.UnknownTopicOrPartition) && need.Letters:
			return txn.Fatalf(txn.StatusConfig, "topic %q for dead letters does not exist (BRIDGE_DLQ_TOPIC); the bridge creates no topics: %s", need.Topic, need.Create("…"))
		case errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			return txn.Fatalf(txn.StatusConfig, "output topic %q does not exist; the bridge creates no topics: %s", need.Topic, need.Create("…"))
		case d.Err != nil:
			return txn.Classify(txn.CallProduce, fmt.Errorf("output topic %q: %w", need.Topic, d.Err))
		case need.Short(have):
			return txn.Fatalf(txn.StatusConfig, "%s: %s", need.Narrow(have), need.Widen("…"))
		}
	}
	return s.readRules(ctx, names)
}

// adjustOffsets decides where partitions without a position begin, and commits that first. Partitions that were there
// at the start follow BRIDGE_START; what appears later starts at the earliest record.
func (s *session) adjustOffsets(ctx context.Context, fetched map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	s.awaitMade()
	crashpoint.At("recovery: offsets fetched")
	s.gained.Store(nil) // positions are stable
	s.isolation.follow(s.cl, fetched)
	ctx, cancel := context.WithTimeout(ctx, s.opts.EpochTimeout)
	defer cancel()
	missing := false
	for _, partitions := range fetched {
		for _, o := range partitions {
			missing = missing || o.EpochOffset().Offset < 0
		}
	}
	if !missing {
		s.board.positioned()
		s.follow(fetched)
		return fetched, nil
	}
	known, err := s.commitStart(ctx, fetched)
	if err != nil {
		s.fail(txn.Classify(txn.CallPlain, fmt.Errorf("commit the start: %w", err)))
		return fetched, err
	}
	for topic, partitions := range fetched {
		for p, o := range partitions {
			if o.EpochOffset().Offset >= 0 {
				continue
			}
			if at, ok := known[offsets.TopicPartition{Topic: topic, Partition: p}]; ok {
				partitions[p] = kgo.NewOffset().At(at.Offset).WithEpoch(at.LeaderEpoch)
			}
		}
	}
	s.board.positioned()
	s.follow(fetched)
	return fetched, nil
}

// commitStart commits, as a member, where partitions of ours without a position begin, and answers all positions. It
// does so before their first epoch: after a kill a topic without any position would be taken for a first start.
//
// It names no partition of another member. That one may begin at the same moment, and commit its first epoch between
// our look at the positions and our commit, which would then take its position back; the broker asks only who
// commits, not whose the partition is.
//
// Partitions that were there at the start have their resolved positions; those that appeared later begin at the
// earliest record.
func (s *session) commitStart(ctx context.Context, fetched map[string]map[int32]kgo.Offset) (offsets.Positions, error) {
	have, err := offsets.Committed(ctx, s.admin, s.opts.Group)
	if err != nil {
		return nil, err
	}
	todo := offsets.Positions{}
	var later []offsets.TopicPartition
	topics := map[string]bool{}
	for topic, partitions := range fetched {
		for p, o := range partitions {
			tp := offsets.TopicPartition{Topic: topic, Partition: p}
			if _, known := have[tp]; known || o.EpochOffset().Offset >= 0 {
				continue
			}
			if at, ok := s.first[tp]; ok {
				todo[tp] = at
				continue
			}
			later, topics[topic] = append(later, tp), true
		}
	}
	if len(later) > 0 {
		earliest, err := offsets.Resolve(ctx, s.admin, offsets.Start{Kind: offsets.StartEarliest}, slices.Sorted(maps.Keys(topics)))
		if err != nil {
			return nil, err
		}
		for _, tp := range later {
			if at, ok := earliest[tp]; ok {
				todo[tp] = at
			}
		}
	}
	if len(todo) > 0 {
		crashpoint.At("recovery: start resolved")
		if err := s.sink.CommitStart(ctx, todo, s.credential()); err != nil {
			return nil, err
		}
		crashpoint.At("recovery: start committed")
		s.log.Info("start positions committed", "start", cmp.Or(s.opts.Start.String(), offsets.StartEarliest.String()), "partitions", len(todo))
		maps.Copy(have, todo)
	}
	return have, nil
}
