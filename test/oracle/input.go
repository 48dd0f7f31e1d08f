package oracle

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"sync"
)

// Input is the account of what was fed. Feeder, checker and watch use it at the
// same time.
type Input struct {
	mu      sync.Mutex
	handed  map[Source]int64   // records given to the client, acknowledged or not
	offsets map[Source][]int64 // offset by seq; -1 while not acknowledged
	acked   int64
}

// NewInput is the account of a feed that has not begun.
func NewInput() *Input {
	return &Input{handed: make(map[Source]int64), offsets: make(map[Source][]int64)}
}

// Hand notes that the next record of s is about to be produced, and names it.
func (in *Input) Hand(s Source) Origin {
	in.mu.Lock()
	defer in.mu.Unlock()
	o := Origin{Source: s, Seq: in.handed[s]}
	in.handed[s]++
	in.offsets[s] = append(in.offsets[s], -1)
	return o
}

// Ack notes that the broker has o at offset.
func (in *Input) Ack(o Origin, offset int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.offsets[o.Source][o.Seq] = offset
	in.acked++
}

// Knows says whether o was handed to the broker, acknowledged or not.
func (in *Input) Knows(o Origin) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return o.Seq >= 0 && o.Seq < in.handed[o.Source]
}

// Acked is the number of acknowledged records of all partitions.
func (in *Input) Acked() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.acked
}

// Offset is where o lies in its partition; false while that is unknown.
func (in *Input) Offset(o Origin) (int64, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := in.offsets[o.Source]
	if o.Seq < 0 || o.Seq >= int64(len(all)) || all[o.Seq] < 0 {
		return 0, false
	}
	return all[o.Seq], true
}

// Below is the number of records of s that are known to lie below offset:
// those with a seq less than the answer.
func (in *Input) Below(s Source, offset int64) int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := in.offsets[s]
	return int64(sort.Search(len(all), func(i int) bool { return all[i] < 0 || all[i] >= offset }))
}

// certainBelow is Below, and whether that is all: a record may lie below offset
// although its acknowledgement is still on its way to the feeder.
func (in *Input) certainBelow(s Source, offset int64) (n int64, certain bool) {
	n = in.Below(s, offset)
	in.mu.Lock()
	defer in.mu.Unlock()
	all := in.offsets[s]
	return n, n == int64(len(all)) || all[n] >= 0
}

// Sources lists the partitions that were fed, in order.
func (in *Input) Sources() []Source {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.SortedFunc(maps.Keys(in.handed), compareSources)
}

func compareSources(a, b Source) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Count is the number of records handed over for s.
func (in *Input) Count(s Source) int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.handed[s]
}
