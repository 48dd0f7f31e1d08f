package txn

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// looking are the options of a test: everything counts as old.
func looking() InspectOptions {
	return InspectOptions{
		Prefix: "app", Group: "app", OlderThan: time.Nanosecond,
		Topics: func([]string) []string { return []string{"in", "out"} },
	}
}

func (b *sweepBed) inspect(o InspectOptions) *Inspection {
	b.t.Helper()
	seen, err := Inspect(b.ctx, b.adm, b.cl, o)
	if err != nil {
		b.t.Fatal(err)
	}
	return seen
}

// one finds a transaction by name.
func (b *sweepBed) one(o InspectOptions, name string) Transaction {
	b.t.Helper()
	o.Name = name
	seen := b.inspect(o)
	if len(seen.Transactions) != 1 {
		b.t.Fatalf("%s: found %+v, not visible %+v", name, seen.Transactions, seen.Unseen)
	}
	return seen.Transactions[0]
}

// hide makes the coordinators say that nothing is open under any id, and the partitions' leaders that the records
// there are old. It stands for a hanging transaction, which kfake cannot have; test/e2e has a real one.
func (b *sweepBed) hide(age time.Duration) {
	b.ControlKey(int16(kmsg.DescribeTransactions), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		resp := r.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		for _, id := range r.(*kmsg.DescribeTransactionsRequest).TransactionalIDs {
			s := kmsg.NewDescribeTransactionsResponseTransactionState()
			s.TransactionalID, s.State, s.ProducerID = id, "Empty", -1
			if !strings.HasPrefix(id, "app.") {
				s.ErrorCode = kerr.TransactionalIDNotFound.Code
			}
			resp.TransactionStates = append(resp.TransactionStates, s)
		}
		return resp, nil, true
	})
	described, err := b.adm.DescribeProducers(b.ctx, map[string]map[int32]struct{}{"out": {0: {}, 1: {}, 2: {}, 3: {}}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.ControlKey(int16(kmsg.DescribeProducers), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		resp := r.ResponseKind().(*kmsg.DescribeProducersResponse)
		for _, asked := range r.(*kmsg.DescribeProducersRequest).Topics {
			answer := kmsg.NewDescribeProducersResponseTopic()
			answer.Topic = asked.Topic
			for _, partition := range asked.Partitions {
				p := kmsg.NewDescribeProducersResponseTopicPartition()
				p.Partition = partition
				for _, d := range described[asked.Topic].Partitions[partition].ActiveProducers {
					if info := b.PartitionInfo(asked.Topic, partition); info.LastStableOffset > d.CurrentTxnStartOffset {
						continue
					}
					a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
					a.ProducerID, a.ProducerEpoch, a.CurrentTxnStartOffset = d.ProducerID, int32(d.ProducerEpoch), d.CurrentTxnStartOffset
					a.LastTimestamp, a.CoordinatorEpoch = time.Now().Add(-age).UnixMilli(), 7
					p.ActiveProducers = append(p.ActiveProducers, a)
				}
				answer.Partitions = append(answer.Partitions, p)
			}
			resp.Topics = append(resp.Topics, answer)
		}
		return resp, nil, true
	})
}

// TestInspect: live, dead and foreign owners are told apart in both group protocols, and what each holds back is
// counted. (kfake)
func TestInspect(t *testing.T) {
	for name, protocol := range map[string][]kgo.Opt{"classic": nil, "KIP-848": consumerProtocol()} {
		t.Run(name, func(t *testing.T) {
			b := newSweepBed(t)
			b.join("alive", 1, protocol...)
			b.open("app.alive.0", 0)
			b.open("app.dead.1", 1)
			b.open("other.x.0", 2)
			behind := b.client()
			for range 3 {
				if err := behind.ProduceSync(b.ctx, &kgo.Record{Topic: "out", Partition: 1}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			seen := b.inspect(looking())
			if len(seen.Unseen) > 0 || len(seen.Transactions) != 3 || seen.Longest <= 0 {
				t.Fatalf("%+v", seen)
			}
			alive, dead, foreign := seen.Transactions[0], seen.Transactions[1], seen.Transactions[2]
			if alive.Name != "app.alive.0" || alive.Kind != KindLive || alive.Safe || alive.Owner == nil || alive.Owner.Host == "" || alive.Held != 1 {
				t.Errorf("live: %+v", alive)
			}
			want := HeldPartition{Topic: "out", Partition: 1, First: 0, Stable: 0, End: 4, Held: 4}
			if dead.Kind != KindDead || !dead.Safe || dead.Owner != nil || dead.Instance != "dead" || dead.Timeout <= 0 || len(dead.Partitions) != 1 || dead.Partitions[0] != want {
				t.Errorf("dead: %+v", dead)
			}
			if foreign.Name != "other.x.0" || foreign.Kind != KindForeign || foreign.Safe {
				t.Errorf("foreign: %+v", foreign)
			}
			o := looking()
			o.OlderThan = time.Hour
			if young := b.one(o, "app.dead.1"); young.Kind != KindUnknown || young.Safe {
				t.Errorf("young: %+v", young)
			}
			// Outside the topics a foreign one is shown only if all are asked for, ours always.
			o = looking()
			o.Topics = func([]string) []string { return nil }
			if got := len(b.inspect(o).Transactions); got != 2 {
				t.Errorf("%d transactions without any topic", got)
			}
			o.All = true
			if got := b.inspect(o).Transactions; len(got) != 3 || got[2].Held != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestInspectHanging: what is open in a partition and unknown to its coordinator hangs once it is old, and is named by
// its place. (kfake, with answers in place of the coordinator's)
func TestInspectHanging(t *testing.T) {
	b := newSweepBed(t)
	b.join("alive", 1)
	b.open("app.alive.0", 3)
	b.hide(time.Hour)
	found := b.one(looking(), "out/3@0")
	if found.Kind != KindHanging || !found.Safe || found.ID != "app.alive.0" || found.Held != 1 || found.Partitions[0].coordinatorEpoch != 7 {
		t.Errorf("%+v", found)
	}
	b2 := newSweepBed(t)
	b2.join("alive", 1)
	b2.open("app.alive.0", 3)
	b2.hide(time.Second)
	if found := b2.one(looking(), "out/3@0"); found.Kind != KindUnknown || found.Safe {
		t.Errorf("young: %+v", found)
	}
}

// TestInspectNotVisible: what is denied is said, with the command that permits it, and makes nothing look dead or
// hanging. (kfake)
func TestInspectNotVisible(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault kfake.Fault
		grant string
		kind  Kind
	}{
		{"group", kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups}, Err: kerr.GroupAuthorizationFailed}, "--operation Describe --group 'app'", KindUnknown},
		{"topic", kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "out", Err: kerr.TopicAuthorizationFailed}, "--operation Read --topic 'out'", KindDead},
		{"id", kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, TxnID: "app.dead.0", Err: kerr.TransactionalIDAuthorizationFailed}, "--operation Describe --transactional-id '*'", KindUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newSweepBed(t)
			b.join("alive", 1)
			b.open("app.dead.0", 0)
			row.fault.Count = -1
			b.Fault(row.fault)
			o := looking()
			seen := b.inspect(o)
			if !slices.ContainsFunc(seen.Unseen, func(u Unseen) bool { return strings.HasSuffix(u.Grant, row.grant) }) {
				t.Errorf("not visible: %+v", seen.Unseen)
			}
			if found := b.one(o, "app.dead.0"); found.Kind != row.kind || found.Safe != (row.kind == KindDead) {
				t.Errorf("%+v", found)
			}
		})
	}
}

