package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// assignment maps our partitions to lanes. It changes in the group's callbacks, which run only while no poll does.
type assignment struct {
	lanes int

	mu    sync.RWMutex
	of    map[offsets.TopicPartition]int
	count []int
	ids   map[string][16]byte // topic ids of the input (KIP-516)
}

// lane answers the lane of a partition, giving it one if the assignment has not come by yet.
func (a *assignment) lane(tp offsets.TopicPartition) int {
	a.mu.RLock()
	lane, ok := a.of[tp]
	a.mu.RUnlock()
	if ok {
		return lane
	}
	return a.add(tp)
}

// add gives a partition to the lane with the fewest.
func (a *assignment) add(tp offsets.TopicPartition) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if lane, ok := a.of[tp]; ok {
		return lane
	}
	if a.of == nil {
		a.of, a.count = map[offsets.TopicPartition]int{}, make([]int, a.lanes)
	}
	lane := 0
	for i, n := range a.count {
		if n < a.count[lane] {
			lane = i
		}
	}
	a.of[tp] = lane
	a.count[lane]++
	return lane
}

// remove answers the lane that a partition had.
func (a *assignment) remove(tp offsets.TopicPartition) (lane int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if lane, ok = a.of[tp]; ok {
		delete(a.of, tp)
		a.count[lane]--
	}
	return lane, ok
}

func (a *assignment) size() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.of)
}

func (a *assignment) partitions() map[string][]int32 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	all := map[string][]int32{}
	for tp := range a.of {
		all[tp.Topic] = append(all[tp.Topic], tp.Partition)
	}
	return all
}

func (a *assignment) topicID(topic string) [16]byte {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.ids[topic]
}

func (a *assignment) allIDs() map[string][16]byte {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return maps.Clone(a.ids)
}

func (a *assignment) setID(topic string, id [16]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids == nil {
		a.ids = map[string][16]byte{}
	}
	a.ids[topic] = id
}

// consumerOptions are the protocol's demands on the group member.
func (s *session) consumerOptions() []kgo.Opt {
	o := s.opts
	opts := slices.Concat(o.Client, o.Fetching, []kgo.Opt{
		kgo.ConsumerGroup(o.Group),
		kgo.InstanceID(o.Instance),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.KeepControlRecords(), // markers move positions, and go no further
		kgo.MetadataMaxAge(30 * time.Second),
		kgo.SessionTimeout(o.SessionTimeout),
		kgo.RebalanceTimeout(o.RebalanceTimeout),
		kgo.HeartbeatInterval(min(3*time.Second, o.SessionTimeout/3)),
		kgo.OnPartitionsAssigned(s.onAssigned),
		kgo.OnPartitionsRevoked(s.onRevoked),
		kgo.OnPartitionsLost(s.onLost),
		kgo.OnPartitionsCallbackBlocked(s.onBlocked),
		kgo.AdjustFetchOffsetsFn(s.adjustOffsets),
		kgo.WithHooks(s),
	})
	opts = append(opts, s.fetchLimits()...)
	if o.Pattern != nil {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(o.Pattern.String()), kgo.ConsumeExcludeTopics(o.plan().Excluded()...))
	} else {
		opts = append(opts, kgo.ConsumeTopics(o.Inputs...))
	}
	if o.Consumer {
		return append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	return append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
}

// awaitMade holds up the first callbacks until the session can answer them.
func (s *session) awaitMade() {
	select {
	case <-s.made:
	case <-s.ctx.Done():
	}
}

// onBlocked is called in a goroutine of its own when the group waits for us: close the epoch now.
func (s *session) onBlocked(context.Context, *kgo.Client) {
	s.blocked.Store(true)
	s.wake.now()
}

func (s *session) onAssigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	s.awaitMade()
	if s.closing.Load() || s.ctx.Err() != nil {
		return
	}
	crashpoint.At("recovery: joined")
	if err := s.checkAssigned(s.ctx, added); err != nil {
		s.fail(err)
		return
	}
	for topic, partitions := range added {
		for _, p := range partitions {
			s.assigned.add(offsets.TopicPartition{Topic: topic, Partition: p})
		}
	}
	member, generation := s.cl.GroupMetadata()
	s.board.update(func(st *Status) { st.MemberID, st.Generation = member, generation })
	s.board.assign(s.assigned.partitions())
	s.shareFetches()
	s.enter(StateRunning)
	if len(added) > 0 {
		s.log.Info("partitions assigned", "assigned", added)
		now := time.Now()
		s.gained.Store(&now)
		s.board.waits()
	}
	crashpoint.At("recovery: partitions assigned")
}

// onRevoked drains: it returns when every epoch behind a barrier has ended. kgo calls it at each end of a
// group session, also with nothing to revoke, and then before it joins again: the moment at which carried
// positions can still be committed with the credential of their barrier.
func (s *session) onRevoked(_ context.Context, _ *kgo.Client, leaving map[string][]int32) {
	if s.closing.Load() || s.ctx.Err() != nil {
		return
	}
	limit := min(s.opts.EpochTimeout, s.opts.RebalanceTimeout/2)
	ctx, cancel := context.WithTimeoutCause(s.ctx, limit,
		fmt.Errorf("%w: epochs in flight did not end within %s of a revocation", txn.ErrAborted, limit))
	defer cancel()
	err := s.flight.wait(ctx)
	if err == nil {
		err = s.settle(0)
	}
	if err != nil {
		s.fail(err)
	}
	if len(leaving) == 0 {
		return
	}
	s.release(leaving)
	s.log.Info("partitions revoked", "revoked", leaving)
	// Only now: while this callback runs the partitions are still ours, and an epoch that drains may use the
	// generation of the moment.
	s.revoked.Add(1)
}

// release forgets partitions: no epoch may name one that was revoked since its poll.
func (s *session) release(leaving map[string][]int32) {
	var tps []offsets.TopicPartition
	forget := map[int][]offsets.TopicPartition{}
	for topic, partitions := range leaving {
		for _, p := range partitions {
			tp := offsets.TopicPartition{Topic: topic, Partition: p}
			tps = append(tps, tp)
			if lane, ok := s.assigned.remove(tp); ok {
				forget[lane] = append(forget[lane], tp)
			}
		}
	}
	s.sink.Forget(tps)
	if s.raw {
		s.fetcher.drop(tps)
	}
	s.isolation.gone(s.cl, tps)
	for lane, tps := range forget {
		select {
		case s.lanes[lane].in <- work{forget: tps}:
		case <-s.lanes[lane].gone: // stopping: there is nothing left to forget
		case <-s.ctx.Done():
		}
	}
	s.board.assign(s.assigned.partitions())
}

// onLost ends the session: the partitions may already be read by another member. The client is closed from
// outside of the callback.
func (s *session) onLost(_ context.Context, _ *kgo.Client, leaving map[string][]int32) {
	s.lost.Add(1)
	if s.closing.Load() {
		return
	}
	s.sink.Forget(partitionList(leaving))
	s.fail(fmt.Errorf("%w: partitions lost: the group no longer counts us in, or its coordinator did not answer", txn.ErrAborted))
}

func partitionList(m map[string][]int32) []offsets.TopicPartition {
	var tps []offsets.TopicPartition
	for _, topic := range slices.Sorted(maps.Keys(m)) {
		for _, p := range m[topic] {
			tps = append(tps, offsets.TopicPartition{Topic: topic, Partition: p})
		}
	}
	return tps
}
