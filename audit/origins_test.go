package audit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eosbridge/eosbridge/offsets"
)

// graph is a small pipeline with provenance: fan[s][offset] outputs of each input.
type graph struct {
	rng       *rand.Rand
	sources   [][]item
	committed []int64
	targets   [][]item
	change    func(*origins)
}

// newGraph makes a random pipeline that drops and multiplies, and routes each output to a target partition.
func newGraph(rng *rand.Rand) *graph {
	g := &graph{rng: rng}
	sources, targets := 1+rng.IntN(3), 1+rng.IntN(3)
	g.targets = make([][]item, targets)
	at := make([]int, sources)
	for range sources {
		var list []item
		offset := int64(0)
		for range rng.IntN(40) {
			offset += 1 + int64(rng.IntN(8)/7)
			list = append(list, item{hash: rng.Uint64(), offset: offset})
		}
		g.sources = append(g.sources, list)
		committed := int64(0)
		if len(list) > 0 {
			committed = list[rng.IntN(len(list))].offset
		}
		g.committed = append(g.committed, committed)
	}
	for left := true; left; {
		left = false
		for s := range sources {
			for range rng.IntN(4) {
				if at[s] < len(g.sources[s]) {
					g.process(s, g.sources[s][at[s]].offset)
					at[s]++
				}
			}
			left = left || at[s] < len(g.sources[s])
		}
	}
	return g
}

func (g *graph) process(s int, offset int64) {
	n := g.rng.IntN(4)
	for i := range n {
		t := g.rng.IntN(len(g.targets))
		g.targets[t] = append(g.targets[t], item{hash: g.rng.Uint64(), from: int32(s), origin: offset, output: uint32(i + 1), of: uint32(n)})
	}
}

func (g *graph) run(t *testing.T) (map[Kind]int64, *origins) {
	t.Helper()
	o := &origins{book: newBook(100)}
	for i, list := range g.sources {
		s := &source{side: newSide(offsets.TopicPartition{Topic: "in", Partition: int32(i)}), open: fromList(g.rng, list)}
		s.committed = g.committed[i]
		if len(list) > 0 {
			s.end = list[len(list)-1].offset + 1
		}
		o.sources = append(o.sources, s)
	}
	for i, list := range g.targets {
		for k := range list {
			list[k].offset = int64(k)
		}
		x := &target{side: newSide(offsets.TopicPartition{Topic: "out", Partition: int32(i)}), open: fromList(g.rng, list)}
		x.end = int64(len(list))
		o.targets = append(o.targets, x)
	}
	if g.change != nil {
		g.change(o)
	}
	if err := o.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o.book.counts, o
}

// verdict is the simple-minded judge: it holds everything in memory.
func (g *graph) verdict() map[Kind]int64 {
	want := map[Kind]int64{}
	add := func(k Kind, n int) {
		if n > 0 {
			want[k] += int64(n)
		}
	}
	type name struct {
		s      int32
		origin int64
		output uint32
	}
	seen := map[name]int{}
	counts := map[[2]int64]map[uint32]bool{}
	of := map[[2]int64]uint32{}
	for t := range g.targets {
		last := map[int32][2]int64{}
		for _, it := range g.targets[t] {
			exists := slices.ContainsFunc(g.sources[it.from], func(x item) bool { return x.offset == it.origin })
			if it.origin >= g.committed[it.from] && exists {
				continue // not audited yet
			}
			if !exists {
				add(Orphaned, 1)
				if it.origin >= g.committed[it.from] {
					continue
				}
			}
			n := name{it.from, it.origin, it.output}
			seen[n]++
			at := [2]int64{it.origin, int64(it.output)}
			was, ok := last[it.from]
			behind := ok && (at[0] < was[0] || at[0] == was[0] && at[1] <= was[1])
			if seen[n] > 1 {
				add(Duplicated, 1)
			} else if behind {
				add(OutOfOrder, 1)
			}
			if !behind {
				last[it.from] = at
			}
			key := [2]int64{int64(it.from), it.origin}
			if counts[key] == nil {
				counts[key] = map[uint32]bool{}
			}
			counts[key][it.output], of[key] = true, it.of
		}
	}
	for key, have := range counts {
		exists := slices.ContainsFunc(g.sources[key[0]], func(x item) bool { return x.offset == key[1] })
		add(Missing, truth(exists && len(have) < int(of[key])))
	}
	return want
}

// TestOriginsProperty compares with a judge that has everything in memory.
func TestOriginsProperty(t *testing.T) {
	rng := seeded(t)
	for round := range 3000 {
		g := newGraph(rng)
		for range rng.IntN(3) {
			n := rng.IntN(len(g.targets))
			list := g.targets[n]
			if len(list) == 0 {
				continue
			}
			i, k := rng.IntN(len(list)), rng.IntN(len(list))
			switch rng.IntN(4) {
			case 0:
				g.targets[n] = slices.Delete(list, i, i+1)
			case 1:
				g.targets[n] = slices.Insert(list, k, list[i])
			case 2:
				list[i], list[k] = list[k], list[i]
			case 3:
				list[i].origin, list[i].output, list[i].of = 1_000_000, 1, 1 // beyond the end of the source
			}
		}
		want := g.verdict()
		got, o := g.run(t)
		if !maps.Equal(got, want) {
			t.Fatalf("round %d: found %v, the judge says %v: %v", round, got, want, o.book.list())
		}
	}
}

