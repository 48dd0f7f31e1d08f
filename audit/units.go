package audit

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/eosbridge/eosbridge/offsets"
)

// method is how a unit is compared.
type method int

const (
	byCount method = iota
	byContent
	byOrigin
)

func (m method) String() string {
	switch m {
	case byContent:
		return "content"
	case byOrigin:
		return "provenance"
	case byCount:
	}
	return "counts"
}

// unit is the smallest set of partitions that can be compared by itself.
type unit struct {
	method  method
	sources []*source
	targets []*target

	byKey, provenance bool
	unaligned         bool   // the two sides do not begin with the same record
	byName            bool   // only records that name their source can be placed
	reason            string // why there is nothing to compare with
	ids               map[string][16]byte
}

// length is how many offsets there are to read.
func (u *unit) length() int64 {
	var n int64
	for _, s := range u.sources {
		n += max(0, s.committed-s.begin)
	}
	for _, t := range u.targets {
		n += max(0, t.end-t.side.begin)
	}
	return n
}

// plan divides the pipeline into units.
func plan(o *Options, s *snapshot) []*unit {
	var units []*unit
	names := slices.Sorted(maps.Keys(s.outputs))
	add := func(inputs []string, outputs []string, partition int32) {
		u := &unit{byKey: o.ByKey, provenance: o.Provenance, ids: map[string][16]byte{}}
		for _, in := range inputs {
			u.ids[in] = s.inputs[in].id
			for p := range int32(s.inputs[in].partitions) { //nolint:gosec // Kafka's partitions are int32
				if partition < 0 || p == partition {
					u.sources = append(u.sources, s.source(o, offsets.TopicPartition{Topic: in, Partition: p}))
				}
			}
		}
		for _, out := range outputs {
			u.ids[out] = s.outputs[out].id
			for p := range int32(s.outputs[out].partitions) { //nolint:gosec // as above
				if partition < 0 || p == partition {
					u.targets = append(u.targets, s.target(offsets.TopicPartition{Topic: out, Partition: p}))
				}
			}
		}
		u.choose(o)
		units = append(units, u)
	}
	each := func(inputs, outputs []string) {
		if o.ByKey {
			add(inputs, outputs, -1)
			return
		}
		widest := 0
		for _, in := range inputs {
			widest = max(widest, s.inputs[in].partitions)
		}
		for _, out := range outputs {
			widest = max(widest, s.outputs[out].partitions)
		}
		for p := range int32(widest) { //nolint:gosec // as above
			add(inputs, outputs, p)
		}
	}
	if !o.Identity {
		each(slices.Sorted(maps.Keys(s.inputs)), names)
		return units
	}
	for _, out := range names {
		each(s.feeds[out], []string{out})
	}
	return units
}

// choose decides how the unit is compared.
func (u *unit) choose(o *Options) {
	for _, s := range u.sources {
		u.unaligned = u.unaligned || s.headless || s.gone > 0 && !s.chosen
	}
	for _, t := range u.targets {
		u.unaligned = u.unaligned || t.headless
		t.queues = make([]*queue, len(u.sources))
		for i := range u.sources {
			t.queues[i] = &queue{}
		}
	}
	other := slices.ContainsFunc(u.sources, func(s *source) bool { return s.other })
	single := len(u.sources) == 1 && len(u.targets) == 1
	switch {
	case other:
		u.reason = "a committed position lies beyond the end of the source: was the topic made anew, or did it lose records?"
	case !o.Identity && o.Provenance:
		u.method = byOrigin
	case !o.Identity:
		u.reason = "the pipeline transforms records: only provenance headers (BRIDGE_PROVENANCE=true) say which output belongs to which input"
	case u.unaligned && !o.Provenance && !single && len(u.sources) > 0:
		u.reason = "several source partitions in one target, whose beginnings do not match (retention or BRIDGE_START): only provenance headers, or --from, would tell"
	default:
		u.method = byContent
		u.byName = u.unaligned && o.Provenance
	}
}

// source describes a source partition.
func (s *snapshot) source(o *Options, tp offsets.TopicPartition) *source {
	x := &source{side: newSide(tp)}
	x.gone, x.end = s.starts[tp], s.ends[tp]
	x.begin = x.gone
	x.compacted = s.inputs[tp.Topic].compacted || !s.inputs[tp.Topic].configured
	from, chosen := s.from[tp]
	if chosen {
		x.begin = max(x.begin, from)
	}
	x.begin0 = x.begin
	x.chosen = chosen && from >= x.gone
	x.headless = !chosen && (o.Start.Kind == offsets.StartLatest || o.Start.Kind == offsets.StartTime)
	committed, ok := s.committed[tp]
	switch {
	case !ok:
		x.committed = x.begin
		if x.end > x.begin {
			x.doubt("the group has no committed position for it", 0, x.begin)
		}
	case committed > x.end:
		x.committed, x.other = x.end, true
	case committed < x.gone:
		x.committed = x.begin
		x.doubt("retention has deleted records that were never read", x.gone-committed, x.begin)
	default:
		x.committed = max(committed, x.begin)
	}
	x.position = committed
	if !ok {
		x.position = -1
	}
	return x
}

// target describes a target partition.
func (s *snapshot) target(tp offsets.TopicPartition) *target {
	x := &target{side: newSide(tp)}
	x.gone, x.end = s.starts[tp], s.ends[tp]
	x.side.begin = x.gone
	x.headless = x.gone > 0
	x.compacted = s.outputs[tp.Topic].compacted || !s.outputs[tp.Topic].configured
	if x.pending = s.open[tp]; x.pending {
		x.doubt("a transaction is still open there: nothing behind it is visible", 0, nowhere)
	}
	return x
}

// connect lets the sides read.
func (u *unit) connect(ctx context.Context, c *cluster, b *book) {
	index := u.index()
	partitions := len(u.targets)
	for _, s := range u.sources {
		number := s.Partition
		convert := func(r *view) item {
			it := item{offset: r.offset, time: r.time}
			it.hash, it.key = contentOf(r, u.provenance)
			if u.byKey && partitions > 0 {
				it.to = partitionOf(r.key, number, partitions)
			}
			return it
		}
		s.open = func(from int64) pull {
			return s.without(c.start(ctx, reading{TopicPartition: s.TopicPartition, id: u.ids[s.Topic], from: from, end: s.end, convert: convert}), b)
		}
	}
	for _, t := range u.targets {
		convert := func(r *view) item {
			it := item{offset: r.offset, time: r.time, appended: r.appended, from: unnamed}
			it.hash, it.key = contentOf(r, u.provenance)
			if u.provenance {
				it.named(r.headers, index)
			}
			return it
		}
		t.open = func(from int64) pull {
			return c.start(ctx, reading{TopicPartition: t.TopicPartition, id: u.ids[t.Topic], from: from, end: t.end, convert: convert})
		}
	}
}

// index finds the number of a source partition.
func (u *unit) index() func([]byte, int32) int32 {
	known := map[string][]int32{}
	for i, s := range u.sources {
		list := known[s.Topic]
		for len(list) <= int(s.Partition) {
			list = append(list, foreign)
		}
		list[s.Partition] = int32(i) //nolint:gosec // there are fewer partitions
		known[s.Topic] = list
	}
	return func(topic []byte, partition int32) int32 {
		list := known[string(topic)]
		if int(partition) >= len(list) {
			return foreign
		}
		return list[partition]
	}
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) }
