package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/check"
	"github.com/eosbridge/eosbridge/test/kafka"
)

// checkPassword is that of every user of the tests of check.
const checkPassword = "not-secret"

// checkBed is a cluster whose users have only what ACLs permit them, and a broker that takes transactions of 39 s. It
// believes what producers say of their transactions, so that one can be left hanging.
func checkBed(t *testing.T) *kafka.Cluster {
	return kafka.Start(t, kafka.Options{
		Users:      map[string]string{"faulty": checkPassword, "bridge": checkPassword},
		Properties: map[string]string{"transaction.max.timeout.ms": "39000", "transaction.partition.verification.enable": "false"},
	})
}

// pipelineOf is the environment of a pipeline of a user.
func pipelineOf(c *kafka.Cluster, user string, settings map[string]string) []string {
	environ := map[string]string{
		"PATH": os.Getenv("PATH"), "KAFKA_BOOTSTRAP_SERVERS": c.Guarded(),
		"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_ALLOW_PLAINTEXT": "true",
		"KAFKA_SASL_USERNAME": user, "KAFKA_SASL_PASSWORD": checkPassword,
		"BRIDGE_GROUP_ID": user + "-group", "BRIDGE_INSTANCE_ID": user + "-0", "BRIDGE_HTTP_ADDR": "off",
		"BRIDGE_EPOCH_TIMEOUT": "10s", "BRIDGE_TXN_TIMEOUT": "30s",
	}
	maps.Copy(environ, settings)
	var list []string
	for name, value := range environ {
		list = append(list, name+"="+value)
	}
	return list
}

// ran runs a command of the binary and answers its status and output.
func ran(t *testing.T, environ []string, args ...string) (status int, stdout, stderr []byte) {
	t.Helper()
	cmd := exec.CommandContext(within(t, patience), bridgeBinary(t), args...)
	cmd.Env = environ
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.Bytes(), errOut.Bytes()
}

// checked runs check and wants a status.
func checked(t *testing.T, environ []string, status int) []check.Finding {
	t.Helper()
	got, stdout, stderr := ran(t, environ, "check", "--json")
	var r check.Report
	if err := json.Unmarshal(stdout, &r); err != nil {
		t.Fatalf("%v: %q, %s", err, stdout, stderr)
	}
	if got != status {
		t.Errorf("check ended with status %d, want %d: %s%s", got, status, stdout, stderr)
	}
	return r.Findings
}

// grant does what a kafka-acls.sh command says. Not a word of it may be unknown.
func grant(t *testing.T, adm *kadm.Client, command string) *kadm.ACLBuilder {
	t.Helper()
	command, _, _ = strings.Cut(command, " #")
	words := strings.Fields(command)
	if words[0] != "kafka-acls.sh" {
		t.Fatalf("no command of kafka-acls.sh: %q", command)
	}
	acl, kind := kadm.NewACLs().ResourcePatternType(kadm.ACLPatternLiteral).AllowHosts("*"), ""
	var operations []kadm.ACLOperation
	for i := 1; i < len(words); i++ {
		value := func() string { i++; return words[i] }
		switch words[i] {
		case "--add":
			kind = "add"
		case "--bootstrap-server", "--command-config":
			value()
		case "--allow-principal":
			acl.Allow(value())
		case "--operation":
			op, err := kmsg.ParseACLOperation(value())
			if err != nil {
				t.Fatal(err)
			}
			operations = append(operations, op)
		case "--resource-pattern-type":
			if value() != "prefixed" {
				t.Fatalf("pattern in %q", command)
			}
			acl.ResourcePatternType(kadm.ACLPatternPrefixed)
		case "--topic":
			acl.Topics(value())
		case "--group":
			acl.Groups(value())
		case "--transactional-id":
			acl.TransactionalIDs(value())
		case "--cluster":
			acl.Clusters()
		default:
			t.Fatalf("what is %q in %q?", words[i], command)
		}
	}
	if kind != "add" {
		t.Fatalf("nothing is added by %q", command)
	}
	acl.Operations(operations...)
	results, err := adm.CreateACLs(t.Context(), acl)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	awaitACL(t, adm, acl, true)
	return acl
}

