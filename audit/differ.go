package audit

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
)

// What a merge does with a record that is at the head of no queue. In this order:
//
//  1. It was skipped before: it is late, so out of order.
//  2. It stands further behind in a queue, and the next target record is not the head of that queue: the records
//     before it are skipped. They may come late; at the end they are missing.
//  3. Otherwise it is odd: altered, doubled, early or from nowhere. What it was is decided at the end, when all of the
//     source has been seen, if need be by reading the source a second time (settle).
//
// A skipped record and an odd one between the same two neighbours, or with the same key, are one record that was
// altered, unless the one turns up late or the other is found in the source.

// differ is the account of what does not fit in one target partition.
type differ struct {
	late  map[uint64][]*skipped // by hash
	named map[sourceOffset]*skipped
	odd   []*oddity
	skips []*skipped
	gap   int // odd records since the last one that fitted
	found int // faults so far

	index map[uint64]spot // of the queues, while there is a gap
	deep  []int           // how far each queue is indexed
}

// spot is a record's place in the queues.
type spot struct{ source, depth int }

type sourceOffset struct {
	source int
	offset int64
}

// skipped is a source record that was passed over.
type skipped struct {
	item
	source int
	pair   *oddity // taken for it
	came   bool
	due    bool // it has to have an output
	last   bool // skipped at the end of the target
}

// oddity is a target record that did not fit.
type oddity struct {
	item
	pair    *skipped
	settled bool
}

func (d *differ) reset() {
	d.late, d.named = map[uint64][]*skipped{}, map[sourceOffset]*skipped{}
}

// stepOdd looks for a record that fits no head.
func (m *merge) stepOdd(t *target, it *item) bool {
	if late := t.takeLate(it); late != nil {
		m.cameLate(t, late, it)
		return true
	}
	where, found, ready := m.search(t, it)
	if !ready {
		return false
	}
	if found && where.depth > 0 {
		next, known := m.following(t)
		if q := t.queues[where.source]; !known || !next.same(&q.items[q.head]) {
			m.skipTo(t, where)
			m.match(t, where.source, it)
			t.index = nil
			return true
		}
	}
	m.stray(t, it)
	return true
}

// following is the target record after the present one, if it is at hand.
func (m *merge) following(t *target) (*item, bool) {
	if len(t.chunk) < 2 {
		return nil, false
	}
	return &t.chunk[1], true
}

// search looks for a record behind the heads. How far it looks grows with the gap: a single record is not worth
// reading a million of the source, a long gap is. ready is false if sources have to be read first.
func (m *merge) search(t *target, it *item) (where spot, found, ready bool) {
	window := min(1024+16*t.gap, m.limits.Window, max(16, m.limits.Held/(4*max(1, len(m.sources)*len(m.targets)))))
	ready = true
	for i, q := range t.queues {
		if q.len() < window && !m.sources[i].ended {
			m.wants[i], ready = true, false
		}
	}
	if !ready {
		return spot{}, false, false
	}
	if t.index == nil {
		t.index = map[uint64]spot{}
		t.deep = make([]int, len(t.queues))
	}
	for i, q := range t.queues {
		for ; t.deep[i] < min(window, q.len()); t.deep[i]++ {
			h := q.items[q.head+t.deep[i]].hash
			if _, there := t.index[h]; !there {
				t.index[h] = spot{i, t.deep[i]}
			}
		}
	}
	where, found = t.index[it.hash]
	if !found {
		return spot{}, false, true
	}
	q := t.queues[where.source]
	return where, it.same(&q.items[q.head+where.depth]), true
}

// skip passes over the head of a queue.
func (m *merge) skip(t *target, i int) {
	s, q := m.sources[i], t.queues[i]
	it := *q.pop()
	m.held--
	t.index = nil
	due := it.offset < s.committed // else it may have no output yet, but not a late one either
	switch {
	case !due && t.ended:
		return
	case !due:
	case !q.begun && t.headless:
		s.doubt(reasonTargetDeleted, 1, it.offset)
		return
	case !q.begun && m.byName && t.unnamed > 0:
		s.doubt(reasonUnnamed, 1, it.offset)
		return
	case !q.begun && s.headless:
		s.doubt(reasonStart, 1, it.offset)
		return
	case t.pending && t.ended:
		s.doubt(reasonOpen, 1, it.offset)
		return
	case m.tail && t.ended:
		s.doubt(reasonAtMostOnce, 1, it.offset)
		return
	}
	late := &skipped{item: it, source: i, due: due, last: t.ended}
	t.late[it.hash] = append(t.late[it.hash], late)
	t.named[sourceOffset{i, it.offset}] = late
	if due {
		t.pairByKey(late)
		t.skips = append(t.skips, late)
	}
	m.fault(t)
}

