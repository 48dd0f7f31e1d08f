package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// mishap is a way in which one step of a commit goes wrong.
type mishap struct {
	name string
	key  kmsg.Key
	// do arranges it. stop cancels the commit, for what would be waited for longer than a test should take.
	do func(b *bed, stop func()) (hits func() int)

	// want is the class of the error, nil for success: the client tried again by itself, and may.
	want error
	// whole says that after the next fence all of the epoch is true; else nothing of it is.
	whole bool
	// below says that only clusters below transaction.version 2 have the step.
	below bool
}

// answer changes the code of an answer after the broker has acted.
func answer(key kmsg.Key, n int, code *kerr.Error) func(b *bed, stop func()) func() int {
	return func(b *bed, _ func()) func() int {
		return b.wire.change(key, n, func(_ string, resp kmsg.Response) {
			switch r := resp.(type) {
			case *kmsg.EndTxnResponse:
				r.ErrorCode = code.Code
			case *kmsg.AddOffsetsToTxnResponse:
				r.ErrorCode = code.Code
			case *kmsg.TxnOffsetCommitResponse:
				for i := range r.Topics {
					for j := range r.Topics[i].Partitions {
						r.Topics[i].Partitions[j].ErrorCode = code.Code
					}
				}
			case *kmsg.ProduceResponse:
				for i := range r.Topics {
					for j := range r.Topics[i].Partitions {
						r.Topics[i].Partitions[j].ErrorCode = code.Code
					}
				}
			}
		}).Hits
	}
}

// refuse makes the broker refuse before it acts.
func refuse(key kmsg.Key, n int, code *kerr.Error) func(b *bed, stop func()) func() int {
	return func(b *bed, _ func()) func() int {
		f := kfake.Fault{Keys: []kmsg.Key{key}, Err: code, Count: n}
		switch key {
		case kmsg.EndTxn, kmsg.AddOffsetsToTxn:
			f.TopLevel = true
		case kmsg.TxnOffsetCommit:
			f.Group = group
		case kmsg.Produce:
			f.Topic = "out"
		}
		return b.Fault(f).Hits
	}
}

func lose(key kmsg.Key, f fate, n int) func(b *bed, stop func()) func() int {
	return func(b *bed, _ func()) func() int { return b.wire.lose(key, f, n).Hits }
}

// loseUntil loses every one, until the n-th stops the commit.
func loseUntil(key kmsg.Key, f fate, n int) func(b *bed, stop func()) func() int {
	return func(b *bed, stop func()) func() int { return b.wire.loseUntil(key, f, n, stop).Hits }
}

func nothing(*bed, func()) func() int { return func() int { return 1 } }

