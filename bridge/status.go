package bridge

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// State is what the process is doing as a whole.
type State string

// The states, in the order in which a healthy life passes through them.
const (
	// StateRecovering: fencing our ids and asking the broker for the outcome, or waiting to try again.
	StateRecovering State = "recovering"
	// StateJoining: waiting for the group to give us a place.
	StateJoining State = "joining"
	// StateRunning: a member of the group, with or without partitions.
	StateRunning State = "running"
	// StateStopping: no more input; the last epoch is being settled.
	StateStopping State = "stopping"
	// StateStopped: everything is settled or given up.
	StateStopped State = "stopped"
)

// states returns all states, in order.
func states() []State {
	return []State{StateRecovering, StateJoining, StateRunning, StateStopping, StateStopped}
}

// The names of the classes of failure, as they appear in summaries, in the status and as a metric's label.
const (
	ClassAborted = "aborted"
	ClassInDoubt = "in doubt"
	ClassFenced  = "fenced"
	ClassFatal   = "fatal"
)

// classes returns the names of all classes.
func classes() []string { return []string{ClassAborted, ClassInDoubt, ClassFenced, ClassFatal} }

// classOf names the class of an error: empty for nil. An error that wraps no class is in doubt, because then
// only the broker can say what became of the epoch.
func classOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, txn.ErrFatal):
		return ClassFatal
	case errors.Is(err, txn.ErrFenced):
		return ClassFenced
	case errors.Is(err, txn.ErrInDoubt):
		return ClassInDoubt
	case errors.Is(err, txn.ErrAborted):
		return ClassAborted
	default:
		return ClassInDoubt
	}
}

// Status is a picture of the process at one moment: the answer of /api/status. A Status that was handed out
// is never changed again; do not change what its map, slice and pointers refer to.
type Status struct {
	Version string    `json:"version"`
	State   State     `json:"state"`
	Since   time.Time `json:"since"` // when State was entered

	Group      string `json:"group"`
	Instance   string `json:"instance"`
	MemberID   string `json:"member_id"`
	Generation int32  `json:"generation"` // the member epoch with KIP-848
	Delivery   string `json:"delivery"`
	Lanes      int    `json:"lanes"`

	// Assigned holds the partitions of each topic, ascending.
	Assigned map[string][]int32 `json:"assigned"`
	// Epoch is the epoch that takes records now; 0 before the first.
	Epoch txn.Epoch `json:"epoch"`
	// IntervalSeconds is the interval between barriers in force; it grows while the source is behind.
	IntervalSeconds float64       `json:"epoch_interval_seconds"`
	LastCommitted   LastCommitted `json:"last_committed"`
	Restarts        Restarts      `json:"restarts"`
	LastError       *Failure      `json:"last_error,omitempty"`
	// CommitFailing and PollFailing are present while the last commit, or the last poll, has failed.
	CommitFailing *Streak `json:"commit_failing,omitempty"`
	PollFailing   *Streak `json:"poll_failing,omitempty"`

	FailedRecords FailedRecords `json:"failed_records"`

	OpenTxn OpenTxn   `json:"open_transaction"`
	Lag     LagStatus `json:"lag"`
	Memory  Memory    `json:"memory"`
	// Interpreted: a WebAssembly guest of the chain could not be compiled here.
	Interpreted bool `json:"transform_interpreted"`
}

// LastCommitted says what was acknowledged last, and when.
type LastCommitted struct {
	Epoch txn.Epoch `json:"epoch"`
	At    time.Time `json:"at,omitzero"`
}

// Restarts counts the restarts inside this process.
type Restarts struct {
	Consecutive int   `json:"consecutive"` // since the last commit
	Total       int64 `json:"total"`
}

// Failure is the last error that ended an epoch or a session.
type Failure struct {
	Class string    `json:"class"`
	Err   string    `json:"err"`
	At    time.Time `json:"at"`
}

// Streak is a row of failures without a success between them.
type Streak struct {
	Since time.Time `json:"since"` // the first failure
	Last  time.Time `json:"last"`  // the latest failure
	Err   string    `json:"err"`   // of the latest
}

// OpenTxn describes the oldest transaction that is open.
type OpenTxn struct {
	// Since is when its first record was produced; zero while none is open.
	Since time.Time `json:"since,omitzero"`
	// TimeoutSeconds is the transaction timeout, after which the broker aborts it.
	TimeoutSeconds float64 `json:"timeout_seconds"`
	// AgeSeconds and Share (age by timeout) are filled in by snapshot.
	AgeSeconds float64 `json:"age_seconds"`
	Share      float64 `json:"share"`
}

