package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
	"github.com/eosbridge/eosbridge/offsets"
)

// groupProgress keeps positions in the consumer group of the cluster that also holds the outputs. Its
// requests go out through Broker.Request, which never sends again what may have reached the broker: a late
// copy of an older TxnOffsetCommit would win over a newer one (test/model, run "offsets before the last
// end"), and a plain commit has no epoch that would refuse a copy at all (run "plain commit sent again").
type groupProgress struct {
	group    string
	instance string
	admin    *kadm.Client
	present  func() Credential
	topicID  func(topic string) [16]byte

	node atomic.Int32 // cached group coordinator, -1 unknown
}

// coordinator answers the broker that coordinates the group, looked up once and again after forget.
func (g *groupProgress) coordinator(ctx context.Context) (int32, error) {
	if n := g.node.Load(); n >= 0 {
		return n, nil
	}
	resp := g.admin.FindGroupCoordinators(ctx, g.group)[g.group]
	if resp.Err != nil {
		return -1, fmt.Errorf("find coordinator of group %s: %w", g.group, resp.Err)
	}
	g.node.Store(resp.NodeID)
	return resp.NodeID, nil
}

func (g *groupProgress) forget() { g.node.Store(-1) }

// again holds for answered codes that say "not here" or "not yet": nothing was applied, so the request may
// be sent once more within the commit deadline.
func again(err error) bool {
	return errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.CoordinatorNotAvailable) ||
		errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.ConcurrentTransactions)
}

// staleGeneration holds for the two answers of the exception to the captured credential.
func staleGeneration(err error) bool {
	return errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.StaleMemberEpoch)
}

// renewed answers the credential for the one repetition after a stale generation. The pair (member id,
// generation) is read first and the flags afterwards: the other order would bless old positions with the
// generation of a later membership (test/model, run "pair read after the test"). An unchanged member id alone
// proves nothing, for kgo keeps it after FENCED_MEMBER_EPOCH and STALE_MEMBER_EPOCH.
//
// The group has a new generation from the moment at which its last member has asked to join, and we only know it
// with the answer: an answer that is on its way is waited for, with the same tests at each look.
func (g *groupProgress) renewed(ctx context.Context, old Credential) (Credential, bool) {
	ctx, cancel := context.WithTimeout(ctx, generationWait)
	defer cancel()
	look := time.NewTicker(generationWait / 100)
	defer look.Stop()
	for {
		now := g.present()
		switch {
		case now.MemberID != old.MemberID || now.Lost != old.Lost || now.Revoked != old.Revoked:
			return old, false
		case now.Generation != old.Generation:
			return now, true
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return old, false
		}
	}
}

// generationWait is how long the answer to our JoinGroup may be on its way.
const generationWait = 500 * time.Millisecond

const retryPause = 20 * time.Millisecond // the pause that Kafka's producers make on CONCURRENT_TRANSACTIONS

