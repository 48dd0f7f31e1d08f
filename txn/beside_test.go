package txn

import (
	"context"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Invariants 1, 2, 4: positions go out while outputs are on their way; until these are acknowledged the epoch is not
// committed, and the next one does not begin.
func TestOffsetsBesideFlush(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		r := b.open()
		b.forget()
		cp := Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()}
		b.beginWith(r, 1, "x")
		arrived, release := b.hold(kmsg.Produce)
		b.produce(r, 1, outputs("y"), ignore)
		flushed := make(chan error, 1)
		go func() { flushed <- r.PreCommit(b.ctx, 1) }() // ends with the release
		b.await(arrived)
		steps, err := r.SendOffsets(b.ctx, cp)
		if err != nil || steps.OffsetsSent.IsZero() || !steps.Committed.IsZero() || r.slot[1].at() != StatePositioned {
			t.Fatalf("steps %+v, %v, the slot is %s", steps, err, r.slot[1].at())
		}
		expectBroken(t, r.Begin(b.ctx, 2), "epoch 2", "epoch 1")
		_, err = r.Commit(b.ctx, cp)
		expectBroken(t, err, "epoch 1", "positioned")
		_, err = r.SendOffsets(b.ctx, cp)
		expectBroken(t, err, "epoch 1", "positioned")
		b.expectLines("produce app.me.1", "offsets app.me.1")
		release()
		if err := <-flushed; err != nil {
			t.Fatal(err)
		}
		done, err := r.Commit(b.ctx, cp)
		if err != nil || !done.OffsetsSent.Equal(steps.OffsetsSent) || done.Committed.Before(done.OffsetsSent) {
			t.Errorf("steps %+v, %v", done, err)
		}
		b.expectLines("produce app.me.1", "offsets app.me.1", "commit app.me.1")
		b.expectPositions(10)
		b.expectOutput("x", "y")
		b.expectReleased()
	})
}

// Positions wait until every partition of the epoch is in the transaction, for the coordinator adds one thing at a time;
// the answer says so if they could not go out by then.
func TestOffsetsWaitForThePartitions(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		r := b.open()
		b.beginWith(r, 1, "a", "b")
		b.forget()
		arrived, release := b.hold(kmsg.Produce)
		b.produce(r, 1, outputs("c", "d", "e")[2:], ignore) // partition 2 is new, and alone: others may be overtaken
		b.await(arrived)
		cp := Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()}
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		if steps, err := r.SendOffsets(ctx, cp); err != nil || !steps.OffsetsSent.IsZero() {
			t.Errorf("steps %+v, %v", steps, err)
		}
		b.expectCount(kmsg.TxnOffsetCommit, 0)
		sent := make(chan error, 1)
		go func() { // ends with the release
			_, err := r.SendOffsets(b.ctx, cp)
			sent <- err
		}()
		release()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if err := r.PreCommit(b.ctx, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Commit(b.ctx, cp); err != nil {
			t.Fatal(err)
		}
		b.expectLines("produce app.me.1", "offsets app.me.1", "commit app.me.1")
		b.expectPositions(10)
		b.expectOutput("a", "b", "e")
	})
}

// Where the client chooses the partitions, nobody knows whether one is new: positions are a part of Commit.
func TestOffsetsByKey(t *testing.T) {
	b := newBed(t)
	o := b.options()
	o.ByKey = true
	r, err := Open(b.ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	b.beginWith(r, 1, "x")
	cp := Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()}
	if steps, err := r.SendOffsets(b.ctx, cp); err != nil || !steps.OffsetsSent.IsZero() {
		t.Errorf("steps %+v, %v", steps, err)
	}
	b.expectCount(kmsg.TxnOffsetCommit, 0)
}