// revoke takes back what grant gave.
func revoke(t *testing.T, adm *kadm.Client, acl *kadm.ACLBuilder) {
	t.Helper()
	if _, err := adm.DeleteACLs(t.Context(), acl); err != nil {
		t.Fatal(err)
	}
	awaitACL(t, adm, acl, false)
}

// awaitACL waits until the broker's authorizer, which follows the controller, has an ACL or has it no more.
func awaitACL(t *testing.T, adm *kadm.Client, acl *kadm.ACLBuilder, there bool) {
	t.Helper()
	ctx := within(t, patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := adm.DescribeACLs(ctx, acl)
		if err != nil {
			t.Fatal(err)
		}
		all := true
		for _, f := range found {
			all = all && (len(f.Described) > 0) == there
		}
		if all {
			return
		}
		<-tick.C
	}
}

// worst are the findings that are no PASS, by rule.
func worst(findings []check.Finding) map[string][]check.Finding {
	by := map[string][]check.Finding{}
	for _, f := range findings {
		if f.Status != check.Pass {
			by[f.Rule] = append(by[f.Rule], f)
		}
	}
	return by
}

// TestCheckPlantedFaults: a cluster and a configuration with nineteen faults, one of a kind. Each is named, with what to
// do about it.
func TestCheckPlantedFaults(t *testing.T) {
	t.Parallel()
	c := checkBed(t)
	adm := c.Admin(t)
	for _, command := range []string{ // all but Write on orders-clean
		"--operation Read --resource-pattern-type prefixed --topic orders",
		"--operation Write --topic orders-eu-clean",
		"--operation Describe --operation DescribeConfigs --topic *",
		"--operation DescribeConfigs --cluster",
		"--operation Read --group faulty-group",
		"--operation Write --resource-pattern-type prefixed --transactional-id faulty-group.",
	} {
		grant(t, adm, "kafka-acls.sh --add --allow-principal User:faulty "+command)
	}
	c.CreateTopic(t, "orders", 4, "unclean.leader.election.enable=true")
	c.CreateTopic(t, "orders-eu", 1)
	c.CreateTopic(t, "orders-clean", 2, "min.insync.replicas=2", "max.message.bytes=100000", "cleanup.policy=compact", "message.timestamp.type=LogAppendTime")
	c.CreateTopic(t, "payments", 1)

	var at kadm.Offsets
	at.AddOffset("orders", 0, 1000, -1) // an empty log
	if _, err := adm.CommitOffsets(t.Context(), "faulty-group", at); err != nil {
		t.Fatal(err)
	}
	joined := make(chan struct{})
	c.Client(t, kgo.ConsumerGroup("faulty-group"), kgo.ConsumeTopics("orders"), kgo.Balancers(kgo.RangeBalancer()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			if len(assigned) > 0 {
				close(joined)
			}
		}))
	select {
	case <-joined:
	case <-within(t, patience).Done():
		t.Fatal("the stranger did not join")
	}
	foreign := c.Client(t, kgo.TransactionalID("faulty-group.other.0"), kgo.TransactionTimeout(30*time.Second))
	if err := foreign.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := foreign.ProduceSync(t.Context(), &kgo.Record{Topic: "payments", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	(&rig{cluster: c, out: "orders"}).strand(t, "faulty-group.late.0", 1) // an input, open since an hour ago

	findings := checked(t, pipelineOf(c, "faulty", map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1," + c.Guarded(),
		"BRIDGE_INPUT_TOPICS":     "/orders.*/", "BRIDGE_OUTPUT_TOPIC": "{topic}-clean",
		"BRIDGE_INSTANCE_ID":     "orders-bridge-7c9f8b6d4-x2k9z",
		"BRIDGE_TXN_TIMEOUT":     "40s",
		"BRIDGE_SESSION_TIMEOUT": "35s",
	}), 1)
	for _, want := range []struct {
		rule, status, subject, remedy string
	}{
		{"config", "FAIL", "BRIDGE_SESSION_TIMEOUT", "raise this to 41s or more"},
		{"instance.id", "WARN", "orders-bridge-7c9f8b6d4-x2k9z", "StatefulSet"},
		{"broker.reachable", "WARN", "bootstrap 127.0.0.1:1", "start the broker, or correct host and port"},
		{"access", "FAIL", "topic orders-clean", " --add --allow-principal User:faulty --operation Write --topic orders-clean"},
		{"output.exists", "FAIL", "orders-eu-clean", "--create --topic orders-eu-clean --partitions 1"},
		{"output.partitions", "FAIL", "orders-clean", "--alter --topic orders-clean --partitions 4, or set BRIDGE_PARTITIONING=key"},
		{"topic.loop", "WARN", "^(?:orders.*)$", "narrow BRIDGE_INPUT_TOPICS"},
		{"topic.replication", "WARN", "orders-clean", "kafka-reassign-partitions.sh"},
		{"topic.insync", "WARN", "orders-clean", "--add-config min.insync.replicas=1"},
		{"topic.unclean", "WARN", "orders", "--alter --topic orders --add-config unclean.leader.election.enable=false"},
		{"output.size", "WARN", "orders-clean", "--add-config max.message.bytes=1048588"},
		{"output.compaction", "WARN", "orders-clean", "cleanup.policy=delete"},
		{"output.timestamps", "WARN", "orders-clean", "message.timestamp.type=CreateTime"},
		{"limit.transaction", "FAIL", "BRIDGE_TXN_TIMEOUT", "set BRIDGE_TXN_TIMEOUT to 39s or less"},
		{"group.kind", "FAIL", "faulty-group", "choose another BRIDGE_GROUP_ID"},
		{"group.members", "FAIL", "", "give one of the two another group id"},
		{"positions.log", "FAIL", "orders-0", "--topic orders:0 --reset-offsets --execute --to-latest"},
		{"transaction.hanging", "FAIL", "orders-1", "abort --topic orders --partition 1 --start-offset 0"},
		{"transaction.open", "FAIL", "faulty-group.other.0", "give one of the two another prefix (BRIDGE_TXN_PREFIX)"},
	} {
		if !slices.ContainsFunc(findings, func(f check.Finding) bool {
			return f.Rule == want.rule && string(f.Status) == want.status && strings.Contains(f.Subject, want.subject) && strings.Contains(f.Remedy, want.remedy)
		}) {
			t.Errorf("no %s of %s about %q with %q in %+v", want.status, want.rule, want.subject, want.remedy, worst(findings))
		}
	}
	for _, f := range findings {
		if strings.Contains(f.Remedy, "--bootstrap-server 127.0.0.1:1 ") {
			t.Errorf("the remedy asks a server that does not answer: %+v", f)
		}
	}
}

