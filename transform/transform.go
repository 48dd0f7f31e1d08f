// Package transform is the room in which it is decided what becomes of a record.
//
// A pipeline's expression such as
//
//	drop_tombstones | filter_header(region=eu) | route(orders-eu)
//
// is read once by Parse; Spec.New then gives every lane a Chain of its own. The room is
// pure: it knows neither Kafka nor time, and what it returns follows from the record and
// the expression alone. This is what makes a replay harmless. A checkpoint epoch that
// aborts is read and transformed again, and the second run has to produce what the first
// one did, or the bridge's guarantee would hold only for the positions and not for the
// content.
//
// To add a transform, write one file (type, constructor, init with Register) and one
// golden testdata/<name>.txt; the tests of this package find both.
package transform

import "time"

// Header is one header of a Kafka record. Names may repeat and their order counts. Its
// layout is that of franz-go's kgo.RecordHeader.
type Header struct {
	Key   string
	Value []byte // nil is null, which is not the same as empty
}

// Record is a Kafka record on its way through a chain: first as it was read, then as it
// will be written.
type Record struct {
	// Topic, Partition and Offset say where the record was read and stay the same from
	// the first transform to the last: several results of one input carry the same three.
	Topic     string
	Partition int32
	Offset    int64

	// Target is the topic to write to; empty means the pipeline's default output.
	Target string

	Key     []byte // nil is null, which is not the same as empty
	Value   []byte // nil is null: a tombstone
	Headers []Header

	Timestamp time.Time
}

// A Transform turns one record into none, one or several.
//
// Apply appends its results to out, in the order in which they shall be written, and
// returns the longer slice. Appending nothing drops the record; that is no error.
//
// What must hold:
//
//  1. Apply is deterministic: the results depend on *in and the constructor's argument
//     alone. No I/O, no clock, no randomness, no iteration over a map that shows in the
//     result, and nothing carried over from earlier records: an aborted epoch is
//     replayed, its records may come in other company and to another instance.
//  2. Apply does not alter *in, nor the bytes and headers it points at, nor the spare
//     capacity behind them; append(in.Headers, h) is such a change. Results may share
//     all of these.
//  3. Apply does not keep in, which the caller uses again, nor out.
//  4. Results belong to the caller until they are acknowledged, long after Apply has
//     returned: memory that a result points at is never written again.
//  5. Topic, Partition and Offset are the input's. To send a record elsewhere, set Target;
//     a Transform that does so has a method Targets() []string with all the topics it
//     may name, so that they can be checked before the first record is read.
//
// An error means that this record cannot be transformed, now or on replay; the pipeline's
// error policy decides what follows. Results appended before the error are discarded.
//
// Apply is called by one goroutine at a time. An instance belongs to one chain.
type Transform interface {
	Apply(in *Record, out []Record) ([]Record, error)
}

// A Forker makes further instances of itself, for other chains, without going through its
// constructor again. A Transform whose constructor reads a file is one: chains are made
// anew while the bridge runs, and an aborted epoch that is replayed after the file has
// changed would become something else. The instance forked from is never applied itself;
// Fork may be called by several goroutines at once.
type Forker interface {
	Transform
	Fork() Transform
}
