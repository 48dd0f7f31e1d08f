package txn

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// settling is a ring that carries positions of epoch 1, read as a member.
func (b *bed) settling(cred Credential) *Ring {
	b.t.Helper()
	r := b.open()
	b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(10, 20), Credential: cred})
	b.forget()
	return r
}

// Invariant 8: carried positions are settled once they are old enough, in one plain commit with the credential of
// their newest barrier, and are then gone.
func TestSettle(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		g := b.generations(2)
		r := b.open()
		b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(10, 20), Credential: g[0]})
		b.mustEpoch(r, Checkpoint{Epoch: 2, Positions: at(11), Credential: g[1]})
		b.forget()
		if settled, err := r.Settle(b.ctx, time.Hour); settled || err != nil {
			t.Errorf("young positions: settled %t, %v", settled, err)
		}
		b.expectLines()
		if settled, err := r.Settle(b.ctx, 0); !settled || err != nil {
			t.Fatalf("settled %t, %v", settled, err)
		}
		commits := b.offsetCommits()
		if len(commits) != 1 {
			t.Fatalf("%d plain commits", len(commits))
		}
		c := commits[0]
		if c.Group != group || c.InstanceID == nil || *c.InstanceID != "me" || len(c.Topics) != 1 ||
			c.Version >= 10 && c.Topics[0].TopicID != b.TopicInfo("in").TopicID || c.Version < 10 && c.Topics[0].Topic != "in" {
			t.Errorf("v%d: %+v", c.Version, c)
		}
		for i, want := range []int64{11, 20} {
			if p := c.Topics[0].Partitions[i]; p.Partition != int32(i) || p.Offset != want || p.LeaderEpoch != int32(i)+3 {
				t.Errorf("partition %+v", p)
			}
		}
		b.expectGenerations(g[1])
		b.expectPositions(11, 20)
		if settled, err := r.Settle(b.ctx, 0); settled || err != nil {
			t.Errorf("once more: settled %t, %v", settled, err)
		}
		b.expectCount(kmsg.OffsetCommit, 1)
		b.mustEpoch(r, Checkpoint{Epoch: 3, Positions: at(12), Credential: g[1]}, "x")
		b.expectPositions(12, 20)
	})
}

// Invariant 8: the age is that of the oldest position that is still carried.
func TestSettleAge(t *testing.T) {
	b := newBed(t)
	me := b.join("me", "")
	r := b.settling(me)
	r.carry.since = r.carry.since.Add(-time.Minute)
	b.mustEpoch(r, Checkpoint{Epoch: 2, Positions: at(11), Credential: me})
	if settled, err := r.Settle(b.ctx, 30*time.Second); !settled || err != nil {
		t.Errorf("settled %t, %v: a newer epoch made the positions young", settled, err)
	}
	b.mustEpoch(r, Checkpoint{Epoch: 3, Positions: at(12), Credential: me})
	if settled, err := r.Settle(b.ctx, 30*time.Second); settled || err != nil {
		t.Errorf("settled %t, %v: positions of this moment are not old", settled, err)
	}
}

// Invariant 8: exactly one attempt, whatever the answer. Nothing of a transaction stands behind a plain commit that
// would refuse a copy of it.
func TestSettleRefused(t *testing.T) {
	for _, c := range []struct {
		code *kerr.Error
		want error
	}{
		{kerr.NotCoordinator, ErrAborted},
		{kerr.CoordinatorNotAvailable, ErrAborted},
		{kerr.CoordinatorLoadInProgress, ErrAborted},
		{kerr.ConcurrentTransactions, ErrAborted},
		{kerr.RebalanceInProgress, ErrAborted},
		{kerr.OffsetMetadataTooLarge, ErrAborted},
		{kerr.UnknownMemberID, ErrInDoubt},
		{kerr.FencedInstanceID, ErrInDoubt},
		{kerr.UnknownServerError, ErrInDoubt},
		{kerr.GroupAuthorizationFailed, ErrFatal},
	} {
		t.Run(c.code.Message, func(t *testing.T) {
			b := newBed(t)
			r := b.settling(b.join("me", ""))
			// Of two partitions the second is refused.
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "in", Partitions: []int32{1}, Err: c.code, Count: -1})
			settled, err := r.Settle(b.ctx, 0)
			expectClass(t, err, c.want)
			if settled || !errors.Is(err, c.code) || !strings.Contains(err.Error(), "topic in partition 1") {
				t.Errorf("settled %t, %v", settled, err)
			}
			b.expectCount(kmsg.OffsetCommit, 1)
		})
	}
}

// Invariant 8: a plain commit without an answer is in doubt, for it may still arrive. It is not sent again.
func TestSettleUnanswered(t *testing.T) {
	for _, c := range []struct {
		name string
		fate fate
		seen int
	}{{"lost before the broker", cutBefore, 0}, {"lost after the broker", cutAfter, 1}, {"never answered", swallow, 1}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			me := b.join("me", "")
			r := b.settling(me)
			// kgo never repeats what dies with a fresh connection; one that has served before it would repeat.
			if err := r.CommitStart(b.ctx, at(1), me); err != nil {
				t.Fatal(err)
			}
			b.forget()
			ctx, cancel := context.WithCancel(b.ctx)
			defer cancel()
			stop := func() {}
			if c.fate == swallow {
				stop = cancel
			}
			lost := b.wire.loseUntil(kmsg.OffsetCommit, c.fate, 1, stop)
			settled, err := r.Settle(ctx, 0)
			expectClass(t, err, ErrInDoubt)
			if got := lost.Hits(); settled || got != 1 {
				t.Errorf("settled %t; sent %d times", settled, got)
			}
			b.expectCount(kmsg.OffsetCommit, c.seen)
		})
	}
}

// Invariant 13: where a first start begins is committed as a member, in one attempt.
func TestCommitStart(t *testing.T) {
	for name, open := range map[string]func(b *bed) Participant{
		"ring":  func(b *bed) Participant { return b.open() },
		"plain": func(b *bed) Participant { return b.openPlain() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			me := b.join("me", "")
			p := open(b)
			b.forget()
			if err := p.CommitStart(b.ctx, at(5, 6, 7, 8), me); err != nil {
				t.Fatal(err)
			}
			b.expectLines("plain")
			b.expectGenerations(me)
			b.expectPositions(5, 6, 7, 8)
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: group, Err: kerr.NotCoordinator})
			err := p.CommitStart(b.ctx, at(9), me)
			expectClass(t, err, ErrAborted)
			b.expectCount(kmsg.OffsetCommit, 2)
			b.expectPositions(5, 6, 7, 8)
		})
	}
}
