package bridge

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/internal/link"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// fetcher reads partitions without decoding them. The consumer client stays the group's member, and finds the
// positions and the leaders; what it would fetch is paused, and asked for here instead.
//
// Like the client it has one request on its way to each broker, and asks again when the source has taken all that the
// last answer brought. A partition is in one request at a time, and in none while something of it waits for the
// source: what is taken is in the order of the log, also when the leader moves.
//
// A rebalance cannot come between: partitions are added and dropped in the group's callbacks, which do not run while
// the source takes and deals (see source.poll). An answer that comes after its partition was dropped finds another
// life of the partition, or none, and is thrown away.
type fetcher struct {
	cl       *kgo.Client
	link     *link.Dialer
	pool     *link.Pool // of the memory of answers
	topicID  func(topic string) [16]byte
	wake     func() // something can be taken
	log      *slog.Logger
	wait     time.Duration // for a broker to have something
	recheck  time.Duration // after which a closer replica is given up for the leader, which may name another
	rack     string
	old      batch.Decoder
	minBytes int32

	maxBytes atomic.Int32 // of an answer, see session.shareFetches
	perBatch atomic.Int64 // nanoseconds that the output takes for a batch of a partition; a moving average

	changed chan struct{} // one token: "look again"
	stop    context.CancelFunc
	stopped context.Context

	mu       sync.Mutex
	lives    map[offsets.TopicPartition]*life
	order    []*life // all of lives; requests name them in this order, from turn on
	turn     int
	brokers  map[int32]*fetchBroker
	ready    []*delivery // in the order of arrival
	failures []fetchFailure
}

// life is a partition from its assignment to its revocation. Its fields are guarded by fetcher.mu.
type life struct {
	tp    offsets.TopicPartition
	next  offsets.Position // to be fetched; the epoch is that of the batch before, -1 if it must not be compared
	busy  bool             // in a request, or with a delivery that was not taken
	out   int              // deliveries that were taken and are not done
	done  time.Time        // the last one was
	again time.Time        // not before
	fails int              // in a row

	leader  broker    // as told in an answer, in case metadata are behind; -1
	replica int32     // closer than the leader, -1
	until   time.Time // replica is given up
}

type broker struct{ node, epoch int32 }

// fetchBroker is what is on its way to or from one broker.
type fetchBroker struct {
	asked bool // a request is on its way
	held  int  // deliveries of the last answer that were not taken
	again time.Time
	fails int
}

// delivery is what one answer holds of one partition.
type delivery struct {
	life    *life
	broker  *fetchBroker
	tp      offsets.TopicPartition
	from    int64            // the offset that was asked for; the first batch may begin before it
	batches []batch.Batch    // with records, and not of aborted transactions
	records []*kgo.Record    // of a message format before 2, in place of batches
	memory  *link.Buffer     // in which they lie; released when they are acknowledged, and only then
	after   offsets.Position // after all this, and after markers and gaps
	count   int64            // records
	bytes   int64
	unread  int64 // offsets behind it, up to the last stable one
}

type fetchFailure struct {
	tp  offsets.TopicPartition
	err error
}

func newFetcher(cl *kgo.Client, dialer *link.Dialer, topicID func(string) [16]byte, wake func(), log *slog.Logger) *fetcher {
	f := &fetcher{
		cl: cl, link: dialer, pool: &link.Pool{}, topicID: topicID, wake: wake, log: log,
		changed: make(chan struct{}, 1),
		lives:   map[offsets.TopicPartition]*life{}, brokers: map[int32]*fetchBroker{},
	}
	// As the client would ask: its options say it.
	f.wait, _ = cl.OptValue(kgo.FetchMaxWait).(time.Duration)
	f.recheck, _ = cl.OptValue(kgo.RecheckPreferredReplicaInterval).(time.Duration)
	f.rack, _ = cl.OptValue(kgo.Rack).(string)
	f.minBytes, _ = cl.OptValue(kgo.FetchMinBytes).(int32)
	largest, _ := cl.OptValue(kgo.FetchMaxBytes).(int32)
	f.maxBytes.Store(largest)
	f.old.Decompressor, _ = cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	f.stopped, f.stop = context.WithCancel(context.Background())
	return f
}

