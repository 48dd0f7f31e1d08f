package offsets

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker is a kfake cluster (in process; not Apache Kafka) with a plain and an admin client.
type broker struct {
	*kfake.Cluster
	cl  *kgo.Client
	adm *kadm.Client
}

func newBroker(t *testing.T, opts ...kfake.Opt) *broker {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &broker{Cluster: c}
	b.cl = b.client(t)
	b.adm = kadm.NewClient(b.cl)
	return b
}

// client has manual partitioning, so that a test says where its records go.
func (b *broker) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// produce writes n records; at is their time stamp.
func produce(t *testing.T, cl *kgo.Client, tp TopicPartition, n int, at time.Time) {
	t.Helper()
	for i := range n {
		r := &kgo.Record{Topic: tp.Topic, Partition: tp.Partition, Value: fmt.Append(nil, i), Timestamp: at}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// begin opens a transaction under the id and leaves it open.
func (b *broker) begin(t *testing.T, id string) *kgo.Client {
	t.Helper()
	cl := b.client(t, kgo.TransactionalID(id))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	return cl
}

func end(t *testing.T, cl *kgo.Client, try kgo.TransactionEndTry) {
	t.Helper()
	if err := cl.EndTransaction(t.Context(), try); err != nil {
		t.Fatal(err)
	}
}

// stage puts a position into the client's open transaction, as no member of the group.
func (b *broker) stage(t *testing.T, cl *kgo.Client, group string, tp TopicPartition, offset int64) {
	t.Helper()
	pid, epoch, err := cl.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group = cl.OptValue(kgo.TransactionalID).(string), group
	req.ProducerID, req.ProducerEpoch = pid, epoch
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic = tp.Topic
	rt.TopicID = b.TopicInfo(tp.Topic).TopicID
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset = tp.Partition, offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("TxnOffsetCommit: code %d", code)
	}
}

// commit commits positions for a group without members.
func (b *broker) commit(t *testing.T, group string, p Positions) {
	t.Helper()
	var at kadm.Offsets
	for tp, p := range p {
		at.AddOffset(tp.Topic, tp.Partition, p.Offset, p.LeaderEpoch)
	}
	if err := b.adm.CommitAllOffsets(t.Context(), group, at); err != nil {
		t.Fatal(err)
	}
}
