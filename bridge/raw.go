package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/internal/link"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// Pass-through: a pipeline that changes neither records nor partitions hands on the batches of its input as they were
// fetched, compressed as they are. What a batch costs is then the same for one record and for a thousand. Nothing
// else is different: the source deals pieces of partitions to lanes and puts barriers between them, lanes pass
// barriers with positions, and gates, budget and limits hold as ever.
//
// A batch that cannot be handed on is decoded in its lane, and its records made into batches of our own.

// whyDecoded answers why a session decodes all that it reads; empty: it passes batches through.
func (s *session) whyDecoded() string {
	o := s.opts
	switch {
	case !o.PassThrough:
		return "switched off (BRIDGE_PASS_THROUGH=off)"
	case o.Restore != nil:
		return "dead letters are replayed"
	case !o.Chain.Identity():
		return "a transform changes records"
	case o.ByKey:
		return "partitions are chosen by key (BRIDGE_PARTITIONING=key)"
	case o.Provenance:
		return "headers are added (BRIDGE_PROVENANCE)"
	case o.Delivery != ExactlyOnce:
		return "only exactly-once passes batches through"
	case s.version < 2:
		return "transaction.version is below 2"
	case s.decoding.Load():
		return "an output was refused (BRIDGE_ON_ERROR)"
	default:
		return ""
	}
}

// choosePath decides once per session, before anything of it is made.
func (s *session) choosePath() {
	why := s.whyDecoded()
	s.raw = why == ""
	switch {
	case !s.pathTold.CompareAndSwap(false, true):
	case s.raw:
		s.log.Info("batches are passed through as they are")
	default:
		s.log.Info("batches are decoded", "reason", why)
	}
}

// follow makes the fetcher read what the group has given us, from where the client would. The client itself must not
// fetch it: it is paused before it knows where to begin.
func (s *session) follow(fetched map[string]map[int32]kgo.Offset) {
	if !s.raw {
		return
	}
	for topic, partitions := range fetched {
		s.cl.PauseFetchTopics(topic)
		for p, o := range partitions {
			if at := o.EpochOffset(); at.Offset >= 0 { // else the client tells that there is no position
				s.fetcher.add(offsets.TopicPartition{Topic: topic, Partition: p}, offsets.Position{Offset: at.Offset, LeaderEpoch: at.Epoch})
			}
		}
	}
}

// pollClient polls the client. What it has to say is more than records: the group and the metadata speak through it,
// too. With pass-through that is all. A poll that is cut short because something was fetched blocks rebalances like
// any other, until AllowRebalance; see kgo.BlockRebalanceOnPoll.
func (s *session) pollClient(ctx context.Context, cancel context.CancelFunc) kgo.Fetches {
	if !s.raw {
		return s.cl.PollRecords(ctx, s.atATime())
	}
	// Without a context a poll answers at once. One that is cut short would not look.
	if said := s.cl.PollRecords(nil, 1); len(said) > 0 { //nolint:staticcheck // documented so
		return said
	}
	if s.fetcher.waiting() {
		cancel()
	}
	return s.cl.PollRecords(ctx, 1)
}

// takeFetched deals what the fetcher has, and says how much that was. Rebalances are blocked: a poll has ended before,
// and nothing has allowed them since.
func (s *source) takeFetched() (got reading, err error) {
	all, failures := s.fetcher.take(pollRecords)
	for _, f := range failures {
		if err := s.fetchError(f.tp.Topic, f.tp.Partition, f.err); err != nil {
			return got, err
		}
	}
	now := time.Now()
	for _, d := range all {
		s.undealt += int(d.count)
	}
	for _, d := range all {
		e := s.epoch
		size := d.bytes + batchOverhead*int64(1+len(d.batches))
		if e.opened.IsZero() {
			e.opened = now
		}
		e.read.records += d.count
		e.bytesIn += d.bytes
		s.budget.take(size)
		lane := s.assigned.lane(d.tp)
		e.lanes[lane] = true
		e.leave(d.tp, d.unread)
		got.records += d.count
		got.unread += d.unread
		s.undealt -= int(d.count)
		s.send(lane, work{epoch: e, tp: d.tp, raw: d, size: size, dealt: now})
	}
	return got, nil
}

// batchOverhead is what a batch takes besides its bytes: its place in slices, and on its way through the producer.
const batchOverhead = 200

