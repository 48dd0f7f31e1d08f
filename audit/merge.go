package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// The comparison by content.
//
// The bridge keeps the order of each source partition within each target partition. A target partition is therefore
// a merge of the source partitions that go there, each thinned out to what belongs there; with one source partition
// that is the partition itself. Target partitions are read one record at a time: the record has to be at the head of
// one of the queues that the source partitions fill. If it is not, something is wrong or several things are, and
// what follows only gives them names; see differ.go.
//
// A source partition may feed several target partitions, so reading on for one of them fills the queues of the
// others. Each target partition goes as far as it can before anything is read, which keeps the queues as short as the
// bridge's own order allows. What lies in queues is bounded all the same.
//
// Rejected: sorting or hashing both sides into buckets on disk, which needs no order at all. It tells the same
// multisets apart, but not their order, and needs a disk as large as the topic.

// pull answers the next records of a partition, io.EOF after the last. What it answers is overwritten by the next
// call.
type pull func(ctx context.Context) ([]item, error)

// Limits bound the memory of a comparison. The zero value of a field stands for its default.
type Limits struct {
	// Held is how many records of the source may wait for their target partition.
	Held int
	// Window is how far behind a record that does not fit the source is searched for it.
	Window int
	// Faults is how many faults one target partition may have before it is given up.
	Faults int
}

func (l Limits) orDefaults() Limits {
	set := func(n *int, otherwise int) {
		if *n <= 0 {
			*n = otherwise
		}
	}
	set(&l.Held, 2_000_000)
	set(&l.Window, 1<<20)
	set(&l.Faults, 100_000)
	return l
}

// source is a source partition within a merge.
type source struct {
	*side
	open     func(from int64) pull
	pull     pull
	ended    bool // the log is read to its end
	headless bool // it is not known where the bridge began
	chosen   bool // --from says where the bridge began, and the log reaches back there
	position int64
	other    bool              // the position is not of this log
	letters  map[int64]*letter // by offset
	dead     int64             // dead letters of audited records
	suspect  int64             // offset of a record that was taken though another one looked alike
}

// target is a target partition within a merge.
type target struct {
	*side
	open     func(from int64) pull
	pull     pull
	ended    bool
	chunk    []item
	queues   []*queue // by source
	headless bool     // its log no longer begins with the first record

	tie       *tie // records that are alike
	ambiguous bool // what followed them fitted none of them
	lost      bool // given up
	pending   bool // a transaction is open: not all of it is visible
	unnamed   int64
	differ
}

// queue holds the records of one source partition that one target partition waits for.
type queue struct {
	items []item
	head  int
	done  int64 // offset of the last record that left, plus 1
	begun bool  // a record of it was seen in the target
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) push(it *item) {
	if q.head > 1024 && q.head > len(q.items)/2 {
		q.items = q.items[:copy(q.items, q.items[q.head:])]
		q.head = 0
	}
	q.items = append(q.items, *it)
}

// pop takes the first record away; the pointer is good until the next push.
func (q *queue) pop() *item {
	it := &q.items[q.head]
	q.head++
	q.done = it.offset + 1
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return it
}

// merge compares a set of source partitions with the target partitions that they feed, and nobody else.
type merge struct {
	sources []*source
	targets []*target
	limits  Limits
	book    *book
	tail    bool // positions run ahead of the output: at-most-once
	// byName: where the partitions begin does not match, so that only records that name their source can be placed.
	byName bool

	held  int
	wants []bool // sources that somebody waits for
}

// errHeld says that too many records of the source wait.
var errHeld = errors.New("too many records wait for a target partition")

func (m *merge) run(ctx context.Context) error {
	m.wants = make([]bool, len(m.sources))
	for _, s := range m.sources {
		s.pull = s.open(s.begin)
	}
	for _, t := range m.targets {
		t.pull = t.open(t.side.begin)
		t.reset()
	}
	err := m.compare(ctx)
	if errors.Is(err, errHeld) {
		return m.giveUp(ctx)
	}
	if err != nil {
		return err
	}
	return m.settle(ctx)
}

// compare goes on until all partitions are read.
func (m *merge) compare(ctx context.Context) error {
	for {
		clear(m.wants)
		for _, t := range m.targets {
			if err := m.advance(ctx, t); err != nil {
				return err
			}
		}
		left, waiting := m.anyLeft(), false
		for i, s := range m.sources {
			if s.ended || !m.wants[i] && (left || !s.pending()) {
				continue
			}
			waiting = true
			if err := m.fill(ctx, i); err != nil {
				return err
			}
		}
		if waiting {
			continue
		}
		if left {
			return errors.New("broken invariant: the comparison stands still")
		}
		return nil
	}
}

// anyLeft says whether a target partition is not read to its end.
func (m *merge) anyLeft() bool {
	for _, t := range m.targets {
		if !t.ended {
			return true
		}
	}
	return false
}

// pending says whether records that have to have an output may still be unread.
func (s *source) pending() bool { return !s.ended && s.begin < s.committed }

// fill reads the next records of a source into the queues.
func (m *merge) fill(ctx context.Context, i int) error {
	s := m.sources[i]
	chunk, err := s.pull(ctx)
	if errors.Is(err, io.EOF) {
		s.ended = true
		return nil
	}
	if err != nil {
		return err
	}
	finished := !m.anyLeft()
	for k := range chunk {
		it := &chunk[k]
		if it.offset < s.committed {
			s.records++
			s.sum += it.hash
		} else if finished {
			s.ended = true // nobody asks for what has not been committed
			return nil
		}
		if it.to < 0 || int(it.to) >= len(m.targets) {
			continue
		}
		t := m.targets[it.to]
		if t.lost {
			continue
		}
		t.queues[i].push(it)
		m.held++
		if t.ended {
			m.skip(t, i)
		}
	}
	if m.held > m.limits.Held {
		return errHeld
	}
	return nil
}

