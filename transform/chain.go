package transform

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// keepCapacity bounds, in records, the buffers a chain keeps between two calls, so that
// one record that became very many does not hold its memory for ever.
const keepCapacity = 1024

// maxOutputs bounds, in records, what one record becomes. The records of one input are all
// in memory at once, from here to the producer, and go into one epoch.
const maxOutputs = 100_000

var (
	errTooMany  = fmt.Errorf("one record became more than %d records", maxOutputs)
	errTooHeavy = fmt.Errorf("the records that one record became are larger than %d bytes together", maxResult)
)

// errShrunk is what a chain says of a transform that returned less than it was given.
// Taken at face value, "return nil, nil" for a dropped record would take the results of
// the records before it along: a silent loss.
var errShrunk = errors.New("returned fewer records than it was given: to drop a record, return out as it came")

// Chain is a sequence of transforms with the buffers between them. It belongs to one
// goroutine at a time: every lane has its own.
type Chain struct {
	stages []chainStage

	// at is the stage at work, for the report of a panic.
	at int

	// between holds the records between two stages: stage i reads between[(i-1)%2] and
	// writes between[i%2]. The last stage writes to the caller's slice. Outside Apply
	// both are empty, with nothing left in their capacity that would pin a batch.
	between [2][]Record

	// scan is the JSON of the record at hand, for all expressions of the chain; nil without any.
	scan *celScan
}

type chainStage struct {
	Transform
	name string
	pos  int // in the expression, counted from 1
}

var _ Transform = (*Chain)(nil)

// Error is a transform's refusal of a record.
type Error struct {
	Transform string // its name
	Stage     int    // its place in the expression, counted from 1
	Err       error
}

// Error names the transform and what it said.
func (e *Error) Error() string {
	return fmt.Sprintf("transform %s (stage %d): %v", e.Transform, e.Stage, e.Err)
}

// Unwrap returns what the transform said.
func (e *Error) Unwrap() error { return e.Err }

// PanicError is a panic inside a transform.
type PanicError struct {
	Transform string // its name
	Stage     int    // its place in the expression, counted from 1
	Value     any    // what was panicked with
	Stack     []byte // of the goroutine, as the runtime prints it
}

// Error leaves the stack out: whoever reports the error shows it once, by itself.
func (e *PanicError) Error() string {
	return fmt.Sprintf("transform %s (stage %d) panicked: %v", e.Transform, e.Stage, e.Value)
}

// Unwrap returns the panic's value if it is an error, as it is for runtime errors.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// New makes a chain with instances of its own. A constructor that succeeded in Parse and
// fails now, because a file it reads has gone, gives a chain whose Apply returns that
// error for every record.
func (s *Spec) New() *Chain {
	chain := &Chain{}
	for i, st := range s.stages {
		if st.name == identityName {
			continue
		}
		built, err := st.build(s.outside)
		if err != nil {
			built = broken{err}
		}
		if reader, ok := built.(scanning); ok {
			if chain.scan == nil {
				chain.scan = &celScan{shared: true}
			}
			reader.share(chain.scan)
		}
		chain.stages = append(chain.stages, chainStage{Transform: built, name: st.name, pos: i + 1})
	}
	return chain
}

// build makes an instance of the stage for one chain.
func (st *stage) build(outside *Environment) (Transform, error) {
	if model, ok := st.first.(Forker); ok {
		return model.Fork(), nil
	}
	return st.definition.build(st.text, outside)
}

// Until gives the chain the context within which its transforms may wait for something
// outside. It is called before the first Apply; without it they wait as long as they are
// made to.
func (c *Chain) Until(ctx context.Context) {
	for i := range c.stages {
		if waits, ok := c.stages[i].Transform.(interface{ until(context.Context) }); ok {
			waits.until(ctx)
		}
	}
}

// broken stands in for a transform that could not be built.
type broken struct{ err error }

func (b broken) Apply(*Record, []Record) ([]Record, error) { return nil, b.err }

// Apply appends to out what becomes of in. Under the contract of Transform it alters
// nothing that in points at; the results may share it.
//
// A transform's error comes back as *Error, its panic as *PanicError, in both cases with
// out as it was given; the chain can be used again. What the runtime does not let recover
// (running out of memory, a stack overflow) still ends the process.
func (c *Chain) Apply(in *Record, out []Record) ([]Record, error) {
	if len(c.stages) == 0 {
		return append(out, *in), nil
	}
	results, err := c.run(in, out)
	if c.scan != nil {
		c.scan.forget()
	}
	if err != nil {
		c.forget()
		return out, err
	}
	for i := len(out); i < len(results); i++ {
		result := &results[i]
		result.Topic, result.Partition, result.Offset = in.Topic, in.Partition, in.Offset
	}
	return results, nil
}

// run passes in through all stages, breadth first: order is kept, and a stage's results
// are all there before the next stage sees the first.
func (c *Chain) run(in *Record, out []Record) (results []Record, err error) {
	defer func() {
		if v := recover(); v != nil {
			st := &c.stages[c.at]
			results, err = nil, &PanicError{Transform: st.name, Stage: st.pos, Value: v, Stack: debug.Stack()}
		}
	}()
	last := len(c.stages) - 1
	c.at = 0
	if last == 0 {
		results, err = c.stages[0].apply(in, out)
		if err == nil && len(results)-len(out) > maxOutputs {
			return nil, c.stages[0].refuses(errTooMany)
		}
		return results, err
	}
	source, err := c.stages[0].apply(in, c.between[0])
	for i := 1; i <= last; i++ {
		if err != nil {
			return nil, err
		}
		c.between[(i-1)%2] = source[:0] // it may have grown
		if len(source) == 0 {
			return out, nil
		}
		c.at = i
		dest := out
		if i < last {
			dest = c.between[i%2]
		}
		if dest, err = c.stages[i].applyAll(source, dest); err != nil {
			return nil, err
		}
		clear(source)
		source = dest
	}
	if max(cap(c.between[0]), cap(c.between[1])) > keepCapacity {
		c.between = [2][]Record{}
	}
	return source, nil
}

// forget drops the buffers after a failure, which may have left records in them.
func (c *Chain) forget() { c.between = [2][]Record{} }

// applyAll passes the results of the stage before through this one. What several records
// become is counted together: each may be of a size that is allowed, and all of them not.
func (s *chainStage) applyAll(source, out []Record) ([]Record, error) {
	if len(source) > maxOutputs {
		return nil, s.refuses(errTooMany)
	}
	given, size := len(out), 0
	for j := range source {
		from := len(out)
		var err error
		if out, err = s.apply(&source[j], out); err != nil {
			return nil, err
		}
		if len(source) == 1 {
			continue
		}
		for k := from; k < len(out); k++ {
			size += len(out[k].Value)
		}
		if size > maxResult {
			return nil, s.refuses(errTooHeavy)
		}
		if len(out)-given > maxOutputs {
			break
		}
	}
	if len(out)-given > maxOutputs {
		return nil, s.refuses(errTooMany)
	}
	return out, nil
}

func (s *chainStage) refuses(err error) error {
	return &Error{Transform: s.name, Stage: s.pos, Err: err}
}

func (s *chainStage) apply(in *Record, out []Record) ([]Record, error) {
	results, err := s.Apply(in, out)
	if err == nil && len(results) < len(out) {
		err = errShrunk
	}
	if err != nil {
		return nil, s.refuses(err)
	}
	return results, nil
}
