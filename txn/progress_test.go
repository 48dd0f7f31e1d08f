package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

// prepared is a ring with epoch 1 flushed, its journal empty.
func (b *bed) prepared() *Ring {
	b.t.Helper()
	r := b.open()
	if err := b.precommit(r, 1, "epoch 1"); err != nil {
		b.t.Fatal(err)
	}
	b.forget()
	return r
}

func (b *bed) commit(r *Ring, cred Credential) error {
	_, err := r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(10, 20), Credential: cred})
	return err
}

// expectNothing closes the ring and wants nothing of its epoch to be true after the next fence.
func (b *bed) expectNothing(r *Ring) {
	b.t.Helper()
	r.Close()
	b.wire.mend()
	b.open()
	b.expectPositions()
	b.expectOutput()
	b.expectReleased()
}

// Invariants 2, 6: every field of TxnOffsetCommit is filled, from the barrier and from the transaction.
func TestTxnOffsetCommitFields(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		me := b.join("me", "")
		r := b.open()
		b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(10, 20, 30), Credential: me}, "x")
		b.mustEpoch(r, Checkpoint{Epoch: 2, Positions: at(11), Credential: me}, "y")
		b.mustEpoch(r, Checkpoint{Epoch: 3, Positions: at(12), Credential: me}, "z")
		commits := b.txnOffsetCommits()
		if len(commits) != 3 {
			t.Fatalf("%d TxnOffsetCommit", len(commits))
		}
		c := commits[0]
		if c.Group != group || c.TransactionalID != "app.me.1" || c.MemberID != me.MemberID || c.Generation != me.Generation ||
			c.InstanceID == nil || *c.InstanceID != "me" {
			t.Errorf("TxnOffsetCommit %+v", c)
		}
		if len(c.Topics) != 1 || c.Version >= 6 && c.Topics[0].TopicID != b.TopicInfo("in").TopicID || c.Version < 6 && c.Topics[0].Topic != "in" {
			t.Errorf("v%d: topics %+v", c.Version, c.Topics)
		}
		for i, p := range c.Topics[0].Partitions {
			if p.Partition != int32(i) || p.Offset != int64(10*(i+1)) || p.LeaderEpoch != int32(i)+3 {
				t.Errorf("partition %+v", p)
			}
		}
		// Invariant 5: the producer's id and epoch are asked for each time. They move with each transaction of version 2,
		// and with the new client before it.
		if first, third := commits[0], commits[2]; first.ProducerID != third.ProducerID || third.ProducerEpoch <= first.ProducerEpoch {
			t.Errorf("producer %d epoch %d, then producer %d epoch %d", first.ProducerID, first.ProducerEpoch, third.ProducerID, third.ProducerEpoch)
		}
		b.expectPositions(12, 20, 30)
	})
}

// Positions of several topics go out in one request.
func TestTxnOffsetCommitTopics(t *testing.T) {
	b := newBed(t, kfake.SeedTopics(2, "other"))
	r := b.prepared()
	positions := at(10, 20)
	other := offsets.TopicPartition{Topic: "other", Partition: 1}
	positions[other] = offsets.Position{Offset: 5, LeaderEpoch: -1}
	if _, err := r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: positions, Credential: outsider()}); err != nil {
		t.Fatal(err)
	}
	got, err := offsets.Committed(b.ctx, b.adm, group)
	if err != nil || len(got) != 3 || got[other].Offset != 5 || got[position(1)].Offset != 20 {
		t.Errorf("positions %v, %v", got, err)
	}
	b.expectCount(kmsg.TxnOffsetCommit, 1)
}

// Invariants 2, 4: every partition's code counts, and EndTxn never follows a refused one: the broker would commit the
// output without its positions.
func TestSecondPartitionRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.prepared()
		b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Topic: "in", Partitions: []int32{1}, Err: kerr.OffsetMetadataTooLarge})
		err := b.commit(r, outsider())
		expectClass(t, err, ErrAborted)
		if !errors.Is(err, kerr.OffsetMetadataTooLarge) || !strings.Contains(err.Error(), "topic in partition 1") {
			t.Errorf("commit: %v", err)
		}
		b.expectCount(kmsg.TxnOffsetCommit, 1)
		b.expectCount(kmsg.EndTxn, 0)
		b.expectNothing(r)
	})
}