// leave empties a queue to which no target record comes any more.
func (m *merge) leave(t *target, i int) {
	q := t.queues[i]
	for q.len() > 0 {
		m.skip(t, i)
	}
}

// advance compares what it can of a target partition and marks the sources that it waits for.
func (m *merge) advance(ctx context.Context, t *target) error {
	for !t.ended {
		if len(t.chunk) == 0 {
			chunk, err := t.pull(ctx)
			if errors.Is(err, io.EOF) {
				t.ended = true
				m.finish(t)
				return nil
			}
			if err != nil {
				return err
			}
			t.chunk = chunk
			continue
		}
		if !m.step(t, &t.chunk[0]) {
			return nil
		}
		t.chunk = t.chunk[1:]
	}
	return nil
}

// finish is the end of a target partition: what still waits for it has no output. Sources are not read on here;
// fill goes on with what they hold.
func (m *merge) finish(t *target) {
	if t.tie != nil {
		m.untie(t)
	}
	for i := range t.queues {
		m.leave(t, i)
	}
}

// step compares one target record. It answers false, and changes nothing that matters, if a source has to be read
// first.
func (m *merge) step(t *target, it *item) bool {
	if t.lost {
		t.records++
		t.sum += it.hash
		return true
	}
	if it.from != unnamed {
		if t.tie != nil {
			m.untie(t)
			t.ambiguous = true
		}
		return m.stepNamed(t, it)
	}
	if m.byName {
		t.records++
		t.unnamed++
		t.doubt(reasonUnnamed, 1, nowhere)
		return true
	}
	for i, q := range t.queues {
		if q.len() == 0 && !m.sources[i].ended {
			m.wants[i] = true
			return false
		}
	}
	if t.tie != nil {
		return m.stepTied(t, it)
	}
	fits, more := -1, 0
	for i, q := range t.queues {
		if q.len() > 0 && it.same(&q.items[q.head]) {
			if fits < 0 {
				fits = i
			} else {
				more++
			}
		}
	}
	switch {
	case fits < 0:
		return m.stepOdd(t, it)
	case more == 0:
		m.match(t, fits, it)
	default:
		t.tie = &tie{item: *it, owed: 1}
		for i, q := range t.queues {
			if q.len() > 0 && it.same(&q.items[q.head]) {
				t.tie.queues = append(t.tie.queues, i)
			}
		}
	}
	return true
}

// match takes the head of a queue as the source of a target record.
func (m *merge) match(t *target, i int, it *item) {
	q := t.queues[i]
	due := q.pop().offset < m.sources[i].committed
	m.held--
	q.begun = true
	t.gap, t.index = 0, nil
	t.note(it, due)
}

// note counts a target record.
func (t *target) note(it *item, due bool) {
	if !due {
		t.aside(asideLater, 1)
		return
	}
	t.records++
	t.sum += it.hash
}

// stepNamed compares a record with the one it names.
func (m *merge) stepNamed(t *target, it *item) bool {
	if it.from < 0 || int(it.from) >= len(m.sources) {
		t.records++
		t.doubt("the record's provenance names a partition that is no input of this one: from before a change of the configuration, or from another writer", 1, nowhere)
		return true
	}
	i := int(it.from)
	s, q := m.sources[i], t.queues[i]
	switch {
	case it.origin < s.gone:
		t.aside(asideDeleted, 1)
		return true
	case it.origin < s.begin:
		t.aside(asideBefore, 1)
		return true
	case it.origin >= s.end:
		t.records++
		m.book.find(Orphaned, s.side, -1, t.side, it.offset, fmt.Sprintf("names source offset %d, the log ends at %d", it.origin, s.end))
		return true
	}
	for {
		if q.len() == 0 {
			if !s.ended {
				m.wants[i] = true
				return false
			}
			break
		}
		if q.items[q.head].offset >= it.origin {
			break
		}
		m.skip(t, i)
	}
	if q.len() == 0 || q.items[q.head].offset > it.origin {
		m.strayNamed(t, it)
		return true
	}
	head := q.items[q.head]
	m.match(t, i, it)
	if !it.same(&head) {
		m.book.find(Altered, s.side, head.offset, t.side, it.offset, "")
	}
	return true
}

// giveUp ends a comparison that would need too much memory: what is left is counted only.
func (m *merge) giveUp(ctx context.Context) error {
	for _, t := range m.targets {
		for _, q := range t.queues {
			*q = queue{}
		}
		t.tie = nil
		t.doubt(reasonHeld, 0, nowhere)
		for !t.ended {
			for k := range t.chunk {
				t.note(&t.chunk[k], true)
			}
			var err error
			t.chunk, err = t.pull(ctx)
			if t.ended = errors.Is(err, io.EOF); err != nil && !t.ended {
				return err
			}
		}
	}
	for _, s := range m.sources {
		s.doubt(reasonHeld, 0, s.begin)
		for s.pending() {
			chunk, err := s.pull(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if !s.count(chunk) {
				break
			}
		}
	}
	return nil
}

// count takes the records of a chunk that are below the committed position into the side's sums, and answers false
// when the chunk ends beyond it.
func (s *side) count(chunk []item) bool {
	for k := range chunk {
		if chunk[k].offset >= s.committed {
			return false
		}
		s.records++
		s.sum += chunk[k].hash
	}
	return true
}
