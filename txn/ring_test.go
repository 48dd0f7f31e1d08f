package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/eosbridge/eosbridge/offsets"
)

// line writes a request as one word and its transactional id.
func (s seen) line() string {
	switch r := s.Request.(type) {
	case *kmsg.InitProducerIDRequest:
		if r.TransactionalID == nil {
			return "init"
		}
		return "init " + *r.TransactionalID
	case *kmsg.ProduceRequest:
		if r.TransactionID == nil {
			return "produce"
		}
		return "produce " + *r.TransactionID
	case *kmsg.AddPartitionsToTxnRequest:
		return "partitions " + r.TransactionalID
	case *kmsg.AddOffsetsToTxnRequest:
		return "add offsets " + r.TransactionalID
	case *kmsg.TxnOffsetCommitRequest:
		return "offsets " + r.TransactionalID
	case *kmsg.EndTxnRequest:
		if !r.Commit {
			return "abort " + r.TransactionalID
		}
		return "commit " + r.TransactionalID
	case *kmsg.OffsetCommitRequest:
		return "plain"
	default:
		return kmsg.NameForKey(s.Key())
	}
}

// lines lists what has reached the broker in its order, repeats in a row as one.
func (b *bed) lines(keys ...kmsg.Key) []string {
	var all []string
	for _, s := range b.requests(keys...) {
		all = append(all, s.line())
	}
	return slices.Compact(all)
}

func (b *bed) expectLines(want ...string) {
	b.t.Helper()
	if got := b.lines(); !slices.Equal(got, want) {
		b.t.Errorf("the broker has seen\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// hold makes the broker keep one request of a kind until release; arrived closes when it has come.
func (b *bed) hold(key kmsg.Key) (arrived <-chan struct{}, release func()) {
	came, free, used := make(chan struct{}), make(chan struct{}), false
	b.Control(func(req kmsg.Request) (kmsg.Response, error, bool) { // after the journal, for it is of the same kind
		if used || req.Key() != int16(key) || isClosed(free) {
			return nil, nil, false
		}
		used = true
		b.SleepControl(func() {
			close(came)
			<-free
		})
		return nil, nil, false
	})
	once := make(chan struct{}, 1)
	once <- struct{}{}
	release = func() {
		select {
		case <-once:
			close(free)
		default:
		}
	}
	b.t.Cleanup(release)
	return came, release
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (b *bed) await(c <-chan struct{}) {
	b.t.Helper()
	select {
	case <-c:
	case <-b.ctx.Done():
		b.t.Fatal("waited in vain")
	}
}

// Invariants 2, 3, 14: epoch n is on slot n mod 2; its positions go out before its EndTxn, and nothing of the next
// commit before that is answered. With transaction.version 2 there is no AddOffsetsToTxn, and no second fence.
func TestEpochsAlternate(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		me := b.join("me", "")
		r := b.open()
		b.expectCount(kmsg.InitProducerID, 2)
		b.forget()
		for n := Epoch(1); n <= 4; n++ {
			before := time.Now()
			steps := b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: me}, fmt.Sprint("epoch ", n))
			if steps.Carried || steps.OffsetsSent.Before(before) || steps.Committed.Before(steps.OffsetsSent) {
				t.Errorf("epoch %d: steps %+v", n, steps)
			}
			b.expectPositions(int64(n))
		}
		b.expectLines(
			"produce app.me.1", "offsets app.me.1", "commit app.me.1",
			"produce app.me.0", "offsets app.me.0", "commit app.me.0",
			"produce app.me.1", "offsets app.me.1", "commit app.me.1",
			"produce app.me.0", "offsets app.me.0", "commit app.me.0",
		)
		b.expectOutput("epoch 1", "epoch 2", "epoch 3", "epoch 4")
		b.expectReleased()
	})
}