// attempts sends until an answer is final. once forbids a second look-up, for the plain commit.
func (g *groupProgress) attempts(ctx context.Context, cred Credential, once bool, send func(node int32, cred Credential) error) error {
	repeated := false
	var notYet error // the last answer that was not final
	for {
		node, err := g.coordinator(ctx)
		if err == nil {
			err = send(node, cred)
		}
		switch {
		case err == nil:
			return nil
		case staleGeneration(err) && !repeated:
			fresh, ok := g.renewed(ctx, cred)
			if !ok {
				return err
			}
			cred, repeated = fresh, true
			continue
		case !again(err) || once:
			g.forget()
			if notYet != nil && ctx.Err() != nil {
				return fmt.Errorf("%w, after %w", err, notYet) // the reason why the deadline was reached
			}
			return err
		}
		g.forget()
		notYet = err
		timer := time.NewTimer(retryPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// sendInTxn puts positions into the transaction of a slot: TxnOffsetCommit with the group's credential
// (KIP-447), after AddOffsetsToTxn where the broker does not do that by itself.
func (g *groupProgress) sendInTxn(ctx context.Context, s *slot, version int16, cp Checkpoint) error {
	// The producer epoch moves with every transaction (KIP-890): never from memory.
	pid, epoch, err := s.out.identity(ctx)
	if err != nil {
		return Classify(CallOffsets, fmt.Errorf("%s: %w", s.id, err))
	}
	if version < 2 {
		if err := g.addOffsets(ctx, s, pid, epoch); err != nil {
			return err
		}
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = s.id.String(), g.group, pid, epoch
	req.InstanceID = &g.instance
	names := map[[16]byte]string{} // newer answers name a topic by its id alone
	byTopic(cp.Positions, func(topic string, tps []offsets.TopicPartition) {
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic, t.TopicID = topic, g.topicID(topic)
		names[t.TopicID] = topic
		for _, tp := range tps {
			p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			pos := cp.Positions[tp]
			p.Partition, p.Offset, p.LeaderEpoch = tp.Partition, pos.Offset, pos.LeaderEpoch
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	})
	err = g.attempts(ctx, cp.Credential, false, func(node int32, cred Credential) error {
		req.MemberID, req.Generation = cred.MemberID, cred.Generation
		crashpoint.At("commit: TxnOffsetCommit ready")
		resp, err := req.RequestWith(ctx, s.cl.Broker(int(node)))
		if err != nil {
			return err
		}
		crashpoint.At("commit: TxnOffsetCommit answered")
		return eachCode(func(yield func(topic string, partition int32, code int16)) {
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					yield(cmp.Or(t.Topic, names[t.TopicID]), p.Partition, p.ErrorCode)
				}
			}
		})
	})
	if err != nil {
		return Classify(CallOffsets, fmt.Errorf("%s: %w", s.id, err))
	}
	return nil
}

func (g *groupProgress) addOffsets(ctx context.Context, s *slot, pid int64, epoch int16) error {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = s.id.String(), pid, epoch, g.group
	for {
		// Adding the group twice is harmless, so kgo may find the coordinator and send again by itself.
		crashpoint.At("commit: AddOffsetsToTxn ready")
		resp, err := req.RequestWith(ctx, s.cl)
		if err == nil {
			crashpoint.At("commit: AddOffsetsToTxn answered")
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return Classify(CallOffsets, fmt.Errorf("%s: add offsets to txn: %w", s.id, err))
		}
		timer := time.NewTimer(retryPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return Classify(CallOffsets, fmt.Errorf("%s: add offsets to txn: %w", s.id, err))
		case <-timer.C:
		}
	}
}

// commitPlain commits positions outside a transaction, in one attempt.
func (g *groupProgress) commitPlain(ctx context.Context, via *kgo.Client, p offsets.Positions, cred Credential) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = g.group
	req.InstanceID = &g.instance
	names := map[[16]byte]string{}
	byTopic(p, func(topic string, tps []offsets.TopicPartition) {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = topic, g.topicID(topic)
		names[t.TopicID] = topic
		for _, tp := range tps {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch = tp.Partition, p[tp].Offset, p[tp].LeaderEpoch
			t.Partitions = append(t.Partitions, rp)
		}
		req.Topics = append(req.Topics, t)
	})
	err := g.attempts(ctx, cred, true, func(node int32, cred Credential) error {
		req.MemberID, req.Generation = cred.MemberID, cred.Generation
		crashpoint.At("settle: OffsetCommit ready")
		resp, err := req.RequestWith(ctx, via.Broker(int(node)))
		if err != nil {
			return err
		}
		crashpoint.At("settle: OffsetCommit answered")
		return eachCode(func(yield func(topic string, partition int32, code int16)) {
			for _, t := range resp.Topics {
				for _, rp := range t.Partitions {
					yield(cmp.Or(t.Topic, names[t.TopicID]), rp.Partition, rp.ErrorCode)
				}
			}
		})
	})
	return Classify(CallPlain, err)
}

// byTopic calls fn for each topic with its partitions in order.
func byTopic(p offsets.Positions, fn func(topic string, tps []offsets.TopicPartition)) {
	sorted := p.Sorted()
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n].Topic == sorted[0].Topic {
			n++
		}
		fn(sorted[0].Topic, sorted[:n])
		sorted = sorted[n:]
	}
}

// eachCode answers the first partition's error. A commit that one partition refused is a failed commit: the
// rest of its epoch must not become true without it.
func eachCode(codes func(yield func(topic string, partition int32, code int16))) error {
	var first error
	codes(func(topic string, partition int32, code int16) {
		if err := kerr.ErrorForCode(code); err != nil && first == nil {
			first = fmt.Errorf("topic %s partition %d: %w", topic, partition, err)
		}
	})
	return first
}
