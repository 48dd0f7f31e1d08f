package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/test/kafka"
)

// shown is what the test reads of txn list --json.
type shown struct {
	Name    string
	Kind    string
	State   string
	Held    int64
	Safe    bool `json:"safe_to_abort"`
	Because string
}

// txn runs eosbridge txn in the rig's pipeline.
func (r *rig) txn(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(within(t, patience), bridgeBinary(t), append([]string{"txn"}, args...)...)
	cmd.Env = r.environ("operator", map[string]string{"LOG_LEVEL": "info"})
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// listed runs txn list and answers what it shows, by name.
func (r *rig) listed(t *testing.T) map[string]shown {
	t.Helper()
	code, stdout, stderr := r.txn(t, "list", "--json")
	var seen struct {
		Transactions []shown
		Unseen       []json.RawMessage `json:"not_visible"`
	}
	if err := json.Unmarshal([]byte(stdout), &seen); err != nil || code != 0 || len(seen.Unseen) > 0 {
		t.Fatalf("status %d, %v: %s%s", code, err, stdout, stderr)
	}
	all := map[string]shown{}
	for _, s := range seen.Transactions {
		all[s.Name] = s
	}
	return all
}

// begin leaves a transaction open under the id, with one record in a partition of the output.
func (r *rig) begin(t *testing.T, id string, partition int32) {
	t.Helper()
	cl := r.cluster.Client(t, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: r.out, Partition: partition, Value: []byte(id)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// strand leaves a record of an hour ago in a partition of the output, in a transaction that its coordinator knows nothing
// of: as a late Produce request does that a broker takes after its transaction has ended. The broker must not verify.
func (r *rig) strand(t *testing.T, id string, partition int32) {
	t.Helper()
	cl := r.cluster.Client(t, kgo.MaxVersions(kversion.V3_9_0()))
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis = &id, 10_000
	init.ProducerID, init.ProducerEpoch = -1, -1
	who, err := init.RequestWith(t.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(who.ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := batch.NewEncoder(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	b := encoder.Encode([]*kgo.Record{{Value: []byte("late"), Timestamp: time.Now().Add(-time.Hour)}})[0]
	b.Reframe(who.ProducerID, who.ProducerEpoch, 0)
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &id, -1, 10_000
	req.Topics = []kmsg.ProduceRequestTopic{{
		Topic: r.out, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: b}},
	}}
	resp, err := req.RequestWith(t.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatal("the broker does not take the late record:", err)
	}
}

// freeze stops the process while one transaction of it is open, and answers its id. The first epoch has its barrier at
// once; from the second on a transaction is open from its first record until the interval is over.
func (r *rig) freeze(t *testing.T, p *Process, instance string) (id string) {
	t.Helper()
	cl := r.cluster.Client(t)
	feed := func() {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: r.in, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	feed()
	awaitCommit(t, p, 0)
	eventually(t, "one open transaction of a frozen bridge", func() bool {
		feed()
		open := func() string {
			listed, err := r.adm.ListTransactions(t.Context(), nil, []string{"Ongoing"})
			if err != nil {
				t.Fatal(err)
			}
			own := slices.DeleteFunc(listed.TransactionalIDs(), func(name string) bool { return !strings.HasPrefix(name, r.group+"."+instance+".") })
			if len(own) != 1 { // an epoch may be ending while the next one has begun
				return ""
			}
			return own[0]
		}
		if open() == "" {
			return false
		}
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		if id = open(); id != "" {
			return true
		}
		if err := p.Continue(); err != nil {
			t.Fatal(err)
		}
		return false
	})
	return id
}

// copiedOnce compares what readers see of the first partition of the output, which is the bridge's alone, with the input.
func (r *rig) copiedOnce(t *testing.T) {
	t.Helper()
	count := func(topic string) (n int64) {
		ends, err := r.adm.ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup(topic, 0)
		cl := r.cluster.Client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
		for at := int64(0); at < end.Offset; {
			fetches := cl.PollFetches(within(t, patience))
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(rec *kgo.Record) {
				at = rec.Offset + 1
				if !rec.Attrs.IsControl() {
					n++
				}
			})
		}
		return n
	}
	if in, out := count(r.in), count(r.out); in != out || in == 0 {
		t.Errorf("%d records in, %d out", in, out)
	}
}

// TestTxnInspector: on real Kafka the open transaction of a live owner, of a dead one, of another application, and one
// that hangs are told apart, and each is aborted as befits it. The live owner starts anew inside its process and repeats its epoch: each record is in the output once.
func TestTxnInspector(t *testing.T) {
	t.Parallel()
	for _, version := range size([]string{kafka.V44}, []string{kafka.V44, kafka.V39}) {
		t.Run(version, func(t *testing.T) {
			c := kafka.Start(t, kafka.Options{Version: version, Properties: map[string]string{"transaction.partition.verification.enable": "false"}})
			r := &rig{
				cluster: c, adm: c.Admin(t), in: c.Topic(t, 1), out: c.Topic(t, 4),
				plan: plan{preserve: true, settings: map[string]string{"BRIDGE_EPOCH_INTERVAL": "2s", "BRIDGE_EPOCH_TIMEOUT": "1s", "BRIDGE_START": "earliest"}},
			}
			r.group = r.out + "-group"
			t.Cleanup(func() { r.cleanUp(t) })
			p := r.start(t, "a")
			awaitAssigned(t, p)
			live, dead, foreign, hanging := r.freeze(t, p, "a"), r.group+".b.1", "shop", fmt.Sprintf("%s/%d@0", r.out, 3)
			r.begin(t, dead, 1)
			r.begin(t, foreign, 2)
			r.strand(t, "late", 3)
			var all map[string]shown
			eventually(t, "a dead owner", func() bool { // until then it may be one that is starting
				all = r.listed(t)
				return all[dead].Kind != "unknown"
			})
			for name, want := range map[string]shown{
				live: {Kind: "live", Because: "a is in the group"}, dead: {Kind: "dead", Safe: true, Because: "is called b", Held: 1},
				foreign: {Kind: "foreign", Because: "prefix", Held: 1}, hanging: {Kind: "hanging", Safe: true, Because: "the coordinator of late (Empty) does not list", Held: 1},
			} {
				got := all[name]
				if got.Kind != want.Kind || got.Safe != want.Safe || !strings.Contains(got.Because, want.Because) || got.Held < want.Held {
					t.Errorf("%s: %+v, want %+v", name, got, want)
				}
			}
			_, text, _ := r.txn(t, "list")
			t.Logf("txn list:\n%s", text)
			for _, row := range []struct {
				name  string
				flags []string
				code  int
				want  string
			}{
				{live, nil, 1, ""},
				{foreign, nil, 1, ""},
				{hanging, nil, 0, "wrote an abort marker to " + r.out + "/3"},
				{dead, nil, 0, "aborted by InitProducerID"},
				{foreign, []string{"--force"}, 0, "aborted by InitProducerID"},
				{live, []string{"--force"}, 0, "aborted by InitProducerID"},
			} {
				code, stdout, stderr := r.txn(t, append([]string{"abort", "--yes", row.name}, row.flags...)...)
				if code != row.code || !strings.Contains(stdout, row.want) {
					t.Errorf("abort %s %v: status %d, want %d and %q in\n%s%s", row.name, row.flags, code, row.code, row.want, stdout, stderr)
				}
				t.Logf("%s%s", stdout, stderr)
			}
			eventually(t, "nothing open any more", func() bool { // the coordinator notes the end after its markers are written
				for name, s := range r.listed(t) {
					if s.Kind != "ending" && s.State != "Empty" && !strings.HasPrefix(s.State, "Complete") {
						t.Fatalf("still open: %s %+v", name, s)
					}
					if s.Kind == "ending" {
						return false
					}
				}
				return true
			})
			if _, ok := all["late"]; ok {
				t.Error("the id of the hanging transaction's producer is shown, although nothing is open under it")
			}
			mark := p.Log.Len()
			if err := p.Continue(); err != nil {
				t.Fatal(err)
			}
			await(t, p, mark, "a restart inside the process", Message("session failed, starting again"))
			awaitCommit(t, p, mark)
			ends, err := r.adm.ListEndOffsets(t.Context(), r.in)
			if err != nil {
				t.Fatal(err)
			}
			end, _ := ends.Lookup(r.in, 0)
			eventually(t, "everything bridged", func() bool { return r.position(t, 0) == end.Offset })
			stop(t, p)
			r.copiedOnce(t)
		})
	}
}
