package txn

import (
	"context"

	"github.com/eosbridge/eosbridge/internal/batch"
)

var _ BatchParticipant = (*Ring)(nil)

// ProduceBatches implements BatchParticipant.
func (r *Ring) ProduceBatches(_ context.Context, n Epoch, topic string, partition int32, _ []batch.Batch, done func(error)) {
	done(Fatalf(StatusBroken, "broken invariant: epoch %d: batches for topic %s partition %d on a ring of records", n, topic, partition))
}
