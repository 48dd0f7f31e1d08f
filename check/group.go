package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

func groupRules() []rule {
	return []rule{
		{
			"group.kind", "the group is one of consumers, and its members balance as we do (cooperative-sticky; with `BRIDGE_GROUP_PROTOCOL=consumer` the broker does)",
			"its members balance otherwise, or it is of another kind (Connect's, a share group): the join is refused",
			"its members use the other group protocol: all have to be stopped, or Kafka has to convert the group", judgeKind,
		},
		{
			"group.members", "nobody but bridges of this pipeline is in the group", "a member has no instance id, which every bridge has, or reads topics that are not ours: it takes partitions, and commits positions of its own", "", judgeMembers,
		},
		{
			"positions.log", "every committed position is within the partition's log", "the log has been deleted beyond it, or ends before it: records are lost, or the topic was made anew; the bridge stops there", "", judgePositions,
		},
		{
			"positions.start", "a topic without positions is a first start, or `BRIDGE_START` says where to begin",
			"`BRIDGE_START` is not set, and the output has been written to: positions that have expired look like that", "", judgeStart,
		},
	}
}

// groupGrant is the permission that describing the group needs.
func (s *Snapshot) groupGrant() string {
	return s.grant(permission{Resource: "group", Name: s.Options.Group, Operation: kmsg.ACLOperationRead})
}

func judgeKind(s *Snapshot) []Finding {
	g, name := s.Group, s.Options.Group
	if g.Err != nil {
		return []Finding{notChecked(name, g.Err, s.groupGrant())}
	}
	wanted := "classic, cooperative-sticky"
	if s.Consumer {
		wanted = "consumer"
	}
	if g.Absent || len(g.Members) == 0 && (g.ProtocolType == "" || g.ProtocolType == "consumer") {
		return []Finding{pass(name, "empty", wanted)}
	}
	const other = "choose another BRIDGE_GROUP_ID, or stop those who use it"
	switch {
	case g.ProtocolType != "" && g.ProtocolType != "consumer":
		return []Finding{fail(name, "of kind "+g.ProtocolType, wanted, other)}
	case g.Consumer != s.Consumer:
		kind := map[bool]string{true: "consumer", false: "classic"}[g.Consumer]
		return []Finding{warn(name, "its members use the protocol "+kind, wanted, "set BRIDGE_GROUP_PROTOCOL="+kind+", or stop all members first")}
	case !g.Consumer && g.Assignor != "" && g.Assignor != "cooperative-sticky":
		return []Finding{fail(name, "its members balance by "+g.Assignor, wanted, other)}
	}
	value := "consumer"
	if !g.Consumer {
		value = strings.TrimSuffix("classic, "+g.Assignor, ", ")
	}
	return []Finding{pass(name, value, wanted)}
}

func judgeMembers(s *Snapshot) []Finding {
	if s.Group.Err != nil {
		return nil // group.kind has said so
	}
	const bound = "bridges of this pipeline"
	var findings []Finding
	for _, m := range s.Group.Members {
		who := fmt.Sprintf("client %q at %s", m.Client, m.Host)
		foreign := slices.DeleteFunc(slices.Clone(m.Topics), func(t string) bool { return slices.Contains(s.Inputs, t) || slices.Contains(s.Left, t) })
		remedy := "stop it, or give one of the two another group id (BRIDGE_GROUP_ID)"
		switch {
		case m.Instance == "":
			findings = append(findings, fail(m.ID, who+" has no instance id: no bridge", bound, remedy))
		case len(foreign) > 0:
			findings = append(findings, fail(m.Instance, who+" reads "+some(foreign)+": another pipeline", bound, remedy))
		case m.Instance == s.Instance:
			findings = append(findings, pass(m.Instance, "our own name, in use by "+who+": a start here takes it over", bound))
		default:
			findings = append(findings, pass(m.Instance, who, bound))
		}
	}
	if len(findings) == 0 {
		return []Finding{pass(s.Options.Group, "no member", bound)}
	}
	return ordered(findings)
}

func judgePositions(s *Snapshot) []Finding {
	name := s.Options.Group
	if s.Group.PositionsErr != nil {
		return []Finding{notChecked(name, s.Group.PositionsErr, s.groupGrant())}
	}
	var findings []Finding
	known := 0
	for _, topic := range s.there(s.Inputs) {
		for i, p := range s.Topics[topic].Partitions {
			tp := offsets.TopicPartition{Topic: topic, Partition: int32(i)} //nolint:gosec // a partition's number
			at, has := s.Group.Positions[tp]
			if !has || p.Start < 0 || p.End < 0 {
				continue
			}
			known++
			value, bound := fmt.Sprintf("position %d", at), fmt.Sprintf("%d to %d", p.Start, p.End)
			reset := fmt.Sprintf("kafka-consumer-groups.sh --bootstrap-server %s --group %s --topic %s:%d --reset-offsets --execute --to-", s.bootstrap(), quoted(name), topic, i)
			switch {
			case at < p.Start:
				findings = append(findings, fail(tp.String(), fmt.Sprintf("%s, and the log begins at %d: %d offsets are gone", value, p.Start, p.Start-at), bound,
					"accept the loss, with no member in the group: "+reset+"earliest"))
			case at > p.End:
				findings = append(findings, fail(tp.String(), fmt.Sprintf("%s, and the log ends at %d: it was truncated or made anew", value, p.End), bound,
					"say where to go on, with no member in the group: "+reset+"latest (or earliest)"))
			}
		}
	}
	if len(findings) == 0 {
		return []Finding{pass(name, fmt.Sprintf("%d positions, all within the log", known), "")}
	}
	return findings
}

func judgeStart(s *Snapshot) []Finding {
	if s.Group.PositionsErr != nil {
		return nil
	}
	started := map[string]bool{}
	for tp := range s.Group.Positions {
		started[tp.Topic] = true
	}
	var findings []Finding
	for _, topic := range s.there(s.Inputs) {
		const bound = "positions, or a place to begin"
		written, output := s.written(topic)
		switch {
		case started[topic]:
			findings = append(findings, pass(topic, "has positions", bound))
		case s.Start.Kind == offsets.StartUnset && written && s.company():
			// The bridge waits for them, and refuses only what they have not begun by then.
			findings = append(findings, warn(topic, "no position, and "+output+" has been written to by an instance that may be about to commit one", bound,
				"none if instances start together; else say where to begin with BRIDGE_START"))
		case s.Start.Kind == offsets.StartUnset && written:
			findings = append(findings, fail(topic, offsets.Expired(s.Options.Group, topic, output), bound, offsets.ExpiredRemedy))
		default:
			findings = append(findings, pass(topic, "begins at "+cmp.Or(s.Start.String(), offsets.StartEarliest.String()), bound))
		}
	}
	return findings
}

// company reports whether another instance is in the group.
func (s *Snapshot) company() bool {
	return slices.ContainsFunc(s.Group.Members, func(m Member) bool { return m.Instance != "" && m.Instance != s.Instance })
}

// written reports whether an output of an input ever held a record, and which.
func (s *Snapshot) written(input string) (bool, string) {
	for _, name := range s.there(s.Plan.Written([]string{input})) {
		if slices.ContainsFunc(s.Topics[name].Partitions, func(p Partition) bool { return p.End > 0 }) {
			return true, name
		}
	}
	return false, ""
}
