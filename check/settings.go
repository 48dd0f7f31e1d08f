package check

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/topics"
)

func settingRules() []rule {
	return []rule{
		{
			"topic.replication", "outputs, `__consumer_offsets` and `__transaction_state` have 3 replicas or more",
			"Kafka's own topics do not exist yet, and ask for more replicas than there are brokers: they cannot be made",
			"there are fewer: what was acknowledged can die with its broker", judgeReplication,
		},
		{
			"topic.insync", "the same topics have `min.insync.replicas` of 2 or more, and as many replicas in sync",
			"fewer are in sync than that: nothing can be written", "it is 1, or more than there are replicas", judgeInSync,
		},
		{
			"topic.unclean", "`unclean.leader.election.enable` is false for inputs, outputs and Kafka's own topics", "",
			"it is true: a log may go back", judgeUnclean,
		},
		{
			"output.size", "an output's `max.message.bytes` is not below that of its input", "", "it is: a batch of that size is decoded and divided, and a single record of it refused", judgeSize,
		},
		{
			"output.compaction", "an output without compaction, or keys for certain (a compacted input, passed on unchanged)", "the topic for dead letters is compacted: it would refuse those without a key, and forget older ones",
			"`cleanup.policy` of an output holds `compact`, and its input does not: a record without key is refused, and stops the bridge", judgeCompaction,
		},
		{
			"output.timestamps", "an output keeps the records' times (`message.timestamp.type=CreateTime`), and takes all that the input takes", "",
			"it replaces them, or refuses times that the input accepts (`message.timestamp.before.max.ms`, `message.timestamp.after.max.ms`)", judgeTimes,
		},
	}
}

// described calls judge for each topic whose settings are known, and says of the others that they were not checked: once
// for each, by the first rule that asks.
func (s *Snapshot) described(names []string, first bool, judge func(name string, t Topic) *Finding) []Finding {
	var findings []Finding
	for _, name := range s.there(names) {
		t := s.Topics[name]
		if t.Settings.Err != nil {
			if first {
				findings = append(findings, notChecked(name, t.Settings.Err, s.grant(permission{Resource: "topic", Name: name, Operation: kmsg.ACLOperationDescribeConfigs})))
			}
			continue
		}
		if f := judge(name, t); f != nil {
			findings = append(findings, *f)
		}
	}
	return findings
}

// alter is the command that sets a topic's configuration.
func (s *Snapshot) alter(topic, setting string) string {
	return "kafka-configs.sh --bootstrap-server " + s.bootstrap() + " --alter --topic " + topic + " --add-config " + setting
}

func judgeReplication(s *Snapshot) []Finding {
	const least = 3
	bound := fmt.Sprintf("at least %d", least)
	var findings []Finding
	for _, name := range s.there(append(s.outputs(), internal()...)) {
		replicas, _, _ := s.Topics[name].replication()
		if replicas < least {
			remedy := "kafka-reassign-partitions.sh --bootstrap-server " + s.bootstrap() + " --execute, with a plan that names 3 brokers per partition"
			if len(s.Brokers) < least {
				remedy = fmt.Sprintf("the cluster has %d of the brokers needed: add some, then %s", len(s.Brokers), remedy)
			}
			findings = append(findings, warn(name, strconv.Itoa(replicas), bound, remedy))
			continue
		}
		findings = append(findings, pass(name, strconv.Itoa(replicas), bound))
	}
	for _, name := range internal() {
		findings = append(findings, s.future(name)...)
	}
	return findings
}

// hidden says of Kafka's own topics, which the bridge needs no permission for, that they were not checked.
func (s *Snapshot) hidden(name string) []Finding {
	err := s.Topics[name].Err
	if err == nil {
		err = s.Topics[name].Settings.Err
	}
	return []Finding{notChecked(name, err, s.grant(permission{Resource: "topic", Name: name, Operation: kmsg.ACLOperationDescribe}, kmsg.ACLOperationDescribeConfigs))}
}

// future judges a topic of Kafka's own that is made when it is first needed.
func (s *Snapshot) future(name string) []Finding {
	switch err := s.Topics[name].Err; {
	case err == nil:
		return nil
	case !errors.Is(err, kerr.UnknownTopicOrPartition):
		return s.hidden(name)
	}
	key := map[string]string{offsetsTopic: "offsets.topic.replication.factor", stateTopic: "transaction.state.log.replication.factor"}[name]
	want, known := s.Broker.number(key)
	bound := fmt.Sprintf("at most %d, as there are brokers", len(s.Brokers))
	if known && int(want) > len(s.Brokers) {
		return []Finding{fail(name, fmt.Sprintf("not there yet, %s=%d", key, want), bound, fmt.Sprintf("start %d brokers, or lower %s in server.properties", want, key))}
	}
	return []Finding{pass(name, "not there yet: made when first needed", bound)}
}

// outputs are the topics that records go to, each once.
func (s *Snapshot) outputs() []string { return append([]string(nil), s.Outputs...) }