// Invariant 2: an answer that says "not here" or "not yet" is tried again after a fresh look-up.
func TestTxnOffsetCommitAgain(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.ConcurrentTransactions,
	} {
		t.Run(code.Message, func(t *testing.T) {
			b := newBed(t)
			r := b.prepared()
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Group: group, Err: code, Count: 2})
			if err := b.commit(r, outsider()); err != nil {
				t.Fatal(err)
			}
			b.expectCount(kmsg.TxnOffsetCommit, 3)
			if got := b.lookUps(); got != 3 {
				t.Errorf("the coordinator was looked up %d times, want once per attempt", got)
			}
			b.expectPositions(10, 20)
		})
	}
}

// lookUps counts the look-ups of the group's coordinator.
func (b *bed) lookUps() int {
	n := 0
	for _, s := range b.requests(kmsg.FindCoordinator) {
		f := s.Request.(*kmsg.FindCoordinatorRequest)
		if f.CoordinatorType == 0 && (f.CoordinatorKey == group || slices.Contains(f.CoordinatorKeys, group)) {
			n++
		}
	}
	return n
}

// Invariant 2: the coordinator is kept from one epoch to the next, and found again when it has moved.
func TestCoordinatorMoves(t *testing.T) {
	b := newBed(t)
	r := b.open()
	b.forget()
	for n := Epoch(1); n <= 3; n++ {
		b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}, "x")
	}
	if got := b.lookUps(); got != 1 {
		t.Errorf("the coordinator was looked up %d times for three epochs", got)
	}
	was := b.CoordinatorFor(group)
	for range 100 {
		if b.RehashCoordinators(); b.CoordinatorFor(group) != was {
			break
		}
	}
	b.forget()
	b.mustEpoch(r, Checkpoint{Epoch: 4, Positions: at(4), Credential: outsider()}, "x")
	commits := b.requests(kmsg.TxnOffsetCommit)
	if len(commits) != 2 || commits[0].node != was || commits[1].node != b.CoordinatorFor(group) {
		t.Errorf("TxnOffsetCommit to %v; the coordinator moved from %d to %d", commits, was, b.CoordinatorFor(group))
	}
	b.expectPositions(4)
}

// Invariant 2: "not yet" for ever ends with the commit's deadline, and the error says what it was waiting for.
func TestTxnOffsetCommitDeadline(t *testing.T) {
	b := newBed(t)
	r := b.prepared()
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	b.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Group: group, Err: kerr.ConcurrentTransactions, Count: -1,
		When: func(kmsg.Request) bool {
			if len(b.requests(kmsg.TxnOffsetCommit)) == 3 {
				cancel()
			}
			return true
		},
	})
	_, err := r.Commit(ctx, Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()})
	if got := classes(err); len(got) != 1 || !slices.Contains([]error{ErrAborted, ErrInDoubt}, got[0]) || !errors.Is(err, kerr.ConcurrentTransactions) {
		t.Errorf("commit: %v, want the broker's reason", err)
	}
	b.expectCount(kmsg.TxnOffsetCommit, 3)
	b.expectCount(kmsg.EndTxn, 0)
	b.expectNothing(r)
}

