package check

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/topics"
)

// answer is what a broker of Kafka 4.4 says of itself, as far as rules look.
func answer(feature int16, keys map[kmsg.Key]int16) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	for key, version := range keys {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(key), MaxVersion: version})
	}
	resp.FinalizedFeaturesEpoch = 1
	resp.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: "transaction.version", MaxVersionLevel: feature}}
	return resp
}

func new44() *kmsg.ApiVersionsResponse {
	return answer(2, map[kmsg.Key]int16{kmsg.AddPartitionsToTxn: 5, kmsg.DescribeLogDirs: 5})
}

func topic(partitions int, settings map[string]string) Topic {
	t := Topic{
		Operations: []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs},
		Settings: Settings{Values: map[string]string{
			"min.insync.replicas": "2", "unclean.leader.election.enable": "false", "max.message.bytes": "1048588", "cleanup.policy": "delete",
			"message.timestamp.type": "CreateTime", "message.timestamp.before.max.ms": "9223372036854775807", "message.timestamp.after.max.ms": "3600000",
		}},
	}
	maps.Copy(t.Settings.Values, settings)
	for range partitions {
		t.Partitions = append(t.Partitions, Partition{Leader: 1, Replicas: 3, InSync: 3, Start: 10, Stable: 100, End: 100})
	}
	return t
}

// healthy is a cluster on which everything passes.
func healthy() *Snapshot {
	s := &Snapshot{
		Options: Options{
			Bootstrap: []string{"k:9092"}, Principal: "User:bridge", Group: "g", Instance: "bridge-0", Prefix: "p",
			Plan: topics.Plan{Names: []string{"in"}, Output: "out"}, Identity: true, Transactional: true,
			EpochTimeout: 15 * time.Second, TxnTimeout: 40 * time.Second, SessionTimeout: 45 * time.Second, Timeout: time.Second,
		},
		Now: time.Now(), Reached: true,
		Seeds:  []Contact{{Address: "k:9092", Node: -1}},
		Inputs: []string{"in"}, Outputs: []string{"out"},
		Topics: map[string]Topic{"in": topic(2, nil), "out": topic(2, nil), offsetsTopic: topic(4, nil), stateTopic: topic(4, nil)},
		Broker: Settings{Values: map[string]string{
			"transaction.max.timeout.ms": "900000", "group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "1800000",
			"group.consumer.session.timeout.ms": "45000", "transactional.id.expiration.ms": "604800000", "offsets.retention.minutes": "10080",
			"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
		}},
		Group: Group{
			ProtocolType: "consumer", Assignor: "cooperative-sticky",
			Members:   []Member{{ID: "m-1", Instance: "bridge-1", Client: "eosbridge-bridge-1", Host: "/10.0.0.1", Topics: []string{"in"}}},
			Positions: map[offsets.TopicPartition]int64{{Topic: "in", Partition: 0}: 10, {Topic: "in", Partition: 1}: 100},
		},
		Access: Access{GroupRead: kerr.UnknownMemberID, OwnID: kerr.InvalidProducerIDMapping, PrefixID: kerr.InvalidProducerIDMapping},
	}
	for _, node := range []int32{1, 2, 3} {
		s.Brokers = append(s.Brokers, Contact{Address: "k:9092", Node: node, Answer: new44()})
	}
	return s
}

func TestHealthyPasses(t *testing.T) {
	report := judge(healthy())
	for _, f := range report.Findings {
		if f.Status != Pass {
			t.Errorf("%+v", f)
		}
	}
	said := map[string]bool{}
	for _, f := range report.Findings {
		said[f.Rule] = true
	}
	for _, r := range rules() {
		if !said[r.name] {
			t.Errorf("rule %s says nothing of a healthy cluster", r.name)
		}
	}
	if report.Verdict != Pass || report.Pass != len(report.Findings) {
		t.Errorf("verdict %s, %d of %d", report.Verdict, report.Pass, len(report.Findings))
	}
}

// set changes one topic of a snapshot.
func (s *Snapshot) set(name string, change func(*Topic)) {
	t := s.Topics[name]
	change(&t)
	s.Topics[name] = t
}

