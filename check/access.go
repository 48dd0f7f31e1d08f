package check

import (
	"errors"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/txn"
)

// permission is one line of the access that the bridge needs, as Kafka's security page lists them by request.
type permission struct {
	Resource  string // topic, group, transactional-id or cluster
	Name      string // of the resource; with Prefixed of all that begin so
	Prefixed  bool
	Operation kmsg.ACLOperation
	Requests  string // that a broker refuses without it
	Optional  bool   // the bridge runs without it
}

// permissions is the minimal set. DESCRIBE is implied by READ and by WRITE, and IDEMPOTENT_WRITE on the cluster is not
// asked for since Kafka 3.0.
func (o Options) permissions(inputs, outputs []string) []permission {
	var set []permission
	for _, t := range inputs {
		set = append(set, permission{"topic", t, false, kmsg.ACLOperationRead, "Fetch, ListOffsets, Metadata, OffsetFetch, TxnOffsetCommit", false})
	}
	for _, t := range outputs {
		set = append(set, permission{"topic", t, false, kmsg.ACLOperationWrite, "Produce, AddPartitionsToTxn, Metadata", false})
	}
	set = append(set, permission{
		"group", o.Group, false, kmsg.ACLOperationRead,
		"JoinGroup, SyncGroup, Heartbeat, ConsumerGroupHeartbeat, LeaveGroup, OffsetFetch, OffsetCommit, AddOffsetsToTxn, TxnOffsetCommit, DescribeGroups", false,
	})
	if o.Transactional {
		set = append(set, permission{
			"transactional-id", o.Prefix + ".", true, kmsg.ACLOperationWrite,
			"InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, Produce, TxnOffsetCommit, EndTxn, ListTransactions, DescribeTransactions", false,
		})
	}
	for _, t := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(inputs, outputs)))) {
		set = append(set, permission{"topic", t, false, kmsg.ACLOperationDescribeConfigs, "DescribeConfigs: batches larger than Kafka's default, and this check", true})
	}
	set = append(set, permission{"cluster", "kafka-cluster", false, kmsg.ACLOperationDescribeConfigs, "DescribeConfigs of brokers: this check, and the session timeout of BRIDGE_GROUP_PROTOCOL=consumer", true})
	return set
}

// operation is its name in kafka-acls.sh.
func operation(op kmsg.ACLOperation) string {
	var name strings.Builder
	for word := range strings.SplitSeq(strings.ToLower(op.String()), "_") {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

// grant is the command that gives the permission, and others to the same resource.
func (s *Snapshot) grant(p permission, others ...kmsg.ACLOperation) string {
	var b strings.Builder
	b.WriteString("kafka-acls.sh --bootstrap-server " + s.bootstrap())
	principal := s.Principal
	if principal == "" {
		principal = "User:<our principal>"
	}
	b.WriteString(" --add --allow-principal " + quoted(principal) + " --operation " + operation(p.Operation))
	for _, op := range others {
		b.WriteString(" --operation " + operation(op))
	}
	switch {
	case p.Resource == "cluster":
		b.WriteString(" --cluster")
	case p.Prefixed:
		b.WriteString(" --resource-pattern-type prefixed --" + p.Resource + " " + quoted(p.Name))
	default:
		b.WriteString(" --" + p.Resource + " " + quoted(p.Name))
	}
	return b.String()
}

// bootstrap is the argument of Kafka's own tools: a server that answers, if one does, with the file of credentials that an
// administrator needs.
func (s *Snapshot) bootstrap() string {
	server := "…"
	if len(s.Bootstrap) > 0 {
		server = s.Bootstrap[0]
	}
	if i := slices.IndexFunc(s.Seeds, func(c Contact) bool { return c.Err == nil }); i >= 0 {
		server = s.Seeds[i].Address
	}
	if s.Secured {
		server += " --command-config admin.properties"
	}
	return server
}

// quoted makes a word of a shell's command line.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-/=,+@", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// denied holds for an answer that a permission mends, not for bad credentials.
func denied(err error) bool { return txn.Denied(err) && !errors.Is(err, kerr.SaslAuthenticationFailed) }

func accessRules() []rule {
	return []rule{{
		"access", "we have the permissions that the requests of the bridge need (the table below)",
		"a request of the bridge would be refused; the remedy is the command that grants what is missing",
		"our own transactional ids are permitted, and not the prefix", judgeAccess,
	}}
}

// held says whether we have a permission, or why that cannot be told.
func (s *Snapshot) held(p permission) (held bool, why error) {
	switch p.Resource {
	case "topic":
		t, looked := s.Topics[p.Name]
		switch {
		case !looked, t.Err != nil && !denied(t.Err):
			return false, errUnknown // it is missing, or was not looked at: other rules say so
		case t.Err != nil:
			return false, nil
		}
		return slices.Contains(t.Operations, p.Operation), nil
	case "group":
		return told(s.Access.GroupRead, kerr.GroupAuthorizationFailed)
	case "transactional-id":
		if own, why := told(s.Access.OwnID, kerr.TransactionalIDAuthorizationFailed); !own || why != nil {
			return own, why
		}
		return told(s.Access.PrefixID, kerr.TransactionalIDAuthorizationFailed)
	default:
		return told(s.Broker.Err, kerr.ClusterAuthorizationFailed)
	}
}

// errUnknown says that nothing can be said here, and is elsewhere.
var errUnknown = errors.New("unknown")

// told reads an attempt: refused by the code of a missing permission, or not.
func told(err, missing error) (bool, error) {
	var answer *kerr.Error
	switch {
	case errors.Is(err, missing):
		return false, nil
	case err == nil, errors.As(err, &answer):
		return true, nil // whatever else is wrong, rights are looked at first
	}
	return false, err
}

func judgeAccess(s *Snapshot) []Finding {
	var findings []Finding
	for _, p := range s.permissions(s.Inputs, s.Outputs) {
		subject := p.Resource + " " + p.Name
		bound := operation(p.Operation)
		held, why := s.held(p)
		if p.Optional && !held {
			continue // the rules that it hides something from say so
		}
		switch {
		case errors.Is(why, errUnknown):
		case s.Access.Skipped && (p.Resource == "group" || p.Resource == "transactional-id"):
			findings = append(findings, pass(subject, "not tried: the cluster has no group or transaction yet", bound))
		case why != nil:
			findings = append(findings, notChecked(subject, why, ""))
		case held:
			findings = append(findings, pass(subject, "allowed", bound))
		case p.Prefixed && !errors.Is(s.Access.OwnID, kerr.TransactionalIDAuthorizationFailed):
			findings = append(findings, warn(subject, "allowed for our own ids only", bound+" on the prefix",
				s.grant(p)+" # else transactions of instances that are gone wait for their timeout"))
		default:
			findings = append(findings, fail(subject, "denied", bound, s.grant(p)))
		}
	}
	return findings
}