func judgeInSync(s *Snapshot) []Finding {
	const least = 2
	bound := fmt.Sprintf("at least %d, and in sync", least)
	return s.described(append(s.outputs(), internal()...), true, func(name string, t Topic) *Finding {
		want, known := t.Settings.number("min.insync.replicas")
		if !known {
			return nil
		}
		replicas, inSync, worst := t.replication()
		value := fmt.Sprintf("min.insync.replicas=%d, %d of %d in sync", want, inSync, replicas)
		f := pass(name, value, bound)
		switch {
		case inSync < min(int(want), replicas): // brokers bound it by the number of replicas, since Kafka 3.7 (KAFKA-15583)
			f = fail(name, fmt.Sprintf("partition %d: %s", worst, value), bound, "start the brokers that hold the other replicas")
		case int(want) > replicas:
			f = warn(name, value+fmt.Sprintf("; counts as %d, and Kafka 3.6 refuses all writes", replicas), bound,
				s.alter(name, fmt.Sprintf("min.insync.replicas=%d", max(1, replicas-1)))+", or add replicas")
		case want < least:
			remedy := s.alter(name, "min.insync.replicas=2")
			if replicas < least {
				remedy = "add replicas first (topic.replication), then " + remedy
			}
			f = warn(name, value, bound, remedy)
		}
		return &f
	})
}

func judgeUnclean(s *Snapshot) []Finding {
	return s.described(append(s.all(), internal()...), false, func(name string, t Topic) *Finding {
		f := pass(name, "unclean.leader.election.enable=false", "false")
		if t.Settings.Values["unclean.leader.election.enable"] == "true" {
			f = warn(name, "unclean.leader.election.enable=true", "false", s.alter(name, "unclean.leader.election.enable=false"))
		}
		return &f
	})
}

// feeds are the inputs of an output that are there.
func (s *Snapshot) feeds(output string) []string {
	var inputs []string
	for _, in := range s.there(s.Inputs) {
		written := topics.Plan{Names: []string{in}, Output: s.Plan.Output, Targets: s.Plan.Targets}.Written([]string{in})
		for _, out := range written {
			if out == output {
				inputs = append(inputs, in)
			}
		}
	}
	return inputs
}

// widest is the input of an output whose setting is the largest.
func (s *Snapshot) widest(output, key string) (input string, most int64) {
	for _, in := range s.feeds(output) {
		if n, known := s.Topics[in].Settings.number(key); known && (input == "" || n > most) {
			input, most = in, n
		}
	}
	return input, most
}

func judgeSize(s *Snapshot) []Finding {
	const key = "max.message.bytes"
	// The settings of inputs matter here for the first time.
	findings := s.described(s.Inputs, true, func(string, Topic) *Finding { return nil })
	return append(findings, s.described(s.outputs(), false, func(name string, t Topic) *Finding {
		have, known := t.Settings.number(key)
		input, most := s.widest(name, key)
		if !known || input == "" {
			return nil
		}
		bound := fmt.Sprintf("at least %d, as %s has", most, input)
		f := pass(name, strconv.FormatInt(have, 10), bound)
		if have < most {
			f = warn(name, fmt.Sprintf("%s=%d", key, have), bound, s.alter(name, fmt.Sprintf("%s=%d", key, most)))
		}
		return &f
	})...)
}

func judgeCompaction(s *Snapshot) []Finding {
	compacted := func(t Topic) bool { return strings.Contains(t.Settings.Values["cleanup.policy"], "compact") }
	return s.described(s.outputs(), false, func(name string, t Topic) *Finding {
		value := "cleanup.policy=" + t.Settings.Values["cleanup.policy"]
		f := pass(name, value, "keys, if compacted")
		switch {
		case !compacted(t):
			return &f
		case name == s.Plan.Letters:
			f = fail(name, value, "delete, for dead letters", s.alter(name, "cleanup.policy=delete"))
			return &f
		}
		for _, in := range s.feeds(name) {
			if compacted(s.Topics[in]) && s.Identity {
				continue
			}
			f = warn(name, value+", and "+in+" may hold records without key", "keys, if compacted",
				s.alter(name, "cleanup.policy=delete")+", or give every record a key (the transforms set_key_from_header, key_from_json)")
		}
		return &f
	})
}

func judgeTimes(s *Snapshot) []Finding {
	return s.described(s.outputs(), false, func(name string, t Topic) *Finding {
		const bound = "CreateTime, within the input's bounds"
		kind := t.Settings.Values["message.timestamp.type"]
		if kind == "LogAppendTime" {
			f := warn(name, "message.timestamp.type="+kind+": records get new times", bound, s.alter(name, "message.timestamp.type=CreateTime"))
			return &f
		}
		for _, key := range []string{"message.timestamp.before.max.ms", "message.timestamp.after.max.ms"} {
			have, known := t.Settings.number(key)
			input, most := s.widest(name, key)
			if known && input != "" && have < most {
				f := warn(name, fmt.Sprintf("%s=%s, input %s has %s", key, span(have), input, span(most)), bound, s.alter(name, fmt.Sprintf("%s=%d", key, most)))
				return &f
			}
		}
		f := pass(name, "message.timestamp.type="+kind, bound)
		return &f
	})
}

// span is a number of milliseconds for people.
func span(ms int64) string {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return "unlimited"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}