// deliveriesOut is how many deliveries of a partition may be on their way to the output. A partition has one batch in
// each Produce request, so an output that is slow, or far, takes few batches per second; what waits for it waits at the
// source's broker instead, comes in one delivery and so can be made into few batches (see carrier.run). One is on its
// way while the next ones are handed over.
const deliveriesOut = 3

// finished notes that a delivery is done, and how long each of the batches that it became took the output: from when it
// was shipped, or from the end of the one before it.
func (f *fetcher) finished(l *life, shipped time.Time, batches int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.out--; l.out == deliveriesOut-1 {
		f.look()
	}
	if batches == 0 {
		return
	}
	now, since := time.Now(), shipped
	if l.done.After(since) {
		since = l.done
	}
	l.done = now
	each := int64(now.Sub(since)) / int64(batches)
	before := f.perBatch.Load()
	f.perBatch.Store(before + (each-before)/8)
}

// add begins to read a partition at a position. It is called while the group assigns.
func (f *fetcher) add(tp offsets.TopicPartition, at offsets.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(tp)
	l := &life{tp: tp, next: at, replica: -1, leader: broker{-1, -1}}
	f.lives[tp] = l
	f.order = append(f.order, l)
	f.look()
}

// drop ends the reading of partitions: nothing of them is taken any more, also not when it is on its way.
func (f *fetcher) drop(tps []offsets.TopicPartition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, tp := range tps {
		f.dropLocked(tp)
	}
	f.look()
}

func (f *fetcher) dropLocked(tp offsets.TopicPartition) {
	l := f.lives[tp]
	if l == nil {
		return
	}
	delete(f.lives, tp)
	f.order = slices.DeleteFunc(f.order, func(o *life) bool { return o == l })
	f.ready = slices.DeleteFunc(f.ready, func(d *delivery) bool {
		if d.life == l {
			d.broker.held--
		}
		return d.life == l
	})
	f.failures = slices.DeleteFunc(f.failures, func(e fetchFailure) bool { return e.tp == tp })
}

// waiting reports whether something can be taken.
func (f *fetcher) waiting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ready) > 0 || len(f.failures) > 0
}

// take answers what has come, at least one delivery and not many more records than wanted. The source calls it, with
// rebalances blocked.
func (f *fetcher) take(wanted int64) ([]*delivery, []fetchFailure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(f.ready) && wanted > 0 {
		d := f.ready[n]
		wanted -= d.count
		d.life.busy = false
		d.life.out++
		if d.broker.held--; d.broker.held == 0 {
			f.look()
		}
		n++
	}
	taken, failed := f.ready[:n:n], f.failures
	f.ready, f.failures = f.ready[n:], nil
	if len(f.ready) == 0 {
		f.ready = nil
	}
	return taken, failed
}

func (f *fetcher) look() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// run asks brokers until ctx or stop; then its requests have ended, too. The session waits for it.
func (f *fetcher) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.stopped, cancel)()
	var asking sync.WaitGroup
	defer asking.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		requests, next := f.requests(time.Now())
		for _, r := range requests {
			asking.Go(func() { f.ask(ctx, r) }) // ends with the answer or ctx
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed:
		case <-timer.C:
		}
	}
}

// leaderless is how long a partition whose leader is not known is left alone, and the shortest time after a failure.
const leaderless = 100 * time.Millisecond

// pauseAfter grows from 100 ms to about a second.
func pauseAfter(fails int) time.Duration { return leaderless * time.Duration(min(max(fails, 1), 10)) }

// waitBeside is how long a broker holds a request for the partitions that have nothing, when another one of its partitions
// is left out because its output is busy: that one may be asked for as soon as its output is through, and could not while
// the broker holds a request.
const waitBeside = 20 * time.Millisecond