// skipTo passes over the records before a place, and takes those for the odd records of the gap, in order, that their
// keys have not told already.
func (m *merge) skipTo(t *target, where spot) {
	gap := t.thisGap()
	t.skips = t.skips[:0]
	for range where.depth {
		m.skip(t, where.source)
	}
	for _, o := range gap {
		if o.pair != nil || o.from != unnamed {
			continue
		}
		for _, late := range t.skips {
			if late.pair == nil && late.due {
				o.pair, late.pair = late, o
				break
			}
		}
	}
	t.skips = t.skips[:0]
}

// thisGap are the odd records since the last one that fitted.
func (t *target) thisGap() []*oddity { return t.odd[max(0, len(t.odd)-t.gap):] }

// pairByKey takes a skipped record for an odd one with its key: of this gap, or, where the target is a merge of
// several source partitions, a little earlier.
func (t *target) pairByKey(late *skipped) {
	const near = 64
	some := t.thisGap()
	if len(t.queues) > 1 && late.key != 0 {
		some = t.odd[max(0, len(t.odd)-near):]
	}
	for _, o := range some {
		if o.pair == nil && o.from == unnamed && o.key == late.key {
			o.pair, late.pair = late, o
			return
		}
	}
}

// fault counts, and gives a partition up that has too many.
func (m *merge) fault(t *target) {
	t.found++
	if t.found < m.limits.Faults || t.lost {
		return
	}
	t.lost = true
	for i, q := range t.queues {
		m.held -= q.len()
		*q = queue{}
		m.sources[i].first = min(m.sources[i].first, m.sources[i].begin)
	}
	t.doubt("too many faults: the comparison of this partition was given up", 0, nowhere)
}

func (t *target) takeLate(it *item) *skipped {
	for _, late := range t.late[it.hash] {
		if !late.came && it.same(&late.item) {
			return late
		}
	}
	return nil
}

// cameLate notes a skipped record that turned up.
func (m *merge) cameLate(t *target, late *skipped, it *item) {
	late.came = true
	if late.pair != nil {
		late.pair.pair, late.pair = nil, nil
	}
	t.records++
	t.sum += it.hash
	m.report(t, OutOfOrder, m.sources[late.source], late.offset, it.offset, "")
}

// stray keeps a record that fits nowhere.
func (m *merge) stray(t *target, it *item) {
	t.records++
	t.sum += it.hash
	t.gap++
	t.odd = append(t.odd, &oddity{item: *it})
	m.fault(t)
}

// strayNamed is a record whose source record has been passed, or does not exist.
func (m *merge) strayNamed(t *target, it *item) {
	late := t.named[sourceOffset{int(it.from), it.origin}]
	if late == nil || late.came {
		m.stray(t, it)
		return
	}
	m.cameLate(t, late, it)
	if !it.same(&late.item) {
		m.book.find(Altered, m.sources[late.source].side, late.offset, t.side, it.offset, "")
	}
}

// settle decides what skipped and odd records were.
func (m *merge) settle(ctx context.Context) error {
	open := 0
	for _, t := range m.targets {
		m.pairAtEnd(t)
		for _, o := range t.odd {
			if late := t.takeLate(&o.item); late != nil && o.from == unnamed { // it came early
				o.settled = true
				o.unpair()
				late.came = true
				if late.pair != nil {
					late.pair.pair, late.pair = nil, nil
				}
				m.report(t, OutOfOrder, m.sources[late.source], late.offset, o.offset, "")
				continue
			}
			open++
		}
	}
	if open > 0 {
		if err := m.readAgain(ctx); err != nil {
			return err
		}
	}
	for _, t := range m.targets {
		m.conclude(t)
	}
	return nil
}

func (o *oddity) unpair() {
	if o.pair != nil {
		o.pair.pair, o.pair = nil, nil
	}
}

// pairAtEnd pairs the odd records at the end of a target partition with those that the source still had, in order,
// where the keys gave no hint: the key itself may have been altered.
func (m *merge) pairAtEnd(t *target) {
	if len(t.queues) != 1 {
		return
	}
	var left []*skipped
	for _, some := range t.late {
		for _, late := range some {
			if late.last && !late.came && late.due && late.pair == nil {
				left = append(left, late)
			}
		}
	}
	slices.SortFunc(left, func(a, b *skipped) int { return cmp.Compare(a.offset, b.offset) })
	for _, o := range t.thisGap() {
		if o.pair == nil && o.from == unnamed && len(left) > 0 {
			o.pair, left[0].pair = left[0], o
			left = left[1:]
		}
	}
}

