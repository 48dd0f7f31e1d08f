package oracle

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Checker holds what is read against what was fed. It does no I/O. Its methods
// may be called from several goroutines.
type Checker struct {
	form  Form
	input *Input
	place func(*kgo.Record) int32

	mu       sync.Mutex
	seen     map[Source]*bits
	highest  map[Source]int64
	lastSeq  map[route]int64
	outputs  map[Source]*journal // by output partition
	out      int64
	verdict  Verdict // findings so far; In, Out and Lost are filled in at the end
	newcomer chan struct{}
	skipped  map[Source]int64 // origins with a lower seq are not wanted
}

// route is a source partition's way into one output partition, the scope of order.
type route struct{ from, to Source }

// journal is everything read from one output partition, by offset.
type journal struct{ entries []entry }

type entry struct {
	offset int64
	origin Origin // Seq is -1 where the record named none
}

// NewChecker is a checker of output made from input. place, if not nil, names
// the output partition that a record belongs into.
func NewChecker(form Form, input *Input, place func(*kgo.Record) int32) *Checker {
	return &Checker{
		form: form, input: input, place: place,
		seen: make(map[Source]*bits), highest: make(map[Source]int64),
		lastSeq: make(map[route]int64), outputs: make(map[Source]*journal),
		newcomer: make(chan struct{}), skipped: make(map[Source]int64),
	}
}

// Skip says that the records of s with a seq below that are not wanted: the
// bridge was told to begin behind them. It has to be called before any is read.
func (c *Checker) Skip(s Source, below int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped[s] = below
}

// like is a checker of the same output, which has seen nothing yet.
func (c *Checker) like() *Checker {
	fresh := NewChecker(c.form, c.input, c.place)
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(fresh.skipped, c.skipped)
	return fresh
}

// wanted says whether o has to be visible in the end.
func (c *Checker) wanted(o Origin) bool { return o.Seq >= c.skipped[o.Source] && c.form.wanted(o) }

// countWanted is the number of wanted origins of s in [from, to).
func (c *Checker) countWanted(s Source, from, to int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n int64
	for seq := from; seq < to; seq++ {
		if c.wanted(Origin{Source: s, Seq: seq}) {
			n++
		}
	}
	return n
}

// ByKey places keyed records as Kafka's default partitioner does: murmur2 of
// the key over partitions.
func ByKey(partitions int) func(*kgo.Record) int32 {
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic("")
	return func(r *kgo.Record) int32 { return int32(partitioner.Partition(r, partitions)) }
}

// Preserve places a record in the output partition of its source partition's number.
func Preserve(r *kgo.Record) int32 {
	o, err := OriginOf(r)
	if err != nil {
		return -1
	}
	return o.Partition
}

// Observe judges one record that a reader saw.
func (c *Checker) Observe(r *kgo.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out++
	to := Source{Topic: r.Topic, Partition: r.Partition}
	at := fmt.Sprintf("%s@%d", to, r.Offset)
	o, err := OriginOf(r)
	if err != nil {
		o.Seq = -1
	}
	c.write(to, r.Offset, o, at)
	switch {
	case err != nil:
		c.verdict.Foreign.add("%s: %v", at, err)
		return
	case !c.input.Knows(o):
		c.verdict.Foreign.add("%s: %s was never fed", at, o)
		return
	case !c.wanted(o):
		c.verdict.Foreign.add("%s: %s had to be dropped", at, o)
		return
	}
	if diff := differences(c.form.Record(o), r); diff != "" {
		c.verdict.Altered.add("%s: %s: %s", at, o, diff)
	}
	if c.place != nil {
		if want := c.place(r); want != to.Partition {
			c.verdict.Misplaced.add("%s: %s belongs into partition %d", at, o, want)
		}
	}
	c.count(o, to, at)
	close(c.newcomer)
	c.newcomer = make(chan struct{})
}

// write keeps the record for the comparison of readers. Offsets grow in a sound log.
func (c *Checker) write(to Source, offset int64, o Origin, at string) {
	j := c.outputs[to]
	if j == nil {
		j = new(journal)
		c.outputs[to] = j
	}
	if n := len(j.entries); n > 0 && j.entries[n-1].offset >= offset {
		c.verdict.OutOfOrder.add("%s: read after offset %d", at, j.entries[n-1].offset)
	}
	j.entries = append(j.entries, entry{offset: offset, origin: o})
}