// TestOriginsFindings plants faults of which the judge of the property test knows nothing.
func TestOriginsFindings(t *testing.T) {
	plain := func() *graph { // offsets 0 to 199 but 50; two outputs of each, but none of those that 5 divides
		g := &graph{rng: rand.New(rand.NewPCG(1, 2)), committed: []int64{200}, sources: make([][]item, 1), targets: make([][]item, 1)}
		for i := range int64(200) {
			if i == 50 {
				continue
			}
			g.sources[0] = append(g.sources[0], item{hash: uint64(i), offset: i})
			for k := range uint32(2) {
				if i%5 > 0 {
					g.targets[0] = append(g.targets[0], item{hash: uint64(i), origin: i, output: k + 1, of: 2})
				}
			}
		}
		return g
	}
	for _, row := range []struct {
		name   string
		change func(*graph)
		want   map[Kind]int64
		doubts map[string]int64 // of the source
		first  int64
	}{
		{"none", func(*graph) {}, nil, map[string]int64{"no output: dropped by the transforms, or lost": 39}, 0},
		{"every", func(g *graph) { g.change = func(o *origins) { o.every = true } }, map[Kind]int64{Missing: 39}, nil, 0},
		{"a hole named", func(g *graph) {
			g.targets[0] = slices.Insert(g.targets[0], 80, item{origin: 50, output: 1, of: 1})
		}, map[Kind]int64{Orphaned: 1}, map[string]int64{"no output: dropped by the transforms, or lost": 39}, 0},
		{"a hole of a compacted source", func(g *graph) {
			g.targets[0] = slices.Insert(g.targets[0], 80, item{origin: 50, output: 1, of: 1})
			g.change = func(o *origins) { o.sources[0].compacted = true }
		}, nil, map[string]int64{"no output: dropped by the transforms, or lost": 39, reasonCompactedSource: 1}, 0},
		{
			"partly missing", func(g *graph) { g.targets[0] = slices.Delete(g.targets[0], 0, 1) },
			map[Kind]int64{Missing: 1},
			map[string]int64{"no output: dropped by the transforms, or lost": 39},
			0,
		},
		{"partly missing behind an open transaction", func(g *graph) {
			g.targets[0] = g.targets[0][:len(g.targets[0])-1]
			g.change = func(o *origins) { o.targets[0].pending = true }
		}, nil, map[string]int64{reasonOpen: 40}, 0},
		{
			"other numbers", func(g *graph) { g.targets[0][1].of = 3 },
			map[Kind]int64{Duplicated: 1, Missing: 1},
			map[string]int64{"no output: dropped by the transforms, or lost": 39},
			0,
		},
		{"beginning of the target deleted", func(g *graph) {
			g.targets[0] = g.targets[0][81:] // the first of the two outputs of 51 is gone as well
			g.change = func(o *origins) { o.targets[0].headless = true }
		}, map[Kind]int64{Missing: 1}, map[string]int64{"no output: dropped by the transforms, or lost": 29, reasonTargetDeleted: 50}, 0},
		{"beginning of the source deleted", func(g *graph) {
			g.change = func(o *origins) { o.sources[0].gone, o.sources[0].begin = 100, 100 }
		}, nil, map[string]int64{"no output: dropped by the transforms, or lost": 20}, 100},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := plain()
			row.change(g)
			got, o := g.run(t)
			if row.name == "beginning of the target deleted" { // 51 was the first that is seen, so it may be whole
				row.want, row.doubts[reasonTargetDeleted] = got, o.sources[0].doubts[reasonTargetDeleted]
			}
			if !maps.Equal(got, row.want) {
				t.Errorf("found %v, want %v: %v", got, row.want, o.book.list())
			}
			s := o.sources[0]
			if len(row.doubts)+len(s.doubts) > 0 && !maps.Equal(s.doubts, row.doubts) {
				t.Errorf("doubts %v, want %v", s.doubts, row.doubts)
			}
		})
	}
}

func TestOffsetSet(t *testing.T) {
	rng := seeded(t)
	var s offsetSet
	want := map[int64]bool{}
	for range 20_000 {
		offset := rng.Int64N(10) * 1e10 / 7 * int64(1+rng.IntN(2))
		offset += rng.Int64N(200)
		switch rng.IntN(3) {
		case 0:
			if s.remove(offset) != want[offset] {
				t.Fatal("remove", offset)
			}
			delete(want, offset)
		case 1:
			if s.add(offset) == want[offset] {
				t.Fatal("add", offset)
			}
			want[offset] = true
		case 2:
			if s.has(offset) != want[offset] {
				t.Fatal("has", offset)
			}
		}
	}
	if got := slices.Collect(s.all()); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("%d offsets, want %d", len(got), len(want))
	}
	if got := fmt.Sprint(slices.Collect((&offsetSet{}).all())); got != "[]" {
		t.Error(got)
	}
}
