package cli

import (
	"bytes"
	"encoding/json"
	"math/bits"
	"strconv"
)

// demoPartitions is how many partitions the demo's input and output have:
// enough for lanes to differ in speed, few enough for every epoch to touch all.
const demoPartitions = 4

// demoRecord is the content of record number sequence of a partition. It is a
// pure function, so that the reader can tell an altered record from a whole one
// without being told what was sent. A key always lands in the same partition.
func demoRecord(partition int32, sequence int64) (key, value []byte) {
	customer := int64(partition) + demoPartitions*(sequence%250)
	key = strconv.AppendInt([]byte("customer-"), customer, 10)
	value = strconv.AppendInt([]byte(`{"partition":`), int64(partition), 10)
	value = strconv.AppendInt(append(value, `,"sequence":`...), sequence, 10)
	value = strconv.AppendInt(append(value, `,"cents":`...), 100+sequence*7919%90000, 10)
	return key, append(value, '}')
}

// txnIdentity names one finished transaction in the log of an output partition.
// A slot's producer epoch grows with every transaction (KIP-890; below
// transaction.version 2 because the bridge starts a new producer after each),
// so the pair is unique, and a transaction that touched several partitions is
// counted once.
type txnIdentity struct {
	producerID    int64
	producerEpoch int16
}

// tally compares what a read_committed reader was shown with what was sent. It
// holds no clock and no Kafka: offsets and bytes go in, a verdict comes out.
// One goroutine at a time may use it.
//
// Invariants, for one partition: the sequences sent are 0, 1, 2, … without a
// gap, and a bridge that keeps order and partition shows exactly these, each
// once and in this order.
type tally struct {
	partitions []partitionTally
	altered    int64 // shown, but not a record that was to be sent to its partition
	outside    int64 // shown in a partition the output should not have
	committed  map[txnIdentity]struct{}
	aborted    map[txnIdentity]struct{}
}

type partitionTally struct {
	planned    int64    // sequences that will be sent, so that a broken one cannot name a huge number
	seen       []uint64 // bit i: sequence i was shown
	highest    int64    // highest sequence shown, -1 before the first
	shown      int64
	duplicated int64
	outOfOrder int64
	markers    int64
	next       int64 // offset after the last one looked at
}

// verdict is what tally finds. All numbers are records, except the two counts
// of transactions.
type verdict struct {
	In         int64 // acknowledged by the input topic
	Out        int64 // shown to the reader, copies included
	Duplicated int64 // copies beyond the first
	Lost       int64 // sent and never shown
	OutOfOrder int64 // first shown after a later record of the same partition
	Altered    int64 // shown with other content, in another partition, or never sent
	RolledBack int64 // written by aborted transactions and hidden by Kafka
	Committed  int   // transactions with a commit marker in the output
	Aborted    int   // transactions with an abort marker in the output
}

// exact reports whether every record sent was shown once, whole, in order.
func (v verdict) exact() bool {
	return v.In == v.Out && v.Duplicated == 0 && v.Lost == 0 && v.OutOfOrder == 0 && v.Altered == 0
}

// newTally expects planned[p] records in partition p.
func newTally(planned []int64) *tally {
	t := &tally{
		partitions: make([]partitionTally, len(planned)),
		committed:  make(map[txnIdentity]struct{}),
		aborted:    make(map[txnIdentity]struct{}),
	}
	for p, count := range planned {
		t.partitions[p] = partitionTally{planned: count, highest: -1, seen: make([]uint64, (count+63)/64)}
	}
	return t
}

// record takes one data record of the output as the reader was shown it.
func (t *tally) record(partition int32, offset int64, key, value []byte) {
	p := t.at(partition)
	if p == nil {
		t.outside++
		return
	}
	p.next = offset + 1
	p.shown++
	var named struct {
		Partition int32 `json:"partition"`
		Sequence  int64 `json:"sequence"`
	}
	if err := json.Unmarshal(value, &named); err != nil || named.Partition != partition ||
		named.Sequence < 0 || named.Sequence >= p.planned {
		t.altered++
		return
	}
	wantKey, wantValue := demoRecord(partition, named.Sequence)
	if !bytes.Equal(key, wantKey) || !bytes.Equal(value, wantValue) {
		t.altered++
		return
	}
	p.show(named.Sequence)
}

// show notes one whole record. A copy is a duplicate and says nothing about
// order: only the first showing of a record can be late.
func (p *partitionTally) show(sequence int64) {
	word, bit := sequence/64, uint64(1)<<(sequence%64)
	switch {
	case p.seen[word]&bit != 0:
		p.duplicated++
		return
	case sequence < p.highest:
		p.outOfOrder++
	default:
		p.highest = sequence
	}
	p.seen[word] |= bit
}

// marker takes one transaction marker (control record) of the output.
func (t *tally) marker(partition int32, offset int64, producerID int64, producerEpoch int16, commit bool) {
	if p := t.at(partition); p != nil {
		p.next = offset + 1
		p.markers++
	}
	ended := t.aborted
	if commit {
		ended = t.committed
	}
	ended[txnIdentity{producerID, producerEpoch}] = struct{}{}
}

// at returns nil for a partition the output should not have.
func (t *tally) at(partition int32) *partitionTally {
	if partition < 0 || int(partition) >= len(t.partitions) {
		return nil
	}
	return &t.partitions[partition]
}

// reached reports whether everything before the given offsets (one per
// partition) was looked at.
func (t *tally) reached(ends []int64) bool {
	for p, end := range ends {
		if t.partitions[p].next < end {
			return false
		}
	}
	return true
}

// shown is the number of records shown so far, copies included.
func (t *tally) shown() int64 {
	total := t.outside
	for p := range t.partitions {
		total += t.partitions[p].shown
	}
	return total
}

// judge compares what was shown with the sequences 0 … sent[p]-1 that the
// input acknowledged, once the reader is at the end of the output.
func (t *tally) judge(sent []int64) verdict {
	v := verdict{Out: t.outside, Altered: t.altered + t.outside, Committed: len(t.committed), Aborted: len(t.aborted)}
	for i := range t.partitions {
		p := &t.partitions[i]
		within := p.countBelow(sent[i])
		v.In += sent[i]
		v.Out += p.shown
		v.Duplicated += p.duplicated
		v.OutOfOrder += p.outOfOrder
		v.Lost += sent[i] - within
		v.Altered += p.countBelow(p.planned) - within
		// Every offset of an uncompacted log is a record or a marker: the
		// offsets nobody was shown belong to aborted transactions.
		v.RolledBack += p.next - p.shown - p.markers
	}
	return v
}

// countBelow counts the distinct sequences shown below limit.
func (p *partitionTally) countBelow(limit int64) int64 {
	var count int
	for word := range p.seen {
		set := p.seen[word]
		if over := int64(word+1)*64 - limit; over >= 64 {
			break
		} else if over > 0 {
			set &= ^uint64(0) >> over
		}
		count += bits.OnesCount64(set)
	}
	return int64(count)
}
