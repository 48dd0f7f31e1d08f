package txn

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/offsets"
)

var _ BatchParticipant = (*Ring)(nil)

// ProduceBatches implements BatchParticipant.
func (r *Ring) ProduceBatches(_ context.Context, n Epoch, topic string, partition int32, batches []batch.Batch, done func(error)) {
	if !r.opts.Batches {
		go done(Fatalf(StatusBroken, "broken invariant: epoch %d: batches for topic %s partition %d on a ring of records", n, topic, partition))
		return
	}
	r.slot[n%slots].produceBatches(topic, partition, batches, done)
}

// produceBatches is produce for whole batches; what is counted are their records.
func (s *slot) produceBatches(topic string, partition int32, batches []batch.Batch, done func(error)) {
	var n int64
	for _, b := range batches {
		n += int64(b.Count())
	}
	s.hand(n)
	tp := offsets.TopicPartition{Topic: topic, Partition: partition}
	s.places.enter(tp)
	s.mu.Lock()
	out, _ := s.out.(*sender)
	s.mu.Unlock()
	ended := func(err error) {
		s.places.answered(tp)
		if err != nil {
			s.fail(err)
		} else {
			s.acknowledge(topic, partition, n)
		}
		done(err)
	}
	if out == nil {
		go ended(kgo.ErrClientClosed)
		return
	}
	out.send(topic, partition, batches, ended)
	s.handedOver()
}
