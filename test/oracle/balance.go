package oracle

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// positionsTopic is where groups keep their positions. A position that is
// committed in a transaction is a record of that transaction there.
const positionsTopic = "__consumer_offsets"

// balance holds, transaction by transaction, output against positions: the
// output of a committed transaction is the image of the input between the
// positions before it and its own. With nothing torn that makes the visible
// output the image of the input below the positions at every instant.
type balance struct {
	contents map[Producer]*content // of transactions that are not judged yet
	queue    []*content            // those with positions, in the order of their last position record
	turn     int64                 // of the last position record
	below    map[Source]int64      // records below the position of the last judged content
	last     map[Source]int64      // that position

	apart, backward Finding
}

func newBalance() balance {
	return balance{
		contents: make(map[Producer]*content), below: make(map[Source]int64), last: make(map[Source]int64),
	}
}

// content is what one transaction holds, or a commit of positions outside of any.
type content struct {
	producer  Producer
	plain     bool
	place     place // of its positions
	offset    int64 // of its last position record
	spans     map[Source]*span
	positions map[Source]int64 // -1 = deleted
	turn      int64            // of its last position record; 0 = none
}

// span is the output that stems from one input partition.
type span struct{ first, last, count int64 }

// wrote adds an output record to its transaction.
func (x *Transactions) wrote(p Producer, r *kgo.Record) {
	o, err := OriginOf(r)
	if x.group == "" || err != nil {
		return // the checker finds a record without origin, if it is ever visible
	}
	known := x.overall[p.ID].at(p.Epoch)
	if known&isJudged != 0 {
		x.balance.apart.add("%s/%d@%d: %s of %s, which was complete", r.Topic, r.Partition, r.Offset, o, p)
	}
	if known&(isJudged|isAborted) != 0 {
		return
	}
	c := x.content(p)
	s := c.spans[o.Source]
	if s == nil {
		s = &span{first: o.Seq, last: o.Seq}
		c.spans[o.Source] = s
	}
	s.first, s.last = min(s.first, o.Seq), max(s.last, o.Seq)
	s.count++
}

func (x *Transactions) content(p Producer) *content {
	c := x.balance.contents[p]
	if c == nil {
		c = &content{producer: p, spans: make(map[Source]*span), positions: make(map[Source]int64)}
		x.balance.contents[p] = c
	}
	return c
}

// position takes a record of the positions' topic. Of two records the later one
// holds, whatever the order in which their transactions end; so a transaction's
// turn is that of its last one.
func (x *Transactions) position(part Source, p Producer, r *kgo.Record) {
	source, at, ok := parsePosition(r, x.group)
	if !ok {
		return
	}
	b := &x.balance
	b.turn++
	c := &content{plain: true, positions: make(map[Source]int64)}
	if r.Attrs.IsTransactional() {
		x.enter(part, p, r.Offset)
		c = x.content(p)
		b.queue = slices.DeleteFunc(b.queue, func(other *content) bool { return other == c })
	}
	c.place, c.offset, c.turn = place{part: part, id: p.ID}, r.Offset, b.turn
	c.positions[source] = at
	b.queue = append(b.queue, c)
}

// parsePosition reads a position record of the group; -1 says that the position
// was deleted.
func parsePosition(r *kgo.Record, group string) (s Source, at int64, ok bool) {
	if group == "" || len(r.Key) < 2 || binary.BigEndian.Uint16(r.Key) > 1 {
		return s, 0, false // of the group's membership
	}
	var key kmsg.OffsetCommitKey
	if err := key.ReadFrom(r.Key); err != nil || key.Group != group {
		return s, 0, false
	}
	s = Source{Topic: key.Topic, Partition: key.Partition}
	if len(r.Value) < 10 {
		return s, -1, true
	}
	return s, int64(binary.BigEndian.Uint64(r.Value[2:])), true // behind the version, in each of them
}

// weigh judges the contents whose turn came before the mark, as far as they are
// decided, in their order.
func (x *Transactions) weigh(m mark) {
	b := &x.balance
	for _, p := range m.bare {
		if c := b.contents[p]; c != nil && c.turn == 0 {
			b.apart.add("%s is committed without positions: %s", p, c)
			x.judged(c)
		}
	}
	for len(b.queue) > 0 && b.queue[0].turn <= m.turn {
		c := b.queue[0]
		known := isCommitted
		if !c.plain {
			known = x.places[c.place].at(c.producer.Epoch) & isEnded
		}
		if known == 0 || known&isCommitted != 0 && !x.compare(c) {
			return // its turn comes again
		}
		b.queue = b.queue[1:]
		x.judged(c)
	}
	for p := range b.contents { // aborted ones without positions
		if b.contents[p].turn == 0 && x.overall[p.ID].at(p.Epoch)&isEnded == isAborted {
			delete(b.contents, p)
		}
	}
}

func (x *Transactions) judged(c *content) {
	if !c.plain {
		delete(x.balance.contents, c.producer)
		grow(x.overall, c.producer.ID).add(c.producer.Epoch, isJudged)
	}
}

// compare judges one content; false if the feed does not know yet where all of
// its records lie.
func (x *Transactions) compare(c *content) bool {
	b := &x.balance
	ends := make(map[Source]int64, len(c.positions))
	for s, at := range c.positions {
		if at < 0 {
			continue
		}
		n, certain := x.checker.input.certainBelow(s, at)
		if !certain {
			return false
		}
		ends[s] = n
	}
	for s, at := range c.positions {
		if at < 0 {
			delete(b.last, s)
			delete(b.below, s)
			continue
		}
		last, known := b.last[s]
		if known && at < last {
			b.backward.add("%s: from %d to %d, by %s", s, last, at, c)
		}
		if known || !c.plain { // the first plain one is where the bridge begins
			x.compareSpan(c, s, b.below[s], ends[s])
		}
		b.last[s], b.below[s] = at, ends[s]
	}
	for s, out := range c.spans {
		if _, ok := c.positions[s]; !ok {
			b.apart.add("%s: %d records from %d on, without a position, by %s", s, out.count, out.first, c)
		}
	}
	return true
}

// compareSpan wants the records of s in [from, to) that are not to be dropped.
func (x *Transactions) compareSpan(c *content, s Source, from, to int64) {
	var out span
	if has := c.spans[s]; has != nil {
		out = *has
	}
	wanted := x.checker.countWanted(s, from, to)
	if out.count == wanted && (wanted == 0 || out.first >= from && out.last < to) {
		return
	}
	x.balance.apart.add("%s: positions go over [%d, %d) with %d records that are wanted, the output has %d, %d to %d, by %s",
		s, from, to, wanted, out.count, out.first, out.last, c)
}

// String names a content for an example.
func (c *content) String() string {
	if c.plain {
		return "a plain commit"
	}
	return c.producer.String()
}
