package offsets

import (
	"errors"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/quick"
)

func TestTopicPartitionOrder(t *testing.T) {
	want := []TopicPartition{{"a", 2}, {"a", 10}, {"a-b", 0}, {"b", 1}}
	got := slices.SortedFunc(slices.Values([]TopicPartition{want[3], want[1], want[2], want[0]}), TopicPartition.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	if s := want[1].String(); s != "a-10" {
		t.Errorf("String() = %q, want a-10", s)
	}
}

func TestMerge(t *testing.T) {
	a, b, c := TopicPartition{"t", 0}, TopicPartition{"t", 1}, TopicPartition{"u", 0}
	for _, test := range []struct {
		name    string
		have    Positions
		newer   Positions
		want    Positions
		failing string // empty: no error
	}{
		{name: "nothing", have: Positions{}, newer: nil, want: Positions{}},
		{name: "into nil", have: nil, newer: Positions{}, want: nil},
		{name: "new partition", have: Positions{a: {5, 1}}, newer: Positions{b: {0, -1}}, want: Positions{a: {5, 1}, b: {0, -1}}},
		{name: "forward with a gap", have: Positions{a: {5, 1}}, newer: Positions{a: {500, 2}}, want: Positions{a: {500, 2}}},
		{name: "in place", have: Positions{a: {5, 1}}, newer: Positions{a: {5, 1}}, want: Positions{a: {5, 1}}},
		{name: "in place, epoch learnt", have: Positions{a: {5, -1}}, newer: Positions{a: {5, 3}}, want: Positions{a: {5, 3}}},
		{name: "back", have: Positions{a: {5, 1}}, newer: Positions{a: {4, 1}}, want: Positions{a: {5, 1}}, failing: "t-0 from offset 5 (leader epoch 1) to 4 (leader epoch 1)"},
		{name: "negative", have: Positions{}, newer: Positions{a: {-1, -1}}, want: Positions{}, failing: "t-0"},
		{
			name: "all or nothing, first failure named",
			have: Positions{a: {5, 1}, b: {7, 1}, c: {9, 1}}, newer: Positions{a: {6, 1}, b: {1, 1}, c: {2, 1}},
			want: Positions{a: {5, 1}, b: {7, 1}, c: {9, 1}}, failing: "t-1 from offset 7",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.have.Merge(test.newer)
			if (test.failing != "") != errors.Is(err, ErrBackwards) {
				t.Fatalf("Merge: %v, want failure %q", err, test.failing)
			}
			if err != nil && !strings.Contains(err.Error(), test.failing) {
				t.Errorf("error %q does not hold %q", err, test.failing)
			}
			if !maps.Equal(test.have, test.want) {
				t.Errorf("now %v, want %v", test.have, test.want)
			}
		})
	}
}

func TestCloneDropSorted(t *testing.T) {
	if Positions(nil).Clone() == nil {
		t.Error("a clone of nil is nil: merging into it would panic")
	}
	p := Positions{{"b", 0}: {1, 1}, {"a", 3}: {2, 1}, {"a", 1}: {3, 1}}
	c := p.Clone()
	c.Drop(TopicPartition{"a", 3}, TopicPartition{"nobody", 0})
	if want := []TopicPartition{{"a", 1}, {"b", 0}}; !slices.Equal(c.Sorted(), want) {
		t.Errorf("after Drop: %v, want %v", c.Sorted(), want)
	}
	if len(p) != 3 {
		t.Errorf("dropping from the clone changed the original: %v", p)
	}
}

// arbitrary makes positions over few partitions and offsets, so that random maps overlap.
type arbitrary Positions

func (arbitrary) Generate(r *rand.Rand, _ int) reflect.Value {
	p := make(arbitrary)
	for range r.Intn(6) {
		p[TopicPartition{string(rune('a' + r.Intn(2))), int32(r.Intn(3))}] = Position{int64(r.Intn(8)), int32(r.Intn(3)) - 1}
	}
	return reflect.ValueOf(p)
}

// TestMergeProperties: a merge either changes nothing, or every partition is at or after where both sides were.
func TestMergeProperties(t *testing.T) {
	property := func(have, newer arbitrary) bool {
		before := Positions(have).Clone()
		err := Positions(have).Merge(Positions(newer))
		if err != nil {
			stepsBack := false
			for tp, to := range newer {
				from, known := before[tp]
				stepsBack = stepsBack || known && to.Offset < from.Offset
			}
			return stepsBack && errors.Is(err, ErrBackwards) && maps.Equal(Positions(have), before)
		}
		for tp, at := range have {
			if at.Offset < before[tp].Offset || at.Offset < newer[tp].Offset {
				return false
			}
			_, inBefore := before[tp]
			_, inNewer := newer[tp]
			if !inBefore && !inNewer {
				return false
			}
		}
		return len(have) >= len(before) && len(have) >= len(newer)
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

func TestJoinErrors(t *testing.T) {
	if err := joinErrors(nil); err != nil {
		t.Errorf("no errors join to %v", err)
	}
	var errs []error
	for _, name := range strings.Split("k j i h g f e d c b", " ") {
		errs = append(errs, errors.New(name))
	}
	last := errs[0]
	err := joinErrors(errs)
	if want := "b; c; d; e; f; g; h; i; and 2 more"; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	if !errors.Is(err, last) {
		t.Error("an error beyond the text is lost")
	}
	if got, want := listSome([]string{"a", "b"}), "a, b"; got != want {
		t.Errorf("listSome = %q, want %q", got, want)
	}
}
