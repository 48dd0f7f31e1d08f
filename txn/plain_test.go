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
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

func (b *bed) openPlain() *Plain {
	b.t.Helper()
	p, err := OpenPlain(b.options())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(p.Close)
	return p
}

// At least once: the outputs first, then their positions; no transaction at all.
func TestPlainAtLeastOnce(t *testing.T) {
	b := newBed(t)
	me := b.join("me", "")
	p := b.openPlain()
	b.forget()
	steps := b.mustEpoch(p, Checkpoint{Epoch: 1, Positions: at(10, 20), Credential: me}, "a", "b")
	if steps.Carried || steps.OffsetsSent.IsZero() || steps.Committed.IsZero() {
		t.Errorf("steps %+v", steps)
	}
	if got, want := b.lines(), []string{"init", "produce", "plain"}; !slices.Equal(got, want) {
		t.Errorf("the broker has seen %q, want %q", got, want)
	}
	b.expectGenerations(me)
	b.expectPositions(10, 20)
	b.expectOutput("a", "b")

	// A failure between the two repeats the outputs: that is the guarantee.
	if err := b.precommit(p, 2, "c"); err != nil {
		t.Fatal(err)
	}
	p.Close()
	p = b.openPlain()
	b.mustEpoch(p, Checkpoint{Epoch: 3, Positions: at(11), Credential: me}, "c")
	b.expectPositions(11, 20)
	b.expectOutput("a", "b", "c", "c")
}

// At most once: the positions first, then their outputs.
func TestPlainAtMostOnce(t *testing.T) {
	b := newBed(t)
	me := b.join("me", "")
	p := b.openPlain()
	b.forget()
	for n, value := range []string{1: "a", 2: "b"} {
		if n == 0 {
			continue
		}
		if _, err := p.Commit(b.ctx, Checkpoint{Epoch: Epoch(n), Positions: at(int64(n)), Credential: me}); err != nil {
			t.Fatal(err)
		}
		b.expectPositions(int64(n))
		if err := b.precommit(p, Epoch(n), value); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := b.lines(), []string{"plain", "init", "produce", "plain", "produce"}; !slices.Equal(got, want) {
		t.Errorf("the broker has seen %q, want %q", got, want)
	}
	// A failure between the two loses the outputs: that is the guarantee.
	if _, err := p.Commit(b.ctx, Checkpoint{Epoch: 3, Positions: at(3), Credential: me}); err != nil {
		t.Fatal(err)
	}
	p.Close()
	b.openPlain()
	b.expectPositions(3)
	b.expectOutput("a", "b")
}

// PreCommit of an epoch waits for its own records, and not for those of the next, which are produced meanwhile.
func TestPlainPreCommitWaitsForItsOwn(t *testing.T) {
	b := newBed(t)
	p := b.openPlain()
	for n := Epoch(1); n <= 2; n++ {
		if err := p.Begin(b.ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	acked := make(chan struct{})
	p.Produce(b.ctx, 1, outputs("1a", "1b", "1c"), func(*kgo.Record, error) { close(acked) })
	b.await(acked)
	arrived, release := b.hold(kmsg.Produce)
	p.Produce(b.ctx, 2, outputs("2"), ignore)
	b.await(arrived)
	if err := p.PreCommit(b.ctx, 1); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Millisecond)
	defer cancel()
	err := p.PreCommit(ctx, 2)
	expectClass(t, err, ErrAborted)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "epoch 2") {
		t.Errorf("pre-commit: %v", err)
	}
	release()
}

// An epoch without output has nothing to wait for; one that read nothing has nothing to commit.
func TestPlainEmptyEpoch(t *testing.T) {
	b := newBed(t)
	me := b.join("me", "")
	p := b.openPlain()
	b.forget()
	if steps := b.mustEpoch(p, Checkpoint{Epoch: 1, Credential: me}); !steps.Carried || !steps.OffsetsSent.IsZero() {
		t.Errorf("steps %+v", steps)
	}
	b.expectLines()
	if steps := b.mustEpoch(p, Checkpoint{Epoch: 2, Positions: at(5), Credential: me}); steps.Carried {
		t.Errorf("steps %+v", steps)
	}
	b.expectLines("plain")
	b.expectPositions(5)
}

// A record that fails is named, and its epoch is not committed; the epochs beside it do not fail with it.
func TestPlainFailedRecord(t *testing.T) {
	b := newBed(t)
	p := b.openPlain()
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Partitions: []int32{1}, Err: kerr.InvalidRecord})
	err := b.precommit(p, 1, "good", "bad", "good")
	expectClass(t, err, ErrAborted)
	if !Refused(err) || !strings.Contains(err.Error(), "topic out partition 1") {
		t.Errorf("pre-commit: %v", err)
	}
	if err := b.precommit(p, 2, "x"); err != nil {
		t.Error(err)
	}
}

// Invariants 6, 8 hold for these commits too: the barrier's credential, one attempt, the one exception.
func TestPlainCommitOnce(t *testing.T) {
	b := newBed(t)
	g := b.generations(2)
	p := b.openPlain()
	b.forget()
	b.setPresent(func() Credential { return g[1] })
	b.mustEpoch(p, Checkpoint{Epoch: 1, Positions: at(10), Credential: g[0]}, "a")
	b.expectGenerations(g[0], g[1])
	for _, c := range []struct {
		code *kerr.Error
		want error
	}{{kerr.NotCoordinator, ErrAborted}, {kerr.UnknownMemberID, ErrInDoubt}, {kerr.RequestTimedOut, ErrInDoubt}} {
		b.forget()
		b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "in", Err: c.code})
		_, err := b.epoch(p, Checkpoint{Epoch: 2, Positions: at(11), Credential: g[1]}, "b")
		expectClass(t, err, c.want)
		b.expectCount(kmsg.OffsetCommit, 1)
	}
	b.forget()
	b.wire.lose(kmsg.OffsetCommit, cutAfter, always)
	_, err := b.epoch(p, Checkpoint{Epoch: 3, Positions: at(12), Credential: g[1]}, "c")
	expectClass(t, err, ErrInDoubt)
	b.expectCount(kmsg.OffsetCommit, 1)
}

// What belongs to transactions does nothing here.
func TestPlainHasNoTransactions(t *testing.T) {
	b := newBed(t)
	p := b.openPlain()
	if err := b.precommit(p, 1, "a"); err != nil {
		t.Fatal(err)
	}
	b.forget()
	if settled, err := p.Settle(b.ctx, 0); settled || err != nil {
		t.Errorf("settled %t, %v", settled, err)
	}
	if _, open := p.OpenSince(); open {
		t.Error("a transaction is said to be open")
	}
	p.Forget([]offsets.TopicPartition{position(0)})
	p.Abort(b.ctx)
	b.expectLines()
	b.expectOutput("a")
}

func TestOpenPlainFails(t *testing.T) {
	o := newBed(t).options()
	o.Client = func(...kgo.Opt) (*kgo.Client, error) { return nil, errors.New("no such file") }
	_, err := OpenPlain(o)
	var fatal *FatalError
	if !errors.As(err, &fatal) || fatal.ExitCode() != StatusConfig {
		t.Errorf("open: %v", err)
	}
}