// Invariant 2: any other answer is final.
func TestTxnOffsetCommitRefused(t *testing.T) {
	for _, c := range []struct {
		code *kerr.Error
		want error
	}{
		{kerr.UnknownMemberID, ErrInDoubt},
		{kerr.FencedInstanceID, ErrInDoubt},
		{kerr.FencedMemberEpoch, ErrInDoubt},
		{kerr.InvalidProducerEpoch, ErrInDoubt},
		{kerr.ProducerFenced, ErrInDoubt},
		{kerr.InvalidProducerIDMapping, ErrInDoubt},
		{kerr.RebalanceInProgress, ErrAborted},
		{kerr.TransactionAbortable, ErrAborted},
		{kerr.UnknownServerError, ErrAborted},
		{kerr.UnknownTopicOrPartition, ErrAborted},
		{kerr.GroupAuthorizationFailed, ErrFatal},
		{kerr.UnsupportedVersion, ErrFatal},
	} {
		t.Run(c.code.Message, func(t *testing.T) {
			b := newBed(t)
			r := b.prepared()
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Group: group, Err: c.code, Count: -1})
			err := b.commit(r, outsider())
			expectClass(t, err, c.want)
			if !errors.Is(err, c.code) {
				t.Errorf("commit: %v, want %v", err, c.code)
			}
			b.expectCount(kmsg.TxnOffsetCommit, 1)
			b.expectCount(kmsg.EndTxn, 0)
			b.expectNothing(r)
		})
	}
}

// Invariant 2: what may have reached the broker is never sent again: a late copy would win over a newer epoch's.
func TestTxnOffsetCommitUnanswered(t *testing.T) {
	for _, c := range []struct {
		name string
		fate fate
		seen int
		want error
	}{
		{"lost before the broker", cutBefore, 0, ErrAborted},
		{"lost after the broker", cutAfter, 1, ErrAborted},
		{"never answered", swallow, 1, ErrInDoubt},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *bed) {
				r := b.open()
				// kgo never repeats what dies with a fresh connection; one that has served before it would repeat.
				for n := Epoch(1); n <= 2; n++ {
					b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}, fmt.Sprint("epoch ", n))
				}
				if err := b.precommit(r, 3, "epoch 3"); err != nil {
					t.Fatal(err)
				}
				b.forget()
				ctx, cancel := context.WithCancel(b.ctx)
				defer cancel()
				stop := func() {}
				if c.fate == swallow {
					stop = cancel
				}
				lost := b.wire.loseUntil(kmsg.TxnOffsetCommit, c.fate, 1, stop)
				_, err := r.Commit(ctx, Checkpoint{Epoch: 3, Positions: at(10), Credential: outsider()})
				expectClass(t, err, c.want)
				if got := lost.Hits(); got != 1 {
					t.Errorf("TxnOffsetCommit was sent %d times", got)
				}
				b.expectCount(kmsg.TxnOffsetCommit, c.seen)
				b.expectCount(kmsg.EndTxn, 0)
				r.Close()
				b.wire.mend()
				b.open()
				b.expectPositions(2)
				b.expectOutput("epoch 1", "epoch 2")
			})
		})
	}
}

// Invariant 2: where the group's coordinator cannot be found, nothing is sent.
func TestNoCoordinator(t *testing.T) {
	b := newBed(t)
	r := b.prepared()
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Group: group, Err: kerr.GroupAuthorizationFailed, Count: -1})
	err := b.commit(r, outsider())
	var fatal *FatalError
	if !errors.As(err, &fatal) || fatal.ExitCode() != StatusDenied || !strings.Contains(err.Error(), "group "+group) {
		t.Errorf("commit: %v", err)
	}
	b.expectCount(kmsg.TxnOffsetCommit, 0)
	b.expectCount(kmsg.EndTxn, 0)
}

// byTopic keeps the order and loses nothing.
func TestByTopic(t *testing.T) {
	p := offsets.Positions{}
	for topic, partitions := range map[string][]int32{"b": {2, 0}, "a": {7}, "c": {1, 3, 2}} {
		for _, n := range partitions {
			p[offsets.TopicPartition{Topic: topic, Partition: n}] = offsets.Position{Offset: 1}
		}
	}
	var got []string
	byTopic(p, func(topic string, tps []offsets.TopicPartition) { got = append(got, fmt.Sprint(topic, tps)) })
	want := []string{"a[a-7]", "b[b-0 b-2]", "c[c-1 c-2 c-3]"}
	if !slices.Equal(got, want) {
		t.Errorf("byTopic gives %q, want %q", got, want)
	}
	byTopic(nil, func(string, []offsets.TopicPartition) { t.Error("no topic was expected") })
}
