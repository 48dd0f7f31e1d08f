package oracle

import (
	"errors"
	"testing"
)

func TestOriginRoundTrip(t *testing.T) {
	for _, o := range []Origin{{Source{"in", 0}, 0}, {Source{"in.a-b_c", 17}, 1 << 40}} {
		got, err := ParseOrigin(o.String())
		if err != nil || got != o {
			t.Errorf("%s: got %v, %v", o, got, err)
		}
	}
	for _, text := range []string{"", "in", "in/0", "in/x/1", "in/0/-1", "in/0/1/2", "/0/1", "in/99999999999/1"} {
		if o, err := ParseOrigin(text); !errors.Is(err, ErrNoOrigin) {
			t.Errorf("%q: got %v, %v", text, o, err)
		}
	}
}

// TestFormIsDeterministic: the checker renders records anew, so the bytes must
// be the same each time, and different between origins.
func TestFormIsDeterministic(t *testing.T) {
	form := NewForm(100, 7)
	values := make(map[string]Origin)
	for seq := range int64(500) {
		for p := range int32(3) {
			o := Origin{Source{"in", p}, seq}
			one, two := form.Record(o), form.Record(o)
			if diff := differences(one, two); diff != "" {
				t.Fatalf("%s: %s", o, diff)
			}
			if got, err := OriginOf(one); err != nil || got != o {
				t.Fatalf("%s says it is %v, %v", o, got, err)
			}
			if len(one.Value) == 0 {
				continue
			}
			if other, ok := values[string(one.Value)]; ok {
				t.Fatalf("%s and %s have the same value", o, other)
			}
			values[string(one.Value)] = o
			if len(one.Value) != 100 {
				t.Fatalf("%s has %d bytes, want 100", o, len(one.Value))
			}
		}
	}
	if form.Record(Origin{Source{"in", 0}, 17}).Value != nil {
		t.Error("no null value among the records")
	}
	if v := form.Record(Origin{Source{"in", 0}, 71}).Value; v == nil || len(v) != 0 {
		t.Error("no empty value among the records")
	}
	form.Plain = true
	if form.Record(Origin{Source{"in", 0}, 17}).Value == nil {
		t.Error("a null value in the plain form")
	}
}

func TestInputAccount(t *testing.T) {
	in := NewInput()
	s := Source{"in", 0}
	for range 5 {
		in.Hand(s)
	}
	for seq, offset := range []int64{0, 3, 4} { // a transactional source has gaps
		in.Ack(Origin{s, int64(seq)}, offset)
	}
	if in.Acked() != 3 || in.Count(s) != 5 {
		t.Errorf("acked %d of %d, want 3 of 5", in.Acked(), in.Count(s))
	}
	if !in.Knows(Origin{s, 4}) || in.Knows(Origin{s, 5}) || in.Knows(Origin{Source{"in", 1}, 0}) {
		t.Error("knows the wrong origins")
	}
	if at, ok := in.Offset(Origin{s, 1}); !ok || at != 3 {
		t.Errorf("offset of the second is %d, %v", at, ok)
	}
	if _, ok := in.Offset(Origin{s, 3}); ok {
		t.Error("an unacknowledged record has an offset")
	}
	for offset, want := range map[int64]int64{0: 0, 1: 1, 3: 1, 4: 2, 5: 3, 100: 3} {
		if got := in.Below(s, offset); got != want {
			t.Errorf("below %d: %d, want %d", offset, got, want)
		}
	}
}
