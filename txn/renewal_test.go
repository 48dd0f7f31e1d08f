package txn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Invariant 14: before transaction.version 2 the group is added first, and each EndTxn is followed by a new fence of
// its slot, behind the next epoch.
func TestRenewal(t *testing.T) {
	b := newOldBed(t)
	r := b.open()
	b.forget()
	for n := Epoch(1); n <= 3; n++ {
		b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}, "x")
	}
	if err := b.awaitReady(r); err != nil {
		t.Fatal(err)
	}
	for slot, epochs := range map[string]int{"app.me.1": 2, "app.me.0": 1} {
		var got, want []string
		for _, line := range b.lines() {
			if strings.HasSuffix(line, slot) {
				got = append(got, line)
			}
		}
		for range epochs {
			want = append(want, "partitions "+slot, "produce "+slot, "add offsets "+slot, "offsets "+slot, "commit "+slot, "init "+slot)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the broker has seen %q, want %q", slot, got, want)
		}
	}
	b.expectPositions(3)
	b.expectOutput("x", "x", "x")
}

// Invariant 14: a 4.x cluster below the feature speaks newer versions than it can bear. TxnOffsetCommit stays at v4 and
// EndTxn below v5, and both ends hold on to the old protocol.
func TestRenewalOnANewBroker(t *testing.T) {
	for version := range int16(2) {
		b := newBed(t)
		b.version = version
		r := b.open()
		b.forget()
		for n := Epoch(1); n <= 3; n++ {
			b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}, "x")
		}
		if err := b.awaitReady(r); err != nil {
			t.Fatal(err)
		}
		for _, s := range b.requests(kmsg.TxnOffsetCommit, kmsg.EndTxn) {
			if v := s.GetVersion(); v > 4 {
				t.Errorf("%s v%d at transaction.version %d", s.line(), v, version)
			}
		}
		b.expectCount(kmsg.AddOffsetsToTxn, 3)
		b.expectCount(kmsg.InitProducerID, 3)
		b.expectPositions(3)
	}
}

// Invariant 14: with transaction.version 2 the newest versions are used, for they close the same holes.
func TestNoRenewal(t *testing.T) {
	b := newBed(t)
	r := b.open()
	b.forget()
	for n := Epoch(1); n <= 3; n++ {
		b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}, "x")
	}
	for _, s := range b.requests(kmsg.TxnOffsetCommit, kmsg.EndTxn) {
		if v := s.GetVersion(); v < 5 {
			t.Errorf("%s v%d", s.line(), v)
		}
	}
	b.expectCount(kmsg.AddOffsetsToTxn, 0)
	b.expectCount(kmsg.InitProducerID, 0)
}

// renewing is a ring whose slot 1 is being made anew: its fence has reached the broker, which keeps it until release.
func (b *bed) renewing() (r *Ring, release func()) {
	b.t.Helper()
	r = b.open()
	arrived, release := b.hold(kmsg.InitProducerID)
	b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(1), Credential: outsider()}, "x")
	b.await(arrived)
	return r, release
}

// Invariant 14: the slot's next epoch waits for the fence; the other slot's does not.
func TestBeginWaitsForRenewal(t *testing.T) {
	b := newOldBed(t)
	r, release := b.renewing()
	if err := b.precommit(r, 2, "y"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Millisecond)
	defer cancel()
	expectClass(t, r.Begin(ctx, 3), ErrAborted)
	begun := make(chan error, 1)
	go func() { begun <- r.Begin(b.ctx, 3) }() // ends with the release
	release()
	if err := <-begun; err != nil {
		t.Error(err)
	}
}

// A renewal that fails is the failure of the next epoch on its slot.
func TestRenewalFails(t *testing.T) {
	b := newOldBed(t)
	r := b.open()
	b.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.TransactionalIDAuthorizationFailed,
		When: func(req kmsg.Request) bool { return *req.(*kmsg.InitProducerIDRequest).TransactionalID == "app.me.1" },
	})
	b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(1), Credential: outsider()}, "x")
	b.mustEpoch(r, Checkpoint{Epoch: 2, Positions: at(2), Credential: outsider()}, "y")
	err := r.Begin(b.ctx, 3)
	var fatal *FatalError
	if !errors.As(err, &fatal) || fatal.ExitCode() != StatusDenied {
		t.Errorf("begin: %v", err)
	}
}

// Close ends a renewal and leaves no client behind: a fence that came later would hit the next incarnation.
func TestCloseDuringRenewal(t *testing.T) {
	b := newOldBed(t)
	r, release := b.renewing()
	r.Close()
	release()
	fences := len(b.requests(kmsg.InitProducerID))
	next := b.open()
	b.mustEpoch(next, Checkpoint{Epoch: 2, Positions: at(2), Credential: outsider()}, "y")
	if err := b.awaitReady(next); err != nil {
		t.Fatal(err)
	}
	b.mustEpoch(next, Checkpoint{Epoch: 3, Positions: at(3), Credential: outsider()}, "z")
	if err := b.awaitReady(next); err != nil {
		t.Fatal(err)
	}
	if got := len(b.requests(kmsg.InitProducerID)); got != fences+4 {
		t.Errorf("%d fences after Close, want 2 at the start and 1 per epoch", got-fences)
	}
	for _, s := range r.slot {
		if s.current() != nil {
			t.Errorf("%s has a client after Close", s.id)
		}
	}
}

// Invariant 8: positions of partitions that have just come are committed while epochs of others are in flight, also
// while both slots are being made anew; a client that is being closed would leave such a commit in doubt.
func TestPlainCommitDuringRenewal(t *testing.T) {
	b := newOldBed(t)
	me := b.join("me", "")
	r, release := b.renewing()
	if err := r.CommitStart(b.ctx, at(5), me); err != nil { // through the other slot
		t.Fatal(err)
	}
	b.expectCount(kmsg.OffsetCommit, 1)
	other, releaseOther := b.hold(kmsg.InitProducerID)
	b.mustEpoch(r, Checkpoint{Epoch: 2, Positions: at(6), Credential: me}, "y")
	b.await(other)
	committed := make(chan error, 1)
	go func() { committed <- r.CommitStart(b.ctx, at(6, 7), me) }() // ends with a release
	releaseOther()
	release()
	if err := <-committed; err != nil {
		t.Error(err)
	}
	b.expectPositions(6, 7)
	r.Close()
	expectClass(t, r.CommitStart(b.ctx, at(8), me), ErrAborted)
}