func setting(name, key, value string) func(*Snapshot) {
	return func(s *Snapshot) { s.set(name, func(t *Topic) { t.Settings.Values[key] = value }) }
}

func missing(name string) func(*Snapshot) {
	return func(s *Snapshot) { s.Topics[name] = Topic{Err: kerr.UnknownTopicOrPartition} }
}

func brokerSetting(key, value string) func(*Snapshot) {
	return func(s *Snapshot) { s.Broker.Values[key] = value }
}

// without takes an operation on a topic away.
func without(name string, op kmsg.ACLOperation) func(*Snapshot) {
	return func(s *Snapshot) {
		s.set(name, func(t *Topic) {
			t.Operations = slices.DeleteFunc(t.Operations, func(has kmsg.ACLOperation) bool { return has == op })
		})
	}
}

func orphan(change func(*Transaction)) func(*Snapshot) {
	return func(s *Snapshot) {
		t := Transaction{ID: "p.bridge-9.0", State: "Ongoing", Timeout: 40 * time.Second, Age: 20 * time.Second, Partitions: map[string][]int32{"out": {0}}}
		change(&t)
		s.Transactions.Open = append(s.Transactions.Open, t)
	}
}

// ruleCase is one way to break a rule.
type ruleCase struct {
	rule   string
	fault  string
	inject func(*Snapshot)
	status Status
	value  string // part of it
	remedy string // part of it
}

func brokerCases() []ruleCase {
	instance := func(name string) func(*Snapshot) { return func(s *Snapshot) { s.Instance = name } }
	return []ruleCase{
		{"config", "a broken law", func(s *Snapshot) {
			s.Problems = []Problem{{"BRIDGE_TXN_TIMEOUT", "20s must be more than 30s: raise this"}}
		}, Fail, "20s must be more than 30s", "raise this"},
		{"config", "nothing to look at", func(s *Snapshot) {
			s.Problems, s.Unusable, s.Reached = []Problem{{"KAFKA_BOOTSTRAP_SERVERS", "not set"}}, true, false
		}, Fail, "not set", "docs/configuration.md"},
		{"broker.reachable", "nothing to look at", func(s *Snapshot) { s.Unusable, s.Reached = true, false }, Warn, "not checked", "correct the configuration"},
		{"config.protection", "any certificate", func(s *Snapshot) { s.Exposed = []Problem{{"KAFKA_TLS_INSECURE_SKIP_VERIFY", "true"}} }, Warn, "true", "KAFKA_TLS_CA_FILE"},
		{"instance.id", "a Deployment's pod", instance("orders-bridge-7c9f8b6d4-x2k9z"), Warn, "Deployment", "StatefulSet"},
		{"instance.id", "a Job's pod", instance("orders-x2k9z"), Warn, "Job", "BRIDGE_INSTANCE_ID"},
		{"instance.id", "a container", instance("3f2a9c1b7d4e"), Warn, "container", "BRIDGE_INSTANCE_ID"},
		{"instance.id", "a UUID", instance("a-0b8f2f8e-1c1e-4c1c-9a55-6d1f3c2b7a90"), Warn, "UUID", "BRIDGE_INSTANCE_ID"},
		{"broker.reachable", "one bootstrap server is down", func(s *Snapshot) {
			s.Seeds = append(s.Seeds, Contact{Address: "gone:9092", Err: context.DeadlineExceeded})
		}, Warn, "timeout", "firewall"},
		{"broker.reachable", "no bootstrap server", func(s *Snapshot) { s.Seeds[0].Err, s.Reached = context.DeadlineExceeded, false }, Fail, "timeout", "firewall"},
		{"broker.reachable", "bad credentials", func(s *Snapshot) { s.Seeds[0].Err = kerr.SaslAuthenticationFailed }, Fail, "authentication", "KAFKA_SASL_PASSWORD"},
		{"broker.reachable", "an advertised address", func(s *Snapshot) { s.Brokers[2].Err, s.Brokers[2].Answer = context.DeadlineExceeded, nil }, Fail, "timeout", "advertised.listeners"},
		{"broker.version", "3.5", func(s *Snapshot) {
			s.Brokers[1].Answer = answer(0, map[kmsg.Key]int16{kmsg.AddPartitionsToTxn: 3})
		}, Fail, "Kafka", "upgrade the broker"},
		{"broker.version", "4.2 and the consumer protocol", func(s *Snapshot) {
			s.Consumer = true
			s.Brokers[1].Answer = answer(2, map[kmsg.Key]int16{kmsg.AddPartitionsToTxn: 5, kmsg.DescribeLogDirs: 4})
		}, Fail, "Kafka", "BRIDGE_GROUP_PROTOCOL=classic"},
		{"transaction.version", "1", func(s *Snapshot) {
			for i := range s.Brokers {
				s.Brokers[i].Answer = answer(1, map[kmsg.Key]int16{kmsg.AddPartitionsToTxn: 5})
			}
		}, Warn, "1", "kafka-features.sh --bootstrap-server k:9092 upgrade --feature transaction.version=2"},
	}
}

