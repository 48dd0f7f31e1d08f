package batch

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Decoder decodes batches. The work is done by the function that kgo's own consumer uses, so that a record is the same
// whichever way it came.
type Decoder struct {
	// Decompressor is the client's, which keeps to MaxDecompressBatchBytes: cl.OptValue(kgo.WithDecompressor).
	Decompressor kgo.Decompressor
	// Control keeps the records of control batches (kgo.KeepControlRecords).
	Control bool
}

// Decode appends the records of a batch from an offset on, and answers the offset to go on at, which lies behind the
// batch. The records hold on to b unless it is compressed. A damaged batch is an error and yields no records. b may
// also be bytes for which Next has answered ErrMagic: then next lies behind what could be decoded, and anything
// after it is to be fetched again.
func (d *Decoder) Decode(dst []*kgo.Record, topic string, partition int32, from int64, b Batch) (records []*kgo.Record, next int64, err error) {
	opts := kgo.ProcessFetchPartitionOpts{KeepControlRecords: d.Control, Offset: from, Topic: topic, Partition: partition}
	raw := kmsg.FetchResponseTopicPartition{Partition: partition, RecordBatches: b}
	fetched, next := kgo.ProcessFetchPartition(opts, &raw, d.Decompressor, nil)
	switch {
	case fetched.Err != nil:
		err = fmt.Errorf("topic %s partition %d offset %d: %w", topic, partition, from, fetched.Err)
	case len(b) > atMagic && b[atMagic] == 2 && (len(b) < headerSize || next <= b.LastOffset()):
		// kgo skips nothing and asks again, for ever, when a batch holds fewer records than it says.
		err = fmt.Errorf("topic %s partition %d offset %d: %w: fewer records than it says", topic, partition, from, ErrCorrupt)
	}
	if err != nil {
		return dst, from, err
	}
	return append(dst, fetched.Records...), next, nil
}
