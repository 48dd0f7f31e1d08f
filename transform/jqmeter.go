package transform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/itchyny/gojq"
)

// What one record may cost in jq. All of it is counted, none is measured: the same record
// ends the same way on a fast machine and on a slow one.
const (
	// jqSteps bounds the instructions of gojq's machine, some fifty nanoseconds each, and
	// with them the depth of recursion and the number of values made one by one.
	jqSteps = 4_000_000

	// jqMemory bounds what single instructions allocate that make something large of
	// something small, in bytes, whether it is kept or not.
	jqMemory = 128 << 20

	// jqWeight bounds the JSON text of a value that an instruction looks at as a whole, and
	// of what is written, in bytes.
	jqWeight = 16 << 20

	// jqResults bounds the records that become of one.
	jqResults = 10_000

	// jqSearched bounds a text that a regular expression is applied to again and again:
	// gojq takes time that grows with its square.
	jqSearched = 16 << 10

	// jqPairs bounds the comparisons of one instruction that compares each with each.
	jqPairs = 10_000_000

	// jqPlace bounds the place in an array that is assigned to: all before it are filled.
	jqPlace = 1_000_000

	jqBits = 1 << 16 // of a whole number
)

var (
	errJQSteps  = fmt.Errorf("jq took more than %d steps", jqSteps)
	errJQMemory = fmt.Errorf("jq needed more than %d bytes of memory", jqMemory)
	errJQLarge  = fmt.Errorf("a value is larger than %d bytes or nests deeper than %d", jqWeight, maxJSONDepth)
	errJQPairs  = fmt.Errorf("an instruction would compare more than %d pairs", jqPairs)
	errJQNumber = fmt.Errorf("a whole number has more than %d bits", jqBits)
)

// jqMeter counts what a record costs. It is the context of gojq's machine, which asks it
// before each instruction whether to go on; once the budget is used up the answer is no,
// whatever the program catches.
type jqMeter struct {
	steps, memory, pieces int
	spent                 error
	closed                chan struct{}
}

var _ context.Context = (*jqMeter)(nil)

func newJQMeter() *jqMeter {
	m := &jqMeter{closed: make(chan struct{})}
	close(m.closed)
	return m
}

func (m *jqMeter) reset() { m.steps, m.memory, m.pieces, m.spent = jqSteps, jqMemory, 0, nil }

// Done counts one step.
func (m *jqMeter) Done() <-chan struct{} {
	if m.steps--; m.steps >= 0 && m.spent == nil {
		return nil
	}
	if m.spent == nil {
		m.spent = errJQSteps
	}
	return m.closed
}

// Err says which budget was used up.
func (m *jqMeter) Err() error { return m.spent }

// Deadline is none: time is not counted.
func (m *jqMeter) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value is none.
func (m *jqMeter) Value(any) any { return nil }

// stop ends the record's evaluation. gojq takes the result for the function's failure.
func (m *jqMeter) stop(err error) error {
	if m.spent == nil {
		m.spent = err
	}
	return err
}

// pay takes bytes off the memory that is left.
func (m *jqMeter) pay(bytes int) error {
	if m.memory -= bytes; m.memory < 0 {
		return m.stop(errJQMemory)
	}
	return nil
}

// guard makes a function of gojq that gives its input back, or stops.
func (m *jqMeter) guard(check func(v any) error) func(any, []any) any {
	return func(v any, _ []any) any {
		if err := check(v); err != nil {
			return err
		}
		return v
	}
}

// options are the functions that a guarded program calls, see jqGuards.
func (m *jqMeter) options() []gojq.CompilerOption {
	return []gojq.CompilerOption{
		gojq.WithFunction("_deep", 0, 0, m.guard(m.deep)),
		gojq.WithFunction("_flat", 0, 0, m.guard(m.flat)),
		gojq.WithFunction("_text", 0, 0, m.guard(m.text)),
		gojq.WithFunction("_searched", 0, 0, m.guard(m.searched)),
		gojq.WithFunction("_piece", 0, 0, m.guard(m.piece)),
		gojq.WithFunction("_numeral", 0, 0, m.guard(m.numeral)),
		gojq.WithFunction("_place", 0, 0, m.guard(m.place)),
		gojq.WithFunction("_places", 0, 0, m.guard(m.places)),
		gojq.WithFunction("_grid", 0, 0, m.guard(m.grid)),
		gojq.WithFunction("_pairs", 1, 1, func(v any, args []any) any { return m.passing(v, m.pairs(v, args[0])) }),
		gojq.WithFunction("_joined", 1, 1, func(v any, args []any) any { return m.passing(v, m.joined(v, args[0])) }),
		gojq.WithFunction("_product", 2, 2, func(v any, args []any) any { return m.passing(v, m.product(args[0], args[1])) }),
	}
}

func (m *jqMeter) passing(v any, err error) any {
	if err != nil {
		return err
	}
	return v
}

