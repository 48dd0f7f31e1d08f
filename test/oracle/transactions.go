package oracle

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Producer is a producer id with its epoch. In the bridge it names one
// transaction: from transaction.version 2 on the epoch moves with every end
// (KIP-890), and below it the bridge makes a new producer after every end.
type Producer struct {
	ID    int64
	Epoch int16
}

// String is id@epoch.
func (p Producer) String() string { return fmt.Sprintf("%d@%d", p.ID, p.Epoch) }

// Transactions is the account of all transactions that wrote output. It is fed
// with what a read_uncommitted reader sees, markers included ([Follower] does
// that), and with what read_committed readers were shown. It does no I/O. Its
// methods may be called from several goroutines.
//
// It keeps one byte for each transaction that has ended, for each partition that
// the transaction has written to, and somewhat more for those that have not.
type Transactions struct {
	checker *Checker // knows what was fed and what is wanted
	group   string   // whose positions are held against outputs; empty = nobody's

	mu      sync.Mutex
	overall map[int64]*fates       // by producer id
	places  map[place]*fates       // the same in one partition
	open    map[place]open         // parts without a marker
	unsure  map[place]*shown       // shown by a read_committed reader, without a marker
	told    map[Producer]statement // what the bridge's log says
	balance balance

	torn, abortedRead  Finding
	committed, aborted int64

	leftOpen, halfDone, unjudged Finding // of the last look at rest
}

// place is where one producer id writes.
type place struct {
	part Source
	id   int64
}

// open is a transaction's part in one partition that has no marker yet.
type open struct {
	epoch int16
	first int64 // offset
}

// shown counts records that a read_committed reader had before their marker was
// seen here. The marker is on its way to this reader, or the broker is wrong.
type shown struct {
	epoch   int16
	records int64
	first   string
}

// statement is what the bridge's log says of a transaction.
type statement struct {
	committed bool
	who       string
}

// fate is what is known of a transaction.
type fate uint8

const (
	isCommitted fate = 1 << iota
	isAborted
	isJudged // its output was held against its positions
)

const isEnded = isCommitted | isAborted

// fates are the fates of one producer id's transactions, by producer epoch.
type fates []fate

func (f *fates) at(epoch int16) fate {
	if f == nil || int(epoch) >= len(*f) {
		return 0
	}
	return (*f)[epoch]
}

// add sets bits and returns what was known before.
func (f *fates) add(epoch int16, bits fate) fate {
	if n := int(epoch) + 1 - len(*f); n > 0 {
		*f = append(*f, make([]fate, n)...)
	}
	before := (*f)[epoch]
	(*f)[epoch] |= bits
	return before
}

// NewTransactions is the account of the transactions that make the output which
// checker judges. With a group, position records ([Transactions.Observe]) are
// held against the output of their transaction.
func NewTransactions(checker *Checker, group string) *Transactions {
	return &Transactions{
		checker: checker, group: group,
		overall: make(map[int64]*fates), places: make(map[place]*fates), open: make(map[place]open),
		unsure: make(map[place]*shown), told: make(map[Producer]statement),
		balance: newBalance(),
	}
}

// Observe takes the next record of a partition, whatever becomes of its
// transaction: of an output topic, or of the topic in which groups keep their
// positions; data or marker.
func (x *Transactions) Observe(r *kgo.Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	part := Source{Topic: r.Topic, Partition: r.Partition}
	p := Producer{ID: r.ProducerID, Epoch: r.ProducerEpoch}
	switch {
	case r.Attrs.IsControl():
		x.end(part, r)
	case r.Topic == positionsTopic:
		x.position(part, p, r)
	case r.Attrs.IsTransactional():
		x.enter(part, p, r.Offset)
		x.wrote(p, r)
	}
}

// enter notes that a transaction has a part in a partition.
func (x *Transactions) enter(part Source, p Producer, offset int64) {
	at := place{part: part, id: p.ID}
	before, ok := x.open[at]
	switch {
	case !ok:
		if x.places[at].at(p.Epoch)&isEnded != 0 {
			x.torn.add("%s@%d: %s goes on after it was ended there", part, offset, p)
		}
		x.open[at] = open{epoch: p.Epoch, first: offset}
	case before.epoch != p.Epoch:
		x.torn.add("%s@%d: %s begins before %s was ended", part, offset, p, Producer{p.ID, before.epoch})
		x.open[at] = open{epoch: p.Epoch, first: offset}
	}
}

// end takes a marker. It closes whatever its producer id has open there: its
// epoch may be higher than that of the records (KIP-890; an abort by a fence or
// by the broker's time-out). A marker where nothing is open says nothing: the
// partition was announced and not written to, or the marker is a repetition.
func (x *Transactions) end(part Source, r *kgo.Record) {
	var key kmsg.ControlRecordKey
	if err := key.ReadFrom(r.Key); err != nil {
		return // not a marker of a transaction that we know how to read
	}
	at := place{part: part, id: r.ProducerID}
	o, ok := x.open[at]
	if !ok {
		return
	}
	p := Producer{ID: r.ProducerID, Epoch: o.epoch}
	switch key.Type {
	case kmsg.ControlRecordKeyTypeCommit:
		x.decide(p, at, r.Offset, isCommitted)
	case kmsg.ControlRecordKeyTypeAbort:
		x.decide(p, at, r.Offset, isAborted)
	default:
		return // of Raft, in another topic
	}
	delete(x.open, at)
}