// Invariants 1, 2, 3: while EndTxn(1) is on its way, epoch 2 produces and flushes, but commits nothing.
func TestPipeline(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.open()
		b.forget()
		if err := b.precommit(r, 1, "epoch 1"); err != nil {
			t.Fatal(err)
		}
		arrived, release := b.hold(kmsg.EndTxn)
		committed := make(chan error, 1)
		go func() { // ends with the release
			_, err := r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()})
			if err == nil {
				_, err = r.Commit(b.ctx, Checkpoint{Epoch: 2, Positions: at(20), Credential: outsider()})
			}
			committed <- err
		}()
		b.await(arrived)
		if err := b.precommit(r, 2, "epoch 2"); err != nil {
			t.Fatal(err)
		}
		if got := len(b.requests(kmsg.TxnOffsetCommit)); got != 1 {
			t.Errorf("%d TxnOffsetCommit before the first EndTxn was answered", got)
		}
		release()
		if err := <-committed; err != nil {
			t.Fatal(err)
		}
		want := []string{"offsets app.me.1", "commit app.me.1", "offsets app.me.0", "commit app.me.0"}
		if got := b.lines(kmsg.TxnOffsetCommit, kmsg.EndTxn); !slices.Equal(got, want) {
			t.Errorf("the broker has seen %q, want %q", got, want)
		}
		b.expectPositions(20)
		b.expectOutput("epoch 1", "epoch 2")
	})
}

// Invariants 2, 3, 5: commits in any order but that of the epochs, or after a failure, send nothing.
func TestCommitOutOfOrder(t *testing.T) {
	both := func(t *testing.T) (*bed, *Ring) {
		b := newBed(t)
		r := b.open()
		for n := Epoch(1); n <= 2; n++ {
			if err := b.precommit(r, n, fmt.Sprint("epoch ", n)); err != nil {
				t.Fatal(err)
			}
		}
		b.forget()
		return b, r
	}
	commit := func(b *bed, r *Ring, n Epoch) error {
		_, err := r.Commit(b.ctx, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()})
		return err
	}
	t.Run("the later first", func(t *testing.T) {
		b, r := both(t)
		expectBroken(t, commit(b, r, 2), "epoch 2", "epoch 1")
		b.expectLines()
	})
	t.Run("twice", func(t *testing.T) {
		b, r := both(t)
		if err := commit(b, r, 1); err != nil {
			t.Fatal(err)
		}
		b.forget()
		expectBroken(t, commit(b, r, 1), "epoch 1")
		b.expectLines()
	})
	t.Run("one that never began", func(t *testing.T) {
		b, r := both(t)
		expectBroken(t, commit(b, r, 3), "epoch 3")
		b.expectLines()
	})
	for name, key := range map[string]kmsg.Key{"after lost positions": kmsg.TxnOffsetCommit, "after a lost EndTxn": kmsg.EndTxn} {
		t.Run(name, func(t *testing.T) {
			b, r := both(t)
			b.wire.lose(key, cutBefore, always)
			if err := commit(b, r, 1); err == nil {
				t.Fatal("epoch 1 was committed")
			}
			b.wire.mend()
			b.forget()
			expectBroken(t, commit(b, r, 1), "epoch 1")
			expectBroken(t, commit(b, r, 2), "epoch 2")
			b.expectLines()
			r.Close()
			b.open()
			b.expectPositions()
			b.expectOutput()
		})
	}
	t.Run("before it is flushed", func(t *testing.T) {
		b := newBed(t)
		r := b.open()
		if err := r.Begin(b.ctx, 1); err != nil {
			t.Fatal(err)
		}
		b.forget()
		expectBroken(t, commit(b, r, 1), "epoch 1", "open")
		b.expectLines()
		if settled, err := r.Settle(b.ctx, 0); settled || err != nil {
			t.Errorf("settled %t, %v", settled, err)
		}
		b.expectLines() // and nothing of it was carried
	})
}

// Invariant 1: the next epoch does not begin, hence does not produce, before the last one is flushed.
func TestBeginBeforeFlush(t *testing.T) {
	b := newBed(t)
	r := b.open()
	if err := r.Begin(b.ctx, 1); err != nil {
		t.Fatal(err)
	}
	expectBroken(t, r.Begin(b.ctx, 2), "epoch 2", "epoch 1")
}