func (s *session) newCarrier() *carrier {
	c := &carrier{
		limit: s.topicLimit, passed: s.metrics.batches, codec: s.opts.Recompress,
		encoder: func(size int) (*batch.Encoder, error) { return batch.NewEncoder(size, s.opts.Compression) },
	}
	c.sink, _ = s.sink.(txn.BatchParticipant)
	return c
}

// The reasons for decoding a batch, as a metric's label.
const (
	decodedPart     = "part"        // it begins before the position
	decodedFormat   = "format"      // a message format before 2
	decodedShape    = "shape"       // gaps, the broker's timestamps, or what we do not know
	decodedTooLarge = "too large"   // for the output topic
	decodedCodec    = "compression" // another one was asked for
	decodedSmall    = "small"       // many small ones make a larger one
	passedAsIs      = ""            // not decoded
)

// Many small batches in a row are made into larger ones, because a partition has one batch in each Produce request.
// Small is what is not worth a request: below smallest it costs the CPU more than decoding the records does; above, it
// is what would let a partition move less than slowest. On a machine of its own an output takes a batch in 0.1 to 1 ms.
const (
	runOfSmall = 2
	smallest   = 4 << 10      // bytes
	largest    = 512 << 10    // bytes
	slowest    = 4 * mebibyte // bytes per second
)

// smallBelow is the size below which batches are small, when an output takes so long for each.
func smallBelow(perBatch time.Duration) int {
	return int(min(max(int64(perBatch)*slowest/int64(time.Second), smallest), largest))
}

func decodedReasons() []string {
	return []string{decodedPart, decodedFormat, decodedShape, decodedTooLarge, decodedCodec, decodedSmall}
}

// carrier is the part of a lane that passes batches on. It belongs to the lane's goroutine.
type carrier struct {
	sink    txn.BatchParticipant
	limit   func(output string) int32
	codec   *kgo.CompressionCodecType // nil: whatever the input has
	decoder batch.Decoder
	encoder func(size int) (*batch.Encoder, error)
	passed  func(reason string, n int)

	perBatch func() int64                                  // see fetcher.perBatch
	finished func(l *life, shipped time.Time, batches int) // see fetcher.finished

	encoders map[int]*batch.Encoder // by the size of their batches
}

// repack answers the batches to be produced for a delivery, and how much memory they take beyond what was fetched.
func (c *carrier) repack(d *delivery, output string) ([]batch.Batch, int64, error) {
	limit := int(c.limit(output))
	if len(d.records) > 0 {
		c.passed(decodedFormat, 1)
		return c.encode(d.records, output, limit)
	}
	out := make([]batch.Batch, 0, len(d.batches))
	var added int64
	for i := 0; i < len(d.batches); {
		n, why := c.run(d, i, limit)
		c.passed(why, n)
		if why == passedAsIs {
			out = append(out, d.batches[i:i+n]...)
			i += n
			continue
		}
		var records []*kgo.Record
		for _, b := range d.batches[i : i+n] {
			var err error // the decoder's names topic, partition and offset
			if records, _, err = c.decoder.Decode(records, d.tp.Topic, d.tp.Partition, d.from, b); err != nil {
				return nil, 0, txn.Fatalf(txn.StatusFailure, "cannot be read on: %w", err)
			}
		}
		made, more, err := c.encode(records, output, limit)
		if err != nil {
			return nil, 0, err
		}
		out, added, i = append(out, made...), added+more, i+n
	}
	return out, added, nil
}

// run answers how many batches from the i-th on are treated alike, and why they are decoded.
func (c *carrier) run(d *delivery, i, limit int) (n int, why string) {
	if why = c.why(d, d.batches[i], limit); why != passedAsIs {
		return 1, why
	}
	run, below := 0, smallBelow(time.Duration(c.perBatch()))
	for _, b := range d.batches[i:] {
		if len(b) >= below || c.why(d, b, limit) != passedAsIs {
			break
		}
		run++
	}
	if run >= runOfSmall {
		return run, decodedSmall
	}
	return 1, passedAsIs
}

func (c *carrier) why(d *delivery, b batch.Batch, limit int) string {
	switch {
	case b.BaseOffset() < d.from:
		return decodedPart
	case !b.Portable():
		return decodedShape
	case len(b) > limit:
		return decodedTooLarge
	case c.codec != nil && b.Codec() != *c.codec:
		return decodedCodec
	default:
		return passedAsIs
	}
}

