package oracle

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// script is output made by hand: n records fed into each of two source
// partitions, and what a bridge made of them, in the order of one output partition.
type script struct {
	form  Form
	input *Input
	out   []*kgo.Record
}

func newScript(form Form, n int) *script {
	s := &script{form: form, input: NewInput()}
	for i := range n {
		for p := range int32(2) {
			o := s.input.Hand(Source{Topic: "in", Partition: p})
			s.input.Ack(o, int64(i))
			if form.wanted(o) {
				s.out = append(s.out, s.form.Record(o))
			}
		}
	}
	return s
}

// checker observes the output as one partition of topic "out".
func (s *script) checker(place func(*kgo.Record) int32) *Checker {
	c := NewChecker(s.form, s.input, place)
	for i, r := range s.out {
		read := *r
		read.Topic, read.Partition, read.Offset = "out", 0, int64(i)
		c.Observe(&read)
	}
	return c
}

// read observes some of the output only.
func (s *script) read(offsets ...int) *Checker {
	c := NewChecker(s.form, s.input, nil)
	for _, i := range offsets {
		r := *s.out[i]
		r.Topic, r.Offset = "out", int64(i)
		c.Observe(&r)
	}
	return c
}

// TestCheckerFindsEachFault seeds one kind of fault at a time: exactly that kind
// is found, as often as it was seeded.
func TestCheckerFindsEachFault(t *testing.T) {
	for name, test := range map[string]struct {
		seed func(*script)
		want Verdict
	}{
		"none": {func(*script) {}, Verdict{}},
		"a record twice in a row": {
			func(s *script) { s.out = append(s.out[:10:10], s.out[9:]...) },
			Verdict{Duplicated: Finding{Count: 1}},
		},
		"the whole output twice": {
			func(s *script) { s.out = append(s.out, s.out...) },
			Verdict{Duplicated: Finding{Count: 200}},
		},
		"a replayed tail is duplicated and not out of order": {
			func(s *script) { s.out = append(s.out[:150:150], s.out[100:]...) },
			Verdict{Duplicated: Finding{Count: 50}},
		},
		"a record in the middle missing": {
			func(s *script) { s.out = append(s.out[:50:50], s.out[51:]...) },
			Verdict{Lost: Finding{Count: 1}},
		},
		"the tail missing": {
			func(s *script) { s.out = s.out[:180] },
			Verdict{Lost: Finding{Count: 20}},
		},
		"two of one source swapped": {
			func(s *script) { s.out[10], s.out[12] = s.out[12], s.out[10] },
			Verdict{OutOfOrder: Finding{Count: 1}},
		},
		"two of different sources swapped is in order": {
			func(s *script) { s.out[10], s.out[11] = s.out[11], s.out[10] },
			Verdict{},
		},
		"a value altered": {
			func(s *script) { s.alter(20, func(r *kgo.Record) { r.Value = append([]byte("x"), r.Value...) }) },
			Verdict{Altered: Finding{Count: 1}},
		},
		"null value become empty": {
			func(s *script) { s.alter(2*17, func(r *kgo.Record) { r.Value = []byte{} }) },
			Verdict{Altered: Finding{Count: 1}},
		},
		"empty value become null": {
			func(s *script) { s.alter(2*71, func(r *kgo.Record) { r.Value = nil }) },
			Verdict{Altered: Finding{Count: 1}},
		},
		"key altered": {
			func(s *script) { s.alter(5, func(r *kgo.Record) { r.Key = []byte("key") }) },
			Verdict{Altered: Finding{Count: 1}},
		},
		"timestamp altered": {
			func(s *script) { s.alter(5, func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(1e6) }) },
			Verdict{Altered: Finding{Count: 1}},
		},
		"repeated headers swapped": {
			func(s *script) {
				s.alter(5, func(r *kgo.Record) { r.Headers[1], r.Headers[2] = r.Headers[2], r.Headers[1] })
			},
			Verdict{Altered: Finding{Count: 1}},
		},
		"a header lost": {
			func(s *script) { s.alter(5, func(r *kgo.Record) { r.Headers = r.Headers[:2] }) },
			Verdict{Altered: Finding{Count: 1}},
		},
		"a record nobody fed": {
			func(s *script) { s.out = append(s.out, s.form.Record(Origin{Source{"in", 0}, 100})) },
			Verdict{Foreign: Finding{Count: 1}},
		},
		"a record from a topic nobody fed": {
			func(s *script) { s.out = append(s.out, s.form.Record(Origin{Source{"other", 0}, 0})) },
			Verdict{Foreign: Finding{Count: 1}},
		},
		"a record without origin": {
			func(s *script) { s.out = append(s.out, &kgo.Record{Value: []byte("aborted by the feeder")}) },
			Verdict{Foreign: Finding{Count: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(NewForm(64, 10), 100)
			test.seed(s)
			test.want.In, test.want.Out = 200, int64(len(s.out))
			got := s.checker(nil).Final()
			sameCounts(t, got, test.want)
			if clean := test.want.Undamaged() && test.want.In == test.want.Out && test.want.OutOfOrder.Count == 0; got.Exact() != clean {
				t.Errorf("Exact() = %v: %s", got.Exact(), got)
			}
		})
	}
}