// LagStatus is how far the committed positions of the assigned partitions are behind the last stable offset.
type LagStatus struct {
	At         time.Time      `json:"at,omitzero"` // when it was asked; zero = not yet for all that is assigned
	Total      int64          `json:"total"`
	Partitions []PartitionLag `json:"partitions"`
}

// PartitionLag is the lag of one partition, in records counted by offsets.
type PartitionLag struct {
	Topic      string `json:"topic"`
	Partition  int32  `json:"partition"`
	Committed  int64  `json:"committed"`
	LastStable int64  `json:"last_stable"`
	End        int64  `json:"end"` // high watermark
	LogStart   int64  `json:"log_start"`
	Lag        int64  `json:"lag"`
}

// Memory is the budget over decoded batches and what is taken of it, in bytes.
type Memory struct {
	Budget int64 `json:"budget_bytes"`
	Used   int64 `json:"used_bytes"`
}

// own replaces everything that s refers to by copies, so that s can be changed.
func (s *Status) own() {
	assigned := make(map[string][]int32, len(s.Assigned))
	for topic, partitions := range s.Assigned {
		assigned[topic] = slices.Clone(partitions)
	}
	s.Assigned = assigned
	s.LastError = copyOf(s.LastError)
	s.CommitFailing = copyOf(s.CommitFailing)
	s.PollFailing = copyOf(s.PollFailing)
	s.Lag.Partitions = append(make([]PartitionLag, 0, len(s.Lag.Partitions)), s.Lag.Partitions...)
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// dropForeignLag removes the partitions that are not assigned, so that the lags of all instances of a group
// can be added up.
func (s *Status) dropForeignLag() {
	s.Lag.Partitions = slices.DeleteFunc(s.Lag.Partitions, func(l PartitionLag) bool {
		return !slices.Contains(s.Assigned[l.Topic], l.Partition)
	})
	s.Lag.Total = 0
	for _, l := range s.Lag.Partitions {
		s.Lag.Total += max(l.Lag, 0)
	}
}

// assignedPartitions returns how many partitions are ours.
func (s *Status) assignedPartitions() int {
	n := 0
	for _, partitions := range s.Assigned {
		n += len(partitions)
	}
	return n
}

// board is where the runtime writes what it is doing and where HTTP and the metrics read it. Readers never
// wait: they load the last picture. Writers copy it, change the copy and publish it, one at a time.
type board struct {
	now        func() time.Time
	memory     func() Memory
	base       time.Time    // progressed counts from here; its monotonic reading makes a set clock harmless
	progressed atomic.Int64 // nanoseconds since base of the last progress

	waiting atomic.Pointer[time.Time] // since when gained partitions have no positions yet; nil = none
	silent  atomic.Pointer[Streak]    // requests that do not depend on records and fail; nil = they are answered

	skipped, letters atomic.Int64 // see FailedRecords
	written          atomic.Int64 // records of epochs that did not abort

	mu      sync.Mutex // held by writers
	current atomic.Pointer[Status]
}

// newBoard returns a board that shows first. A nil now is time.Now; memory gives the bytes taken of the
// memory budget, is called by readers at any time, and may be nil.
func newBoard(first Status, now func() time.Time, memory func() Memory) *board {
	if now == nil {
		now = time.Now
	}
	b := &board{now: now, memory: memory, base: now()}
	first.own()
	if first.State == "" {
		first.State = StateRecovering
	}
	if first.Since.IsZero() {
		first.Since = b.stamp()
	}
	b.current.Store(&first)
	return b
}

// stamp is the time, in UTC for the reader of the JSON and with its monotonic reading for us.
func (b *board) stamp() time.Time { return b.now().UTC() }

// update changes the picture. change gets a copy that nobody else sees, is called once, and must not call the
// board.
func (b *board) update(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := *b.current.Load()
	next.own()
	change(&next)
	b.current.Store(&next)
}

// touch is update for what happens in every epoch: change replaces fields, and alters nothing that the picture refers to.
func (b *board) touch(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := *b.current.Load()
	change(&next)
	b.current.Store(&next)
}

// snapshot returns the last picture with what depends on the moment filled in: the age of the open
// transaction and the memory in use.
func (b *board) snapshot() Status {
	s := *b.current.Load()
	if !s.OpenTxn.Since.IsZero() {
		s.OpenTxn.AgeSeconds = max(b.now().Sub(s.OpenTxn.Since).Seconds(), 0)
		if s.OpenTxn.TimeoutSeconds > 0 {
			s.OpenTxn.Share = s.OpenTxn.AgeSeconds / s.OpenTxn.TimeoutSeconds
		}
	}
	s.FailedRecords = FailedRecords{Skipped: b.skipped.Load(), DeadLetters: b.letters.Load()}
	if b.memory != nil {
		s.Memory = b.memory()
	}
	return s
}

// enter changes the state and reports whether it was another one before. It counts as progress: outside of
// StateRunning there is no loop that turns.
func (b *board) enter(state State) (changed bool) {
	b.progress()
	b.update(func(s *Status) {
		if changed = s.State != state; changed {
			s.State, s.Since = state, b.stamp()
		}
	})
	return changed
}

// assign replaces the assignment. The map is copied; nil means nothing is assigned, and then nothing is waited for and
// nobody asked.
func (b *board) assign(partitions map[string][]int32) {
	if len(partitions) == 0 {
		b.positioned()
		b.looked(nil)
	}
	b.update(func(s *Status) {
		s.Assigned = maps.Clone(partitions)
		s.own()
		for topic := range s.Assigned {
			slices.Sort(s.Assigned[topic])
		}
		maps.DeleteFunc(s.Assigned, func(_ string, p []int32) bool { return len(p) == 0 })
		s.dropForeignLag()
		if len(s.Lag.Partitions) == 0 || len(s.Lag.Partitions) < s.assignedPartitions() {
			s.Lag.At = time.Time{} // else what is left of the lag would be shown as the whole, and without a partition as 0
		}
	})
}

// openTxn says since when the oldest open transaction is open; the zero time means that none is. Saying the
// same again costs one atomic load.
func (b *board) openTxn(since time.Time) {
	if b.current.Load().OpenTxn.Since.Equal(since) {
		return
	}
	b.update(func(s *Status) {
		s.OpenTxn.Since = since
		if !since.IsZero() {
			s.OpenTxn.Since = since.UTC()
		}
	})
}

// committed notes an acknowledged commit, in a transaction or plain: the row of failures and the row of
// restarts end with it.
func (b *board) committed(epoch txn.Epoch) {
	b.touch(func(s *Status) {
		s.LastCommitted = LastCommitted{Epoch: epoch, At: b.stamp()}
		s.CommitFailing = nil
		s.Restarts.Consecutive = 0
	})
}

// failed notes an error that ended an epoch or a session. It begins or goes on with the row of failures that
// the next commit ends. A nil error changes nothing.
func (b *board) failed(err error) {
	if err == nil {
		return
	}
	b.update(func(s *Status) {
		now := b.stamp()
		s.LastError = &Failure{Class: classOf(err), Err: err.Error(), At: now}
		s.CommitFailing = s.CommitFailing.and(now, err)
	})
}

// restarted counts a restart inside this process. It counts as progress: while the brokers are away, this is
// all that happens, and a restart of the process would not bring them back.
func (b *board) restarted() {
	b.progress()
	b.update(func(s *Status) {
		s.Restarts.Consecutive++
		s.Restarts.Total++
	})
}

// polled notes the outcome of a poll. It costs one atomic load while polls succeed.
func (b *board) polled(err error) {
	if err == nil && b.current.Load().PollFailing == nil {
		return
	}
	b.update(func(s *Status) {
		if err == nil {
			s.PollFailing = nil
			return
		}
		s.PollFailing = s.PollFailing.and(b.stamp(), err)
	})
}

// lag replaces the lag. Partitions that are not assigned to us are left out.
func (b *board) lag(lags []offsets.Lag) {
	b.update(func(s *Status) {
		s.Lag = LagStatus{At: b.stamp(), Partitions: make([]PartitionLag, 0, len(lags))}
		for _, l := range lags {
			s.Lag.Partitions = append(s.Lag.Partitions, PartitionLag{
				Topic: l.Topic, Partition: l.Partition,
				Committed: l.Committed, LastStable: l.LastStable, End: l.End, LogStart: l.LogStart, Lag: l.Lag,
			})
		}
		slices.SortFunc(s.Lag.Partitions, comparePartitions)
		s.dropForeignLag()
	})
}

// progress says that the loop is alive. It is cheap enough to be called in every turn.
func (b *board) progress() { b.progressed.Store(int64(b.now().Sub(b.base))) }

// sinceProgress returns how long ago the loop said that it is alive; before the first time, how long ago the
// board was made.
func (b *board) sinceProgress() time.Duration {
	return b.now().Sub(b.base) - time.Duration(b.progressed.Load())
}

// and returns the row of failures with one more at its end. A nil streak begins one.
func (k *Streak) and(now time.Time, err error) *Streak {
	if k == nil {
		return &Streak{Since: now, Last: now, Err: err.Error()}
	}
	return &Streak{Since: k.Since, Last: now, Err: err.Error()}
}

func comparePartitions(a, b PartitionLag) int {
	switch {
	case a.Topic < b.Topic:
		return -1
	case a.Topic > b.Topic:
		return 1
	default:
		return int(a.Partition) - int(b.Partition)
	}
}