// TestAbortShown: the dead are aborted, the living and the foreign only by force, and only the transaction that was shown.
func TestAbortShown(t *testing.T) {
	b := newSweepBed(t)
	b.join("alive", 1)
	b.open("app.dead.0", 0)
	b.open("app.alive.0", 1)
	b.open("other.x.0", 2)
	fences := b.countFences()
	abort := func(name string, force bool) (Aborted, error) {
		t.Helper()
		return Abort(b.ctx, b.adm, b.cl, looking(), b.one(looking(), name), force)
	}
	for _, name := range []string{"app.alive.0", "other.x.0"} {
		if _, err := abort(name, false); !errors.Is(err, ErrUnsafe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := fences.Hits(); n != 0 {
		t.Fatalf("%d ids were fenced", n)
	}
	done, err := abort("app.dead.0", false)
	if err != nil || !strings.Contains(done.Did, "InitProducerID") || len(done.After) != 1 || done.After[0].Stable != 2 || done.After[0].End != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := abort("app.dead.0", true); !errors.Is(err, ErrNothingOpen) {
		t.Errorf("again: %v", err)
	}
	shown := b.one(looking(), "other.x.0")
	shown.Started-- // what is open now is another one than was shown
	if done, err := Abort(b.ctx, b.adm, b.cl, looking(), shown, true); err != nil || !strings.Contains(done.Did, "ended by itself") {
		t.Errorf("%+v, %v", done, err)
	}
	b.stillOpen("app.alive.0", "other.x.0")
	for _, name := range []string{"app.alive.0", "other.x.0"} {
		if _, err := abort(name, true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.stillOpen()
}

// TestAbortHanging: markers are written for what hangs at the moment of the abort too, with the coordinator's epoch
// that the partition has seen, and never for what is not proven, force or not.
func TestAbortHanging(t *testing.T) {
	b := newSweepBed(t)
	b.join("alive", 1)
	b.open("app.alive.0", 3)
	b.hide(time.Hour)
	var sent []*kmsg.WriteTxnMarkersRequest
	b.ControlKey(int16(kmsg.WriteTxnMarkers), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		sent = append(sent, r.(*kmsg.WriteTxnMarkersRequest))
		return nil, nil, false
	})
	found := b.one(looking(), "out/3@0")
	unproven := found
	unproven.Kind, unproven.Safe = KindUnknown, false
	if _, err := Abort(b.ctx, b.adm, b.cl, looking(), unproven, true); !errors.Is(err, ErrUnsafe) {
		t.Errorf("not proven: %v", err)
	}
	later := found
	later.ProducerEpoch++
	if _, err := Abort(b.ctx, b.adm, b.cl, looking(), later, true); !errors.Is(err, ErrUnsafe) {
		t.Errorf("another epoch: %v", err)
	}
	denied := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.WriteTxnMarkers}, Topic: "out", Err: kerr.ClusterAuthorizationFailed, Count: -1})
	_, err := Abort(b.ctx, b.adm, b.cl, looking(), found, false)
	if fatal := (*FatalError)(nil); !errors.As(err, &fatal) || fatal.ExitCode() != StatusDenied || !strings.Contains(err.Error(), "--operation ClusterAction --cluster") {
		t.Errorf("denied: %v", err)
	}
	denied.Remove()
	sent = nil
	done, err := Abort(b.ctx, b.adm, b.cl, looking(), found, false)
	if err != nil || !strings.Contains(done.Did, "WriteTxnMarkers") || len(done.After) != 1 || done.After[0].Stable != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	if len(sent) != 1 || len(sent[0].Markers) != 1 {
		t.Fatalf("%d requests were sent", len(sent))
	}
	if m := sent[0].Markers[0]; m.ProducerID != found.ProducerID || m.ProducerEpoch != found.ProducerEpoch || m.Committed || m.CoordinatorEpoch != 7 {
		t.Errorf("%+v", m)
	}
}
