package bridge

import (
	"sync/atomic"
	"time"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// epoch is one checkpoint epoch on its way from the first record to the answer of EndTxn.
//
// The source owns it until its barrier, then the coordinator, then the committer; each hands it on through a
// channel. Gates and counters may be read by everybody.
type epoch struct {
	n    txn.Epoch
	next *epoch // set by the source with the barrier

	gate     chan struct{} // closed when lanes may produce
	closable chan struct{} // closed when a barrier may follow
	flushing chan struct{} // closed when its flush has ended, well or not; flushed and flushErr stay as they are then
	done     chan struct{} // closed when the committer is through with it

	// Source.
	opened    time.Time // first record; zero = none yet
	read      reading
	bytesIn   int64
	unread    map[offsets.TopicPartition]int64 // what its polls have left, where that is something
	lanes     map[int]bool                     // lanes that got records
	triggered time.Time
	trigger   string
	cred      txn.Credential

	alone bool // it has one input, see isolation

	recordsOut, bytesOut atomic.Int64
	lettersOut           atomic.Int64 // dead letters among recordsOut

	claimed atomic.Bool // the coordinator that fails, or the committer: which of them says how the epoch ended

	// Coordinator and committer.
	positions        offsets.Positions
	aligned, flushed time.Time
	flushErr         error
}

func newEpoch(n txn.Epoch) *epoch {
	return &epoch{
		n: n, gate: make(chan struct{}), closable: make(chan struct{}), flushing: make(chan struct{}), done: make(chan struct{}),
		lanes: map[int]bool{}, positions: offsets.Positions{},
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leave notes how many records a poll has left in a partition.
func (e *epoch) leave(tp offsets.TopicPartition, unread int64) {
	switch {
	case unread == 0:
		delete(e.unread, tp)
	case e.unread == nil:
		e.unread = map[offsets.TopicPartition]int64{tp: unread}
	default:
		e.unread[tp] = unread
	}
}

// left is how many records are known to be there still.
func (e *epoch) left() (n int64) {
	for _, unread := range e.unread {
		n += unread
	}
	return n
}

// checkpoint is what is committed besides the outputs; it is complete once the epoch is aligned.
func (e *epoch) checkpoint() txn.Checkpoint {
	return txn.Checkpoint{Epoch: e.n, Positions: e.positions, Credential: e.cred}
}

func (e *epoch) open() bool { return closed(e.gate) }

// summary is the epoch's line in the history. steps holds what the commit reached.
func (e *epoch) summary(steps txn.Steps, err error) EpochSummary {
	since := func(t time.Time) time.Duration {
		if t.IsZero() || e.triggered.IsZero() {
			return 0
		}
		return t.Sub(e.triggered)
	}
	s := EpochSummary{
		Epoch: e.n, Slot: int(e.n % 2), Outcome: OutcomeCommitted,
		Opened: e.opened, Triggered: e.triggered, Trigger: e.trigger,
		Aligned: since(e.aligned), Flushed: since(e.flushed), OffsetsSent: since(steps.OffsetsSent), Committed: since(steps.Committed),
		RecordsIn: e.read.records, BytesIn: e.bytesIn, RecordsOut: e.recordsOut.Load(), BytesOut: e.bytesOut.Load(),
		DeadLetters: e.lettersOut.Load(), Partitions: len(e.positions), Generation: e.cred.Generation,
	}
	switch {
	case err != nil:
		s.Outcome, s.Class, s.Err = OutcomeAborted, classOf(err), err.Error()
	case steps.Carried:
		s.Outcome = OutcomeCarried
	}
	return s
}