// TestMinimalAccess: the bridge runs with the permissions that check asks for, and with none of them less. What check
// says of a missing one is the command that makes it run again.
func TestMinimalAccess(t *testing.T) {
	t.Parallel()
	c := checkBed(t)
	adm := c.Admin(t)
	c.CreateTopic(t, "in", 2)
	c.CreateTopic(t, "out", 2)
	environ := pipelineOf(c, "bridge", map[string]string{"BRIDGE_INPUT_TOPICS": "in", "BRIDGE_OUTPUT_TOPIC": "out"})

	// From nothing to what is needed, by the remedies alone.
	var needed []string
	for _, f := range worst(checked(t, environ, 1))["access"] {
		if f.Status == check.Fail {
			needed = append(needed, f.Remedy)
			grant(t, adm, f.Remedy)
		}
	}
	if len(needed) != 4 {
		t.Fatalf("needed are %q, want Read of the input, Write of the output, Read of the group, Write of the ids", needed)
	}
	bridgeRuns(t, c, environ, 0)
	if left := failed(checked(t, environ, 0)); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}

	for _, command := range needed {
		acl := grant(t, adm, command)
		revoke(t, adm, acl)
		left := failed(checked(t, environ, 1))
		if len(left) != 1 || left[0].Rule != "access" || left[0].Remedy != command {
			t.Errorf("without %q: %+v", command, left)
		}
		bridgeRuns(t, c, environ, 77)
		grant(t, adm, command)
	}
	bridgeRuns(t, c, environ, 0)

	// And to a check that sees everything.
	for _, list := range worst(checked(t, environ, 0)) {
		for _, f := range list {
			if strings.HasPrefix(f.Value, "not checked") {
				grant(t, adm, f.Remedy)
			}
		}
	}
	for rule, list := range worst(checked(t, environ, 0)) {
		switch rule {
		case "config.protection": // no TLS here
		case "topic.replication", "topic.insync": // one broker
		default:
			t.Errorf("%+v", list)
		}
	}
	if status, stdout, stderr := ran(t, environ, "check", "--quiet"); status != 0 || len(stdout)+len(stderr) > 0 {
		t.Errorf("a quiet check that passes: status %d, %q, %q", status, stdout, stderr)
	}
}