func accessCases() []ruleCase {
	const grant = "kafka-acls.sh --bootstrap-server k:9092 --add --allow-principal User:bridge --operation "
	return []ruleCase{
		{"access", "input", without("in", kmsg.ACLOperationRead), Fail, "denied", grant + "Read --topic in"},
		{"access", "output", without("out", kmsg.ACLOperationWrite), Fail, "denied", grant + "Write --topic out"},
		{"access", "a hidden output", func(s *Snapshot) { s.Topics["out"] = Topic{Err: kerr.TopicAuthorizationFailed} }, Fail, "denied", grant + "Write --topic out"},
		{"access", "group", func(s *Snapshot) { s.Access.GroupRead = kerr.GroupAuthorizationFailed }, Fail, "denied", grant + "Read --group g"},
		{"access", "ids", func(s *Snapshot) {
			s.Access.OwnID, s.Access.PrefixID = kerr.TransactionalIDAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed
		}, Fail, "denied", grant + "Write --resource-pattern-type prefixed --transactional-id p."},
		{"access", "our own ids only", func(s *Snapshot) { s.Access.PrefixID = kerr.TransactionalIDAuthorizationFailed }, Warn, "our own ids only", grant + "Write --resource-pattern-type prefixed"},
		{"access", "not told", func(s *Snapshot) { s.Access.GroupRead = errors.New("EOF") }, Warn, "not checked: EOF", "connection"},
		{"access", "an administrator has a file", func(s *Snapshot) {
			s.Secured, s.Principal, s.Access.GroupRead = true, "User:CN=a b", kerr.GroupAuthorizationFailed
		}, Fail, "denied", "--bootstrap-server k:9092 --command-config admin.properties --add --allow-principal 'User:CN=a b'"},
		{"access", "only the broker knows who we are", func(s *Snapshot) { s.Principal, s.Access.GroupRead = "", kerr.GroupAuthorizationFailed }, Fail, "denied", "'User:<our principal>'"},
	}
}

func pattern(s *Snapshot, inputs, left []string) {
	s.Plan.Names, s.Plan.Pattern = nil, regexp.MustCompile("^(?:.*)$")
	s.Inputs, s.Left = inputs, left
}

