package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The comparison by origin.
//
// All target partitions are read first, in step with each other, and each source offset that an output names is
// marked; then the source is read and each record looks for its mark. A mark that is there twice is a duplicate, one
// that no record claims is an orphan. An input with several outputs is kept aside until all of them were seen: with
// target partitions in step these are few.

// mostPartial bounds the inputs of which some outputs were seen and others not yet.
const mostPartial = 1_000_000

// origins compares source partitions with the target partitions that name them.
type origins struct {
	sources []*source
	targets []*target
	book    *book
	every   bool // the user's word: each input has an output
	tail    bool // positions run ahead of the output: at-most-once

	account []*seen // by source
	partial int
	unnamed int64
	orphans map[sourceOffset]bool // offsets that outputs name and no record has, the first of them
}

// seen is what the target says about one source partition.
type seen struct {
	whole offsetSet
	parts map[int64]*partly
	first []int64 // by target partition: the first offset that it names, -1 = none
	last  []mark  // by target partition
	full  bool    // too many partial inputs
}

// mark is the newest output of a source partition in a target partition.
type mark struct {
	offset int64
	output uint32
}

// partly is an input of which not all outputs were seen.
type partly struct {
	of    uint32
	count uint32
	low   uint64          // outputs 1 to 64
	high  map[uint32]bool // the others
	where place
}

// add answers false if the output was there.
func (p *partly) add(output uint32) bool {
	if p.has(output) {
		return false
	}
	p.count++
	if output <= 64 {
		p.low |= 1 << (output - 1)
		return true
	}
	if p.high == nil {
		p.high = map[uint32]bool{}
	}
	p.high[output] = true
	return true
}

func (p *partly) has(output uint32) bool {
	if output <= 64 {
		return p.low&(1<<(output-1)) != 0
	}
	return p.high[output]
}

type place struct {
	target int
	offset int64
}

func (o *origins) run(ctx context.Context) error {
	o.account = make([]*seen, len(o.sources))
	for i := range o.account {
		o.account[i] = &seen{parts: map[int64]*partly{}, first: make([]int64, len(o.targets)), last: make([]mark, len(o.targets))}
		for t := range o.targets {
			o.account[i].first[t], o.account[i].last[t] = -1, mark{offset: -1}
		}
	}
	if err := o.readTargets(ctx); err != nil {
		return err
	}
	o.orphans = map[sourceOffset]bool{}
	for i, s := range o.sources {
		if err := o.readSource(ctx, i, s); err != nil {
			return err
		}
	}
	return o.locate(ctx)
}

// readTargets reads on where the least has been read.
func (o *origins) readTargets(ctx context.Context) error {
	progress := make([]float64, len(o.targets))
	left := len(o.targets)
	for _, t := range o.targets {
		t.pull = t.open(t.side.begin)
	}
	for left > 0 {
		least := -1
		for n, t := range o.targets {
			if !t.ended && (least < 0 || progress[n] < progress[least]) {
				least = n
			}
		}
		t := o.targets[least]
		chunk, err := t.pull(ctx)
		if errors.Is(err, io.EOF) {
			t.ended = true
			left--
			continue
		}
		if err != nil {
			return err
		}
		for k := range chunk {
			o.take(least, t, &chunk[k])
			progress[least] = float64(chunk[k].offset-t.side.begin) / float64(max(1, t.end-t.side.begin))
		}
	}
	return nil
}

// take looks at one output.
func (o *origins) take(n int, t *target, it *item) {
	if it.from < 0 || int(it.from) >= len(o.sources) {
		t.records++
		t.sum += it.hash
		o.unnamed++
		reason := "no provenance headers: from before BRIDGE_PROVENANCE=true, or from another writer"
		if it.from == foreign {
			reason = "the provenance names a partition that is no input: from before a change of the configuration, or from another writer"
		}
		t.doubt(reason, 1, nowhere)
		return
	}
	s, a := o.sources[it.from], o.account[it.from]
	if a.first[n] < 0 {
		a.first[n] = it.origin
	}
	switch {
	case it.origin >= s.end:
		t.records++
		o.book.find(Orphaned, s.side, -1, t.side, it.offset, fmt.Sprintf("names offset %d of %s, which ends at %d", it.origin, s.TopicPartition, s.end))
		return
	case it.origin >= s.committed:
		t.aside(asideLater, 1)
		return
	case it.origin < s.begin && it.origin >= s.gone:
		t.aside(asideBefore, 1)
		return
	}
	t.records++
	t.sum += it.hash
	last, now := a.last[n], mark{it.origin, it.output}
	behind := now.offset < last.offset || now.offset == last.offset && now.output <= last.output
	switch {
	case !o.mark(a, n, it):
		o.book.find(Duplicated, s.side, it.origin, t.side, it.offset, outputText(it))
	case behind:
		o.book.find(OutOfOrder, s.side, it.origin, t.side, it.offset, outputText(it))
	}
	if !behind {
		a.last[n] = now
	}
}

func outputText(it *item) string {
	if it.of == 1 {
		return ""
	}
	return fmt.Sprintf("output %d/%d", it.output, it.of)
}