// count keeps what was seen; a repeat is a duplicate and nothing else.
func (c *Checker) count(o Origin, to Source, at string) {
	set := c.seen[o.Source]
	if set == nil {
		set = new(bits)
		c.seen[o.Source] = set
	}
	if set.has(o.Seq) {
		c.verdict.Duplicated.add("%s: %s again", at, o)
		return
	}
	set.add(o.Seq)
	c.highest[o.Source] = max(c.highest[o.Source], o.Seq)
	way := route{from: o.Source, to: to}
	if last, ok := c.lastSeq[way]; ok && o.Seq < last {
		c.verdict.OutOfOrder.add("%s: %s behind %d", at, o, last)
	}
	c.lastSeq[way] = max(c.lastSeq[way], o.Seq)
}

// Out is the number of records observed so far.
func (c *Checker) Out() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out
}

// More is closed when another genuine record was observed after this call.
func (c *Checker) More() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newcomer
}

// Highest is the highest origin seen of each source partition.
func (c *Checker) Highest() map[Source]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[Source]int64, len(c.highest))
	for s, seq := range c.highest {
		all[s] = seq
	}
	return all
}

// Missing lists wanted origins of s in [from, to) that were not seen, at most limit.
func (c *Checker) Missing(s Source, from, to int64, limit int) []Origin {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []Origin
	set := c.seen[s]
	for seq := from; seq < to && len(missing) < limit; seq++ {
		o := Origin{Source: s, Seq: seq}
		if (set == nil || !set.has(seq)) && c.wanted(o) {
			missing = append(missing, o)
		}
	}
	return missing
}

// SoFar is the judgement over what was read until now: whatever it finds is
// final, but nothing counts as lost yet.
func (c *Checker) SoFar() Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.verdict
	for _, f := range []*Finding{
		&v.Duplicated, &v.OutOfOrder, &v.Altered, &v.Foreign, &v.Misplaced,
	} {
		*f = f.clone()
	}
	v.Out = c.out
	return v
}

// Final is the judgement after the feed has ended and all output was read.
func (c *Checker) Final() Verdict {
	v := c.SoFar()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.input.Sources() {
		set := c.seen[s]
		for seq := range c.input.Count(s) {
			o := Origin{Source: s, Seq: seq}
			if !c.wanted(o) {
				continue
			}
			v.In++
			if set == nil || !set.has(seq) {
				offset, _ := c.input.Offset(o)
				v.Lost.add("%s, fed at offset %d", o, offset)
			}
		}
	}
	return v
}

// Compare is the final judgement with the disagreements between a reader that
// ran during the faults and this checker's reader, which read afterwards.
// Findings of the earlier reader count as well, where they are not also here.
func (c *Checker) Compare(during *Checker) Verdict {
	v := c.Final()
	early := during.SoFar()
	for _, pair := range [][2]*Finding{
		{&v.Duplicated, &early.Duplicated},
		{&v.OutOfOrder, &early.OutOfOrder},
		{&v.Altered, &early.Altered},
		{&v.Foreign, &early.Foreign},
		{&v.Misplaced, &early.Misplaced},
	} {
		if pair[1].Count > pair[0].Count {
			*pair[0] = *pair[1]
		}
	}
	for _, to := range during.partitions() {
		compareJournals(&v, to, during.entries(to), c.entries(to))
	}
	return v
}

// partitions lists the output partitions that anything was read from.
func (c *Checker) partitions() []Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.outputs), compareSources)
}

func (c *Checker) entries(to Source) []entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.outputs[to]; j != nil {
		return slices.Clone(j.entries)
	}
	return nil
}

// compareJournals walks both in offset order. What follows the earlier reader's
// last record is not a disagreement: it had not read that far.
func compareJournals(v *Verdict, to Source, during, after []entry) {
	i, j := 0, 0
	for i < len(during) {
		switch {
		case j == len(after) || during[i].offset < after[j].offset:
			v.Withdrawn.add("%s@%d: %s", to, during[i].offset, during[i].origin)
			i++
		case during[i].offset > after[j].offset:
			v.Late.add("%s@%d: %s", to, after[j].offset, after[j].origin)
			j++
		default:
			if during[i].origin != after[j].origin {
				v.Withdrawn.add("%s@%d: %s, later %s", to, during[i].offset, during[i].origin, after[j].origin)
			}
			i++
			j++
		}
	}
}

// bits is a growing set of small numbers.
type bits struct{ words []uint64 }

func (b *bits) has(n int64) bool {
	i := int(n / 64)
	return i < len(b.words) && b.words[i]&(1<<(uint(n)%64)) != 0
}

func (b *bits) add(n int64) {
	for int(n/64) >= len(b.words) {
		b.words = append(b.words, 0)
	}
	b.words[n/64] |= 1 << (uint(n) % 64)
}