func topicCases() []ruleCase {
	return []ruleCase{
		{"input.exists", "missing", missing("in"), Fail, "does not exist", "BRIDGE_INPUT_TOPICS"},
		{"input.exists", "hidden", func(s *Snapshot) { s.Topics["in"] = Topic{Err: kerr.TopicAuthorizationFailed} }, Warn, "not checked", "--operation Read --topic in"},
		{"input.exists", "nothing matches", func(s *Snapshot) { pattern(s, nil, nil) }, Warn, "selects no topic", "create a topic"},
		{"input.exists", "not listed", func(s *Snapshot) { s.Unlisted, s.Inputs = errors.New("EOF"), nil }, Warn, "not checked: EOF", ""},
		{"output.exists", "missing", missing("out"), Fail, "does not exist", "kafka-topics.sh --bootstrap-server k:9092 --create --topic out --partitions 2"},
		{"output.exists", "hidden", func(s *Snapshot) { s.Topics["out"] = Topic{Err: kerr.TopicAuthorizationFailed} }, Warn, "not checked", "--operation Write --topic out"},
		{"output.partitions", "too few", func(s *Snapshot) { s.Topics["out"] = topic(1, nil) }, Fail, "1, and BRIDGE_PARTITIONING=preserve", "--alter --topic out --partitions 2"},
		{"topic.loop", "the pattern matches an output", func(s *Snapshot) { pattern(s, []string{"in"}, []string{"out"}) }, Warn, "out", "narrow BRIDGE_INPUT_TOPICS"},
		{"topic.available", "no leader", func(s *Snapshot) { s.set("in", func(t *Topic) { t.Partitions[1].Leader = -1 }) }, Fail, "partition 1", "start the brokers"},
	}
}

func settingCases() []ruleCase {
	return []ruleCase{
		{"topic.replication", "one replica", func(s *Snapshot) {
			s.set("out", func(t *Topic) { t.Partitions[0].Replicas, t.Partitions[0].InSync = 1, 1 })
		}, Warn, "1", "kafka-reassign-partitions.sh"},
		{"topic.replication", "one broker", func(s *Snapshot) {
			s.Brokers = s.Brokers[:1]
			s.set(stateTopic, func(t *Topic) { t.Partitions[0].Replicas = 1 })
		}, Warn, "1", "the cluster has 1"},
		{"topic.replication", "cannot be made", func(s *Snapshot) { s.Brokers = s.Brokers[:1]; missing(stateTopic)(s) }, Fail, "transaction.state.log.replication.factor=3", "start 3 brokers"},
		{"topic.replication", "hidden", func(s *Snapshot) { s.Topics[offsetsTopic] = Topic{Err: kerr.TopicAuthorizationFailed} }, Warn, "not checked", "--operation Describe --operation DescribeConfigs --topic __consumer_offsets"},
		{"topic.insync", "one is enough", setting("out", "min.insync.replicas", "1"), Warn, "min.insync.replicas=1", "--alter --topic out --add-config min.insync.replicas=2"},
		{"topic.insync", "more than there are", setting("out", "min.insync.replicas", "4"), Warn, "min.insync.replicas=4, 3 of 3 in sync; counts as 3", "min.insync.replicas=2"},
		{"topic.insync", "more than there are, and one is down", func(s *Snapshot) {
			setting("out", "min.insync.replicas", "4")(s)
			s.set("out", func(t *Topic) { t.Partitions[0].InSync = 2 })
		}, Fail, "partition 0", "start the brokers"},
		{"topic.insync", "brokers are down", func(s *Snapshot) { s.set(stateTopic, func(t *Topic) { t.Partitions[3].InSync = 1 }) }, Fail, "partition 3", "start the brokers"},
		{"topic.insync", "not described", func(s *Snapshot) {
			s.set("out", func(t *Topic) { t.Settings = Settings{Err: kerr.TopicAuthorizationFailed} })
		}, Warn, "not checked", "--operation DescribeConfigs --topic out"},
		{"topic.unclean", "it may go back", setting("in", "unclean.leader.election.enable", "true"), Warn, "true", "unclean.leader.election.enable=false"},
		{"output.size", "smaller", setting("out", "max.message.bytes", "1000"), Warn, "max.message.bytes=1000", "--add-config max.message.bytes=1048588"},
		{"output.size", "not described", func(s *Snapshot) {
			s.set("in", func(t *Topic) { t.Settings = Settings{Err: kerr.TopicAuthorizationFailed} })
		}, Warn, "not checked", "DescribeConfigs --topic in"},
		{"output.compaction", "keys are not certain", setting("out", "cleanup.policy", "compact,delete"), Warn, "in may hold records without key", "set_key_from_header"},
		{"output.compaction", "transforms may drop keys", func(s *Snapshot) {
			setting("in", "cleanup.policy", "compact")(s)
			setting("out", "cleanup.policy", "compact")(s)
			s.Identity = false
		}, Warn, "without key", "cleanup.policy=delete"},
		{"output.compaction", "dead letters", func(s *Snapshot) {
			s.Plan.Letters, s.Outputs = "dlq", append(s.Outputs, "dlq")
			s.Topics["dlq"] = topic(1, map[string]string{"cleanup.policy": "compact"})
		}, Fail, "compact", "--alter --topic dlq --add-config cleanup.policy=delete"},
		{"output.exists", "dead letters", func(s *Snapshot) {
			s.Plan.Letters, s.Outputs = "dlq", append(s.Outputs, "dlq")
			missing("dlq")(s)
		}, Fail, "does not exist", "--create --topic dlq --partitions 2"},
		{"output.timestamps", "new times", setting("out", "message.timestamp.type", "LogAppendTime"), Warn, "LogAppendTime", "message.timestamp.type=CreateTime"},
		{"output.timestamps", "old records", setting("out", "message.timestamp.before.max.ms", "86400000"), Warn, "24h0m0s, input in has unlimited", "message.timestamp.before.max.ms=9223372036854775807"},
		{"output.timestamps", "records of the future", setting("out", "message.timestamp.after.max.ms", "1000"), Warn, "after.max.ms=1s", "message.timestamp.after.max.ms=3600000"},
	}
}