// mishaps are every step of an epoch × { not done, done but not acknowledged }. The client repeats by itself what is
// idempotent (Produce, AddOffsetsToTxn, EndTxn); TxnOffsetCommit is never repeated without an answer.
var mishaps = []mishap{
	{name: "none", key: kmsg.Fetch, do: nothing, whole: true},

	{name: "lost once", key: kmsg.Produce, do: lose(kmsg.Produce, cutBefore, 1), whole: true},
	{name: "done, answer lost once", key: kmsg.Produce, do: lose(kmsg.Produce, cutAfter, 1), whole: true},
	{name: "lost", key: kmsg.Produce, do: loseUntil(kmsg.Produce, cutBefore, 3), want: ErrAborted},
	{name: "done, answer lost", key: kmsg.Produce, do: loseUntil(kmsg.Produce, cutAfter, 3), want: ErrAborted},
	{name: "refused", key: kmsg.Produce, do: refuse(kmsg.Produce, 1, kerr.TransactionAbortable), want: ErrAborted},
	{name: "fenced", key: kmsg.Produce, do: refuse(kmsg.Produce, 1, kerr.InvalidProducerEpoch), want: ErrInDoubt},
	{name: "done, answered with an error", key: kmsg.Produce, do: answer(kmsg.Produce, 1, kerr.UnknownServerError), want: ErrAborted},
	{name: "done, answered as out of order", key: kmsg.Produce, do: answer(kmsg.Produce, 1, kerr.OutOfOrderSequenceNumber), want: ErrInDoubt},

	{name: "lost once", key: kmsg.AddOffsetsToTxn, do: lose(kmsg.AddOffsetsToTxn, cutBefore, 1), below: true, whole: true},
	{name: "done, answer lost once", key: kmsg.AddOffsetsToTxn, do: lose(kmsg.AddOffsetsToTxn, cutAfter, 1), below: true, whole: true},
	{name: "lost", key: kmsg.AddOffsetsToTxn, do: lose(kmsg.AddOffsetsToTxn, cutBefore, always), below: true, want: ErrAborted},
	{name: "done, answer lost", key: kmsg.AddOffsetsToTxn, do: lose(kmsg.AddOffsetsToTxn, cutAfter, always), below: true, want: ErrAborted},
	{name: "not yet", key: kmsg.AddOffsetsToTxn, do: refuse(kmsg.AddOffsetsToTxn, 2, kerr.ConcurrentTransactions), below: true, whole: true},
	{name: "refused", key: kmsg.AddOffsetsToTxn, do: refuse(kmsg.AddOffsetsToTxn, 1, kerr.UnknownServerError), below: true, want: ErrAborted},
	{name: "fenced", key: kmsg.AddOffsetsToTxn, do: refuse(kmsg.AddOffsetsToTxn, 1, kerr.ProducerFenced), below: true, want: ErrInDoubt},
	{name: "done, answered with an error", key: kmsg.AddOffsetsToTxn, do: answer(kmsg.AddOffsetsToTxn, 1, kerr.UnknownServerError), below: true, want: ErrAborted},

	{name: "lost", key: kmsg.TxnOffsetCommit, do: lose(kmsg.TxnOffsetCommit, cutBefore, 1), want: ErrAborted},
	{name: "done, answer lost", key: kmsg.TxnOffsetCommit, do: lose(kmsg.TxnOffsetCommit, cutAfter, 1), want: ErrAborted},
	{name: "done, never answered", key: kmsg.TxnOffsetCommit, do: loseUntil(kmsg.TxnOffsetCommit, swallow, 1), want: ErrInDoubt},
	{name: "not yet", key: kmsg.TxnOffsetCommit, do: refuse(kmsg.TxnOffsetCommit, 2, kerr.ConcurrentTransactions), whole: true},
	{name: "refused", key: kmsg.TxnOffsetCommit, do: refuse(kmsg.TxnOffsetCommit, 1, kerr.UnknownMemberID), want: ErrInDoubt},
	{name: "fenced", key: kmsg.TxnOffsetCommit, do: refuse(kmsg.TxnOffsetCommit, 1, kerr.ProducerFenced), want: ErrInDoubt},
	{name: "done, answered with an error", key: kmsg.TxnOffsetCommit, do: answer(kmsg.TxnOffsetCommit, 1, kerr.UnknownServerError), want: ErrAborted},
	{name: "done, answered as timed out", key: kmsg.TxnOffsetCommit, do: answer(kmsg.TxnOffsetCommit, 1, kerr.RequestTimedOut), want: ErrAborted},

	{name: "lost once", key: kmsg.EndTxn, do: lose(kmsg.EndTxn, cutBefore, 1), whole: true},
	{name: "done, answer lost once", key: kmsg.EndTxn, do: lose(kmsg.EndTxn, cutAfter, 1), whole: true},
	{name: "lost", key: kmsg.EndTxn, do: lose(kmsg.EndTxn, cutBefore, always), want: ErrInDoubt},
	{name: "done, answer lost", key: kmsg.EndTxn, do: lose(kmsg.EndTxn, cutAfter, always), want: ErrInDoubt, whole: true},
	{name: "done, never answered", key: kmsg.EndTxn, do: loseUntil(kmsg.EndTxn, swallow, 1), want: ErrInDoubt, whole: true},
	{name: "not yet", key: kmsg.EndTxn, do: refuse(kmsg.EndTxn, 2, kerr.ConcurrentTransactions), whole: true},
	{name: "refused", key: kmsg.EndTxn, do: refuse(kmsg.EndTxn, 1, kerr.InvalidTxnState), want: ErrInDoubt},
	{name: "answered with an error", key: kmsg.EndTxn, do: refuse(kmsg.EndTxn, 1, kerr.UnknownServerError), want: ErrInDoubt},
	{name: "fenced", key: kmsg.EndTxn, do: refuse(kmsg.EndTxn, 1, kerr.ProducerFenced), want: ErrInDoubt},
	{name: "aborted by the broker", key: kmsg.EndTxn, do: refuse(kmsg.EndTxn, 1, kerr.TransactionAbortable), want: ErrAborted},
	{name: "denied", key: kmsg.EndTxn, do: refuse(kmsg.EndTxn, 1, kerr.TransactionalIDAuthorizationFailed), want: ErrInDoubt},
	{name: "done, answered with an error", key: kmsg.EndTxn, do: answer(kmsg.EndTxn, 1, kerr.UnknownServerError), want: ErrInDoubt, whole: true},
	{name: "done, answered as fenced", key: kmsg.EndTxn, do: answer(kmsg.EndTxn, 1, kerr.ProducerFenced), want: ErrInDoubt, whole: true},
	{name: "done, answered as out of order", key: kmsg.EndTxn, do: answer(kmsg.EndTxn, 1, kerr.InvalidTxnState), want: ErrInDoubt, whole: true},
}