// deep bounds the text of a value, however often it shares its parts: to compare or to
// write it takes as long as the text is.
func (m *jqMeter) deep(v any) error {
	left := jqWeight
	nodes := 0
	if !weigh(v, &left, &nodes, maxJSONDepth) {
		return m.stop(errJQLarge)
	}
	m.steps -= nodes / 4
	return nil
}

// weigh takes the size of v off what is left, and reports whether there was enough. depth
// is how deep v may nest.
func weigh(v any, left, nodes *int, depth int) bool {
	*left -= 4
	*nodes++
	switch v := v.(type) {
	case string:
		*left -= len(v)
	case json.Number:
		*left -= len(v)
	case *big.Int:
		*left -= v.BitLen() / 3
	case []any:
		for _, element := range v {
			if depth == 0 || !weigh(element, left, nodes, depth-1) {
				return false
			}
		}
	case map[string]any:
		for name, field := range v {
			*left -= len(name) + 4
			if depth == 0 || !weigh(field, left, nodes, depth-1) {
				return false
			}
		}
	}
	return *left >= 0
}

// Sizes of Go's values in memory, rounded up.
const (
	bytesPerElement = 16
	bytesPerField   = 64
)

// flat charges for a value that an instruction made, without what it shares.
func (m *jqMeter) flat(v any) error {
	switch v := v.(type) {
	case string:
		if len(v) > jqWeight {
			return m.stop(errJQLarge)
		}
		return m.pay(len(v))
	case []any:
		return m.pay(len(v) * bytesPerElement)
	case map[string]any:
		return m.pay(len(v) * bytesPerField)
	case *big.Int:
		if v.BitLen() > jqBits {
			return m.stop(errJQNumber)
		}
	}
	return nil
}

// text charges for a text that will be taken apart character by character.
func (m *jqMeter) text(v any) error {
	if s, ok := v.(string); ok {
		return m.pay(len(s) * 2 * bytesPerElement)
	}
	return nil
}

func (m *jqMeter) searched(v any) error {
	if s, ok := v.(string); ok {
		if len(s) > jqSearched {
			return m.stop(fmt.Errorf("a text of %d bytes is searched: jq can search %d", len(s), jqSearched))
		}
		m.pieces = len(s)
		return m.pay(len(s) * bytesPerField)
	}
	return nil
}

// piece charges for a replacement and for copying all that came before it.
func (m *jqMeter) piece(v any) error {
	if s, ok := v.(string); ok {
		m.pieces += len(s)
	}
	return m.pay(m.pieces / 4)
}

func (m *jqMeter) numeral(v any) error {
	if s, ok := v.(string); ok && len(s) > maxNumberDigits {
		return errors.New("a text that long is no number")
	}
	return nil
}

// place bounds a number that may be the place of an assignment.
func (m *jqMeter) place(v any) error {
	n, isNumber := gojq.ToFloat64(v)
	if !isNumber || n <= 1000 {
		return nil
	}
	if n > jqPlace {
		return m.stop(fmt.Errorf("the place %g in an array is beyond %d", n, jqPlace))
	}
	return m.pay(int(n) * bytesPerElement)
}

func (m *jqMeter) places(v any) error {
	path, _ := v.([]any)
	for _, step := range path {
		if err := m.place(step); err != nil {
			return err
		}
	}
	return nil
}

// grid charges for turning rows into columns, which fills the gaps.
func (m *jqMeter) grid(v any) error {
	rows, _ := v.([]any)
	widest := 0
	for _, row := range rows {
		if cells, ok := row.([]any); ok {
			widest = max(widest, len(cells))
		}
	}
	return m.pay(len(rows) * widest * bytesPerElement)
}

// pairs bounds comparing each part of one value with each of another.
func (m *jqMeter) pairs(a, b any) error {
	if _, isText := a.(string); isText {
		return nil // searching a text is linear
	}
	sizes := [2]int{}
	for i, v := range []any{a, b} {
		left := jqWeight
		if !weigh(v, &left, &sizes[i], maxJSONDepth) {
			return m.stop(errJQLarge)
		}
	}
	if sizes[0]*sizes[1] > jqPairs {
		return m.stop(errJQPairs)
	}
	return nil
}

func (m *jqMeter) joined(v, separator any) error {
	if err := m.deep(v); err != nil {
		return err
	}
	parts, _ := v.([]any)
	s, _ := separator.(string)
	return m.pay(len(parts) * len(s))
}

// product bounds a * b: a long number, a repeated text, or two objects merged.
func (m *jqMeter) product(a, b any) error {
	switch x := a.(type) {
	case string:
		return m.repeated(x, b)
	case map[string]any:
		if err := m.deep(a); err != nil {
			return err
		}
		return m.deep(b)
	}
	if s, ok := b.(string); ok {
		return m.repeated(s, a)
	}
	return nil
}

func (m *jqMeter) repeated(s string, times any) error {
	n, _ := gojq.ToFloat64(times)
	if n > 0 && float64(len(s))*n > jqWeight {
		return m.stop(errJQLarge)
	}
	return nil
}