// Invariant 8: an epoch without output opens no transaction; its positions are committed by the next one.
func TestEpochWithoutOutput(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.open()
		b.forget()
		for n := Epoch(1); n <= 3; n++ { // slot 1 twice: the same, never used transaction
			steps := b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n), 10), Credential: outsider()})
			if !steps.Carried || !steps.Committed.IsZero() || !steps.OffsetsSent.IsZero() {
				t.Errorf("epoch %d: steps %+v", n, steps)
			}
		}
		b.expectLines()
		b.expectPositions()
		if _, open := r.OpenSince(); open {
			t.Error("a transaction is said to be open")
		}
		b.mustEpoch(r, Checkpoint{Epoch: 4, Positions: offsets.Positions{position(2): {Offset: 7, LeaderEpoch: 5}}, Credential: outsider()}, "x")
		if commits := b.txnOffsetCommits(); len(commits) != 1 || len(commits[0].Topics) != 1 || len(commits[0].Topics[0].Partitions) != 3 {
			t.Errorf("%d TxnOffsetCommit: %+v", len(commits), commits)
		}
		b.expectCount(kmsg.OffsetCommit, 0)
		b.expectPositions(3, 10, 7)
		b.forget()
		b.mustEpoch(r, Checkpoint{Epoch: 5, Positions: at(4), Credential: outsider()}, "y") // the slot that began without output
		b.expectPositions(4, 10, 7)
		if commits := b.txnOffsetCommits(); len(commits) != 1 || len(commits[0].Topics[0].Partitions) != 1 {
			t.Errorf("positions are carried for ever: %+v", commits)
		}
		b.expectOutput("x", "y")
	})
}

// Invariant 8: what an epoch has put out says nothing about the next one on its slot.
func TestEpochWithoutOutputAfterOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.open()
		b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(1), Credential: outsider()}, "x")
		b.mustEpoch(r, Checkpoint{Epoch: 2, Positions: at(2), Credential: outsider()}, "y")
		for n := Epoch(3); n <= 4; n++ {
			if steps := b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}); !steps.Carried {
				t.Errorf("epoch %d: steps %+v", n, steps)
			}
		}
		b.expectCount(kmsg.TxnOffsetCommit, 2)
		b.expectCount(kmsg.EndTxn, 2)
		b.expectPositions(2)
		b.mustEpoch(r, Checkpoint{Epoch: 5, Positions: at(5), Credential: outsider()}, "z")
		b.expectPositions(5)
		b.expectOutput("x", "y", "z")
	})
}

// Epochs of one slot may put out to different topics.
func TestEpochsOfOtherTopics(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		if err := b.CreateTopic("other", 1, nil); err != nil {
			t.Fatal(err)
		}
		r := b.open()
		for n := Epoch(1); n <= 4; n++ {
			if err := r.Begin(b.ctx, n); err != nil {
				t.Fatal(err)
			}
			topic := "out"
			if n > 2 {
				topic = "other"
			}
			b.produce(r, n, []*kgo.Record{{Topic: topic, Value: []byte("x")}}, ignore)
			if err := r.PreCommit(b.ctx, n); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Commit(b.ctx, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}); err != nil {
				t.Fatal(err)
			}
		}
		b.expectPositions(4)
		b.expectOutput("x", "x")
	})
}

// Invariant 8: an epoch that read nothing carries nothing.
func TestEpochWithoutPositions(t *testing.T) {
	b := newBed(t)
	r := b.open()
	b.forget()
	b.mustEpoch(r, Checkpoint{Epoch: 1, Credential: outsider()})
	if settled, err := r.Settle(b.ctx, 0); settled || err != nil {
		t.Errorf("settled %t, %v", settled, err)
	}
	b.expectLines()
}

// A position that steps back would repeat records: status 70, nothing is sent.
func TestPositionsStepBack(t *testing.T) {
	for name, values := range map[string][]string{"carried over carried": nil, "committed over carried": {"x"}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			r := b.open()
			b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()})
			b.forget()
			_, err := b.epoch(r, Checkpoint{Epoch: 2, Positions: at(9), Credential: outsider()}, values...)
			expectBroken(t, err, "epoch 2", "in-0", "10", "9")
			if !errors.Is(err, offsets.ErrBackwards) {
				t.Errorf("%v does not wrap ErrBackwards", err)
			}
			b.expectCount(kmsg.TxnOffsetCommit, 0)
		})
	}
}

// Invariant 8: carried positions are dropped when their partition leaves, and no later commit names it.
func TestForget(t *testing.T) {
	b := newBed(t)
	r := b.open()
	r.Forget([]offsets.TopicPartition{position(0)}) // nothing is carried yet
	b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(10, 20, 30), Credential: outsider()})
	r.Forget([]offsets.TopicPartition{position(0), position(2)})
	b.mustEpoch(r, Checkpoint{Epoch: 2, Positions: offsets.Positions{}, Credential: outsider()}, "x")
	b.expectPositions(-1, 20)
	b.mustEpoch(r, Checkpoint{Epoch: 3, Positions: at(11), Credential: outsider()})
	r.Forget([]offsets.TopicPartition{position(0)})
	b.forget()
	if settled, err := r.Settle(b.ctx, 0); settled || err != nil {
		t.Errorf("settled %t, %v", settled, err)
	}
	b.expectLines()
	b.expectPositions(-1, 20)
}

