package audit

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/offsets"
)

// seed repeats a run of the property tests: go test ./audit -args -seed 7.
var seed = flag.Uint64("seed", 0, "seed of the property tests; 0 takes one from the clock")

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	n := *seed
	if n == 0 {
		n = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -args -seed %d", n)
	return rand.New(rand.NewPCG(n, 0))
}

// fromList answers a list in chunks of the sizes that rng gives.
func fromList(rng *rand.Rand, list []item) func(from int64) pull {
	return func(from int64) pull {
		i, _ := slices.BinarySearchFunc(list, from, func(it item, from int64) int { return int(it.offset - from) })
		return func(context.Context) ([]item, error) {
			if i == len(list) {
				return nil, io.EOF
			}
			n := min(len(list)-i, 1+rng.IntN(5))
			i += n
			return slices.Clone(list[i-n : i]), nil // whoever keeps it keeps a copy
		}
	}
}

// bed is a small pipeline: lists in place of logs.
type bed struct {
	rng       *rand.Rand
	sources   [][]item // by source partition
	committed []int64
	targets   [][]item // by target partition
	limits    Limits
	change    func(*merge)
}

// fix numbers the target records.
func (b *bed) fix() {
	for _, list := range b.targets {
		for i := range list {
			list[i].offset = int64(i)
		}
	}
}

func (b *bed) merge() *merge {
	b.fix()
	m := &merge{limits: b.limits.orDefaults(), book: newBook(1000)}
	for i, list := range b.sources {
		s := &source{side: newSide(offsets.TopicPartition{Topic: "in", Partition: int32(i)}), open: fromList(b.rng, list)}
		s.committed, s.position = b.committed[i], b.committed[i]
		if len(list) > 0 {
			s.end = list[len(list)-1].offset + 1
		}
		m.sources = append(m.sources, s)
	}
	for i, list := range b.targets {
		t := &target{side: newSide(offsets.TopicPartition{Topic: "out", Partition: int32(i)}), open: fromList(b.rng, list)}
		for range b.sources {
			t.queues = append(t.queues, &queue{})
		}
		m.targets = append(m.targets, t)
	}
	if b.change != nil {
		b.change(m)
	}
	return m
}

// outcome is what a comparison found.
type outcome struct {
	faults map[Kind]int64
	doubts int
	list   []Finding
	m      *merge
}

func (b *bed) run(t *testing.T) outcome {
	t.Helper()
	m := b.merge()
	if err := m.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := outcome{faults: m.book.counts, list: m.book.list(), m: m}
	for _, s := range m.sources {
		o.doubts += len(s.doubts)
	}
	for _, x := range m.targets {
		o.doubts += len(x.doubts)
	}
	u := &unit{sources: m.sources, targets: m.targets}
	if err := u.proveSums(); err != nil {
		t.Error(err)
	}
	return o
}

// simple is one source partition of n records, all committed, and the target that is its copy.
func simple(n int) *bed {
	b := &bed{rng: rand.New(rand.NewPCG(1, 1)), committed: []int64{int64(n)}, sources: make([][]item, 1), targets: make([][]item, 1)}
	for i := range n {
		it := item{hash: uint64(i)*7919 + 1, offset: int64(i), time: int64(i), key: uint32(i%5) + 1}
		b.sources[0] = append(b.sources[0], it)
		it.from = unnamed
		b.targets[0] = append(b.targets[0], it)
	}
	return b
}

// name gives every target record its origin, as provenance headers do.
func (b *bed) name() {
	for i, list := range b.targets {
		for k := range list {
			for s, from := range b.sources {
				for _, it := range from {
					if it.hash == list[k].hash {
						b.targets[i][k].from, b.targets[i][k].origin = int32(s), it.offset
						b.targets[i][k].output, b.targets[i][k].of = 1, 1
					}
				}
			}
		}
	}
}

