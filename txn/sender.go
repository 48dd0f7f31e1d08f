package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/internal/link"
	"github.com/eosbridge/eosbridge/offsets"
)

// sender is the producer of whole batches, which kgo's producer does not take. kgo has the connections, the versions
// of the requests, the time-outs and the throttling (KIP-219: it waits before the next request on the connection); the
// sender has what lies above: sequence numbers, leaders, repetition, and the end of the transaction.
//
// A broker takes one batch per partition and request (LogValidator), and it accepts a partition's batches in the order
// of their sequence numbers only. So each partition has one batch on its way at a time, and a request carries the next
// batch of every partition of a broker that has none on its way. Nothing lingers: what arrives while a broker is busy
// is in its next request.
//
// A request that failed, or had no answer, is repeated with the same bytes: by the sequence numbers the broker appends
// a batch once, however often it comes. It is repeated until the epoch's deadline ends the flush, and with it the
// client. Every other failure is the end of the epoch, so it fails all that was not sent yet; nothing overtakes.
type sender struct {
	cl      *kgo.Client
	link    *link.Dialer
	id      ID
	timeout time.Duration // transaction.timeout.ms
	log     *slog.Logger

	alive context.Context // until close
	stop  context.CancelFunc
	going sync.WaitGroup // requests, and the search for leaders

	mu      sync.Mutex // guards all below, but what a field says is its worker's
	granted bool       // producerID and producerEpoch are the broker's
	inTxn   bool       // something was sent since the last end
	// The producer's name in the next request: the answer to each EndTxn has a new epoch, and after the last epoch a
	// new id (KIP-890).
	producerID    int64
	producerEpoch int16

	outputs map[offsets.TopicPartition]*output
	brokers map[int32]*destination
	lost    []*output // without a leader, or to be asked again
	seeking bool      // a goroutine looks for the leaders of lost

	open    int           // consignments that are not done
	idle    chan struct{} // closed when open is 0; nil while nobody waits
	failure error         // nothing is sent any more
	reason  error         // of the last repetition, for the error of a deadline
}

// output is one partition that is produced to.
type output struct {
	topic     string
	partition int32
	topicID   [16]byte
	leader    int32 // -1: unknown
	queue     []*parcel
	busy      bool // in a broker's queue, on its way, or lost
	sending   bool // queue[0] is on its way: until it is answered, it and sequence are its worker's
	sequence  int32
	tries     int // failed ones of queue[0]
}

// destination is a broker: who waits for it, and how many requests are on their way.
type destination struct {
	node    int32
	ready   []*output
	workers int
}

// parcel is one batch.
type parcel struct {
	batch  batch.Batch
	framed bool  // it has our name and its sequence number
	again  bool  // a request with it may have reached a broker
	source int64 // base offset in the source
	of     *consignment
}

// consignment is what one call of send has handed over.
type consignment struct {
	left int
	err  error // the first
	done func(error)
}

const (
	// requestBytes is how much a request carries, unless its first batch is larger: two batches of full size. Requests of
	// one take a tenth more CPU time (part main of test/bench, W1 raw), of four no less.
	requestBytes = 2 << 20
	// requestsPerBroker is how many are on their way, each with other partitions: one is written and read while the
	// broker works on the other. More would carry less each.
	requestsPerBroker = 2
	// longestPause bounds the doubling pause before a repetition.
	longestPause = 500 * time.Millisecond
)

var errDropped = errors.New("dropped with its transaction")

func newSender(ctx context.Context, cl *kgo.Client, id ID, o Options) *sender {
	s := &sender{
		cl: cl, link: o.Link, id: id, timeout: o.Timeout, log: o.Log,
		outputs: map[offsets.TopicPartition]*output{}, brokers: map[int32]*destination{},
	}
	s.alive, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// send queues batches of one partition. done is called when all are appended, or failed.
func (s *sender) send(topic string, partition int32, batches []batch.Batch, done func(error)) {
	c := &consignment{left: len(batches), done: done}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		go done(s.failure) // ends with done
		return
	}
	s.open++
	s.inTxn = true
	tp := offsets.TopicPartition{Topic: topic, Partition: partition}
	o := s.outputs[tp]
	if o == nil {
		o = &output{topic: topic, partition: partition, leader: -1}
		s.outputs[tp] = o
	}
	for _, b := range batches {
		o.queue = append(o.queue, &parcel{batch: b, source: b.BaseOffset(), of: c})
	}
	if !o.busy {
		s.next(o)
	}
}

// next puts an output whose first batch may go out into the queue of its broker. mu is held.
func (s *sender) next(o *output) {
	o.busy = true
	if o.leader < 0 {
		s.lose(o)
		return
	}
	d := s.brokers[o.leader]
	if d == nil {
		d = &destination{node: o.leader}
		s.brokers[o.leader] = d
	}
	d.ready = append(d.ready, o)
	if d.workers < requestsPerBroker {
		d.workers++
		s.going.Go(func() { s.work(d) }) // ends when nothing is ready; close waits for it
	}
}

// lose has the leader of an output looked up. mu is held.
func (s *sender) lose(o *output) {
	o.busy = true
	s.lost = append(s.lost, o)
	if !s.seeking {
		s.seeking = true
		s.going.Go(s.seek) // ends when nothing is lost, or with close, which waits for it
	}
}

// fail ends all sending: what is not on its way fails now. It answers what is done with that. mu is held.
func (s *sender) fail(err error) []*consignment {
	if s.failure != nil {
		return nil
	}
	s.failure = err
	var over []*consignment
	for _, o := range s.outputs {
		keep := 0
		if o.sending {
			keep = 1
		}
		for _, p := range o.queue[keep:] {
			over = p.end(over, err)
		}
		clear(o.queue[keep:])
		o.queue = o.queue[:keep]
		o.busy = o.sending
	}
	for _, d := range s.brokers {
		d.ready = nil
	}
	s.lost = nil
	return over
}

// end counts a parcel as appended or failed, and appends its consignment if that was the last one.
func (p *parcel) end(over []*consignment, err error) []*consignment {
	c := p.of
	if err != nil && c.err == nil {
		c.err = err
	}
	if c.left--; c.left > 0 {
		return over
	}
	return append(over, c)
}

// report calls back, and counts only then: a flush that returns has every acknowledgement counted. mu is not held.
func (s *sender) report(over []*consignment) {
	for _, c := range over {
		c.done(c.err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open -= len(over); s.open == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

func (s *sender) flush(ctx context.Context) error {
	s.mu.Lock()
	if s.open == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != nil {
		return fmt.Errorf("%w, after %w", context.Cause(ctx), s.reason)
	}
	return context.Cause(ctx)
}

func (s *sender) drop(ctx context.Context) error {
	s.mu.Lock()
	over := s.fail(errDropped)
	s.mu.Unlock()
	s.report(over)
	return s.flush(ctx)
}

func (s *sender) close() {
	s.mu.Lock()
	over := s.fail(kgo.ErrClientClosed)
	s.mu.Unlock()
	s.stop()
	s.report(over)
	s.going.Wait()
	s.cl.Close()
}
