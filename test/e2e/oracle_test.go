package e2e

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// copier stands in for the bridge: a test leads it step by step, and wrong.
// Records of in/0 go to out/0, those of in/1 to out/1.
type copier struct {
	*rig
	t  *testing.T
	cl *kgo.Client
}

// restart gives it a new producer, which fences the one before.
func (k *copier) restart(opts ...kgo.Opt) {
	k.t.Helper()
	k.cl = k.cluster.Client(k.t, append(opts, kgo.MetadataMinAge(100*time.Millisecond),
		kgo.TransactionalID(k.group+".a.0"), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if _, _, err := k.cl.ProducerID(within(k.t, patience)); err != nil {
		k.t.Fatal(err)
	}
}

func (k *copier) begin() {
	k.t.Helper()
	if err := k.cl.BeginTransaction(); err != nil {
		k.t.Fatal(err)
	}
}

// write writes the records [from, to) of one input partition.
func (k *copier) write(partition int32, from, to int64) {
	k.t.Helper()
	var all []*kgo.Record
	for seq := from; seq < to; seq++ {
		r := k.form.Record(oracle.Origin{Source: oracle.Source{Topic: k.in, Partition: partition}, Seq: seq})
		r.Topic = k.out
		all = append(all, r)
	}
	if err := k.cl.ProduceSync(within(k.t, patience), all...).FirstErr(); err != nil {
		k.t.Fatal(err)
	}
}

// position puts positions of both input partitions into the transaction.
func (k *copier) position(at int64) {
	k.t.Helper()
	ctx := within(k.t, patience)
	id, epoch, err := k.cl.ProducerID(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	if k.cluster.Version() == kafka.V39 {
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = k.group+".a.0", id, epoch, k.group
		resp, err := add.RequestWith(ctx, k.cl)
		k.sent(err, func() int16 { return resp.ErrorCode })
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = k.group+".a.0", id, epoch, k.group
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topics, err := k.adm.ListTopics(ctx, k.in)
	if err != nil {
		k.t.Fatal(err)
	}
	topic.Topic, topic.TopicID = k.in, topics[k.in].ID
	for p := range int32(2) {
		position := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		position.Partition, position.Offset = p, at
		topic.Partitions = append(topic.Partitions, position)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, k.cl)
	k.sent(err, func() int16 { return resp.Topics[0].Partitions[0].ErrorCode })
}

// plain commits positions outside any transaction.
func (k *copier) plain(at int64) {
	k.t.Helper()
	var all kadm.Offsets
	for p := range int32(2) {
		all.AddOffset(k.in, p, at, -1)
	}
	if err := k.adm.CommitAllOffsets(within(k.t, patience), k.group, all); err != nil {
		k.t.Fatal(err)
	}
}

func (k *copier) sent(err error, code func() int16) {
	k.t.Helper()
	if err == nil {
		err = kerr.ErrorForCode(code())
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *copier) end(how kgo.TransactionEndTry) {
	k.t.Helper()
	if err := k.cl.EndTransaction(within(k.t, patience), how); err != nil {
		k.t.Fatal(err)
	}
	if k.cluster.Version() == kafka.V39 {
		k.restart() // as the bridge does
	}
}

// whole copies [from, to) of both partitions in one transaction.
func (k *copier) whole(from, to int64, how kgo.TransactionEndTry) {
	k.t.Helper()
	k.open(from, to)
	k.end(how)
}

// open is whole without the end.
func (k *copier) open(from, to int64) {
	k.t.Helper()
	k.begin()
	k.write(0, from, to)
	k.write(1, from, to)
	k.position(to)
}

// mark writes a marker into one partition only.
func (k *copier) mark(partition int32, commit bool) {
	k.t.Helper()
	ctx := within(k.t, patience)
	id, epoch, err := k.cl.ProducerID(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	topic.Topic, topic.Partitions = k.out, []int32{partition}
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.ProducerEpoch, marker.Committed = id, epoch, commit
	marker.Topics = append(marker.Topics, topic)
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = append(req.Markers, marker)
	resp, err := req.RequestWith(ctx, k.cl)
	k.sent(err, func() int16 { return resp.Markers[0].Topics[0].Partitions[0].ErrorCode })
}

// lateEnd is a copy of an EndTxn that arrives while the next transaction of the
// same producer epoch is open (KAFKA-17754).
func (k *copier) lateEnd(commit bool) {
	k.t.Helper()
	ctx := within(k.t, patience)
	id, epoch, err := k.cl.ProducerID(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = k.group+".a.0", id, epoch, commit
	resp, err := req.RequestWith(ctx, k.cl)
	k.sent(err, func() int16 { return resp.ErrorCode })
	eventually(k.t, "the end", func() bool { return oracle.OpenTransactions(ctx, k.adm, k.group) == nil })
}

// TestOracle leads a copier wrong on real Kafka, where markers and positions are
// records that a broker has written: the follower finds each fault, and nothing in
// commits, aborts, aborts by a fence and aborts by the broker's time-out.
func TestOracle(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for name, test := range map[string]struct {
			do    func(*copier)
			found func(oracle.Verdict) oracle.Finding
		}{
			"sound": {(*copier).sound, nil},
			"a marker in one partition only": {func(k *copier) {
				k.open(5, 9)
				k.mark(0, true)
				k.end(kgo.TryAbort)
			}, func(v oracle.Verdict) oracle.Finding { return v.Torn }},
			"a late EndTxn": {func(k *copier) {
				k.begin()
				k.write(0, 5, 9)
				if k.cluster.Version() == kafka.V44 {
					k.mark(0, true) // EndTxn of an older producer epoch is refused there
					k.write(0, 9, 10)
				} else {
					k.lateEnd(true)
				}
				k.write(1, 5, 9)
				k.end(kgo.TryAbort)
			}, func(v oracle.Verdict) oracle.Finding { return v.Torn }},
			"positions too far": {func(k *copier) {
				k.begin()
				k.write(0, 5, 9)
				k.write(1, 5, 9)
				k.position(10)
				k.end(kgo.TryCommit)
			}, func(v oracle.Verdict) oracle.Finding { return v.Apart }},
			"positions on their own": {func(k *copier) {
				k.begin()
				k.write(0, 5, 9)
				k.write(1, 5, 9)
				k.end(kgo.TryCommit)
				k.plain(9)
			}, func(v oracle.Verdict) oracle.Finding { return v.Apart }},
			"positions back": {func(k *copier) {
				k.whole(5, 9, kgo.TryCommit)
				k.plain(8)
			}, func(v oracle.Verdict) oracle.Finding { return v.Backward }},
			"left open": {func(k *copier) { k.open(5, 9) }, func(v oracle.Verdict) oracle.Finding { return v.LeftOpen }},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				k := &copier{rig: newRig(t, c, plan{in: 2, out: 2, preserve: true}), t: t}
				k.feedNow(t, 40)
				k.restart()
				k.whole(0, 5, kgo.TryCommit)
				test.do(k)
				if test.found == nil {
					return
				}
				if name != "left open" {
					eventually(t, "the markers", func() bool { return oracle.OpenTransactions(t.Context(), k.adm, k.group) == nil })
				}
				if err := k.follower.Rest(within(t, patience)); err != nil {
					t.Fatal(err)
				}
				var v oracle.Verdict
				k.follower.Into(&v)
				if test.found(v).Count == 0 {
					t.Errorf("not found: %s", v)
				}
				k.restart() // ends what is open
			})
		}
	})
}

// sound ends transactions in every way there is, and is exact.
func (k *copier) sound() {
	t := k.t
	k.whole(5, 9, kgo.TryAbort)
	k.open(5, 9)
	k.restart(kgo.TransactionTimeout(time.Second)) // fences
	k.open(5, 9)
	if err := oracle.Quiescent(within(t, patience), k.adm, oracle.Rest{Prefix: k.group, Outputs: []string{k.out}}); err != nil {
		t.Fatal(err)
	}
	k.restart()
	k.whole(5, 20, kgo.TryCommit)
	k.exact(t)
	v := k.verdict(t)
	if v.Committed != 2 || v.Aborted != 3 {
		t.Errorf("committed %d, aborted %d, want 2 and 3", v.Committed, v.Aborted)
	}
}
