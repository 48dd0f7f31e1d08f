package bridge

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/eosbridge/eosbridge/txn"
)

// How an epoch ended: the values of EpochSummary.Outcome.
const (
	// OutcomeCommitted says that output and positions are both visible.
	OutcomeCommitted = "committed"
	// OutcomeAborted says that the epoch failed, whatever its class; the broker decides what became of it.
	OutcomeAborted = "aborted"
	// OutcomeCarried says that the epoch wrote nothing: its positions ride in a later transaction.
	OutcomeCarried = "carried"
)

// What closed an epoch: the values of EpochSummary.Trigger.
const (
	TriggerInterval  = "interval"
	TriggerRecords   = "records"
	TriggerBytes     = "bytes"
	TriggerAge       = "age"
	TriggerRebalance = "rebalance"
	TriggerStop      = "stop"
	// TriggerAlone closes an epoch after one input: a broker has refused a batch that it was in.
	TriggerAlone = "alone"
)

// EpochSummary is what is kept of an epoch once it has ended. It holds no references, so a copy is independent.
type EpochSummary struct {
	Epoch   txn.Epoch `json:"epoch"`
	Slot    int       `json:"slot"`
	Outcome string    `json:"outcome"`
	// Class is the class of failure of an aborted epoch (one of the Class constants), else empty.
	Class string `json:"class,omitempty"`
	Err   string `json:"err,omitempty"`
	// Trigger says why the barrier was sent.
	Trigger string `json:"trigger"`
	// Opened is when the epoch took its first record, Triggered when its barrier was sent.
	Opened    time.Time `json:"opened"`
	Triggered time.Time `json:"triggered"`

	RecordsIn  int64 `json:"records_in"`
	BytesIn    int64 `json:"bytes_in"`
	RecordsOut int64 `json:"records_out"`
	BytesOut   int64 `json:"bytes_out"`
	// DeadLetters are those of RecordsOut that went to the topic for dead letters.
	DeadLetters int64 `json:"dead_letters,omitempty"`
	Partitions  int   `json:"partitions"`
	// Generation is that of the group at the barrier (KIP-848: the member epoch); 0 if nothing was to be committed.
	Generation int32 `json:"generation,omitempty"`

	// The steps of the protocol, each measured from Triggered; zero means that the step was not reached. Flushed and
	// OffsetsSent may come in either order.
	// In JSON they are numbers of milliseconds (aligned_ms and so on), absent when not reached.
	Aligned     time.Duration `json:"-"`
	Flushed     time.Duration `json:"-"`
	OffsetsSent time.Duration `json:"-"`
	Committed   time.Duration `json:"-"`
}

// epochSteps is the JSON form of the four steps.
type epochSteps struct {
	Aligned     millis `json:"aligned_ms,omitzero"`
	Flushed     millis `json:"flushed_ms,omitzero"`
	OffsetsSent millis `json:"offsets_sent_ms,omitzero"`
	Committed   millis `json:"committed_ms,omitzero"`
}

// epochFields is EpochSummary without its methods, so that encoding it does not come back here.
type epochFields EpochSummary

// epochJSON lays the steps beside the other fields.
type epochJSON struct {
	*epochFields
	epochSteps
}

// MarshalJSON writes times in UTC and steps in milliseconds.
func (s EpochSummary) MarshalJSON() ([]byte, error) {
	s.Opened, s.Triggered = s.Opened.UTC(), s.Triggered.UTC()
	return json.Marshal(epochJSON{
		epochFields: (*epochFields)(&s),
		epochSteps: epochSteps{
			Aligned:     millis(s.Aligned),
			Flushed:     millis(s.Flushed),
			OffsetsSent: millis(s.OffsetsSent),
			Committed:   millis(s.Committed),
		},
	})
}

// UnmarshalJSON reads what MarshalJSON wrote, for readers of /api/epochs.
func (s *EpochSummary) UnmarshalJSON(data []byte) error {
	var read EpochSummary
	wire := epochJSON{epochFields: (*epochFields)(&read)}
	if err := json.Unmarshal(data, &wire); err != nil {
		return fmt.Errorf("read epoch summary: %w", err)
	}
	read.Aligned = time.Duration(wire.epochSteps.Aligned)
	read.Flushed = time.Duration(wire.epochSteps.Flushed)
	read.OffsetsSent = time.Duration(wire.epochSteps.OffsetsSent)
	read.Committed = time.Duration(wire.epochSteps.Committed)
	*s = read
	return nil
}

// millis is a duration that JSON shows as a number of milliseconds, to the microsecond.
type millis time.Duration

// MarshalJSON writes the number of milliseconds.
func (m millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(m).Microseconds()) / 1000)
}

// UnmarshalJSON reads a number of milliseconds.
func (m *millis) UnmarshalJSON(data []byte) error {
	var n float64
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("read milliseconds: %w", err)
	}
	*m = millis(time.Duration(n*1000+0.5) * time.Microsecond)
	return nil
}

// history keeps the last epochs. The committer adds to it, HTTP reads it; neither holds the lock for longer
// than a copy.
type history struct {
	mu   sync.Mutex
	ring []EpochSummary // fixed length
	next int            // where the next summary goes
	used int            // how many of ring are filled
	sum  Totals         // of all that were ever added
}

// Totals counts epochs since the start of the process. Records and bytes are those of epochs that did not abort.
type Totals struct {
	Committed  int64 `json:"epochs_committed"`
	Aborted    int64 `json:"epochs_aborted"`
	Carried    int64 `json:"epochs_carried"`
	RecordsIn  int64 `json:"records_in"`
	BytesIn    int64 `json:"bytes_in"`
	RecordsOut int64 `json:"records_out"`
	BytesOut   int64 `json:"bytes_out"`
}

// newHistory returns a history of the last n epochs, of at least one.
func newHistory(n int) *history {
	return &history{ring: make([]EpochSummary, max(n, 1))}
}

// add remembers an epoch that has ended and forgets the oldest if there is no room.
func (h *history) add(s EpochSummary) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring[h.next] = s
	h.next = (h.next + 1) % len(h.ring)
	h.used = min(h.used+1, len(h.ring))
	switch s.Outcome {
	case OutcomeAborted:
		h.sum.Aborted++
		return
	case OutcomeCarried:
		h.sum.Carried++
	default:
		h.sum.Committed++
	}
	h.sum.RecordsIn += s.RecordsIn
	h.sum.BytesIn += s.BytesIn
	h.sum.RecordsOut += s.RecordsOut
	h.sum.BytesOut += s.BytesOut
}

// sums returns the counts over all epochs that were ever added.
func (h *history) sums() Totals {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sum
}

// latest returns copies, the epoch that ended last first. The result is never nil.
func (h *history) latest() []EpochSummary {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]EpochSummary, h.used)
	for i := range out {
		out[i] = h.ring[h.back(i)]
	}
	return out
}

// find returns the summary of an epoch, if it is still remembered.
func (h *history) find(epoch txn.Epoch) (EpochSummary, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.used {
		if s := h.ring[h.back(i)]; s.Epoch == epoch {
			return s, true
		}
	}
	return EpochSummary{}, false
}

// size returns how many epochs are remembered at most.
func (h *history) size() int { return len(h.ring) }

// back returns the place in the ring of the summary added i before the last. The lock is held.
func (h *history) back(i int) int {
	return (h.next - 1 - i + 2*len(h.ring)) % len(h.ring)
}