func limitCases() []ruleCase {
	return []ruleCase{
		{"limit.transaction", "too long", brokerSetting("transaction.max.timeout.ms", "30000"), Fail, "40s", "set BRIDGE_TXN_TIMEOUT to 30s or less"},
		{"limit.transaction", "not described", func(s *Snapshot) { s.Broker.Err = kerr.ClusterAuthorizationFailed }, Warn, "not checked", "--operation DescribeConfigs --cluster"},
		{"limit.session", "too short", brokerSetting("group.min.session.timeout.ms", "60000"), Fail, "45s", "from 1m0s to 30m0s"},
		{"limit.session", "the broker's own", func(s *Snapshot) { s.Consumer, s.TxnTimeout = true, time.Minute }, Fail, "1m0s", "group.consumer.session.timeout.ms"},
		{"limit.expiration", "short", brokerSetting("transactional.id.expiration.ms", "60000"), Warn, "1m0s", "604800000"},
		{"limit.retention", "short", brokerSetting("offsets.retention.minutes", "60"), Warn, "1h0m0s", "10080"},
	}
}

func groupCases() []ruleCase {
	member := func(change func(*Member)) func(*Snapshot) {
		return func(s *Snapshot) { change(&s.Group.Members[0]) }
	}
	position := func(at int64) func(*Snapshot) {
		return func(s *Snapshot) { s.Group.Positions[offsets.TopicPartition{Topic: "in", Partition: 1}] = at }
	}
	return []ruleCase{
		{"group.kind", "another balance", func(s *Snapshot) { s.Group.Assignor = "range" }, Fail, "range", "BRIDGE_GROUP_ID"},
		{"group.kind", "Connect's", func(s *Snapshot) { s.Group.ProtocolType = "connect" }, Fail, "connect", "BRIDGE_GROUP_ID"},
		{"group.kind", "the other protocol", func(s *Snapshot) { s.Group.Consumer = true }, Warn, "consumer", "BRIDGE_GROUP_PROTOCOL=consumer"},
		{"group.kind", "hidden", func(s *Snapshot) { s.Group = Group{Err: kerr.GroupAuthorizationFailed} }, Warn, "not checked", "--operation Read --group g"},
		{"group.members", "no bridge", member(func(m *Member) { m.Instance = "" }), Fail, "no instance id", "another group id"},
		{"group.members", "another pipeline", member(func(m *Member) { m.Topics = []string{"in", "payments"} }), Fail, "reads payments", "another group id"},
		{"positions.log", "deleted beyond it", position(3), Fail, "7 offsets are gone", "--group g --topic in:1 --reset-offsets --execute --to-earliest"},
		{"positions.log", "truncated", position(101), Fail, "ends at 100", "--to-latest"},
		{"positions.log", "hidden", func(s *Snapshot) { s.Group.PositionsErr = kerr.GroupAuthorizationFailed }, Warn, "not checked", "--operation Read --group g"},
		{"positions.start", "expired", func(s *Snapshot) { s.Group.Positions, s.Group.Members = nil, nil }, Fail, "have the positions expired", "BRIDGE_START"},
		{"positions.start", "instances start together", func(s *Snapshot) { s.Group.Positions = nil }, Warn, "out has been written to by an instance", "BRIDGE_START"},
		{"positions.start", "our own session is no other instance", func(s *Snapshot) {
			s.Group.Positions, s.Instance = nil, s.Group.Members[0].Instance
		}, Fail, "have the positions expired", "BRIDGE_START"},
	}
}

