package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/eosbridge/eosbridge/offsets"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	Missing    Kind = "missing"      // a source record below the committed position has no output
	Duplicated Kind = "duplicated"   // a source record has an output more than once
	OutOfOrder Kind = "out of order" // an output stands behind that of a later record of its source partition
	Orphaned   Kind = "orphaned"     // an output has no source record
	Altered    Kind = "altered"      // key, value, headers or time are not those of the source record
)

// Kinds lists all kinds in the order in which they are reported.
func Kinds() []Kind { return []Kind{Missing, Duplicated, OutOfOrder, Orphaned, Altered} }

// Place is a record's, or where one should be: then the offset is that of the record that stands there.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// String is topic/partition/offset.
func (p Place) String() string { return fmt.Sprintf("%s/%d/%d", p.Topic, p.Partition, p.Offset) }

// Finding is one fault. Source or Target is nil where there is none, or where it is not known.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Source *Place `json:"source,omitempty"`
	Target *Place `json:"target,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Undecided is what could not be told, and why.
type Undecided struct {
	Reason  string `json:"reason"`
	Records int64  `json:"records"` // 0 if it is not known how many
}

// nowhere is an offset beyond all others.
const nowhere = math.MaxInt64

// side is one partition of the source or of the target, as it is being compared.
type side struct {
	offsets.TopicPartition

	// Source: records at or beyond begin are expected, those below gone are deleted, those below committed have to
	// have their output, and the log ends at end. Target: the log begins at gone and is compared below end.
	begin, gone, committed, end int64
	begin0                      int64 // begin, before the sides were brought into line
	compacted                   bool

	records int64  // audited
	outside int64  // not audited
	sum     uint64 // of the hashes of the audited records
	faults  map[Kind]int64
	doubts  map[string]int64
	asides  map[string]int64
	first   int64 // source: lowest offset that is not verified
}

func newSide(tp offsets.TopicPartition) *side {
	return &side{TopicPartition: tp, faults: map[Kind]int64{}, doubts: map[string]int64{}, asides: map[string]int64{}, first: nowhere}
}

func (s *side) at(offset int64) *Place {
	return &Place{Topic: s.Topic, Partition: s.Partition, Offset: offset}
}

// doubt notes that n records of the partition are undecided; 0 if it is not known how many. from is the lowest of
// their offsets on the source's side, nowhere if unknown.
func (s *side) doubt(reason string, n, from int64) {
	s.doubts[reason] += n
	s.first = min(s.first, from)
}

// aside notes records that are not audited, which is no doubt about those that are.
func (s *side) aside(reason string, n int64) {
	s.outside += n
	s.asides[reason] += n
}

// listed gives reasons in order.
func listed(reasons map[string]int64) []Undecided {
	list := make([]Undecided, 0, len(reasons))
	for reason, n := range reasons {
		list = append(list, Undecided{reason, n})
	}
	slices.SortFunc(list, func(a, b Undecided) int { return cmp.Compare(a.Reason, b.Reason) })
	return list
}

func (s *side) faulty() bool { return len(s.faults) > 0 }

// book takes the findings of all units: every one is counted, the first few of each kind are kept.
type book struct {
	most int // of each kind

	mu       sync.Mutex
	counts   map[Kind]int64
	examples map[Kind][]Finding
}

func newBook(most int) *book {
	return &book{most: most, counts: map[Kind]int64{}, examples: map[Kind][]Finding{}}
}

// find notes a fault. source and target may be nil; so may the offsets be unknown (below 0).
func (b *book) find(kind Kind, source *side, from int64, target *side, at int64, detail string) {
	f := Finding{Kind: kind, Detail: detail}
	if source != nil {
		source.faults[kind]++
		if from >= 0 {
			source.first = min(source.first, from)
			f.Source = source.at(from)
		}
	}
	if target != nil {
		target.faults[kind]++
		if at >= 0 {
			f.Target = target.at(at)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[kind]++
	if len(b.examples[kind]) < b.most {
		b.examples[kind] = append(b.examples[kind], f)
	}
}

// list gives the examples, ordered by kind and place.
func (b *book) list() []Finding {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []Finding{}
	for _, kind := range Kinds() {
		some := slices.Clone(b.examples[kind])
		slices.SortFunc(some, func(x, y Finding) int {
			return cmp.Or(comparePlaces(x.Source, y.Source), comparePlaces(x.Target, y.Target))
		})
		list = append(list, some...)
	}
	return list
}

func comparePlaces(a, b *Place) int {
	if a == nil || b == nil {
		return cmp.Compare(truth(a != nil), truth(b != nil))
	}
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