// Begin waits for its slot, no longer than its context.
func TestBeginWaits(t *testing.T) {
	b := newBed(t)
	r := b.open()
	for n := Epoch(1); n <= 2; n++ {
		if err := b.precommit(r, n, "x"); err != nil {
			t.Fatal(err)
		}
	}
	for cause, want := range map[error]error{
		errors.New("stop"):                              ErrAborted,
		fmt.Errorf("%w: another epoch", ErrInDoubt):     ErrInDoubt,
		Fatalf(StatusFailure, "a transform has failed"): ErrFatal,
	} {
		ctx, cancel := context.WithCancelCause(b.ctx)
		cancel(cause)
		err := r.Begin(ctx, 3)
		expectClass(t, err, want)
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "app.me.1") {
			t.Errorf("begin: %v", err)
		}
	}
	begun := make(chan error, 1)
	go func() { begun <- r.Begin(b.ctx, 3) }() // ends with the commit
	if _, err := r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(1), Credential: outsider()}); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; err != nil {
		t.Error(err)
	}
}

// OpenSince is the age of the oldest first record; a transaction that was ended, or never opened, has none.
func TestOpenSince(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		r := b.open()
		expect := func(want bool, notBefore, notAfter time.Time) {
			t.Helper()
			since, open := r.OpenSince()
			if open != want || open && (since.Before(notBefore) || since.After(notAfter)) {
				t.Errorf("open since %v, %t; want %t between %v and %v", since, open, want, notBefore, notAfter)
			}
			if open && !strings.Contains(since.String(), " m=") {
				t.Errorf("%v has no monotonic reading: a clock that is set would age the transaction", since)
			}
		}
		expect(false, time.Time{}, time.Time{})
		if err := r.Begin(b.ctx, 1); err != nil {
			t.Fatal(err)
		}
		expect(false, time.Time{}, time.Time{})
		before := time.Now()
		b.produce(r, 1, outputs("a", "b"), ignore)
		first := time.Now()
		b.produce(r, 1, outputs("c"), ignore)
		expect(true, before, first)
		if err := r.PreCommit(b.ctx, 1); err != nil {
			t.Fatal(err)
		}
		if err := b.precommit(r, 2, "d"); err != nil {
			t.Fatal(err)
		}
		second := time.Now()
		expect(true, before, first)
		if _, err := r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(3), Credential: outsider()}); err != nil {
			t.Fatal(err)
		}
		expect(true, first, second)
		if _, err := r.Commit(b.ctx, Checkpoint{Epoch: 2, Positions: at(4), Credential: outsider()}); err != nil {
			t.Fatal(err)
		}
		expect(false, time.Time{}, time.Time{})
	})
}

// The options of a slot come last and override what the caller says, for they carry the protocol (invariants 9, 14).
func TestSlotOptions(t *testing.T) {
	for version, capped := range map[int16]bool{0: true, 1: true, 2: false, 3: false} {
		theirs := []kgo.Opt{kgo.TransactionalID("other"), kgo.RequiredAcks(kgo.LeaderAck()), kgo.TransactionTimeout(time.Second)}
		cl, err := kgo.NewClient(append(theirs, slotOptions(ID{"app", "me", 1}, Options{Timeout: time.Minute, Version: version})...)...)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		got := []any{
			cl.OptValue(kgo.TransactionalID), cl.OptValue(kgo.RequiredAcks), cl.OptValue(kgo.TransactionTimeout),
			cl.OptValue(kgo.RequestTimeoutOverhead), cl.OptValue(kgo.ProduceRequestTimeout),
		}
		if want := []any{"app.me.1", kgo.AllISRAcks(), time.Minute, 3 * time.Second, 5 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("options %v, want %v", got, want)
		}
		highest := int16(6)
		if v, _ := cl.OptValue(kgo.MaxVersions).(*kversion.Versions); v != nil {
			highest, _ = v.LookupMaxKeyVersion(int16(kmsg.TxnOffsetCommit))
		}
		if got := highest == 4; got != capped {
			t.Errorf("transaction.version %d: TxnOffsetCommit up to v%d", version, highest)
		}
	}
}