// mark notes an output and answers false if it was there.
func (o *origins) mark(a *seen, n int, it *item) bool {
	p := a.parts[it.origin]
	if it.of == 1 {
		return p == nil && a.whole.add(it.origin)
	}
	if p == nil {
		if a.whole.has(it.origin) {
			return false
		}
		if o.partial >= mostPartial {
			a.full = true
			return true
		}
		p = &partly{of: it.of, where: place{n, it.offset}}
		a.parts[it.origin] = p
		o.partial++
	}
	if p.of != it.of || !p.add(it.output) {
		return false
	}
	if p.count == p.of {
		delete(a.parts, it.origin)
		o.partial--
		a.whole.add(it.origin)
	}
	return true
}

// readSource asks each source record for its outputs.
func (o *origins) readSource(ctx context.Context, i int, s *source) error {
	a := o.account[i]
	undecidable := o.deletedBelow(i)
	next := s.open(s.begin)
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
			if it.offset >= s.committed {
				break
			}
			s.records++
			s.sum += it.hash
			o.ask(s, a, it, undecidable)
		}
		if len(chunk) > 0 && chunk[len(chunk)-1].offset >= s.committed-1 {
			break
		}
	}
	o.leftOver(i, s, a)
	return nil
}

// ask decides about one source record.
func (o *origins) ask(s *source, a *seen, it *item, undecidable int64) {
	if a.whole.remove(it.offset) {
		return
	}
	p := a.parts[it.offset]
	delete(a.parts, it.offset)
	switch {
	case it.offset < undecidable:
		s.doubt(reasonTargetDeleted, 1, it.offset)
	case p != nil && o.anyCompacted():
		s.doubt(reasonCompactedTarget, 1, it.offset)
	case o.anyPending():
		s.doubt(reasonOpen, 1, it.offset)
	case p != nil && o.tail:
		s.doubt(reasonAtMostOnce, 1, it.offset)
	case p != nil:
		t := o.targets[p.where.target]
		o.book.find(Missing, s.side, it.offset, t.side, p.where.offset, "output "+p.missing()+" of "+fmt.Sprint(p.of))
	case a.full:
		s.doubt("some of its outputs may be missing: too many inputs have outputs far apart in the target", 1, it.offset)
	case o.every && o.unnamed == 0 && !s.headless && !o.tail && !o.anyCompacted():
		o.book.find(Missing, s.side, it.offset, nil, -1, "")
	case s.headless:
		s.doubt("no output: dropped by the transforms, before the bridge's start (BRIDGE_START), or lost", 1, it.offset)
	default:
		s.doubt("no output: dropped by the transforms, or lost", 1, it.offset)
	}
}

// missing lists the outputs that were not seen, the first few.
func (p *partly) missing() string {
	var list []string
	for n := uint32(1); n <= p.of && len(list) < 4; n++ {
		if !p.has(n) {
			list = append(list, fmt.Sprint(n))
		}
	}
	return strings.Join(list, ", ")
}

func (o *origins) anyCompacted() bool {
	for _, t := range o.targets {
		if t.compacted {
			return true
		}
	}
	return false
}

func (o *origins) anyPending() bool {
	for _, t := range o.targets {
		if t.pending {
			return true
		}
	}
	return false
}

// deletedBelow is the source offset below which outputs may have been deleted with the beginning of a target partition.
func (o *origins) deletedBelow(i int) int64 {
	below := int64(0)
	for n, t := range o.targets {
		if !t.headless {
			continue
		}
		if o.account[i].first[n] < 0 {
			return nowhere
		}
		below = max(below, o.account[i].first[n])
	}
	return below
}

// leftOver are marks that no source record has claimed.
func (o *origins) leftOver(i int, s *source, a *seen) {
	for offset := range a.whole.all() {
		o.unclaimed(i, s, offset)
	}
	for offset := range a.parts {
		o.unclaimed(i, s, offset)
	}
}

// mostLocated bounds the orphans that are looked for in the target again.
const mostLocated = 10_000

func (o *origins) unclaimed(i int, s *source, offset int64) {
	switch {
	case s.letters[offset] != nil && s.letters[offset].found:
		o.book.find(Duplicated, s.side, offset, nil, -1, "in the output, and a dead letter: "+s.letters[offset].at.String())
	case offset < s.gone:
		s.aside("outputs whose source records are deleted (retention)", 1)
	case s.compacted:
		s.doubt(reasonCompactedSource, 1, nowhere)
	case len(o.orphans) < mostLocated:
		o.orphans[sourceOffset{i, offset}] = true
	default:
		o.book.find(Orphaned, s.side, -1, nil, -1, "")
	}
}

// locate reads the target again for the places of orphans.
func (o *origins) locate(ctx context.Context) error {
	for _, t := range o.targets {
		if len(o.orphans) == 0 {
			return nil
		}
		next := t.open(t.side.begin)
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
				if it.from >= 0 && o.orphans[sourceOffset{int(it.from), it.origin}] {
					s := o.sources[it.from]
					o.book.find(Orphaned, s.side, -1, t.side, it.offset, fmt.Sprintf("names offset %d of %s, where no record is", it.origin, s.TopicPartition))
				}
			}
		}
	}
	return nil
}
