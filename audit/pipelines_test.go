package audit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fanIn writes n records to each of the topics and the copies of all to the output, one topic after the other in
// pieces, with provenance headers if asked.
func (s *stand) fanIn(n, piece int, provenance bool, topics ...string) {
	s.t.Helper()
	var copies []*kgo.Record
	all := map[string][]*kgo.Record{}
	for i, topic := range topics {
		all[topic] = odd(topic, 0, n)
		for k, r := range all[topic] {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "only", Value: fmt.Append(nil, i, k)})
		}
		s.write(all[topic]...)
		s.commit(topic, 0, int64(n))
	}
	for from := 0; from < n; from += piece {
		for _, topic := range topics {
			for k, r := range all[topic][from:min(n, from+piece)] {
				c := to("out", 0, r)
				if provenance {
					marked(c, topic, 0, int64(from+k), "1/1")
				}
				copies = append(copies, c)
			}
		}
	}
	s.write(copies...)
}

// TestFanIn: several topics into one, by content and with provenance, whichever way they are interleaved.
func TestFanIn(t *testing.T) {
	for _, provenance := range []bool{false, true} {
		for _, piece := range []int{1, 70, 500} {
			t.Run(fmt.Sprintf("pieces of %d, provenance %v", piece, provenance), func(t *testing.T) {
				s := newStand(t, kfake.SeedTopics(1, "a-in", "b-in", "c-in", "out"))
				s.o.Inputs, s.o.Pattern, s.o.Provenance = nil, regexp.MustCompile("^(?:.*-in|out)$"), provenance
				s.fanIn(500, piece, provenance, "a-in", "b-in", "c-in")
				r := s.expect(Pass, nil)
				if len(r.Sources) != 3 || !slices.Equal(r.Pipeline.Inputs, []string{"a-in", "b-in", "c-in"}) || r.Targets[0].Records != 1500 {
					t.Errorf("%+v", r)
				}
				s.write(to("out", 0, odd("a-in", 0, 20)[19])) // without its headers: nobody's
				s.expect(Faulty, map[Kind]int64{Orphaned: 1})
				if provenance {
					return
				}
				// Only provenance tells where several partitions meet once one of them has lost its beginning.
				if err := s.DeleteRecords("b-in", 0, 10); err != nil {
					t.Fatal(err)
				}
				r = s.expect(CannotTell, nil)
				if r.Sources[0].Method != "counts" || r.Sources[0].Verified != 0 || r.Sources[1].Records != 490 {
					t.Errorf("%+v", r.Sources)
				}
			})
		}
	}
}

// TestFanInAfterRetention: with provenance it can be told.
func TestFanInAfterRetention(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "a", "b", "out"))
	s.o.Inputs, s.o.Provenance = []string{"a", "b"}, true
	s.fanIn(200, 30, true, "a", "b")
	if err := s.DeleteRecords("b", 0, 100); err != nil {
		t.Fatal(err)
	}
	r := s.expect(Pass, nil)
	if len(r.Targets[0].Outside) != 1 || r.Targets[0].Outside[0].Records != 100 {
		t.Errorf("%+v", r.Targets[0])
	}
	s.write(&kgo.Record{Topic: "out", Value: []byte("without provenance")})
	s.expect(CannotTell, nil)
}

// TestTemplate: each input has its own output.
func TestTemplate(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "a", "b", "a.clean", "b.clean"))
	s.o.Inputs, s.o.Output = []string{"a", "b"}, "{topic}.clean"
	for _, topic := range s.o.Inputs {
		records := odd(topic, 0, 50)
		s.write(records...)
		for i, r := range records {
			if topic == "a" || i != 17 {
				s.write(to(topic+".clean", 0, r))
			}
		}
		s.commit(topic, 0, 50)
	}
	r := s.expect(Faulty, map[Kind]int64{Missing: 1})
	if r.Sources[0].Verdict != Pass || r.Sources[1].Verdict != Faulty || r.Sources[1].Verified != 17 {
		t.Errorf("%+v", r.Sources)
	}
}

// TestTransforms: without provenance nothing is told; with it, an output that appears twice is.
func TestTransforms(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "in", "out"))
	s.o.Identity = false
	records := odd("in", 0, 30)
	s.write(records...)
	for i, r := range records {
		c := marked(to("out", 0, r), "in", 0, int64(i), "1/1")
		c.Value = []byte("transformed")
		s.write(c)
	}
	s.commit("in", 0, 30)
	r := s.expect(CannotTell, nil)
	if r.Sources[0].Method != "counts" || r.Sources[0].Records != 30 || r.Targets[0].Records != 30 || r.Sources[0].Verified != 0 {
		t.Errorf("%+v", r)
	}
	s.o.Provenance = true
	if r := s.expect(Pass, nil); r.Sources[0].Verified != 30 {
		t.Errorf("%+v", r.Sources[0])
	}
	s.write(marked(to("out", 0, records[7]), "in", 0, 7, "1/1"))
	if r := s.expect(Faulty, map[Kind]int64{Duplicated: 1}); r.Examples[0].Source.Offset != 7 || r.Examples[0].Target.Offset != 30 {
		t.Errorf("%+v", r.Examples)
	}
}

// TestNoPositions: where the group has none, nothing is told.
func TestNoPositions(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "in", "out"))
	s.write(odd("in", 0, 5)...)
	r := s.expect(CannotTell, nil)
	if r.Sources[0].Committed != -1 || r.Sources[0].Verified != 0 {
		t.Errorf("%+v", r.Sources[0])
	}
	s.commit("in", 0, 9) // beyond the end: another topic of that name, perhaps
	s.expect(CannotTell, nil)
}