// readAgain looks every odd record up in all of the source.
func (m *merge) readAgain(ctx context.Context) error {
	byHash := map[uint64][]*oddity{}
	byName := map[sourceOffset][]*oddity{}
	at := map[*oddity]int{}
	for n, t := range m.targets {
		for _, o := range t.odd {
			switch {
			case o.settled:
			case o.from >= 0:
				byName[sourceOffset{int(o.from), o.origin}] = append(byName[sourceOffset{int(o.from), o.origin}], o)
			default:
				byHash[o.hash] = append(byHash[o.hash], o)
			}
			at[o] = n
		}
	}
	for i, s := range m.sources {
		next := s.open(s.gone) // from before the start, too: --from may be wrong
		for {
			chunk, err := next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			for k := range chunk {
				it := &chunk[k]
				for _, o := range byHash[it.hash] {
					if !o.settled && o.same(it) {
						m.foundAgain(m.targets[at[o]], o, i, it, int(it.to) == at[o])
					}
				}
				for _, o := range byName[sourceOffset{i, it.offset}] {
					if !o.settled {
						o.settled = true
						m.report(m.targets[at[o]], Duplicated, s, it.offset, o.offset, "")
					}
				}
			}
		}
	}
	return nil
}

// foundAgain is an odd record that is in the source after all.
func (m *merge) foundAgain(t *target, o *oddity, i int, it *item, here bool) {
	s := m.sources[i]
	o.settled = true
	o.unpair()
	if it.offset < s.begin {
		t.doubt(reasonBefore, 1, nowhere)
		return
	}
	if here {
		kind := Duplicated
		if it.offset >= t.queues[i].done {
			kind = OutOfOrder // ahead of its turn, and its turn has not come
		}
		m.report(t, kind, s, it.offset, o.offset, "")
		return
	}
	t.doubt(reasonMisplaced, 1, nowhere)
	if it.to >= 0 && int(it.to) < len(m.targets) {
		if late := m.targets[it.to].takeLate(&o.item); late != nil {
			late.came = true
			s.doubt(reasonMisplaced, 1, it.offset)
		}
	}
}

// conclude reports what is left of a target partition's account.
func (m *merge) conclude(t *target) {
	for _, o := range t.odd {
		switch {
		case o.settled:
		case o.pair != nil:
			m.report(t, Altered, m.sources[o.pair.source], o.pair.offset, o.offset, "")
		case m.anyCompacted():
			t.doubt(reasonCompactedSource, 1, nowhere)
		default:
			m.report(t, Orphaned, nil, -1, o.offset, "")
		}
	}
	for _, some := range t.late {
		for _, late := range some {
			switch {
			case late.came || late.pair != nil || !late.due:
			case t.unnamed > 0:
				m.sources[late.source].doubt(reasonUnnamed, 1, late.offset)
			case t.compacted:
				m.sources[late.source].doubt(reasonCompactedTarget, 1, late.offset)
			default:
				m.report(t, Missing, m.sources[late.source], late.offset, -1, "")
			}
		}
	}
}

func (m *merge) anyCompacted() bool {
	for _, s := range m.sources {
		if s.compacted {
			return true
		}
	}
	return false
}

// report notes a fault, or the doubt in its place where two source records looked alike: the comparison may have
// taken the wrong one, and what followed may be no fault at all.
func (m *merge) report(t *target, kind Kind, s *source, from, at int64, detail string) {
	if t.ambiguous {
		t.doubt(reasonAlike, 1, nowhere)
		if s != nil {
			s.doubt(reasonAlike, 1, from)
		}
		return
	}
	if s == nil {
		m.book.find(kind, nil, -1, t.side, at, detail)
		return
	}
	m.book.find(kind, s.side, from, t.side, at, detail)
}

// Why something cannot be told.
const (
	reasonTargetDeleted   = "the output may be deleted (retention of the target)"
	reasonStart           = "no output: before the bridge's start (BRIDGE_START), or lost; say where it began with --from"
	reasonBefore          = "the source record lies below --from"
	reasonUnnamed         = "no provenance headers, and the topics do not begin with the same record"
	reasonOpen            = "no output yet: a transaction is open on the target"
	reasonAtMostOnce      = "no output yet: at-most-once commits positions before the output is written, or loses it"
	reasonCompactedSource = "no such source record: it comes from nowhere, or compaction took the source record away (the topic is compacted, or its cleanup.policy may not be read: DescribeConfigs)"
	reasonCompactedTarget = "no output: lost, or compaction took it away (the topic is compacted, or its cleanup.policy may not be read: DescribeConfigs)"
	reasonMisplaced       = "in another partition than its key asks for: partitions were added to the target, or it was misplaced"
	reasonAlike           = "does not fit, but records of two source partitions were alike before it: provenance headers would tell"
	reasonHeld            = "order and identity: the source partitions lie too far apart in the target; provenance headers would tell"
)

// Why records are not audited.
const (
	asideDeleted = "their source records are deleted (retention)"
	asideBefore  = "their source records lie below --from"
	asideLater   = "beyond the committed positions: not audited yet"
)