// alter changes a copy of the i-th output record.
func (s *script) alter(i int, change func(*kgo.Record)) {
	r := *s.out[i]
	r.Headers = append([]kgo.RecordHeader(nil), r.Headers...)
	change(&r)
	s.out[i] = &r
}

func sameCounts(t *testing.T, got, want Verdict) {
	t.Helper()
	if got.In != want.In || got.Out != want.Out {
		t.Errorf("in %d, out %d; want %d, %d", got.In, got.Out, want.In, want.Out)
	}
	wanted := want.findings()
	for i, f := range got.findings() {
		if f.Count != wanted[i].Count {
			t.Errorf("%s %d, want %d: %q", f.name, f.Count, wanted[i].Count, f.Examples)
		}
		if f.Count > 0 && len(f.Examples) == 0 {
			t.Errorf("%s has no example", f.name)
		}
	}
}

// TestCheckerKnowsWhatIsDropped wants only the kept records, and calls a
// dropped one that turns up foreign.
func TestCheckerKnowsWhatIsDropped(t *testing.T) {
	form := NewForm(32, 4)
	form.Keep = func(o Origin) bool { return o.Seq%4 == 0 }
	s := newScript(form, 100)
	sameCounts(t, s.checker(nil).Final(), Verdict{In: 50, Out: 50})
	s.out = append(s.out, form.Record(Origin{Source{"in", 0}, 3}))
	sameCounts(t, s.checker(nil).Final(), Verdict{In: 50, Out: 51, Foreign: Finding{Count: 1}})
}

// TestCheckerSkips: what lies before the start is not wanted, and foreign if it
// turns up all the same. A checker made after it skips the same.
func TestCheckerSkips(t *testing.T) {
	s := newScript(NewForm(32, 4), 10)
	c := NewChecker(s.form, s.input, nil)
	c.Skip(Source{"in", 1}, 6)
	for _, c := range []*Checker{c, c.like()} {
		for i, r := range s.out {
			if o, _ := OriginOf(r); o.Partition == 1 && o.Seq < 5 {
				continue
			}
			read := *r
			read.Topic, read.Offset = "out", int64(i)
			c.Observe(&read)
		}
		sameCounts(t, c.Final(), Verdict{In: 14, Out: 15, Foreign: Finding{Count: 1}})
		if got := c.Missing(Source{"in", 1}, 0, 10, 5); got != nil {
			t.Errorf("missing %v", got)
		}
	}
}

func TestCheckerPlaces(t *testing.T) {
	s := newScript(NewForm(32, 8), 20)
	misplaced := s.checker(ByKey(3)).Final().Misplaced.Count
	if misplaced == 0 || misplaced == 40 {
		t.Errorf("misplaced %d of 40 in one of three partitions: some keys belong there, and some do not", misplaced)
	}
	if got := s.checker(ByKey(1)).Final(); !got.Exact() {
		t.Errorf("with one partition all are in place: %s", got)
	}
	if got := s.checker(Preserve).Final().Misplaced.Count; got != 20 {
		t.Errorf("misplaced %d: one source's 20 belong into partition 1", got)
	}
}

// TestByKeyIsMurmur2 holds the placement against values computed by the Java client.
func TestByKeyIsMurmur2(t *testing.T) {
	// org.apache.kafka.common.utils.Utils: toPositive(murmur2(key)) % 1000.
	for key, want := range map[string]int32{"21": (-973932308 & 0x7fffffff) % 1000, "foobar": (-790332482 & 0x7fffffff) % 1000} {
		if got := ByKey(1000)(&kgo.Record{Key: []byte(key)}); got != want {
			t.Errorf("partition of %q is %d, want %d", key, got, want)
		}
	}
}

