package oracle

import (
	"fmt"
	"strings"
)

// maxExamples is how many examples a finding keeps: enough to see a pattern.
const maxExamples = 5

// Finding counts one kind of fault and remembers its first examples.
type Finding struct {
	Count    int64
	Examples []string
}

func (f *Finding) add(format string, args ...any) {
	f.Count++
	if len(f.Examples) < maxExamples {
		f.Examples = append(f.Examples, fmt.Sprintf(format, args...))
	}
}

// addMany counts n at once, with one example.
func (f *Finding) addMany(n int64, format string, args ...any) {
	f.add(format, args...)
	f.Count += n - 1
}

// addAll counts what another one has found.
func (f *Finding) addAll(other Finding) {
	f.Count += other.Count
	f.Examples = append(f.Examples, other.Examples...)
	f.Examples = f.Examples[:min(len(f.Examples), maxExamples)]
}

func (f Finding) clone() Finding {
	f.Examples = append([]string(nil), f.Examples...)
	return f
}

// Verdict is the judgement over one run. The package comment defines each kind.
type Verdict struct {
	In  int64 // wanted records that were fed
	Out int64 // visible records, repeats included

	Duplicated, Lost, OutOfOrder Finding
	Altered, Foreign, Misplaced  Finding
	Withdrawn, Late              Finding

	// Of the account of transactions, if there is one (Transactions.Into).
	Committed, Aborted          int64 // transactions
	Torn, AbortedRead, LeftOpen Finding
	Apart, Backward, Belied     Finding
}

type namedFinding struct {
	name string
	Finding
}

func (v Verdict) findings() []namedFinding {
	return []namedFinding{
		{"duplicated", v.Duplicated},
		{"lost", v.Lost},
		{"out of order", v.OutOfOrder},
		{"altered", v.Altered},
		{"foreign", v.Foreign},
		{"misplaced", v.Misplaced},
		{"withdrawn", v.Withdrawn},
		{"late", v.Late},
		{"torn", v.Torn},
		{"aborted read", v.AbortedRead},
		{"left open", v.LeftOpen},
		{"apart", v.Apart},
		{"backward", v.Backward},
		{"belied", v.Belied},
	}
}

// Exact says that every wanted record is visible once, in order, unaltered, that
// both readers agree, and that every transaction was whole.
func (v Verdict) Exact() bool {
	for _, f := range v.findings() {
		if f.Count != 0 {
			return false
		}
	}
	return v.In == v.Out
}

// Undamaged says that what is visible is genuine: nothing altered, foreign or
// misplaced, nothing withdrawn, torn or aborted. It allows repeats and losses.
func (v Verdict) Undamaged() bool {
	return v.Altered.Count+v.Foreign.Count+v.Misplaced.Count+v.Withdrawn.Count+v.Late.Count+
		v.Torn.Count+v.AbortedRead.Count == 0
}

// String is one line of counts, then the examples of each fault.
func (v Verdict) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "in %d, out %d", v.In, v.Out)
	for _, f := range v.findings() {
		fmt.Fprintf(&text, ", %s %d", f.name, f.Count)
	}
	if v.Committed+v.Aborted > 0 {
		fmt.Fprintf(&text, "; transactions committed %d, aborted %d", v.Committed, v.Aborted)
	}
	for _, f := range v.findings() {
		for _, example := range f.Examples {
			fmt.Fprintf(&text, "\n  %s: %s", f.name, example)
		}
	}
	return text.String()
}