// TestOutcomes: invariants 3, 4, 5. Whatever happens to one step of epoch 2, the error has the right class, epoch 3,
// which is flushed already, is never committed after a failure, and after the next fence the broker's positions and a
// read_committed reader agree: all of epoch 2, or nothing of it; epoch 1 stands.
func TestOutcomes(t *testing.T) {
	for _, m := range mishaps {
		t.Run(fmt.Sprintf("%s/%s", strings.ToLower(m.key.Name()), m.name), func(t *testing.T) {
			t.Parallel()
			if !m.below {
				t.Run("transaction.version 2", func(t *testing.T) { m.run(newBed(t), m.second) })
				t.Run("batches", func(t *testing.T) { m.run(newBatchBed(t), m.second) })
				t.Run("positions beside the flush", func(t *testing.T) { m.run(newBed(t), m.secondAtOnce) })
				t.Run("positions beside the flush, batches", func(t *testing.T) { m.run(newBatchBed(t), m.secondAtOnce) })
			}
			t.Run("before transaction.version", func(t *testing.T) { m.run(newOldBed(t), m.second) })
		})
	}
}

func (m mishap) run(b *bed, second func(*bed, *Ring, Credential) error) {
	t, me := b.t, b.join("me", "")
	r := b.open()
	b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(10, 20), Credential: me}, "1a", "1b")
	if err := b.awaitReady(r); err != nil {
		t.Fatal(err)
	}

	err := second(b, r, me)
	if m.want == nil {
		if err != nil {
			t.Fatalf("epoch 2: %v", err)
		}
	} else {
		expectClass(t, err, m.want)
	}
	b.wire.mend()

	positions, output := []int64{10, 20}, []string{"1a", "1b"}
	if m.whole {
		positions, output = []int64{30, 40}, append(output, "2a", "2b")
	}
	if _, err := r.Commit(b.ctx, Checkpoint{Epoch: 3, Positions: at(50, 60), Credential: me}); m.want == nil {
		if err != nil {
			t.Errorf("epoch 3: %v", err)
		}
		positions, output = []int64{50, 60}, append(output, "3a", "3b")
	} else {
		expectBroken(t, err, "epoch 3", "epoch 2")
	}
	r.Close()
	b.open()
	b.expectPositions(positions...)
	b.expectOutput(output...)
	b.expectReleased()
}

// second runs epoch 2 into the mishap, with epoch 3 behind it wherever that could get so far.
func (m mishap) second(b *bed, r *Ring, me Credential) error {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	if err := r.Begin(b.ctx, 2); err != nil {
		return err
	}
	if m.key == kmsg.Produce {
		defer b.expectHits(m.do(b, cancel))
	}
	b.produce(r, 2, outputs("2a", "2b"), ignore)
	if err := r.PreCommit(ctx, 2); err != nil {
		return err
	}
	if err := b.precommit(r, 3, "3a", "3b"); err != nil {
		return errors.Join(errors.New("epoch 3"), err)
	}
	if m.key != kmsg.Produce {
		defer b.expectHits(m.do(b, cancel))
	}
	_, err := r.Commit(ctx, Checkpoint{Epoch: 2, Positions: at(30, 40), Credential: me})
	return err
}

// secondAtOnce is second, with positions that go out while outputs are on their way.
func (m mishap) secondAtOnce(b *bed, r *Ring, me Credential) error {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	cp := Checkpoint{Epoch: 2, Positions: at(30, 40), Credential: me}
	b.beginWith(r, 2, "2a")
	if m.key != kmsg.EndTxn {
		defer b.expectHits(m.do(b, cancel))
	}
	arrived, release := b.hold(kmsg.Produce)
	b.produce(r, 2, outputs("2b"), ignore)
	flushed := make(chan error, 1)
	go func() { flushed <- r.PreCommit(ctx, 2) }() // ends with the release
	if m.key != kmsg.Produce {
		b.await(arrived)
	}
	_, err := r.SendOffsets(ctx, cp)
	release()
	unflushed := <-flushed
	if unflushed != nil && m.key == kmsg.Produce {
		return unflushed
	}
	if err != nil {
		if unflushed == nil || ctx.Err() == nil && !errors.Is(unflushed, err) {
			b.t.Errorf("pre-commit of an epoch whose positions have failed: %v", unflushed)
		}
		return err
	}
	if err := b.precommit(r, 3, "3a", "3b"); err != nil {
		return errors.Join(errors.New("epoch 3"), err)
	}
	if m.key == kmsg.EndTxn {
		defer b.expectHits(m.do(b, cancel))
	}
	_, err = r.Commit(ctx, cp)
	return err
}

func (b *bed) expectHits(hits func() int) {
	b.t.Helper()
	if hits() == 0 {
		b.t.Error("the mishap has met no request")
	}
}