func (c *carrier) encode(records []*kgo.Record, output string, limit int) ([]batch.Batch, int64, error) {
	if len(records) == 0 {
		return nil, 0, nil
	}
	usual := min(limit, ordinaryBatch) // a larger record gets a batch of its own
	e := c.encoders[usual]
	if e == nil {
		var err error
		if e, err = c.encoder(usual); err != nil {
			return nil, 0, err
		}
		if c.encoders == nil {
			c.encoders = map[int]*batch.Encoder{}
		}
		c.encoders[usual] = e
	}
	made := e.Encode(records)
	var size int64
	for _, b := range made {
		if len(b) > limit { // then of one record
			return nil, 0, refusedRecord(output, records[0], kerr.MessageTooLarge)
		}
		b.SetBaseOffset(records[0].Offset)
		size += int64(len(b))
		records = records[b.Count():]
	}
	return made, size, nil
}

// refusedRecord is the end of a record that no replay would get through.
func refusedRecord(output string, r *kgo.Record, err error) error {
	return txn.Fatalf(txn.StatusFailure,
		"output topic %s refused the record from topic %s partition %d offset %d (key %d bytes, value %d bytes): %w: "+
			"raise the topic's limit (max.message.bytes, timestamp bounds) or change the record with a transform",
		output, r.Topic, r.Partition, r.Offset, len(r.Key), len(r.Value), err)
}

// parcel is what a delivery has become.
type parcel struct {
	life        *life
	output      string
	partition   int32
	batches     []batch.Batch
	memory      *link.Buffer // in which they lie
	first, last int64        // offsets in the input
}

// carry is take for a delivery.
func (l *lane) carry(ctx context.Context, w work) error {
	d := w.raw
	out := &parcel{life: d.life, output: l.convert.target(w.tp.Topic), partition: w.tp.Partition, memory: d.memory, first: d.from, last: d.after.Offset - 1}
	var added int64
	var err error
	if out.batches, added, err = l.carrier.repack(d, out.output); err != nil {
		return l.decodeInstead(err)
	}
	if err := l.tracker.Advance(w.tp, d.after); err != nil {
		return &txn.FatalError{Status: txn.StatusBroken, Err: fmt.Errorf("broken invariant: lane %d: %w", l.id, err)}
	}
	if len(out.batches) == 0 {
		l.budget.give(w.size)
		l.carrier.finished(d.life, time.Time{}, 0)
		d.memory.Release()
		return nil
	}
	l.budget.take(added)
	l.hand(ctx, outputs{epoch: w.epoch, raw: out, piece: &piece{tp: w.tp, size: w.size + added, budget: l.budget}})
	return nil
}

// ship is produce for a parcel.
func (l *lane) ship(ctx context.Context, o outputs) {
	var count, size int64
	for _, b := range o.raw.batches {
		count += int64(b.Count())
		size += int64(len(b) - header)
	}
	o.epoch.recordsOut.Add(count)
	o.epoch.bytesOut.Add(size)
	shipped, batches := time.Now(), len(o.raw.batches)
	l.carrier.sink.ProduceBatches(ctx, o.epoch.n, o.raw.output, o.raw.partition, o.raw.batches, func(err error) {
		if err != nil {
			l.failed(l.decodeInstead(o.raw.failure(o.piece, err)))
			return // the session ends and its budget with it
		}
		o.piece.budget.give(o.piece.size)
		l.carrier.finished(o.raw.life, shipped, batches)
		o.raw.memory.Release()
	})
}

// decodeInstead lets the next session look at records where a policy has to deal with one that is refused: a batch says
// nothing of them.
func (l *lane) decodeInstead(err error) error {
	if l.policy == nil || !txn.Refused(err) {
		return err
	}
	l.policy.decode()
	return fmt.Errorf("%w: %w: %s", txn.ErrAborted, errRefused, err.Error()) // without its class
}

// failure names the input of batches that could not be produced.
func (p *parcel) failure(of *piece, err error) error {
	if !txn.Refused(err) {
		return txn.Classify(txn.CallProduce, err)
	}
	return txn.Fatalf(txn.StatusFailure,
		"output topic %s refused a batch from topic %s partition %d offsets %d to %d: %w: "+
			"raise the topic's limit (max.message.bytes, timestamp bounds) or change the records with a transform",
		p.output, of.tp.Topic, of.tp.Partition, p.first, p.last, err)
}