// failed are the findings that are FAIL.
func failed(findings []check.Finding) []check.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f check.Finding) bool { return f.Status != check.Fail })
}

// bridgeRuns bridges what a new record asks for, and wants a status.
func bridgeRuns(t *testing.T, c *kafka.Cluster, environ []string, status int) {
	t.Helper()
	if err := c.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got, _, stderr := ran(t, environ, "run", "--until-end"); got != status {
		t.Errorf("run ended with status %d, want %d: %s", got, status, stderr)
	}
}

// TestCheckDeadOwner: a transaction that a killed bridge left is told from one whose owner is alive, in the group or not.
func TestCheckDeadOwner(t *testing.T) {
	t.Parallel()
	c := kafka.Shared(t, kafka.V44)
	in, out := c.Topic(t, 1), c.Topic(t, 1)
	group := in + "-group"
	environ := []string{
		"KAFKA_BOOTSTRAP_SERVERS=" + c.Bootstrap(), "BRIDGE_INPUT_TOPICS=" + in, "BRIDGE_OUTPUT_TOPIC=" + out,
		"BRIDGE_GROUP_ID=" + group, "BRIDGE_INSTANCE_ID=a-0", "BRIDGE_START=earliest",
	}
	owner := c.Client(t, kgo.TransactionalID(group+".a-1.0"))
	if err := owner.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	write := func() {
		if err := owner.ProduceSync(t.Context(), &kgo.Record{Topic: out, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	write()
	open := worst(checked(t, environ, 0))["transaction.open"]
	if len(open) != 1 || open[0].Status != check.Warn || open[0].Subject != group+".a-1.0" || !strings.Contains(open[0].Remedy, "instance a-1 aborts it at once") {
		t.Errorf("left by the dead: %+v", open)
	}

	// It begins one transaction after the other, and is no member.
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() { // ends with done
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := owner.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
				t.Error(err)
				return
			}
			if err := owner.BeginTransaction(); err != nil {
				t.Error(err)
				return
			}
			if err := owner.ProduceSync(t.Context(), &kgo.Record{Topic: out, Value: []byte("x")}).FirstErr(); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	// A look may fall between two of its transactions.
	for ctx := within(t, patience); ctx.Err() == nil; {
		_, stdout, _ := ran(t, environ, "check", "--json")
		var r check.Report
		if err := json.Unmarshal(stdout, &r); err != nil {
			t.Fatal(err)
		}
		if open = worst(r.Findings)["transaction.open"]; len(open) > 0 && open[0].Status == check.Fail {
			break
		}
	}
	if len(open) != 1 || open[0].Status != check.Fail || !strings.Contains(open[0].Remedy, "BRIDGE_TXN_PREFIX") {
		t.Errorf("of a stranger: %+v", open)
	}
	close(done)
	<-stopped
}