// requests makes one request for each broker that may be asked now, and tells when to look again.
func (f *fetcher) requests(now time.Time) ([]*fetchRequest, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	soonest := time.Hour
	later := func(at time.Time) { soonest = min(soonest, max(at.Sub(now), time.Millisecond)) }
	var all []*fetchRequest
	byNode, leftOut := map[int32]*fetchRequest{}, map[int32]bool{}
	share := partitionBytes(f.maxBytes.Load(), len(f.order))
	f.turn++
	for i := range f.order {
		l := f.order[(i+f.turn)%len(f.order)]
		if l.out >= deliveriesOut {
			leftOut[f.placeOf(l, now).node] = true
			continue
		}
		if l.busy {
			continue
		}
		if l.again.After(now) {
			later(l.again)
			continue
		}
		at := f.placeOf(l, now)
		if at.node < 0 {
			l.fails++
			l.again = now.Add(pauseAfter(l.fails))
			later(l.again)
			f.cl.ForceMetadataRefresh()
			continue
		}
		b := f.brokers[at.node]
		if b == nil {
			b = &fetchBroker{}
			f.brokers[at.node] = b
		}
		if b.again.After(now) {
			later(b.again)
			continue
		}
		r := byNode[at.node]
		if r == nil {
			if b.asked || b.held > 0 {
				continue
			}
			r = f.newRequest(at.node, b)
			byNode[at.node] = r
			all = append(all, r)
		}
		r.add(l, at.epoch, f.topicID(l.tp.Topic), share)
	}
	for _, r := range all {
		r.broker.asked = true
		if leftOut[r.node] {
			r.MaxWaitMillis = min(r.MaxWaitMillis, int32(waitBeside.Milliseconds()))
		}
	}
	return all, soonest
}

// placeOf is where a partition is read: at its leader, or at a closer replica. The node is -1 without a leader.
func (f *fetcher) placeOf(l *life, now time.Time) broker {
	at := f.leaderOf(l)
	if at.node >= 0 && l.replica >= 0 && now.Before(l.until) {
		at.node = l.replica
	}
	return at
}

// leaderOf answers the leader by the newer of the client's metadata and what an answer has told.
func (f *fetcher) leaderOf(l *life) broker {
	node, epoch, err := f.cl.PartitionLeader(l.tp.Topic, l.tp.Partition)
	if err != nil {
		node = -1
	}
	if l.leader.epoch > epoch {
		return l.leader
	}
	return broker{node, epoch}
}

// ask sends a request and keeps what is in its answer for the source.
func (f *fetcher) ask(ctx context.Context, r *fetchRequest) {
	answer, memory, err := f.link.Fetch(ctx, f.cl, r.node, r.FetchRequest, f.pool)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	r.broker.asked = false
	for _, l := range r.lives {
		l.busy = false
	}
	if err != nil {
		f.unanswered(now, r, err)
	} else {
		r.broker.fails = 0
		for l, p := range r.partitions(answer) {
			if f.lives[l.tp] == l { // else it was dropped meanwhile
				f.answered(now, r, l, p, memory)
			}
		}
	}
	memory.Release() // deliveries have retained it
	if len(f.ready) > 0 || len(f.failures) > 0 {
		f.wake()
	}
	f.look()
}

// unanswered notes that a broker did not answer, or not as it should. Like the client it is asked again, and the
// leaders are looked up: another may have taken its place. What goes on failing in a way that is not the network's
// is told.
func (f *fetcher) unanswered(now time.Time, r *fetchRequest, err error) {
	r.broker.fails++
	r.broker.again = now.Add(pauseAfter(r.broker.fails))
	f.log.Debug("fetch failed, trying again", "broker", r.node, "err", err)
	f.cl.ForceMetadataRefresh()
	const stubborn = 20
	if r.broker.fails%stubborn == 0 && !kgo.IsRetryableBrokerErr(err) && !txn.Unreachable(err) {
		for tp := range r.lives {
			f.failures = append(f.failures, fetchFailure{tp, err})
			return
		}
	}
}

