package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Invariants are what must hold in every state, by the names of Ring.tla.
var Invariants = []string{"NoDup", "NoLoss", "NoAhead", "Order", "VisPrefix", "Atomic"}

// Checker runs TLC.
type Checker struct {
	Jar     string // tla2tools.jar
	Spec    string // folder with Ring.tla
	Dir     string // for configurations and TLC's own files
	Workers int
}

// Outcome is what TLC has found.
type Outcome struct {
	Violated            string // invariant, "deadlock" or "liveness"; empty: none
	Complete            bool   // every state was explored
	Generated, Distinct int64  // states
	Depth               int
	Trace               Trace // the way to a violated invariant, shortest first
	Took                time.Duration
}

// Config writes a run in the form that TLC reads.
func Config(r Run) string {
	var b strings.Builder
	spec := "Spec"
	if r.Live {
		spec = "Fair"
	}
	fmt.Fprintf(&b, "SPECIFICATION %s\nCONSTANTS\n", spec)
	constants := r.Constants()
	for _, name := range slices.Sorted(maps.Keys(constants)) {
		fmt.Fprintf(&b, "  %s = %s\n", name, constants[name])
	}
	var quoted []string
	for _, guard := range r.Without {
		quoted = append(quoted, strconv.Quote(guard))
	}
	fmt.Fprintf(&b, "  Mut = {%s}\n", strings.Join(quoted, ", "))
	for _, name := range Invariants {
		fmt.Fprintf(&b, "INVARIANT %s\n", name)
	}
	if r.Live {
		b.WriteString("PROPERTY Delivered\n") // without the view, which liveness does not go with
	} else {
		b.WriteString("VIEW View\n")
	}
	return b.String()
}

// Check explores one run. ctx bounds it. An error says that TLC has not finished, or has not understood.
func (c Checker) Check(ctx context.Context, r Run) (Outcome, error) {
	spec, err := filepath.Abs(c.Spec)
	if err != nil {
		return Outcome{}, err
	}
	config := filepath.Join(c.Dir, "run.cfg")
	if err := os.WriteFile(config, []byte(Config(r)), 0o600); err != nil {
		return Outcome{}, err
	}
	workers := c.Workers
	if r.Mutation() {
		workers = 1 // the same shortest trace each time
	}
	cmd := exec.CommandContext(ctx, "java", "-Xmx3g", "-XX:+UseParallelGC", "-XX:ParallelGCThreads=2", "-XX:TieredStopAtLevel="+tier(r),
		"-cp", c.Jar, "tlc2.TLC", "-workers", strconv.Itoa(workers), "-metadir", filepath.Join(c.Dir, "states"), "-config", config, "Ring.tla")
	cmd.Dir = spec
	began := time.Now()
	text, err := cmd.CombinedOutput()
	out, parseErr := parse(string(text))
	out.Took = time.Since(began)
	if ctx.Err() != nil {
		return out, fmt.Errorf("run %q: not finished after %s: %w", r.Name, out.Took.Round(time.Second), ctx.Err())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // a violation ends it with a status of its own
		return out, fmt.Errorf("run %q: java: %w", r.Name, err)
	}
	if parseErr != nil {
		return out, fmt.Errorf("run %q: %w\n%s", r.Name, parseErr, text)
	}
	return out, nil
}

// tier spares short runs the optimizing compiler, which takes longer than they do.
func tier(r Run) string {
	if r.Full {
		return "4"
	}
	return "1"
}

var (
	lineCounts   = regexp.MustCompile(`(?m)^([\d,]+) states generated, ([\d,]+) distinct states found, ([\d,]+) states left on queue`)
	lineDepth    = regexp.MustCompile(`(?m)depth of the complete state graph search is (\d+)`)
	lineViolated = regexp.MustCompile(`(?m)^Error: Invariant (\w+) is violated|(Deadlock reached)|(Temporal properties were violated)`)
)

// parse reads TLC's report. What it does not know is an error: a report that says nothing is no success.
func parse(text string) (Outcome, error) {
	var o Outcome
	number := func(s string) int64 {
		n, _ := strconv.ParseInt(strings.ReplaceAll(s, ",", ""), 10, 64) // \d and commas only
		return n
	}
	m := lineCounts.FindAllStringSubmatch(text, -1)
	if m == nil {
		return o, errors.New("tlc counts no states")
	}
	last := m[len(m)-1]
	o.Generated, o.Distinct = number(last[1]), number(last[2])
	if d := lineDepth.FindStringSubmatch(text); d != nil {
		o.Depth = int(number(d[1]))
	}
	none := strings.Contains(text, "Model checking completed. No error has been found.")
	switch v := lineViolated.FindStringSubmatch(text); {
	case none && v == nil && number(last[3]) == 0:
		o.Complete = true
		return o, nil
	case none || v == nil:
		return o, errors.New("tlc found neither an end nor a violation")
	case v[1] != "":
		o.Violated = v[1]
	case v[2] != "":
		o.Violated = "deadlock"
	default:
		o.Violated = "liveness"
	}
	o.Trace = steps(text)
	if len(o.Trace) == 0 {
		return o, fmt.Errorf("tlc says that %s is violated, and not how", o.Violated)
	}
	return o, nil
}

// Surprise says in what an outcome differs from what a run wants; nil if in nothing.
func (r Run) Surprise(o Outcome) error {
	switch {
	case r.Want == "" && o.Violated != "":
		return fmt.Errorf("%q violates %s:\n%s", r.Name, o.Violated, o.Trace)
	case r.Want == "" && !o.Complete:
		return fmt.Errorf("%q is not complete", r.Name)
	case r.Want != o.Violated:
		return fmt.Errorf("%q violates %q, want %s:\n%s", r.Name, o.Violated, r.Want, o.Trace)
	}
	return nil
}
