package txn

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// generations lets a member move on by itself: it joins again, under the same id, to a newer generation.
func (b *bed) generations(n int) []Credential {
	b.t.Helper()
	all := []Credential{b.join("me", "")}
	for range n - 1 {
		next := b.join("me", all[0].MemberID)
		if last := all[len(all)-1]; next.MemberID != last.MemberID || next.Generation <= last.Generation {
			b.t.Fatalf("%+v does not follow %+v", next, last)
		}
		all = append(all, next)
	}
	return all
}

// Invariant 6: a bystander's rebalance moves the generation between the barrier and the commit. The positions are
// sent once more with the present one, for nothing of ours was taken since.
func TestStaleGenerationAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		g := b.generations(2)
		b.setPresent(func() Credential { return g[1] })
		r := b.prepared()
		if err := b.commit(r, g[0]); err != nil { // kfake answers ILLEGAL_GENERATION by itself
			t.Fatal(err)
		}
		b.expectGenerations(g[0], g[1])
		b.expectPositions(10, 20)
		b.expectOutput("epoch 1")
	})
	t.Run("a plain commit too", func(t *testing.T) {
		b := newBed(t)
		g := b.generations(2)
		b.setPresent(func() Credential { return g[1] })
		r := b.settling(g[0])
		if settled, err := r.Settle(b.ctx, 0); !settled || err != nil {
			t.Fatalf("settled %t, %v", settled, err)
		}
		b.expectGenerations(g[0], g[1])
		b.expectPositions(10, 20)
	})
	t.Run("KIP-848", func(t *testing.T) {
		b := newBed(t)
		me := b.join("me", "")
		stale := me
		stale.Generation--
		b.setPresent(func() Credential { return me })
		r := b.prepared()
		b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Group: group, Err: kerr.StaleMemberEpoch})
		if err := b.commit(r, stale); err != nil {
			t.Fatal(err)
		}
		b.expectGenerations(stale, me)
	})
}

// expectGenerations wants positions to have been sent with exactly these credentials, one after the other.
func (b *bed) expectGenerations(want ...Credential) {
	b.t.Helper()
	var got []Credential
	for _, c := range b.txnOffsetCommits() {
		got = append(got, Credential{MemberID: c.MemberID, Generation: c.Generation})
	}
	for _, c := range b.offsetCommits() {
		got = append(got, Credential{MemberID: c.MemberID, Generation: c.Generation})
	}
	for i := range want {
		want[i] = Credential{MemberID: want[i].MemberID, Generation: want[i].Generation}
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("positions were sent as %+v, want %+v", got, want)
	}
}

// Invariant 6: each condition of the exception is needed, for the transaction and for the plain commit alike. kgo
// keeps the member id after FENCED_MEMBER_EPOCH, so an unchanged id does not stand for "never lost".
func TestStaleGenerationFinal(t *testing.T) {
	member := Credential{MemberID: "member", Generation: 5, Lost: 2, Revoked: 3}
	for name, present := range map[string]Credential{
		"another member":     {MemberID: "other", Generation: 6, Lost: 2, Revoked: 3},
		"lost since":         {MemberID: "member", Generation: 6, Lost: 3, Revoked: 3},
		"revoked since":      {MemberID: "member", Generation: 6, Lost: 2, Revoked: 4},
		"the same again":     member,
		"nobody any more":    {MemberID: "", Generation: -1, Lost: 2, Revoked: 3},
		"all of it at once":  {MemberID: "other", Generation: 7, Lost: 3, Revoked: 4},
		"counters ran early": {MemberID: "member", Generation: 6, Lost: 1, Revoked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.setPresent(func() Credential { return present })
			for _, code := range []*kerr.Error{kerr.IllegalGeneration, kerr.StaleMemberEpoch} {
				b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.OffsetCommit}, Group: group, Err: code, Count: 2})
				r := b.prepared()
				err := b.commit(r, member)
				expectClass(t, err, ErrInDoubt)
				if !errors.Is(err, code) {
					t.Errorf("commit: %v", err)
				}
				b.expectGenerations(member)
				b.expectCount(kmsg.EndTxn, 0)
				r.Close()

				r = b.settling(member)
				_, err = r.Settle(b.ctx, 0)
				expectClass(t, err, ErrInDoubt)
				b.expectGenerations(member)
				r.Close()
			}
			b.expectPositions()
		})
	}
}