// answered takes in what a broker says of one partition.
func (f *fetcher) answered(now time.Time, r *fetchRequest, l *life, p *kmsg.FetchResponseTopicPartition, memory *link.Buffer) {
	err := kerr.ErrorForCode(p.ErrorCode)
	if p.CurrentLeader.LeaderEpoch > l.leader.epoch {
		l.leader = broker{p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch} // KIP-951
	}
	switch {
	case err != nil:
		f.refused(now, r, l, err)
	case p.PreferredReadReplica >= 0:
		l.replica, l.until = p.PreferredReadReplica, now.Add(f.recheck)
	case p.DivergingEpoch.EndOffset >= 0:
		f.diverged(l, p.DivergingEpoch)
	default:
		d, err := readAnswer(l.next, p, func(from int64, b batch.Batch) ([]*kgo.Record, int64, error) {
			return f.old.Decode(nil, l.tp.Topic, l.tp.Partition, from, b)
		})
		switch {
		case err != nil:
			f.fail(now, l, err)
			return
		case d == nil && len(p.RecordBatches) > 0: // the next answer will be no better
			l.fails++
			l.again = now.Add(pauseAfter(l.fails))
			return
		}
		l.fails = 0
		if d != nil {
			d.unread = max(p.LastStableOffset-d.after.Offset, 0)
			d.life, d.tp, d.broker, d.from, d.memory = l, l.tp, r.broker, l.next.Offset, memory
			memory.Retain()
			l.next, l.busy = d.after, true
			r.broker.held++
			f.ready = append(f.ready, d)
		}
	}
}

// diverged compares our position with the log of the leader, which has no batch at it of the epoch that we have read
// before it (KIP-595). The log has lost what we have read if it ends, for that epoch, before our position. Else it has
// only never heard of the epoch: a start by time may have been told the epoch of a leader that wrote nothing.
func (f *fetcher) diverged(l *life, log kmsg.FetchResponseTopicPartitionDivergingEpoch) {
	if log.EndOffset < l.next.Offset {
		f.failures = append(f.failures, fetchFailure{l.tp, &kgo.ErrDataLoss{
			Topic: l.tp.Topic, Partition: l.tp.Partition, ConsumedTo: l.next.Offset, ConsumedToEpoch: l.next.LeaderEpoch,
			ResetTo: log.EndOffset, ResetToEpoch: log.Epoch,
		}})
		l.again = time.Now().Add(time.Hour) // the session ends
		return
	}
	l.next.LeaderEpoch = -1
}

// refused sorts the errors of a partition as the client does: what a move of the leader explains is asked again after
// a look at the metadata, the rest is told. That a topic id is not known is for watchTopics to judge: it looks whether
// the topic is gone, or was made anew, or has just been made and not every broker has heard of it.
func (f *fetcher) refused(now time.Time, r *fetchRequest, l *life, err error) {
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange) && l.replica == r.node:
		l.replica = -1 // it may be behind, or have other retention: only the leader knows (KIP-392)
		return
	case errors.Is(err, kerr.OffsetOutOfRange) && l.next.LeaderEpoch >= 0:
		// Also the answer to an epoch of which the log knows nothing. The position alone tells.
		l.next.LeaderEpoch = -1
		return
	case errors.Is(err, kerr.CorruptMessage), !kerr.IsRetriable(err):
		f.fail(now, l, err)
		return
	}
	if l.replica == r.node {
		l.replica = -1
	}
	l.fails++
	l.again = now.Add(pauseAfter(l.fails))
	f.log.Debug("fetch refused, trying again", "topic", l.tp.Topic, "partition", l.tp.Partition, "broker", r.node, "err", err)
	f.cl.ForceMetadataRefresh()
}

// fail leaves an error to the source, whose decision it is.
func (f *fetcher) fail(now time.Time, l *life, err error) {
	l.fails++
	l.again = now.Add(pauseAfter(l.fails))
	f.failures = append(f.failures, fetchFailure{l.tp, err})
}