func transactionCases() []ruleCase {
	return []ruleCase{
		{"transaction.open", "left by the dead", orphan(func(*Transaction) {}), Warn, "no member of the group is named bridge-9", "instance bridge-9 aborts it at once"},
		{"transaction.open", "owner alive elsewhere", orphan(func(t *Transaction) { t.Moved = true }), Fail, "no member of group g", "BRIDGE_TXN_PREFIX"},
		{"transaction.open", "another pipeline's topics", orphan(func(t *Transaction) { t.Partitions["payments"] = []int32{0} }), Fail, "writes payments", "BRIDGE_TXN_PREFIX"},
		{"transaction.open", "not aborted", orphan(func(t *Transaction) { t.Age = 2 * time.Minute }), Fail, "over its timeout", "describe --transactional-id p.bridge-9.0"},
		{"transaction.open", "not of our form", orphan(func(t *Transaction) { t.ID = "p.x" }), Warn, "none of them", "BRIDGE_TXN_PREFIX"},
		{"transaction.open", "members not known", func(s *Snapshot) {
			orphan(func(*Transaction) {})(s)
			s.Group = Group{Err: kerr.GroupAuthorizationFailed}
		}, Warn, "owner not known", "--operation Read --group g"},
		{"transaction.open", "hidden", func(s *Snapshot) { s.Access.OwnID = kerr.TransactionalIDAuthorizationFailed }, Warn, "not checked", "--transactional-id p."},
		{"transaction.open", "not listed", func(s *Snapshot) { s.Transactions.Err = errors.New("EOF") }, Warn, "not checked: EOF", "connection"},
		{"transaction.hanging", "proven", func(s *Snapshot) {
			s.Transactions.Late = []Late{{Partition: offsets.TopicPartition{Topic: "out", Partition: 1}, StartOffset: 7, ProducerID: 5, Proven: true}}
		}, Fail, "its coordinator knows nothing of it", "abort --topic out --partition 1 --start-offset 7"},
		{"transaction.hanging", "by somebody", func(s *Snapshot) {
			s.Transactions.Late = []Late{{Partition: offsets.TopicPartition{Topic: "in", Partition: 0}, StartOffset: 7, Age: time.Hour}}
		}, Warn, "last record 1h0m0s old", "find-hanging --topic in --partition 0"},
		{"transaction.hanging", "may not be read", without("out", kmsg.ACLOperationRead), Warn, "not checked", "--operation Read --topic out"},
		{"transaction.hanging", "no answer", func(s *Snapshot) { s.Transactions.LateErr = errors.New("EOF") }, Warn, "not checked: EOF", ""},
	}
}

func ruleCases() []ruleCase {
	return slices.Concat(brokerCases(), accessCases(), topicCases(), settingCases(), limitCases(), groupCases(), transactionCases())
}

// TestRules breaks the healthy cluster in one way after the other.
func TestRules(t *testing.T) {
	for _, row := range ruleCases() {
		t.Run(row.rule+"/"+row.fault, func(t *testing.T) {
			s := healthy()
			row.inject(s)
			report := judge(s)
			if !slices.ContainsFunc(report.Findings, func(f Finding) bool {
				return f.Rule == row.rule && f.Status == row.status && strings.Contains(f.Value, row.value) && strings.Contains(f.Remedy, row.remedy)
			}) {
				t.Errorf("no %s of %s with value %q and remedy %q in", row.status, row.rule, row.value, row.remedy)
				for _, f := range report.Findings {
					if f.Status != Pass || f.Rule == row.rule {
						t.Logf("  %+v", f)
					}
				}
			}
			for _, f := range report.Findings {
				if f.Status != Pass && f.Remedy == "" {
					t.Errorf("no remedy: %+v", f)
				}
				if strings.ContainsAny(f.Value+f.Bound+f.Remedy, "\n\t") {
					t.Errorf("not one line: %+v", f)
				}
			}
		})
	}
}