// Invariant 6: the group has its new generation before we do, whose answer is on its way. It is waited for, and each look
// tests everything again.
func TestStaleGenerationOnItsWay(t *testing.T) {
	t.Run("it comes", func(t *testing.T) {
		b := newBed(t)
		g := b.generations(2)
		asked := 0
		b.setPresent(func() Credential {
			if asked++; asked < 4 {
				return g[0]
			}
			return g[1]
		})
		r := b.prepared()
		if err := b.commit(r, g[0]); err != nil {
			t.Fatal(err)
		}
		b.expectGenerations(g[0], g[1])
		b.expectPositions(10, 20)
	})
	t.Run("lost meanwhile", func(t *testing.T) {
		b := newBed(t)
		g := b.generations(2)
		asked := 0
		b.setPresent(func() Credential {
			now := g[0]
			if asked++; asked == 3 {
				now = g[1]
				now.Lost++
			}
			return now
		})
		r := b.prepared()
		expectClass(t, b.commit(r, g[0]), ErrInDoubt)
		b.expectGenerations(g[0])
		if asked != 3 {
			t.Errorf("the present credential was read %d times", asked)
		}
		b.expectNothing(r)
	})
}

// Invariant 6: one exception, not two.
func TestStaleGenerationOnlyOnce(t *testing.T) {
	b := newBed(t)
	g := b.generations(3)
	asked := 0
	b.setPresent(func() Credential { asked++; return g[asked] })
	r := b.prepared()
	err := b.commit(r, g[0])
	expectClass(t, err, ErrInDoubt)
	b.expectGenerations(g[0], g[1])
	b.expectNothing(r)

	asked = 0
	r = b.settling(g[0])
	_, err = r.Settle(b.ctx, 0)
	expectClass(t, err, ErrInDoubt)
	b.expectGenerations(g[0], g[1])
	b.expectPositions()
}

// Invariant 6: the pair is read first, the counters are tested next, and exactly that pair is sent: if the membership
// is lost after the test, the old pair is refused; a pair that is read later would bless the old positions.
func TestStaleGenerationReadsOnce(t *testing.T) {
	b := newBed(t)
	g := b.generations(3)
	asked := 0
	b.setPresent(func() Credential {
		asked++
		if asked == 1 {
			return g[1]
		}
		later := g[2] // lost, and back under the same id
		later.Lost++
		return later
	})
	r := b.prepared()
	err := b.commit(r, g[0])
	expectClass(t, err, ErrInDoubt)
	b.expectGenerations(g[0], g[1])
	if asked != 1 {
		t.Errorf("the present credential was read %d times", asked)
	}
	b.expectNothing(r)
}

// Invariant 6: other refusals are no occasion to ask for another credential (the bed fails the test if one is).
func TestOtherRefusalsReadNothing(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.UnknownMemberID, kerr.FencedMemberEpoch, kerr.FencedInstanceID, kerr.RebalanceInProgress} {
		b := newBed(t)
		b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.OffsetCommit}, Group: group, Err: code, Count: -1})
		r := b.prepared()
		if err := b.commit(r, Credential{MemberID: "member", Generation: 5}); !errors.Is(err, code) {
			t.Errorf("commit: %v, want %v", err, code)
		}
		r.Close()
		r = b.settling(Credential{MemberID: "member", Generation: 5})
		if _, err := r.Settle(b.ctx, 0); !errors.Is(err, code) {
			t.Errorf("settle: %v, want %v", err, code)
		}
	}
}