// TestMergeFindings plants one fault after the other, by content and with names.
func TestMergeFindings(t *testing.T) {
	const n = 300
	insert := func(b *bed, at int, it item) { b.targets[0] = slices.Insert(b.targets[0], at, it) }
	remove := func(b *bed, from, to int) { b.targets[0] = slices.Delete(b.targets[0], from, to) }
	stranger := item{hash: 5, from: unnamed, key: 99}
	for _, row := range []struct {
		name  string
		fault func(*bed)
		want  map[Kind]int64
		first int64 // the source may be deleted up to
	}{
		{"none", func(*bed) {}, nil, n},
		{"first missing", func(b *bed) { remove(b, 0, 1) }, map[Kind]int64{Missing: 1}, 0},
		{"one missing", func(b *bed) { remove(b, 100, 101) }, map[Kind]int64{Missing: 1}, 100},
		{"last missing", func(b *bed) { remove(b, n-1, n) }, map[Kind]int64{Missing: 1}, n - 1},
		{"many missing", func(b *bed) { remove(b, 50, 200) }, map[Kind]int64{Missing: 150}, 50},
		{"all missing", func(b *bed) { remove(b, 0, n) }, map[Kind]int64{Missing: n}, 0},
		{"doubled at once", func(b *bed) { insert(b, 101, b.targets[0][100]) }, map[Kind]int64{Duplicated: 1}, 100},
		{"doubled later", func(b *bed) { insert(b, 250, b.targets[0][100]) }, map[Kind]int64{Duplicated: 1}, 100},
		{"doubled at the end", func(b *bed) { insert(b, n, b.targets[0][100]) }, map[Kind]int64{Duplicated: 1}, 100},
		{"a run repeated", func(b *bed) { b.targets[0] = slices.Insert(b.targets[0], 200, b.targets[0][100:200]...) }, map[Kind]int64{Duplicated: 100}, 100},
		{"swapped", func(b *bed) { l := b.targets[0]; l[70], l[71] = l[71], l[70] }, map[Kind]int64{OutOfOrder: 1}, 70},
		{"moved back", func(b *bed) { it := b.targets[0][70]; remove(b, 70, 71); insert(b, 170, it) }, map[Kind]int64{OutOfOrder: 1}, 70},
		{"orphaned", func(b *bed) { insert(b, 100, stranger) }, map[Kind]int64{Orphaned: 1}, n},
		{"orphaned at the end", func(b *bed) { insert(b, n, stranger) }, map[Kind]int64{Orphaned: 1}, n},
		{"altered", func(b *bed) { b.targets[0][100].hash = 5 }, map[Kind]int64{Altered: 1}, 100},
		{"key altered", func(b *bed) { b.targets[0][100].hash = 5; b.targets[0][100].key = 77 }, map[Kind]int64{Altered: 1}, 100},
		{"last altered", func(b *bed) { b.targets[0][n-1].hash = 5 }, map[Kind]int64{Altered: 1}, n - 1},
		{"time altered", func(b *bed) { b.targets[0][100].time++ }, map[Kind]int64{Altered: 1}, 100},
		{"time set by the broker", func(b *bed) { b.targets[0][100].time++; b.targets[0][100].appended = true }, nil, n},
		{"several", func(b *bed) {
			insert(b, 250, b.targets[0][200])
			b.targets[0][150].hash = 5
			insert(b, 120, item{hash: 6, from: unnamed, key: 99})
			remove(b, 30, 31)
		}, map[Kind]int64{Duplicated: 1, Altered: 1, Orphaned: 1, Missing: 1}, 30},
	} {
		for _, named := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, named %v", row.name, named), func(t *testing.T) {
				b := simple(n)
				if named {
					b.name()
				}
				row.fault(b)
				got := b.run(t)
				if !maps.Equal(got.faults, row.want) || got.doubts > 0 {
					t.Errorf("found %v and %d doubts, want %v: %v", got.faults, got.doubts, row.want, got.list)
				}
				s := got.m.sources[0]
				if got := s.verified(); got != row.first && row.name != "moved back" {
					t.Errorf("verified up to %d, want %d", got, row.first)
				}
			})
		}
	}
}