// TestEveryRuleIsTried holds the cases against the table: what it says about FAIL and WARN has been seen.
func TestEveryRuleIsTried(t *testing.T) {
	for _, r := range rules() {
		for status, words := range map[Status]string{Fail: r.fails, Warn: r.warns} {
			tried := slices.ContainsFunc(ruleCases(), func(c ruleCase) bool { return c.rule == r.name && c.status == status })
			if words != "" && !tried {
				t.Errorf("rule %s: nothing leads to %s (%s)", r.name, status, words)
			}
			if status == Fail && words == "" && tried {
				t.Errorf("rule %s: the table knows no %s", r.name, status)
			}
		}
	}
}

// TestNoFalseAlarm: what looks like a fault and is none.
func TestNoFalseAlarm(t *testing.T) {
	for _, row := range []struct {
		name string
		make func(*Snapshot)
	}{
		{"names of people", func(s *Snapshot) { s.Instance = "orders-srv24" }},
		{"an ordinal", func(s *Snapshot) { s.Instance = "orders-bridge-17" }},
		{"a number of twelve digits", func(s *Snapshot) { s.Instance = "202611301200" }},
		{"a first start", func(s *Snapshot) {
			s.Group = Group{Absent: true}
			s.set("out", func(t *Topic) {
				for i := range t.Partitions {
					t.Partitions[i].Start, t.Partitions[i].End = 0, 0
				}
			})
		}},
		{"it was said where to begin", func(s *Snapshot) {
			s.Group, s.Start = Group{Absent: true}, offsets.Start{Kind: offsets.StartLatest}
		}},
		{"a cluster without groups yet", func(s *Snapshot) {
			s.Group, s.Start = Group{Absent: true}, offsets.Start{Kind: offsets.StartEarliest}
			missing(offsetsTopic)(s)
			missing(stateTopic)(s)
			s.Access = Access{Skipped: true}
		}},
		{"a live owner", func(s *Snapshot) { orphan(func(t *Transaction) { t.ID = "p.bridge-1.1" })(s) }},
		{"ended while we looked", func(s *Snapshot) { orphan(func(t *Transaction) { t.Ended = true })(s) }},
		{"beside our own process", func(s *Snapshot) { s.Group.Members[0].Instance = s.Instance }},
		{"compacted on both sides", func(s *Snapshot) {
			setting("in", "cleanup.policy", "compact")(s)
			setting("out", "cleanup.policy", "compact")(s)
		}},
		{"one partition of dead letters", func(s *Snapshot) {
			s.Plan.Letters, s.Outputs = "dlq", append(s.Outputs, "dlq")
			s.Topics["dlq"] = topic(1, nil)
		}},
		{"by key, with fewer partitions", func(s *Snapshot) { s.Plan.ByKey, s.Topics["out"] = true, topic(1, nil) }},
		{"at-least-once needs no ids", func(s *Snapshot) {
			s.Transactional = false
			s.Access.OwnID, s.Access.PrefixID = kerr.TransactionalIDAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := healthy()
			row.make(s)
			for _, f := range judge(s).Findings {
				if f.Status != Pass {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// TestUnreachableSaysLittle: without an answer nothing is guessed.
func TestUnreachableSaysLittle(t *testing.T) {
	s := healthy()
	s.Reached, s.Seeds[0].Err, s.Brokers = false, context.DeadlineExceeded, nil
	for _, f := range judge(s).Findings {
		if !slices.Contains([]string{ruleConfig, ruleProtection, ruleInstance, ruleReachable}, f.Rule) {
			t.Errorf("%+v", f)
		}
	}
}
