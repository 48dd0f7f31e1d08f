package e2e

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestHandOver: the group of a transactional program that was stopped in order is taken over, and given back, without a
// record lost or repeated. This is what docs/migration.md rests on. The program is the client library's own session, which
// commits as Kafka Streams does: the positions of a consumer group within the transaction of the output. Kafka 4.4.0 only: the
// oracle tells transactions apart by their producer epochs, which this program keeps below transaction.version 2.
func TestHandOver(t *testing.T) {
	r := newRig(t, kafka.Shared(t, kafka.V44), plan{in: 2, out: 2, preserve: true})
	feed := r.feed(t, 1000)
	r.copyBySession(t, 5)
	p := r.start(t, "a")
	for range 5 {
		awaitCommit(t, p, p.Log.Len())
	}
	stop(t, p)
	r.copyBySession(t, 5)
	p = r.start(t, "a")
	awaitCommit(t, p, 0)
	feed.finish(t)
	r.settle(t)
	r.exact(t)
	stop(t, p)
}

// copyBySession copies with a program of another kind until it has committed so many transactions, and stops it in order.
func (r *rig) copyBySession(t *testing.T, transactions int) {
	t.Helper()
	s, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(r.brokers()...), kgo.ConsumerGroup(r.group), kgo.ConsumeTopics(r.in), kgo.TransactionalID(r.group+"-other"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := within(t, patience)
	for committed := 0; committed < transactions; {
		fetches := s.PollRecords(ctx, 1000)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		if err := s.Begin(); err != nil {
			t.Fatal(err)
		}
		for record := range fetches.RecordsAll() {
			record.Topic = r.out
			s.Produce(context.WithoutCancel(ctx), record, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("copy: %v", err)
				}
			})
		}
		ok, err := s.End(ctx, kgo.TryCommit)
		if err != nil {
			t.Fatal(err)
		}
		if ok && !fetches.Empty() {
			committed++
		}
	}
}
