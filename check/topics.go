package check

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func topicRules() []rule {
	return []rule{
		{
			"input.exists", "every listed input topic exists; a regular expression selects at least one", "one does not exist, and `run` would end with status 78",
			"the regular expression selects none yet, or we may not see a topic", judgeInputs,
		},
		{
			"output.exists", "every output topic exists, `{topic}` and `route` targets expanded; the bridge creates none", "one does not exist",
			"we may not see a topic", judgeOutputs,
		},
		{
			"output.partitions", "an output has at least as many partitions as its input (`BRIDGE_PARTITIONING=preserve`)", "it has fewer", "", judgePartitions,
		},
		{
			"topic.loop", "no input is an output of ours", "", "the regular expression matches outputs of ours: they are not read", judgeLoop,
		},
		{
			"topic.available", "every partition of inputs and outputs, and of Kafka's own topics for groups and transactions, has a leader",
			"a partition has none", "", judgeLeaders,
		},
	}
}

// lookUp is the finding of a topic that could not be looked up, nil if it could.
func (s *Snapshot) lookUp(name string, need kmsg.ACLOperation) *Finding {
	t, looked := s.Topics[name]
	switch {
	case !looked || t.Err == nil || errors.Is(t.Err, kerr.UnknownTopicOrPartition):
		return nil
	default:
		f := notChecked(name, t.Err, s.grant(permission{Resource: "topic", Name: name, Operation: need}))
		return &f
	}
}

func judgeInputs(s *Snapshot) []Finding {
	if s.Unlisted != nil {
		return []Finding{notChecked("BRIDGE_INPUT_TOPICS", s.Unlisted, "")}
	}
	if s.Plan.Pattern != nil && len(s.Inputs) == 0 {
		return []Finding{warn(s.Plan.Pattern.String(), "selects no topic that we may see", "at least one",
			"create a topic that matches, or grant Describe on it: kafka-acls.sh … --operation Read --resource-pattern-type prefixed --topic …")}
	}
	var findings []Finding
	for _, name := range s.Inputs {
		t := s.Topics[name]
		if f := s.lookUp(name, kmsg.ACLOperationRead); f != nil {
			findings = append(findings, *f)
			continue
		}
		if t.Err != nil || len(t.Partitions) == 0 {
			findings = append(findings, fail(name, "does not exist", "exists", "create it, or correct BRIDGE_INPUT_TOPICS"))
			continue
		}
		findings = append(findings, pass(name, partitions(len(t.Partitions)), "exists"))
	}
	return findings
}

func partitions(n int) string {
	if n == 1 {
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", n)
}

func judgeOutputs(s *Snapshot) []Finding {
	var findings []Finding
	for _, need := range s.Plan.Needs(s.widths()) {
		t, looked := s.Topics[need.Topic]
		switch f := s.lookUp(need.Topic, kmsg.ACLOperationWrite); {
		case f != nil:
			findings = append(findings, *f)
		case !looked:
		case t.Err != nil:
			findings = append(findings, fail(need.Topic, "does not exist", "exists", need.Create(s.bootstrap())))
		default:
			findings = append(findings, pass(need.Topic, partitions(len(t.Partitions)), "exists"))
		}
	}
	return findings
}

func judgePartitions(s *Snapshot) []Finding {
	var findings []Finding
	for _, need := range s.Plan.Needs(s.widths()) {
		t, looked := s.Topics[need.Topic]
		if !looked || t.Err != nil {
			continue
		}
		have, bound := len(t.Partitions), fmt.Sprintf("at least %d", need.Partitions)
		if need.Letters {
			bound = "any number"
		}
		if need.Short(have) {
			findings = append(findings, fail(need.Topic, fmt.Sprintf("%d, and BRIDGE_PARTITIONING=preserve", have), bound+fmt.Sprintf(", as %s has", need.Widest), need.Widen(s.bootstrap())))
			continue
		}
		findings = append(findings, pass(need.Topic, strconv.Itoa(have), bound))
	}
	return findings
}

func judgeLoop(s *Snapshot) []Finding {
	if len(s.Left) > 0 {
		return []Finding{warn(s.Plan.Pattern.String(), "matches outputs of this pipeline: "+some(s.Left), "matches inputs only",
			"they are left out, as reading them would never end; narrow BRIDGE_INPUT_TOPICS, or rename the output, if that is not meant")}
	}
	if len(s.Inputs) == 0 {
		return nil
	}
	return []Finding{pass("inputs", "none is an output", "")}
}

// some spells out the first few names.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func judgeLeaders(s *Snapshot) []Finding {
	var findings []Finding
	for _, name := range s.there(append(s.all(), internal()...)) {
		var without []string
		for i, p := range s.Topics[name].Partitions {
			if p.Leader < 0 {
				without = append(without, strconv.Itoa(i))
			}
		}
		if len(without) > 0 {
			findings = append(findings, fail(name, "no leader: partition "+some(without), "every partition has one", "start the brokers that hold it"))
			continue
		}
		findings = append(findings, pass(name, "all partitions have a leader", ""))
	}
	return slices.Clip(findings)
}