func (x *Transactions) decide(p Producer, at place, offset int64, outcome fate) {
	before := grow(x.overall, p.ID).add(p.Epoch, outcome)
	grow(x.places, at).add(p.Epoch, outcome)
	switch {
	case before&isEnded == 0 && outcome == isCommitted:
		x.committed++
	case before&isEnded == 0:
		x.aborted++
	case before&isEnded == isEnded-outcome:
		x.torn.add("%s@%d: %s is %s there and was %s elsewhere", at.part, offset, p, outcome, isEnded-outcome)
	}
	early := x.unsure[at]
	if early == nil || early.epoch != p.Epoch {
		return
	}
	delete(x.unsure, at)
	if outcome == isAborted {
		x.abortedRead.addMany(early.records, "%s of %s, which is aborted", early.first, p)
	}
}

// Show takes a record that a read_committed reader was shown.
func (x *Transactions) Show(r *kgo.Record) {
	if r.Attrs.IsControl() || !r.Attrs.IsTransactional() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	part := Source{Topic: r.Topic, Partition: r.Partition}
	p := Producer{ID: r.ProducerID, Epoch: r.ProducerEpoch}
	at := place{part: part, id: p.ID}
	record := fmt.Sprintf("%s@%d", part, r.Offset)
	switch known := x.places[at].at(p.Epoch); {
	case known&isEnded == isAborted:
		x.abortedRead.add("%s of %s, which is aborted", record, p)
	case known&isEnded != 0:
	default:
		early := x.unsure[at]
		if early == nil || early.epoch != p.Epoch {
			early = &shown{epoch: p.Epoch, first: record}
			x.unsure[at] = early
		}
		early.records++
	}
}

// Tell notes what the bridge's log says of a transaction: committed, or
// certainly not. who names the log's line.
func (x *Transactions) Tell(p Producer, committed bool, who string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.told[p] = statement{committed: committed, who: who}
}

// mark is a moment: what is there to be decided once the readers are beyond it.
type mark struct {
	turn   int64 // of the last position record
	unsure map[place]shown
	bare   []Producer // committed output without positions so far
}

// mark takes stock before the ends of the partitions are asked for.
func (x *Transactions) mark() mark {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := mark{turn: x.balance.turn, unsure: make(map[place]shown)}
	for at, s := range x.unsure {
		m.unsure[at] = *s
	}
	for p, c := range x.balance.contents {
		if c.turn == 0 && x.overall[p.ID].at(p.Epoch)&isCommitted != 0 {
			m.bare = append(m.bare, p)
		}
	}
	return m
}

// judge is called when everything was observed that was in the partitions after
// the mark was taken.
func (x *Transactions) judge(m mark) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for at, before := range m.unsure {
		if now := x.unsure[at]; now != nil && now.epoch == before.epoch {
			x.abortedRead.addMany(before.records, "%s of %s, which has not ended", before.first, Producer{at.id, before.epoch})
			if now.records -= before.records; now.records == 0 {
				delete(x.unsure, at)
			}
		}
	}
	x.weigh(m)
}

// rest is called when no transaction may be open and everything was observed.
func (x *Transactions) rest() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leftOpen, x.halfDone, x.unjudged = Finding{}, Finding{}, Finding{}
	for _, at := range slices.SortedFunc(maps.Keys(x.open), func(a, b place) int { return compareSources(a.part, b.part) }) {
		o := x.open[at]
		p := Producer{ID: at.id, Epoch: o.epoch}
		if known := x.overall[p.ID].at(p.Epoch) & isEnded; known != 0 {
			x.halfDone.add("%s@%d: %s is %s elsewhere and was never ended there", at.part, o.first, p, known)
		} else {
			x.leftOpen.add("%s@%d: %s was never ended", at.part, o.first, p)
		}
	}
	for _, c := range x.balance.queue {
		if _, open := x.open[c.place]; !open || c.plain {
			x.unjudged.add("positions of %s could not be judged: the feed does not know where its records are", c)
		}
	}
}

// Into adds the account to a verdict.
func (x *Transactions) Into(v *Verdict) {
	x.mu.Lock()
	defer x.mu.Unlock()
	v.Committed, v.Aborted = x.committed, x.aborted
	v.Torn = x.torn.clone()
	v.Torn.addAll(x.halfDone)
	v.LeftOpen = x.leftOpen.clone()
	v.AbortedRead = x.abortedRead.clone()
	v.Apart = x.balance.apart.clone()
	v.Apart.addAll(x.unjudged)
	v.Backward = x.balance.backward.clone()
	v.Belied = Finding{}
	for p, said := range x.told {
		switch known := x.overall[p.ID].at(p.Epoch) & isEnded; {
		case said.committed && known == isAborted:
			v.Belied.add("%s of %s, which is aborted", said.who, p)
		case !said.committed && known&isCommitted != 0:
			v.AbortedRead.add("%s of %s, which is committed", said.who, p)
		}
	}
}

// String names an outcome.
func (f fate) String() string {
	switch f & isEnded {
	case isCommitted:
		return "committed"
	case isAborted:
		return "aborted"
	case isEnded:
		return "committed and aborted"
	}
	return "open"
}

// grow returns the fates under a key, made at first use.
func grow[K comparable](all map[K]*fates, key K) *fates {
	f := all[key]
	if f == nil {
		f = new(fates)
		all[key] = f
	}
	return f
}