// TestLimits: what is given up is told as such, and never a pass.
func TestLimits(t *testing.T) {
	reasons := func(o outcome) string {
		var all []string
		for _, s := range o.m.sources {
			all = append(all, slices.Sorted(maps.Keys(s.doubts))...)
		}
		for _, x := range o.m.targets {
			all = append(all, slices.Sorted(maps.Keys(x.doubts))...)
		}
		return strings.Join(all, "; ")
	}
	t.Run("faults", func(t *testing.T) {
		b := simple(500)
		b.limits = Limits{Faults: 50}
		for i := 100; i < 400; i++ {
			b.targets[0][i].hash += 1 << 40
		}
		got := b.run(t)
		if !strings.Contains(reasons(got), "too many faults") || got.m.sources[0].verified() > 100 || len(got.faults) == 0 {
			t.Errorf("%v, %s, verified up to %d", got.faults, reasons(got), got.m.sources[0].verified())
		}
	})
	t.Run("held", func(t *testing.T) {
		// The second target partition holds only what comes last in the source.
		b := simple(500)
		b.limits = Limits{Held: 50}
		b.targets = append(b.targets, nil)
		for i := range b.sources[0] {
			b.sources[0][i].to = int32(truth(i < 400))
		}
		b.targets[0], b.targets[1] = slices.Clone(b.targets[0][400:]), b.targets[0][:400]
		b.targets[1] = nil // and the first is not read: it is empty, so it holds nothing back
		got := b.run(t)
		if got.faults[Missing] != 400 {
			t.Errorf("%v, %s", got.faults, reasons(got))
		}
		// Two sources in the order of the first, all of it, then the second: their other target waits.
		b = twoByTwo(300)
		b.limits = Limits{Held: 50}
		if got := b.run(t); !strings.Contains(reasons(got), "too far apart") || len(got.faults) > 0 {
			t.Errorf("%v, %s", got.faults, reasons(got))
		}
		b = twoByTwo(300)
		if got := b.run(t); got.doubts > 0 || len(got.faults) > 0 {
			t.Errorf("without the limit: %v, %s", got.faults, reasons(got))
		}
	})
	t.Run("at most once", func(t *testing.T) {
		b := simple(100)
		b.targets[0] = slices.Delete(b.targets[0], 95, 100)
		b.targets[0] = slices.Delete(b.targets[0], 50, 51)
		b.change = func(m *merge) { m.tail = true }
		got := b.run(t)
		if !maps.Equal(got.faults, map[Kind]int64{Missing: 1}) || reasons(got) != reasonAtMostOnce {
			t.Errorf("%v, %s", got.faults, reasons(got))
		}
	})
}

// twoByTwo is a pipeline of which the one target holds the first source before the second, and the other the second
// before the first.
func twoByTwo(n int) *bed {
	b := simple(0)
	b.sources, b.targets, b.committed = make([][]item, 2), make([][]item, 2), []int64{int64(2 * n), int64(2 * n)}
	var parts [2][2][]item
	for s := range 2 {
		for i := range 2 * n {
			it := item{hash: uint64(s)<<40 + uint64(i) + 1, offset: int64(i), to: int32(i % 2), from: unnamed}
			b.sources[s] = append(b.sources[s], it)
			parts[s][it.to] = append(parts[s][it.to], it)
		}
	}
	b.targets[0] = append(slices.Clone(parts[0][0]), parts[1][0]...)
	b.targets[1] = append(slices.Clone(parts[1][1]), parts[0][1]...)
	return b
}

// TestTies: records of two source partitions that look alike are told apart by what follows.
func TestTies(t *testing.T) {
	for _, row := range []struct {
		name   string
		in     []string // the sources, a letter for each record
		out    string
		faults map[Kind]int64
		doubts bool
	}{
		{"first", []string{"xa", "xb"}, "xaxb", nil, false},
		{"second", []string{"xa", "xb"}, "xbxa", nil, false},
		{"both", []string{"xa", "xb"}, "xxab", nil, false},
		{"three", []string{"xa", "xb", "xc"}, "xcxxab", nil, false},
		{"another between", []string{"xa", "xb", "cd"}, "xcdbxa", nil, false},
		{"joined later", []string{"xa", "xb", "cx"}, "xcxbxa", nil, false},
		{"one lost, at the end", []string{"x", "x"}, "x", map[Kind]int64{Missing: 1}, false},
		{"one too many", []string{"xa", "xb"}, "xxxab", nil, true},
		{"neither follows", []string{"xa", "xb"}, "xqxab", nil, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := simple(0)
			b.sources, b.committed = nil, nil
			for _, letters := range row.in {
				var list []item
				for i, c := range letters {
					list = append(list, item{hash: uint64(c), offset: int64(i), from: unnamed})
				}
				b.sources, b.committed = append(b.sources, list), append(b.committed, int64(len(list)))
			}
			for _, c := range row.out {
				b.targets[0] = append(b.targets[0], item{hash: uint64(c), from: unnamed})
			}
			got := b.run(t)
			if row.doubts && got.doubts+len(got.faults) == 0 || !row.doubts && (got.doubts > 0 || !maps.Equal(got.faults, row.faults)) {
				t.Errorf("found %v and %d doubts: %v", got.faults, got.doubts, got.list)
			}
			if row.name == "one lost, at the end" {
				for _, s := range got.m.sources {
					if s.verified() != 0 { // which of the two it was is not known
						t.Errorf("%s verified up to %d", s.TopicPartition, s.verified())
					}
				}
			}
		})
	}
}
