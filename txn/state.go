package txn

// State is where one slot stands in its epoch.
type State int

// The states of a slot. StateFailed has no way out: a failed slot is discarded with every other client of
// the instance, and a new one is fenced into StateReady.
const (
	StateReady      State = iota // fenced or ended: no epoch
	StateOpen                    // an epoch may produce
	StatePositioned              // the positions are in the transaction, not every output of the epoch is acknowledged
	StateFlushed                 // every output of the epoch is acknowledged, nothing more may be produced
	StatePrepared                // both: only EndTxn is missing
	StateCommitted               // EndTxn was acknowledged
	StateFailed                  // aborted, or in doubt: discard
)

func (s State) String() string {
	return [...]string{"ready", "open", "positioned", "flushed", "prepared", "committed", "failed"}[s]
}

// Event is what moves a slot from one state to the next.
type Event int

// The events of a slot.
const (
	EventBegin   Event = iota // an epoch takes the slot
	EventFlush                // PreCommit succeeded
	EventCarry                // the epoch produced nothing: its positions are carried, no transaction was opened
	EventOffsets              // TxnOffsetCommit was acknowledged
	EventEnd                  // EndTxn(commit) was acknowledged
	EventRenew                // the slot may be used again
	EventFail                 // anything else
)

func (e Event) String() string {
	return [...]string{"begin", "flush", "carry", "offsets", "end", "renew", "fail"}[e]
}

// transitions is the whole protocol of a slot: what it does not list is a bug.
var transitions = map[State]map[Event]State{ //nolint:gochecknoglobals // the protocol's one table
	StateReady:      {EventBegin: StateOpen, EventFail: StateFailed},
	StateOpen:       {EventFlush: StateFlushed, EventOffsets: StatePositioned, EventFail: StateFailed},
	StatePositioned: {EventFlush: StatePrepared, EventFail: StateFailed},
	StateFlushed:    {EventCarry: StateReady, EventOffsets: StatePrepared, EventFail: StateFailed},
	StatePrepared:   {EventEnd: StateCommitted, EventFail: StateFailed},
	StateCommitted:  {EventRenew: StateReady, EventFail: StateFailed},
	StateFailed:     {EventFail: StateFailed},
}

// next answers the state after an event, or a fatal error that names both: an event out of place means that
// our own order is broken, and going on could lose or repeat records.
func next(s State, e Event) (State, error) {
	to, ok := transitions[s][e]
	if !ok {
		return StateFailed, Fatalf(StatusBroken, "broken invariant: event %q in slot state %q", e, s)
	}
	return to, nil
}
