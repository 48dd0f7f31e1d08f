package txn

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
)

// producer is what a slot produces with: it owns the producer id, the producer epoch and the sequence numbers of one
// transactional id. The slot has the order of the calls, the counts and the states; a producer has none of these. Its
// errors are not classified. There are two: records over kgo's own producer, and sender for whole batches.
type producer interface {
	// identity answers the producer id and epoch of the next request. The first call fences: it asks for them
	// (InitProducerID), and may be repeated until it has them.
	identity(ctx context.Context) (id int64, epoch int16, err error)
	// begin readies for a transaction, without a request.
	begin() error
	// flush waits until nothing that was produced is left without an answer.
	flush(ctx context.Context) error
	// knows reports whether an end would commit what this partition was given.
	knows(tp offsets.TopicPartition) bool
	// end ends the transaction, and knows the producer epoch of the next one.
	end(ctx context.Context, commit bool) error
	// drop forgets what was not sent yet, and waits for the answers to what was.
	drop(ctx context.Context) error
	// close discards the client. What has no answer yet fails.
	close()
}

// records is the producer of records: kgo's.
type records struct{ cl *kgo.Client }

var _ producer = records{}

func overRecords(cl *kgo.Client) producer { return records{cl} }

func (p records) identity(ctx context.Context) (int64, int16, error) { return p.cl.ProducerID(ctx) }
func (p records) begin() error                                       { return p.cl.BeginTransaction() }
func (p records) flush(ctx context.Context) error                    { return p.cl.Flush(ctx) }
func (p records) drop(ctx context.Context) error                     { return p.cl.AbortBufferedRecords(ctx) }
func (p records) close()                                             { p.cl.Close() }

func (p records) end(ctx context.Context, commit bool) error {
	return p.cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

// knows tells whether kgo's books show a partition that it has produced to. EndTransaction looks there for what
// belongs to the transaction; if it finds nothing it answers nil all the same, having sent nothing, or an abort.
// And kgo v1.22.3 hands the first records for a topic to the broker *before* it enters the topic's partitions
// (storePartitionsUpdate): with its metadata loop kept waiting by a busy machine, records can be acknowledged,
// flushed and ended in between. Seen about once in 150 first epochs of a client, on an overloaded machine.
func (p records) knows(tp offsets.TopicPartition) bool {
	leader, _, _ := p.cl.PartitionLeader(tp.Topic, tp.Partition)
	return leader >= 0
}
