package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Messages that the bridge logs at the steps of an epoch, in their order, at
// debug level and with the epoch's number.
const (
	StepBarrier   = "epoch barrier"
	StepAligned   = "epoch aligned"
	StepFlushed   = "epoch flushed"
	StepOffsets   = "epoch offsets sent"
	StepCommitted = "epoch committed"
)

// Steps are the protocol's steps in order.
var Steps = []string{StepBarrier, StepAligned, StepFlushed, StepOffsets, StepCommitted}

// Event is one line of the bridge's log.
type Event struct {
	At      time.Time // when the line was read
	Message string    // the whole line, if it is not JSON
	Level   string
	Epoch   int64 // 0 if the line names none
	Class   string
	State   string
	Line    string

	// Producer of the epoch's transaction, in the line of StepOffsets.
	ProducerID    int64
	ProducerEpoch int16
}

// Log is what a process writes: JSON lines of log/slog, and whatever else. It
// is an io.Writer for exec.Cmd, and may be read from any goroutine.
type Log struct {
	mu     sync.Mutex
	rest   []byte // a line whose end is still to come
	events []Event
	more   chan struct{} // closed when a line is added or the log is complete
	ended  bool
}

// NewLog is an empty log.
func NewLog() *Log { return &Log{more: make(chan struct{})} }

// Write takes part of a stream of lines.
func (l *Log) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, data...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		if end < 0 {
			break
		}
		l.events = append(l.events, parseEvent(string(l.rest[:end])))
		l.rest = l.rest[end+1:]
	}
	l.announce()
	return len(data), nil
}

func (l *Log) announce() {
	close(l.more)
	l.more = make(chan struct{})
}

// close completes the log: a last line without end is a line too.
func (l *Log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.events = append(l.events, parseEvent(string(l.rest)))
		l.rest = nil
	}
	l.ended = true
	l.announce()
}

func parseEvent(line string) Event {
	e := Event{At: time.Now(), Message: line, Line: line}
	var fields struct {
		Msg           *string
		Level         string
		Epoch         int64
		Class         string
		State         string
		ProducerID    int64 `json:"producer_id"`
		ProducerEpoch int16 `json:"producer_epoch"`
	}
	if err := json.Unmarshal([]byte(line), &fields); err == nil && fields.Msg != nil {
		e.Message, e.Level, e.Epoch = *fields.Msg, fields.Level, fields.Epoch
		e.Class, e.State = fields.Class, fields.State
		e.ProducerID, e.ProducerEpoch = fields.ProducerID, fields.ProducerEpoch
	}
	return e
}

// Len is the number of lines so far; a mark for After.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events)
}

// Events are the lines so far, from the mark on.
func (l *Log) Events(mark int) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events[mark:])
}

// Count is the number of lines with this message.
func (l *Log) Count(message string) int {
	n := 0
	for _, e := range l.Events(0) {
		if e.Message == message {
			n++
		}
	}
	return n
}

// Contains says whether any line contains text.
func (l *Log) Contains(text string) bool {
	return slices.ContainsFunc(l.Events(0), func(e Event) bool { return strings.Contains(e.Line, text) })
}

// ErrSilent says that a process ended without the awaited line.
var ErrSilent = errors.New("the process ended without the awaited line")

// Await waits for the first line, from the mark on, for which ok returns true.
func (l *Log) Await(ctx context.Context, mark int, ok func(Event) bool) (Event, error) {
	for {
		l.mu.Lock()
		fresh, more, ended := l.events[mark:], l.more, l.ended
		l.mu.Unlock()
		for _, e := range fresh {
			if ok(e) {
				return e, nil
			}
		}
		mark += len(fresh)
		if ended {
			return Event{}, ErrSilent
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("awaited line of the log: %w", ctx.Err())
		}
	}
}

// Message is a condition for Await: the line has this message.
func Message(message string) func(Event) bool {
	return func(e Event) bool { return e.Message == message }
}

// State is a condition for Await: the process changed to this state.
func State(state string) func(Event) bool {
	return func(e Event) bool { return e.Message == "state changed" && e.State == state }
}

// LastStep says how far the protocol had come by the last line: the last step
// of the oldest epoch that was begun and is not committed. With none open it is
// StepCommitted, or StepNone before the first barrier.
func (l *Log) LastStep() string {
	steps := make(map[int64]string)
	last := StepNone
	for _, e := range l.Events(0) {
		switch {
		case e.Message == StepCommitted:
			delete(steps, e.Epoch)
			last = StepCommitted
		case e.Message == "epoch aborted":
			clear(steps) // it dooms every later one
			last = StepNone
		case slices.Contains(Steps, e.Message):
			steps[e.Epoch] = e.Message
		}
	}
	if len(steps) == 0 {
		return last
	}
	return steps[slices.Min(slices.Collect(maps.Keys(steps)))]
}

// StepNone is LastStep before the first barrier: start-up.
const StepNone = "start"

// Outcome is what the log says of the transaction of one epoch.
type Outcome struct {
	Epoch         int64
	ProducerID    int64
	ProducerEpoch int16
	Committed     bool
}

// Outcomes are the transactions that the bridge knows to be committed, or knows
// not to be (class "aborted"). It knows nothing of one that is in doubt, and
// none that never came as far as its positions is named.
func (l *Log) Outcomes() []Outcome {
	var all []Outcome
	sent := make(map[int64]Outcome) // by epoch
	for _, e := range l.Events(0) {
		o, ok := sent[e.Epoch]
		switch {
		case e.Message == StepOffsets:
			sent[e.Epoch] = Outcome{Epoch: e.Epoch, ProducerID: e.ProducerID, ProducerEpoch: e.ProducerEpoch}
			continue
		case !ok:
			continue
		case e.Message == StepCommitted:
			o.Committed = true
			all = append(all, o)
		case e.Message == "epoch aborted" && e.Class == "aborted":
			all = append(all, o)
		case e.Message != "epoch aborted":
			continue
		}
		delete(sent, e.Epoch)
	}
	return all
}

// Tail is the log's last n lines, for an error message, without what the Kafka
// client says at debug level: it would hide the rest.
func (l *Log) Tail(n int) string {
	events := slices.DeleteFunc(l.Events(0), func(e Event) bool { return e.Message == "kafka client" && e.Level == "DEBUG" })
	var text strings.Builder
	if cut := len(events) - n; cut > 0 {
		fmt.Fprintf(&text, "... %d lines before\n", cut)
		events = events[cut:]
	}
	for _, e := range events {
		text.WriteString(e.Line)
		text.WriteByte('\n')
	}
	return text.String()
}
