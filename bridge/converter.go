package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// converter turns the records that were read into those that are written. It belongs to one goroutine.
type converter struct {
	lane    int
	chain   *transform.Chain // nil = identity
	target  func(input string) string
	policy  *policy                // nil: an input that fails is the end
	restore *Restore               // in place of chain and policy: dead letters become records again
	extra   func(topic string) int // bytes that each output will grow by, at least; nil = none
	log     *slog.Logger

	scratch []transform.Record
	input   transform.Record // of the transforms: they do not keep it, so there is one for all records
}

// batch turns records of one partition, in order, into outputs, in place where it can: an output takes over the record
// that was fetched, so the common case allocates nothing per record. source has the offset of the input of each output,
// done counts the inputs that went through the chain. It ends with ctx, between two records.
func (c *converter) batch(ctx context.Context, tp offsets.TopicPartition, records []*kgo.Record) (outputs []*kgo.Record, source []int64, done int, err error) {
	if c.restore != nil {
		outputs, source, err = c.restore.records(records)
		return outputs, source, 0, err
	}
	target := c.target(tp.Topic)
	source = make([]int64, 0, len(records))
	out := records[:0]
	var grown []*kgo.Record // set as soon as outputs outnumber the inputs read so far
	for i, r := range records {
		if r.Attrs.IsControl() {
			continue
		}
		offset := r.Offset
		if c.chain == nil && c.policy == nil {
			r.Topic, r.Partition = target, tp.Partition
			out, source = append(out, r), append(source, offset)
			continue
		}
		if ctx.Err() != nil {
			return nil, nil, done, context.Cause(ctx)
		}
		done++
		c.input = transform.Record{
			Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
			Key: r.Key, Value: r.Value, Headers: asTransform(r.Headers), Timestamp: r.Timestamp,
		}
		if c.scratch, err = c.one(tp, target); err != nil {
			return nil, nil, done, err
		}
		for k := range c.scratch {
			to := r
			if k > 0 {
				to = &kgo.Record{}
			}
			fill(to, &c.scratch[k], target, tp.Partition)
			if grown == nil && len(out) > i {
				grown = append(make([]*kgo.Record, 0, 2*len(records)), out...)
			}
			if grown != nil {
				grown = append(grown, to)
			} else {
				out = append(out, to)
			}
			source = append(source, offset)
		}
	}
	clear(c.scratch)
	c.input = transform.Record{} // which would keep the batch in memory that its bytes lie in
	if grown != nil {
		return grown, source, done, nil
	}
	return out, source, done, nil
}

// one answers what becomes of c.input, in c.scratch: the outputs, or what the error policy makes of it.
func (c *converter) one(tp offsets.TopicPartition, target string) ([]transform.Record, error) {
	if c.policy == nil {
		results, err := c.chain.Apply(&c.input, c.scratch[:0])
		switch {
		case unanswered(err):
			return results, c.aborted(tp, err)
		case err != nil:
			return results, c.broken(tp, c.input.Offset, err)
		}
		return results, nil
	}
	if f, ok := c.policy.refused.verdict(tp, c.input.Offset); ok {
		return c.policy.settle(tp, &c.input, f, c.scratch[:0])
	}
	results, err := append(c.scratch[:0], c.input), error(nil)
	if c.chain != nil {
		results, err = c.chain.Apply(&c.input, c.scratch[:0])
	}
	switch {
	case unanswered(err):
		return results, c.aborted(tp, err)
	case err != nil:
		return c.policy.settle(tp, &c.input, failureOf(err), results)
	}
	extra := 0
	if c.extra != nil {
		extra = c.extra(tp.Topic)
	}
	if f, ok := c.policy.examine(results, target, extra); !ok {
		return c.policy.settle(tp, &c.input, f, results[:0])
	}
	c.policy.converted()
	return results, nil
}

func fill(to *kgo.Record, from *transform.Record, target string, partition int32) {
	if from.Target != "" {
		target = from.Target
	}
	to.Topic, to.Partition = target, partition
	to.Key, to.Value, to.Headers, to.Timestamp = from.Key, from.Value, fromTransform(from.Headers), from.Timestamp
}

// Headers pass between kgo and transform without a copy: the two types have the same fields in the same
// order, which the two conversions below prove to the compiler.
var (
	_ = transform.Header(kgo.RecordHeader{})
	_ = kgo.RecordHeader(transform.Header{})
)

func asTransform(h []kgo.RecordHeader) []transform.Header {
	return unsafe.Slice((*transform.Header)(unsafe.SliceData(h)), len(h))
}

func fromTransform(h []transform.Header) []kgo.RecordHeader {
	return unsafe.Slice((*kgo.RecordHeader)(unsafe.SliceData(h)), len(h))
}

// unanswered tells whether what a transform depends on gave no answer. No error policy applies: it is not the record's fault.
func unanswered(err error) bool {
	_, away := errors.AsType[*transform.UnavailableError](err)
	return away
}

// aborted is the end of an epoch with such a record in it. The cause stays text: an address that cannot be reached would be
// taken for that of a broker.
func (c *converter) aborted(tp offsets.TopicPartition, err error) error {
	return fmt.Errorf("%w: topic %s partition %d offset %d: %s", txn.ErrAborted, tp.Topic, tp.Partition, c.input.Offset, err.Error())
}

// broken is the end of a record that a transform cannot handle: it would fail again after each restart.
func (c *converter) broken(tp offsets.TopicPartition, offset int64, err error) error {
	var panicked *transform.PanicError
	if errors.As(err, &panicked) {
		c.log.Error("transform panicked", "lane", c.lane, "topic", tp.Topic, "partition", tp.Partition, "offset", offset,
			"err", err, "stack", string(panicked.Stack))
	}
	return txn.Fatalf(txn.StatusFailure, "transform topic %s partition %d offset %d: %w", tp.Topic, tp.Partition, offset, err)
}