// pipeline is a random one without a fault: source partitions, and target partitions that are merges of them.
func pipeline(rng *rand.Rand, alphabet int) *bed {
	b := &bed{rng: rng}
	sources, targets := 1+rng.IntN(3), 1+rng.IntN(3)
	b.targets = make([][]item, targets)
	written := make([]int, sources) // how many of each source have an output
	for s := range sources {
		var list []item
		offset := int64(0)
		for range rng.IntN(60) {
			offset += 1 + int64(rng.IntN(8)/7) // a hole now and then
			h := uint64(s)<<32 + uint64(offset) + 1
			if alphabet > 0 {
				h = uint64(rng.IntN(alphabet)) + 1
			}
			list = append(list, item{hash: h, offset: offset, key: uint32(h) | 1, to: int32(rng.IntN(targets))})
		}
		b.sources = append(b.sources, list)
		due := 0
		if len(list) > 0 {
			due = rng.IntN(len(list) + 1)
			written[s] = due + rng.IntN(len(list)-due+1)
		}
		committed := int64(0)
		if due > 0 {
			committed = list[due-1].offset + 1
		}
		b.committed = append(b.committed, committed)
	}
	at := make([]int, sources)
	for left := sources; left > 0; {
		s := rng.IntN(sources)
		if at[s] >= written[s] {
			left = 0
			for i := range at {
				left += truth(at[i] < written[i])
			}
			continue
		}
		it := b.sources[s][at[s]]
		at[s]++
		out := item{hash: it.hash, key: it.key, from: unnamed}
		b.targets[it.to] = append(b.targets[it.to], out)
	}
	return b
}

// spoil puts faults into the target and answers how many.
func (b *bed) spoil(faults int) int {
	done := 0
	for range faults {
		t := b.rng.IntN(len(b.targets))
		list := b.targets[t]
		if len(list) == 0 {
			continue
		}
		i := b.rng.IntN(len(list))
		switch b.rng.IntN(5) {
		case 0:
			b.targets[t] = slices.Delete(list, i, i+1)
		case 1:
			b.targets[t] = slices.Insert(list, b.rng.IntN(len(list)+1), list[i])
		case 2:
			k := b.rng.IntN(len(list))
			list[i], list[k] = list[k], list[i]
		case 3:
			list[i].hash |= 1 << 50
		case 4:
			b.targets[t] = slices.Insert(list, i, item{hash: 1<<51 + uint64(b.rng.IntN(1<<20)), key: 3, from: unnamed})
		}
		done++
	}
	return done
}

// judgement is what a simple-minded judge says of unique records.
type judgement struct {
	lost, extra, strange int64
	disorder             bool
}

func (b *bed) judge() judgement {
	var j judgement
	for t, list := range b.targets {
		seen := map[uint64]int{}
		for _, it := range list {
			seen[it.hash]++
		}
		known := map[uint64]bool{}
		for s, from := range b.sources {
			order := map[uint64]int64{}
			for _, it := range from {
				if int(it.to) != t {
					continue
				}
				known[it.hash] = true
				order[it.hash] = it.offset
				if seen[it.hash] == 0 && it.offset < b.committed[s] {
					j.lost++
				}
				j.extra += int64(max(0, seen[it.hash]-1))
			}
			last, first := int64(-1), map[uint64]bool{}
			for _, it := range list {
				if offset, ok := order[it.hash]; ok && !first[it.hash] {
					first[it.hash] = true
					j.disorder = j.disorder || offset < last
					last = max(last, offset)
				}
			}
		}
		for _, it := range list {
			j.strange += int64(truth(!known[it.hash]))
		}
	}
	return j
}

