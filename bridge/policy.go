package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// OnError is what becomes of an input that cannot be bridged as it should be: a transform refuses it, or an output
// topic refuses what it became.
type OnError string

// The error policies.
const (
	// Fail ends the bridge, which names the input. Nothing of its epoch is visible.
	Fail OnError = "fail"
	// Skip leaves the input out: it is logged and counted, and its position advances.
	Skip OnError = "skip"
	// DeadLetter writes the input, as it was read, to the topic Options.DLQ, in the transaction that advances its
	// position. An input is then in exactly one of output and dead letters.
	DeadLetter OnError = "dlq"
)

// Why an input could not be bridged: the values of a dead letter's class and of a metric's label.
const (
	failedTransform = "transform" // a transform has returned an error
	failedPanic     = "panic"     // a transform has panicked
	failedTooLarge  = "too-large" // larger than the output topic or the client takes
	failedTimestamp = "timestamp" // earlier or later than the output topic takes
	failedNoKey     = "no-key"    // without a key, for a compacted topic
	failedRefused   = "refused"   // the broker refused it for another reason
)

func failureKinds() []string {
	return []string{failedTransform, failedPanic, failedTooLarge, failedTimestamp, failedNoKey, failedRefused}
}

// failure says why an input cannot be bridged. It follows from the record and the configuration alone, but for the word of
// a broker: an aborted epoch that is replayed has to come to the same dead letter, byte for byte.
type failure struct {
	class     string
	transform string // of the chain, else empty
	stage     int    // its place in the chain, from 1
	target    string // the topic that refuses an output, else empty
	err       error
	stack     []byte // of a panic
	// attempts is how often the input was tried: once by the transforms and the checks, which come to the same result
	// each time; by a broker twice, together with others and then alone in a transaction.
	attempts int
}

// failureOf says why a chain has refused an input.
func failureOf(err error) failure {
	f := failure{class: failedTransform, err: err, attempts: 1}
	var refused *transform.Error
	var panicked *transform.PanicError
	switch {
	case errors.As(err, &panicked):
		f.class, f.transform, f.stage, f.stack = failedPanic, panicked.Transform, panicked.Stage, panicked.Stack
	case errors.As(err, &refused):
		f.transform, f.stage = refused.Transform, refused.Stage
	}
	return f
}

// policy settles what the converters of a session cannot convert. They share it.
type policy struct {
	action  OnError // Skip or DeadLetter; without a policy an input that fails ends the session
	dlq     string  // with DeadLetter
	sender  sender
	limit   int64 // failures in a row that are allowed; 0 = any number
	rules   func(topic string) topicRules
	batch   func(topic string) int32 // the largest batch that is made for it
	refused *refusals
	decode  func()                             // from the next session on
	failed  func(class string, action OnError) // counts
	now     func() time.Time
	log     *slog.Logger

	row atomic.Int64 // failures since an input was converted, in whatever lane

	mu     sync.Mutex // guards logged and silent
	logged time.Time  // the last line about a failure
	silent int        // failures since then
}

// sender is what a dead letter says about who has written it.
type sender struct{ group, version string }

func (s *session) newPolicy() *policy {
	if s.opts.OnError == Fail {
		return nil
	}
	return &policy{
		action: s.opts.OnError, dlq: s.opts.letters(), sender: sender{s.opts.Group, s.opts.Version}, limit: int64(s.opts.ErrorLimit),
		rules: s.rulesOf, batch: s.batchLimit, refused: &s.refusals, decode: s.decode, failed: s.countFailure, now: time.Now, log: s.log,
	}
}

// FailedRecords counts the inputs of this process that could not be bridged as they should be.
type FailedRecords struct {
	// Skipped counts those of aborted epochs too, and again when they are replayed.
	Skipped int64 `json:"skipped"`
	// DeadLetters counts those of epochs that did not abort.
	DeadLetters int64 `json:"dead_letters"`
}

// countFailure counts an input that could not be bridged.
func (b *Bridge) countFailure(class string, action OnError) {
	b.metrics.failure(class, action)
	if action == Skip {
		b.board.skipped.Add(1)
	}
}

// decode ends pass-through for the rest of the process.
func (b *Bridge) decode() {
	if !b.decoding.Swap(true) {
		b.pathTold.Store(false) // and say so
	}
}

// letters is the topic for dead letters, empty if there are none. p may be nil.
func (p *policy) letters() string {
	if p == nil {
		return ""
	}
	return p.dlq
}

// examine answers false, and why, if one of the outputs of an input will be refused: then none of them goes out.
func (p *policy) examine(outputs []transform.Record, target string, extra int) (failure, bool) {
	for i := range outputs {
		topic := target
		if outputs[i].Target != "" {
			topic = outputs[i].Target
		}
		if class, err := p.rules(topic).refuse(&outputs[i], extra, p.now); class != "" {
			return failure{class: class, target: topic, err: fmt.Errorf("output topic %s: %w", topic, err), attempts: 1}, false
		}
	}
	return failure{}, true
}

// converted ends a row of failures.
func (p *policy) converted() {
	if p.row.Load() != 0 {
		p.row.Store(0)
	}
}

// settle appends to out what becomes of an input that has failed. A row of failures that is too long is the end: it is
// the transform then, or the topic, and not the records.
func (p *policy) settle(tp offsets.TopicPartition, in *transform.Record, f failure, out []transform.Record) ([]transform.Record, error) {
	if row := p.row.Add(1); p.limit > 0 && row > p.limit {
		return out, txn.Fatalf(txn.StatusFailure, "%d records in a row have failed (BRIDGE_ERROR_LIMIT=%d), the last one is topic %s partition %d offset %d: %w: "+
			"correct what they fail at, or raise the limit", row, p.limit, tp.Topic, tp.Partition, in.Offset, f.err)
	}
	p.failed(f.class, p.action)
	p.tell(tp, in.Offset, f)
	if p.action == Skip {
		return out, nil
	}
	letter := deadLetter(in, tp, f, p.sender)
	letter.Target = p.dlq
	if class, err := p.rules(p.dlq).refuse(&letter, 0, p.now); class != "" {
		return out, fmt.Errorf("%w (it failed as: %w)", refusedLetter(p.dlq, tp, in.Offset, err), f.err)
	}
	return append(out, letter), nil
}

// refusedLetter is the end of an input that can go nowhere.
func refusedLetter(dlq string, tp offsets.TopicPartition, offset int64, err error) error {
	return txn.Fatalf(txn.StatusFailure,
		"topic %s (BRIDGE_DLQ_TOPIC) refuses the dead letter of topic %s partition %d offset %d: %w: "+
			"give it limits that take every record (max.message.bytes above that of the input, message.timestamp.after.max.ms=%d, no compaction)",
		dlq, tp.Topic, tp.Partition, offset, err, maxMillis)
}

// tellEvery is the least time between two lines about failures: records can fail faster than a log can be written.
const tellEvery = 10 * time.Second

// tell logs a failure, or counts it for the next line.
func (p *policy) tell(tp offsets.TopicPartition, offset int64, f failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); !p.logged.IsZero() && now.Sub(p.logged) < tellEvery {
		p.silent++
		return
	}
	attrs := []any{"topic", tp.Topic, "partition", tp.Partition, "offset", offset, "class", f.class, "err", f.err, "unlogged", p.silent}
	if f.stack != nil {
		attrs = append(attrs, "stack", string(f.stack))
	}
	if p.action == DeadLetter {
		p.log.Warn("record becomes a dead letter", attrs...)
	} else {
		p.log.Warn("record skipped", attrs...)
	}
	p.logged, p.silent = p.now(), 0
}
