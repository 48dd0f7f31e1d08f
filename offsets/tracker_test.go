package offsets

import (
	"errors"
	"maps"
	"testing"
)

func advance(t *testing.T, tr *Tracker, tp TopicPartition, offset int64) {
	t.Helper()
	if err := tr.Advance(tp, Position{offset, 0}); err != nil {
		t.Fatalf("Advance(%s, %d): %v", tp, offset, err)
	}
}

func TestTrackerCut(t *testing.T) {
	a, b := TopicPartition{"t", 0}, TopicPartition{"t", 1}
	tr := NewTracker()
	if cut := tr.Cut(); cut != nil {
		t.Errorf("a new tracker cuts %v", cut)
	}
	advance(t, tr, a, 1)
	advance(t, tr, b, 100)
	advance(t, tr, a, 7) // a gap: compaction or markers
	first := tr.Cut()
	if want := (Positions{a: {7, 0}, b: {100, 0}}); !maps.Equal(first, want) {
		t.Errorf("first cut %v, want %v", first, want)
	}
	if cut := tr.Cut(); cut != nil {
		t.Errorf("nothing changed, yet it cuts %v", cut)
	}
	advance(t, tr, a, 7)
	if cut := tr.Cut(); cut != nil {
		t.Errorf("a position in place is no change, yet it cuts %v", cut)
	}
	advance(t, tr, b, 101)
	if cut, want := tr.Cut(), (Positions{b: {101, 0}}); !maps.Equal(cut, want) {
		t.Errorf("second cut %v, want %v", cut, want)
	}
	if want := (Positions{a: {7, 0}, b: {100, 0}}); !maps.Equal(first, want) {
		t.Errorf("a cut that was handed out changed to %v", first)
	}
}

func TestTrackerRefusesBackwards(t *testing.T) {
	a := TopicPartition{"t", 0}
	tr := NewTracker()
	if err := tr.Advance(a, Position{-1, -1}); !errors.Is(err, ErrBackwards) {
		t.Errorf("before the log: %v, want ErrBackwards", err)
	}
	if cut := tr.Cut(); cut != nil {
		t.Errorf("a refused first position is cut: %v", cut)
	}
	advance(t, tr, a, 10)
	if err := tr.Advance(a, Position{9, 4}); !errors.Is(err, ErrBackwards) {
		t.Errorf("back by one: %v, want ErrBackwards", err)
	}
	if cut, want := tr.Cut(), (Positions{a: {10, 0}}); !maps.Equal(cut, want) {
		t.Errorf("after a refused step the cut is %v, want %v", cut, want)
	}
	// The cut does not lower the guard.
	if err := tr.Advance(a, Position{9, 0}); !errors.Is(err, ErrBackwards) {
		t.Errorf("back after a cut: %v, want ErrBackwards", err)
	}
}

func TestTrackerLeaderEpochAlone(t *testing.T) {
	a := TopicPartition{"t", 0}
	tr := NewTracker()
	advance(t, tr, a, 10)
	tr.Cut()
	if err := tr.Advance(a, Position{10, 3}); err != nil {
		t.Fatal(err)
	}
	if cut, want := tr.Cut(), (Positions{a: {10, 3}}); !maps.Equal(cut, want) {
		t.Errorf("cut %v, want %v", cut, want)
	}
}

func TestTrackerForget(t *testing.T) {
	a, b := TopicPartition{"t", 0}, TopicPartition{"t", 1}
	tr := NewTracker()
	tr.Forget(a) // unknown: no panic
	advance(t, tr, a, 10)
	advance(t, tr, b, 20)
	tr.Forget(a)
	if cut, want := tr.Cut(), (Positions{b: {20, 0}}); !maps.Equal(cut, want) {
		t.Errorf("cut %v, want %v: a was forgotten", cut, want)
	}
	// It comes back with less, because another member had it and committed less.
	advance(t, tr, a, 10)
	tr.Forget(a)
	advance(t, tr, a, 3)
	if cut, want := tr.Cut(), (Positions{a: {3, 0}}); !maps.Equal(cut, want) {
		t.Errorf("cut %v, want %v", cut, want)
	}
	if cut := tr.Cut(); cut != nil {
		t.Errorf("cut twice: %v", cut)
	}
}

func TestTrackerAllocations(t *testing.T) {
	tr, a := NewTracker(), TopicPartition{"t", 0}
	offset := int64(0)
	advance(t, tr, a, offset)
	if n := testing.AllocsPerRun(1000, func() {
		offset++
		if err := tr.Advance(a, Position{offset, 0}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Advance allocates %v times per record", n)
	}
}

// FuzzTracker plays a string of operations on a tracker and on a model that is too plain to be wrong: the whole
// history of accepted positions. One byte is one operation: 2 bits what, 2 bits which partition, 4 bits offset.
func FuzzTracker(f *testing.F) {
	f.Add([]byte{0x01, 0x05, 0xc0, 0x03, 0xc0})
	f.Add([]byte{0x0f, 0x8f, 0x01, 0xc0, 0xc0})
	f.Add([]byte{0x11, 0x22, 0x33, 0x91, 0xc0, 0x12, 0xc0})
	f.Fuzz(func(t *testing.T, script []byte) {
		tr := NewTracker()
		at, uncut := Positions{}, Positions{}
		for i, op := range script {
			tp := TopicPartition{"t", int32(op >> 4 & 3)}
			switch op >> 6 {
			case 0, 1: // advance
				to := Position{int64(op&15) - 1, int32(op >> 6)}
				from, known := at[tp]
				err := tr.Advance(tp, to)
				if refuse := to.Offset < 0 || known && to.Offset < from.Offset; refuse != errors.Is(err, ErrBackwards) {
					t.Fatalf("step %d: %s from %v to %v: %v", i, tp, from, to, err)
				}
				if err == nil && (!known || from != to) {
					at[tp], uncut[tp] = to, to
				}
			case 2:
				tr.Forget(tp)
				at.Drop(tp)
				uncut.Drop(tp)
			case 3:
				cut := tr.Cut()
				if !maps.Equal(cut, uncut) || (cut == nil) != (len(uncut) == 0) {
					t.Fatalf("step %d: cut %v, want %v", i, cut, uncut)
				}
				uncut = Positions{}
			}
		}
	})
}

func BenchmarkTrackerAdvance(b *testing.B) {
	tr := NewTracker()
	tps := []TopicPartition{{"a-topic-name-of-usual-length", 0}, {"a-topic-name-of-usual-length", 1}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := tr.Advance(tps[i&1], Position{int64(i), 0}); err != nil {
			b.Fatal(err)
		}
	}
}