// TestMergeProperty compares with a judge that has all records in memory. Records are unique, so that each fault has
// one name, save that a lost record and one from nowhere may be called an altered one.
func TestMergeProperty(t *testing.T) {
	rng := seeded(t)
	for round := range 5000 {
		b := pipeline(rng, 0)
		faults := b.spoil(rng.IntN(4))
		want := b.judge()
		got := b.run(t)
		if got.doubts > 0 {
			t.Fatalf("round %d: %d doubts", round, got.doubts)
		}
		f := got.faults
		if faults == 0 && len(f) > 0 {
			t.Fatalf("round %d: false findings %v", round, got.list)
		}
		clean := want == judgement{}
		if clean != (len(f) == 0) {
			t.Fatalf("round %d: found %v, the judge says %+v", round, f, want)
		}
		// A record that is doubled in front of its own place makes those between look late.
		if f[Missing]+f[Altered] != want.lost || f[Orphaned]+f[Altered] != want.strange {
			if want.extra == 0 && !want.disorder {
				t.Fatalf("round %d: found %v, the judge says %+v\n%v", round, f, want, got.list)
			}
		}
		if want.extra != f[Duplicated] && !want.disorder {
			t.Fatalf("round %d: found %v, the judge says %+v\n%v", round, f, want, got.list)
		}
		if want.disorder && f[OutOfOrder]+f[Duplicated] == 0 {
			t.Fatalf("round %d: found %v, the judge says %+v\n%v", round, f, want, got.list)
		}
	}
}

// TestMergeAlike: with few different records no fault is ever seen where none is, and no fault passes unless what
// is left is a possible output.
func TestMergeAlike(t *testing.T) {
	rng := seeded(t)
	doubtful := 0
	for round := range 5000 {
		b := pipeline(rng, 1+rng.IntN(6))
		faults := b.spoil(rng.IntN(3))
		got := b.run(t)
		if faults == 0 && len(got.faults) > 0 {
			t.Fatalf("round %d: false findings %v", round, got.list)
		}
		doubtful += truth(got.doubts > 0)
		if len(b.sources) == 1 && len(b.targets) == 1 && !b.possible() && len(got.faults)+got.doubts == 0 {
			t.Fatalf("round %d: nothing was found", round)
		}
	}
	t.Logf("%d of 5000 could not be told", doubtful)
}

// possible says whether a target of one source partition holds all of it that is committed, in order, and of the rest
// what may have been written meanwhile.
func (b *bed) possible() bool {
	out := b.targets[0]
	for _, it := range b.sources[0] {
		if len(out) > 0 && out[0].hash == it.hash {
			out = out[1:]
		} else if it.offset < b.committed[0] {
			return false
		}
	}
	return len(out) == 0
}

// TestMergeNamed: with names the same holds whatever records look alike.
func TestMergeNamed(t *testing.T) {
	rng := seeded(t)
	for round := range 3000 {
		b := pipeline(rng, 0)
		b.name()
		for i := range b.sources { // now all look the same
			for k := range b.sources[i] {
				b.sources[i][k].hash = 1
			}
		}
		for i := range b.targets {
			for k := range b.targets[i] {
				b.targets[i][k].hash = 1
			}
		}
		if rng.IntN(2) == 0 || len(b.targets[0]) == 0 {
			if got := b.run(t); len(got.faults) > 0 || got.doubts > 0 {
				t.Fatalf("round %d: false findings %v", round, got.list)
			}
			continue
		}
		list := b.targets[0]
		i := rng.IntN(len(list))
		gone := list[i]
		b.targets[0] = slices.Delete(list, i, i+1)
		got := b.run(t)
		due := gone.origin < b.committed[gone.from]
		if got.faults[Missing] != int64(truth(due)) || got.doubts > 0 || len(got.faults) != truth(due) {
			t.Fatalf("round %d: found %v for %+v", round, got.faults, gone)
		}
	}
}