// Invariant 2: no positions before the epoch before is acknowledged as committed; of two the later record wins, and a
// late copy of the earlier request would be it.
func TestOffsetsAfterTheLastEnd(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		r := b.open()
		if err := b.precommit(r, 1, "1"); err != nil {
			t.Fatal(err)
		}
		b.forget()
		arrived, release := b.hold(kmsg.EndTxn)
		committed := make(chan error, 1)
		go func() { // ends with the release
			_, err := r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()})
			committed <- err
		}()
		b.await(arrived)
		if err := b.precommit(r, 2, "2"); err != nil {
			t.Fatal(err)
		}
		second := Checkpoint{Epoch: 2, Positions: at(20), Credential: outsider()}
		_, err := r.SendOffsets(b.ctx, second)
		expectBroken(t, err, "epoch 2", "epoch 1")
		b.expectCount(kmsg.TxnOffsetCommit, 1)
		release()
		if err := <-committed; err != nil {
			t.Fatal(err)
		}
		if _, err = r.SendOffsets(b.ctx, second); err == nil {
			_, err = r.Commit(b.ctx, second)
		}
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"offsets app.me.1", "commit app.me.1", "offsets app.me.0", "commit app.me.0"}
		if got := b.lines(kmsg.TxnOffsetCommit, kmsg.EndTxn); !slices.Equal(got, want) {
			t.Errorf("the broker has seen %q, want %q", got, want)
		}
		b.expectPositions(20)
		b.expectOutput("1", "2")
	})
}

// Invariant 8: positions alone open no transaction; they are carried, and ride with the next one that goes out early.
func TestOffsetsOfEpochWithoutOutput(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		r := b.open()
		b.forget()
		empty := Checkpoint{Epoch: 1, Positions: at(5, 6), Credential: outsider()}
		if err := b.precommit(r, 1); err != nil {
			t.Fatal(err)
		}
		if steps, err := r.SendOffsets(b.ctx, empty); err != nil || !steps.OffsetsSent.IsZero() {
			t.Errorf("steps %+v, %v", steps, err)
		}
		b.expectLines()
		if steps, err := r.Commit(b.ctx, empty); err != nil || !steps.Carried {
			t.Errorf("steps %+v, %v", steps, err)
		}
		if err := r.Begin(b.ctx, 2); err != nil {
			t.Fatal(err)
		}
		b.produce(r, 2, outputs("x"), ignore)
		next := Checkpoint{Epoch: 2, Positions: at(7), Credential: outsider()}
		if _, err := r.SendOffsets(b.ctx, next); err != nil {
			t.Fatal(err)
		}
		// What it has taken along is not there to be settled any more.
		if settled, err := r.Settle(b.ctx, 0); settled || err != nil {
			t.Errorf("settled %t, %v", settled, err)
		}
		if err := r.PreCommit(b.ctx, 2); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Commit(b.ctx, next); err != nil {
			t.Fatal(err)
		}
		b.expectPositions(7, 6)
		b.expectOutput("x")
	})
}

// Invariant 14: below transaction.version 2 positions are a part of Commit.
func TestOffsetsBelow2(t *testing.T) {
	b := newOldBed(t)
	r := b.open()
	if err := b.precommit(r, 1, "x"); err != nil {
		t.Fatal(err)
	}
	b.forget()
	cp := Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()}
	if steps, err := r.SendOffsets(b.ctx, cp); err != nil || !steps.OffsetsSent.IsZero() {
		t.Errorf("steps %+v, %v", steps, err)
	}
	b.expectLines()
	if steps, err := r.Commit(b.ctx, cp); err != nil || steps.OffsetsSent.IsZero() {
		t.Errorf("steps %+v, %v", steps, err)
	}
	b.expectPositions(10)
}

// An epoch that is given up while its outputs are on their way behind its positions is aborted as any other: whoever reads
// positions or outputs is not held up until the transaction's time-out.
func TestAbortBehindOffsets(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		r := b.open()
		b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()}, "1")
		b.beginWith(r, 2, "2")
		arrived, release := b.hold(kmsg.Produce)
		b.produce(r, 2, outputs("3"), ignore)
		b.await(arrived)
		if _, err := r.SendOffsets(b.ctx, Checkpoint{Epoch: 2, Positions: at(20), Credential: outsider()}); err != nil {
			t.Fatal(err)
		}
		b.forget()
		release()
		r.Abort(b.ctx)
		b.expectLines("abort app.me.0")
		b.expectPositions(10)
		b.expectOutput("1")
		b.expectReleased()
	})
}
