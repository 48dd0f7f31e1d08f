package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/txn"
)

// overdue is what a coordinator may be late in aborting a transaction that is over its timeout: it looks every 10 s.
const overdue = 30 * time.Second

func transactionRules() []rule {
	return []rule{
		{
			"transaction.open", "no transaction is open under `BRIDGE_TXN_PREFIX` but those of members of the group",
			"somebody who is no member of the group uses our ids (it writes topics that are not ours, or went on while we looked), or a transaction is over its timeout and not aborted",
			"an instance that is gone left one open: readers wait for it, until the next start or its timeout; an id begins like ours and is none of ours", judgeOpen,
		},
		{
			"transaction.hanging", "no partition of ours holds an open transaction that its coordinator does not know (KAFKA-14402; Kafka's `find-hanging` looks for the same)",
			"it does: read_committed readers stand still there until it is aborted", "one is open for longer than `transaction.max.timeout.ms`, by somebody whom we may not see", judgeHanging,
		},
	}
}

func judgeOpen(s *Snapshot) []Finding {
	subject, bound := s.Prefix+".*", "open for members of the group only"
	if !s.Transactional {
		return nil
	}
	if denied(s.Access.PrefixID) || denied(s.Access.OwnID) {
		return []Finding{notChecked(subject, kerr.TransactionalIDAuthorizationFailed, s.grant(permission{Resource: "transactional-id", Name: s.Prefix + ".", Prefixed: true, Operation: kmsg.ACLOperationWrite}))}
	}
	if s.Transactions.Err != nil {
		return []Finding{notChecked(subject, s.Transactions.Err, "")}
	}
	var findings []Finding
	for _, t := range s.Transactions.Open {
		findings = append(findings, s.judgeTransaction(t, bound))
	}
	if len(findings) == 0 {
		return []Finding{pass(subject, "none is open", bound)}
	}
	return ordered(findings)
}

// judgeTransaction tells whose an open transaction is.
func (s *Snapshot) judgeTransaction(t Transaction, bound string) Finding {
	value := fmt.Sprintf("%s for %s of %s", t.State, t.Age.Round(time.Second), t.Timeout)
	id, ours := txn.ParseID(s.Prefix, t.ID)
	holder, lives := s.Group.holder(id.Instance)
	foreign := slices.DeleteFunc(keys(t.Partitions), func(topic string) bool {
		return topic == offsetsTopic || slices.Contains(s.Outputs, topic)
	})
	const share = "give one of the two another prefix (BRIDGE_TXN_PREFIX): whoever starts with an id of the other fences it"
	switch {
	case t.Ended:
		return pass(t.ID, "has ended while we looked", bound)
	case len(foreign) > 0:
		return fail(t.ID, value+", writes "+some(foreign)+", which is no output of ours", bound, share)
	case t.Age > t.Timeout+overdue:
		return fail(t.ID, value+": over its timeout, and not aborted", bound,
			"restart broker of its coordinator: kafka-transactions.sh --bootstrap-server "+s.bootstrap()+" describe --transactional-id "+quoted(t.ID)+" names it")
	case !ours:
		return warn(t.ID, value+": begins like our ids, and is none of them", bound, share)
	case lives:
		return pass(t.ID, fmt.Sprintf("%s, of member %s at %s", value, id.Instance, holder.Host), bound)
	case s.Group.Err != nil:
		return warn(t.ID, value+", owner not known: the group could not be described", bound, s.groupGrant())
	case t.Moved:
		return fail(t.ID, value+", its owner is alive and no member of group "+s.Options.Group, bound, share)
	}
	return warn(t.ID, value+", left open: no member of the group is named "+id.Instance, bound,
		fmt.Sprintf("start the bridge: instance %s aborts it at once, any other once it is older than 2 × BRIDGE_EPOCH_TIMEOUT; else the broker does at its timeout", id.Instance))
}

func judgeHanging(s *Snapshot) []Finding {
	const subject, bound = "inputs and outputs", "none"
	tx := s.Transactions
	var findings []Finding
	for _, l := range tx.Late {
		value := fmt.Sprintf("open from offset %d by producer %d, epoch %d", l.StartOffset, l.ProducerID, l.ProducerEpoch)
		tool := "kafka-transactions.sh --bootstrap-server " + s.bootstrap()
		if !l.Proven {
			findings = append(findings, warn(l.Partition.String(), fmt.Sprintf("%s, last record %s old, by nobody whom we may see", value, l.Age.Round(time.Second)), bound,
				fmt.Sprintf("as an administrator: %s find-hanging --topic %s --partition %d", tool, l.Partition.Topic, l.Partition.Partition)))
			continue
		}
		findings = append(findings, fail(l.Partition.String(), value+", and its coordinator knows nothing of it", bound,
			fmt.Sprintf("%s abort --topic %s --partition %d --start-offset %d", tool, l.Partition.Topic, l.Partition.Partition, l.StartOffset)))
	}
	var hidden []string
	for _, name := range s.there(s.all()) {
		if t := s.Topics[name]; !slices.Contains(t.Operations, kmsg.ACLOperationRead) {
			hidden = append(hidden, name)
			findings = append(findings, notChecked(name, kerr.TopicAuthorizationFailed, s.grant(permission{Resource: "topic", Name: name, Operation: kmsg.ACLOperationRead})+" # for this check only"))
		}
	}
	switch {
	case tx.LateErr != nil && !denied(tx.LateErr):
		findings = append(findings, notChecked(subject, tx.LateErr, ""))
	case len(tx.Late) == 0 && len(hidden) < len(s.there(s.all())):
		findings = append(findings, pass(subject, "none is hanging", bound))
	}
	return findings
}