// TestCompareFindsDisagreement gives the concurrent reader what the final one
// does not have, and the other way round.
func TestCompareFindsDisagreement(t *testing.T) {
	s := newScript(NewForm(32, 4), 3)
	all := []int{0, 1, 2, 3, 4, 5}
	for name, test := range map[string]struct {
		during, after   []int
		withdrawn, late int64
		lost            int64
	}{
		"same":                        {all, all, 0, 0, 0},
		"concurrent reader stopped":   {all[:3], all, 0, 0, 0},
		"aborted read in the middle":  {all, []int{0, 1, 3, 4, 5}, 1, 0, 1},
		"aborted read at the end":     {all, all[:4], 2, 0, 2},
		"hole that is filled later":   {[]int{0, 1, 4, 5}, all, 0, 2, 0},
		"nothing was read meanwhile":  {nil, all, 0, 0, 0},
		"everything vanishes":         {all, nil, 6, 0, 6},
		"one vanishes, one late":      {[]int{0, 1, 3, 4, 5}, []int{0, 1, 2, 4, 5}, 1, 1, 1},
		"hole after the reader's end": {all[:1], all, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.read(test.after...).Compare(s.read(test.during...))
			if got.Withdrawn.Count != test.withdrawn || got.Late.Count != test.late || got.Lost.Count != test.lost {
				t.Errorf("want withdrawn %d, late %d, lost %d: %s", test.withdrawn, test.late, test.lost, got)
			}
		})
	}
}

// TestCompareKeepsEarlierFindings: what the concurrent reader found wrong stays
// wrong, even if the final reader has a clean view.
func TestCompareKeepsEarlierFindings(t *testing.T) {
	s := newScript(NewForm(32, 4), 10)
	clean := s.checker(nil)
	s.out = append(s.out[:5:5], s.out[4:]...)
	if got := clean.Compare(s.checker(nil)); got.Duplicated.Count != 1 || got.Exact() {
		t.Errorf("the earlier duplicate is forgotten: %s", got)
	}
}

// TestOffsetsHaveToGrow: a log that hands out the same offset twice is not one.
func TestOffsetsHaveToGrow(t *testing.T) {
	s := newScript(NewForm(32, 4), 2)
	c := NewChecker(s.form, s.input, nil)
	for _, offset := range []int64{5, 5} {
		r := *s.out[offset-5]
		r.Topic, r.Offset = "out", offset
		c.Observe(&r)
	}
	if got := c.SoFar().OutOfOrder.Count; got != 1 {
		t.Errorf("out of order %d, want 1", got)
	}
}

func TestVerdictNamesEverything(t *testing.T) {
	s := newScript(NewForm(32, 4), 10)
	s.out = append(s.out[1:], s.out[1])
	got := s.checker(nil).Final().String()
	for _, want := range []string{"in 20, out 20", "duplicated 1", "lost 1", "lost: in/0/0", "duplicated: out/0@19: in/1/0 again"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

func TestFindingKeepsFewExamples(t *testing.T) {
	var f Finding
	for i := range 100 {
		f.add("%d", i)
	}
	if f.Count != 100 || len(f.Examples) != maxExamples {
		t.Errorf("count %d, %d examples", f.Count, len(f.Examples))
	}
}

func TestMoreAnnouncesTheNextRecord(t *testing.T) {
	s := newScript(NewForm(32, 4), 1)
	c := NewChecker(s.form, s.input, nil)
	more := c.More()
	select {
	case <-more:
		t.Fatal("announced before anything was read")
	default:
	}
	c.Observe(s.out[0])
	<-more
	if c.Out() != 1 || c.Highest()[Source{"in", 0}] != 0 {
		t.Errorf("out %d, highest %v", c.Out(), c.Highest())
	}
}

func TestMissing(t *testing.T) {
	s := newScript(NewForm(32, 4), 10)
	s.out = append(s.out[:8:8], s.out[10:]...) // the fifth of both
	c := s.checker(nil)
	if got := c.Missing(Source{"in", 1}, 0, 10, 5); len(got) != 1 || got[0].Seq != 4 {
		t.Errorf("missing %v, want in/1/4", got)
	}
	if got := c.Missing(Source{"in", 9}, 0, 10, 5); len(got) != 5 {
		t.Errorf("missing %v of an unseen source, want 5", got)
	}
}
