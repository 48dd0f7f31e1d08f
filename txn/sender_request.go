package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// work sends what is ready for a broker, request after request, until nothing is.
func (s *sender) work(d *destination) {
	for {
		s.mu.Lock()
		taken := d.take()
		if len(taken) == 0 {
			d.workers--
			s.mu.Unlock()
			return
		}
		id, epoch := s.producerID, s.producerEpoch
		s.mu.Unlock()
		answers, err := s.produce(d.node, taken, id, epoch)
		s.settle(taken, answers, err)
	}
}

// take takes outputs in their order, as many as a request carries.
func (d *destination) take() []shipment {
	var taken []shipment
	size := 0
	for _, o := range d.ready {
		p := o.queue[0]
		if size += len(p.batch); len(taken) > 0 && size > requestBytes {
			break
		}
		o.sending = true
		taken = append(taken, shipment{o, p})
	}
	d.ready = slices.Delete(d.ready, 0, len(taken))
	return taken
}

// verdict is the broker's answer about one partition.
type verdict = kmsg.ProduceResponseTopicPartition

// shipment is a batch on its way.
type shipment struct {
	to *output
	*parcel
}

// produce sends the first batch of each of these outputs. An output that the broker says nothing about is not in the
// answers.
func (s *sender) produce(node int32, taken []shipment, id int64, epoch int16) (map[*output]*verdict, error) {
	type name struct {
		topic     string
		partition int32
	}
	named := make(map[name]*output, len(taken))
	topics, names := make(map[string]int, 1), make(map[[16]byte]string, 1)
	txnID := s.id.String()
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &txnID, -1, int32(produceTimeout.Milliseconds())
	for _, p := range taken {
		o := p.to
		if !p.framed {
			p.batch.Reframe(id, epoch, o.sequence)
			p.framed = true
		}
		i, ok := topics[o.topic]
		if !ok {
			i = len(req.Topics)
			topics[o.topic], names[o.topicID] = i, o.topic
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = o.topic, o.topicID // the one up to version 12, the other from 13 on
			req.Topics = append(req.Topics, t)
		}
		t := kmsg.NewProduceRequestTopicPartition()
		t.Partition, t.Records = o.partition, p.batch
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, t)
		named[name{o.topic, o.partition}] = o
	}
	// Not sent again by the client: a repetition asks for the leader first.
	resp, err := s.link.Produce(s.alive, s.cl, node, req)
	if err != nil {
		return nil, err
	}
	answers := make(map[*output]*verdict, len(taken))
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			if o := named[name{cmp.Or(t.Topic, names[t.TopicID]), t.Partitions[j].Partition}]; o != nil {
				answers[o] = &t.Partitions[j]
			}
		}
	}
	return answers, nil
}

var errNoAnswer = errors.New("the broker's answer leaves the partition out")

// settle acts on the answers: what is appended makes room for the next batch of its partition, what may be repeated
// looks for the leader first, and everything else ends the sending.
func (s *sender) settle(taken []shipment, answers map[*output]*verdict, failed error) {
	var over []*consignment
	s.mu.Lock()
	if failed != nil && s.failure != nil {
		failed = s.failure // which has ended the request as well
	}
	for _, p := range taken {
		o := p.to
		err := failed
		if a := answers[o]; a != nil {
			err = p.outcome(a)
		} else if err == nil {
			err = errNoAnswer
		}
		o.sending = false
		if err != nil && s.failure == nil && sendAgain(err) {
			p.again = true
			o.tries++
			s.reason = p.named(err)
			s.log.Debug("batch not acknowledged, sending it again", "topic", o.topic, "partition", o.partition, "txn_id", s.id.String(), "tries", o.tries, "err", err)
			s.lose(o)
			continue
		}
		if err != nil {
			err = p.named(err)
		} else {
			o.sequence = following(o.sequence, p.batch.Count())
		}
		over = p.end(over, err)
		o.queue[0] = nil // its bytes are the caller's again
		o.queue, o.tries, o.busy = o.queue[1:], 0, false
		switch {
		case err != nil:
			over = append(over, s.fail(err)...)
		case len(o.queue) > 0:
			s.next(o)
		}
	}
	s.mu.Unlock()
	s.report(over)
}

// following is the sequence number after n records. It goes on at 0 after the largest.
func following(sequence int32, n int) int32 {
	return int32((int64(sequence) + int64(n)) & math.MaxInt32)
}

// outcome is nil if the batch is in the log.
func (p *parcel) outcome(a *verdict) error {
	err := kerr.ErrorForCode(a.ErrorCode)
	if err == nil {
		return nil
	}
	// A repetition of the last batch is answered as the first time. This code says that the batch is older than what
	// the broker remembers of the producer, yet appended: its producer epoch and sequence number are taken, and nobody
	// else has ours. If this is the first time that we send it, somebody has.
	if p.again && errors.Is(err, kerr.DuplicateSequenceNumber) {
		return nil
	}
	at, says := p.source, []string{}
	if a.ErrorMessage != nil {
		says = append(says, *a.ErrorMessage)
	}
	if len(a.ErrorRecords) > 0 {
		r := a.ErrorRecords[0]
		at += int64(r.RelativeOffset)
		if r.ErrorMessage != nil {
			says = append(says, *r.ErrorMessage)
		}
	}
	return &refusal{at: at, says: strings.Join(says, ": "), err: err}
}

// refusal is an answer that is not "appended".
type refusal struct {
	at   int64 // offset in the source: of the record that the broker names, else of the batch
	says string
	err  error
}

func (r *refusal) Error() string {
	if r.says == "" {
		return r.err.Error()
	}
	return r.err.Error() + " (" + r.says + ")"
}

func (r *refusal) Unwrap() error { return r.err }

// named adds to an error what it happened to.
func (p shipment) named(err error) error {
	at := p.source
	var r *refusal
	if errors.As(err, &r) {
		at = r.at
	}
	return fmt.Errorf("topic %s partition %d: source offset %d, in a batch of %d records and %d bytes: %w",
		p.to.topic, p.to.partition, at, p.batch.Count(), len(p.batch), err)
}

// sendAgain holds for what a repetition may cure. Below transaction.version 2 CONCURRENT_TRANSACTIONS would have come
// before the first batch; now it is the answer to it, while the markers of the transaction before are written. A
// batch that arrives damaged counts as retriable in Kafka, for the way there may be to blame; ours is not made
// anew for a repetition, so it would arrive the same.
func sendAgain(err error) bool {
	var answered *kerr.Error
	if !errors.As(err, &answered) {
		return !errors.Is(err, context.Canceled) // no answer, which leaves open whether the batch is in the log
	}
	return errors.Is(err, kerr.ConcurrentTransactions) || answered.Retriable && !errors.Is(err, kerr.CorruptMessage)
}
