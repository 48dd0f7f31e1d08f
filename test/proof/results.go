package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Read reads a file of results. There may be none yet.
func Read(path string) ([]Result, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Result
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// Forget removes the results of a part from a file: it is going to be run again.
func Forget(path, part string) error {
	all, err := Read(path)
	if err != nil {
		return err
	}
	var kept bytes.Buffer
	for _, r := range all {
		if r.Part == part {
			continue
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		kept.Write(append(line, '\n'))
	}
	return replaceFile(path, kept.Bytes())
}

// Failures names what failed, or came out other than exact.
func Failures(all []Result) []string {
	var names []string
	for _, r := range all {
		if bad := r.Lost + r.Duplicated + r.OutOfOrder + r.Torn + r.LeftOpen; r.Failed || bad > 0 {
			names = append(names, strings.TrimSpace(r.Test+" "+r.Broker))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Run says where and when results came to be.
type Run struct {
	Date    time.Time
	Bridge  string // version
	Go      string
	Machine string
}

// total are the results of one test on one broker, or of one broker, added up.
type total struct {
	Result
	runs  int64
	seeds []uint64
	notes []string
}

func (t *total) add(r Result) {
	t.runs++
	t.Failed = t.Failed || r.Failed
	t.Took += r.Took
	for _, sum := range []struct {
		to   *int64
		more int64
	}{
		{&t.Scenarios, r.Scenarios},
		{&t.Rows, r.Rows},
		{&t.Kills, r.Kills},
		{&t.Records, r.Records},
		{&t.Lost, r.Lost},
		{&t.Duplicated, r.Duplicated},
		{&t.OutOfOrder, r.OutOfOrder},
		{&t.Torn, r.Torn},
		{&t.LeftOpen, r.LeftOpen},
	} {
		*sum.to += sum.more
	}
	if r.Seed != 0 && !slices.Contains(t.seeds, r.Seed) {
		t.seeds = append(t.seeds, r.Seed)
	}
	if r.Note != "" && !slices.Contains(t.notes, r.Note) {
		t.notes = append(t.notes, r.Note)
	}
}

// ResultTables are the generated results of docs/proof.md: when and where, one summary, and one row for each test and
// broker.
func ResultTables(run Run, all []Result, tests Catalogue) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, eosbridge %s, %s, %s.", run.Date.UTC().Format(time.DateOnly), run.Bridge, run.Go, run.Machine)
	if parts := partLine(all); parts != "" {
		b.WriteString(" " + parts)
	}
	b.WriteString("\n\n")
	writeTable(&b, summaryRows(all, tests))
	b.WriteString("\n### Test by test\n\n")
	writeTable(&b, testRows(all))
	b.WriteString("\n")
	return b.String()
}

// partLine names the parts that were run.
func partLine(all []Result) string {
	var parts []string
	for _, r := range all {
		if r.Broker != "" {
			continue
		}
		text := r.Part + " " + r.Took.Round(time.Second).String()
		if r.Failed {
			text += " (FAILED)"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	return "Parts: " + strings.Join(parts, ", ") + "."
}

// figures are the counts of the summary, in its order.
var figures = []struct {
	name string
	of   func(*total) int64
}{
	{"tests that recorded a result", func(t *total) int64 { return t.runs }},
	{"situations tried by them (model: states)", func(t *total) int64 { return t.Scenarios }},
	{"fault rows", func(t *total) int64 { return t.Rows }},
	{"kills (SIGKILL)", func(t *total) int64 { return t.Kills }},
	{"records", func(t *total) int64 { return t.Records }},
	{"seeds", func(t *total) int64 { return int64(len(t.seeds)) }},
	{"**lost**", func(t *total) int64 { return t.Lost }},
	{"**duplicated**", func(t *total) int64 { return t.Duplicated }},
	{"**out of order**", func(t *total) int64 { return t.OutOfOrder }},
	{"**torn** (an epoch visible in part)", func(t *total) int64 { return t.Torn }},
	{"**transactions left open**", func(t *total) int64 { return t.LeftOpen }},
}

func summaryRows(all []Result, tests Catalogue) [][]string {
	heading := []string{""}
	known := []string{"known faults with a test there, of " + strconv.Itoa(len(Cases()))}
	totals := map[string]*total{}
	for _, broker := range brokerNames {
		heading = append(heading, broker.heading)
		n := 0
		for _, c := range Cases() {
			if slices.Contains(c.brokers(tests), broker.name) {
				n++
			}
		}
		known = append(known, grouped(int64(n)))
		totals[broker.name] = &total{}
	}
	for _, r := range all {
		if t := totals[r.Broker]; t != nil {
			t.add(r)
		}
	}
	rows := [][]string{heading, known}
	for _, f := range figures {
		row := []string{f.name}
		for _, broker := range brokerNames {
			t := totals[broker.name]
			if t.runs == 0 {
				row = append(row, "")
				continue
			}
			if n := f.of(t); strings.HasPrefix(f.name, "**") {
				row = append(row, grouped(n))
			} else {
				row = append(row, some(n))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func testRows(all []Result) [][]string {
	type key struct{ test, broker string }
	totals, order := map[key]*total{}, []key{}
	for _, r := range all {
		if r.Broker == "" {
			continue
		}
		test, _, _ := strings.Cut(r.Test, "/")
		k := key{test, r.Broker}
		if totals[k] == nil {
			totals[k] = &total{}
			order = append(order, k)
		}
		totals[k].add(r)
	}
	slices.SortStableFunc(order, func(a, b key) int {
		if c := strings.Compare(a.test, b.test); c != 0 {
			return c
		}
		return strings.Compare(b.broker, a.broker) // the newer Kafka first
	})
	rows := [][]string{{"Test", "On", "Situations", "Rows", "Kills", "Records", "Lost", "Duplicated", "Out of order", "Torn", "Left open", "Seed", "Note"}}
	others, n := &total{}, 0
	for _, k := range order {
		t := totals[k]
		if k.broker == Fake && !t.Failed && t.Rows+t.Kills == 0 && len(t.seeds)+len(t.notes) == 0 {
			others.addAll(t)
			n++
			continue
		}
		rows = append(rows, t.row("`"+k.test+"`", k.broker))
	}
	if n > 0 {
		rows = append(rows, others.row(fmt.Sprintf("%d other tests", n), Fake))
	}
	return rows
}

// addAll adds another total.
func (t *total) addAll(more *total) {
	runs := t.runs
	t.add(more.Result)
	t.runs = runs + more.runs
}

func (t *total) row(name, broker string) []string {
	row := []string{name, broker}
	for _, n := range []int64{t.Scenarios, t.Rows, t.Kills, t.Records} {
		row = append(row, some(n))
	}
	for _, n := range []int64{t.Lost, t.Duplicated, t.OutOfOrder, t.Torn, t.LeftOpen} {
		row = append(row, grouped(n))
	}
	var seeds []string
	for _, s := range t.seeds {
		seeds = append(seeds, strconv.FormatUint(s, 10))
	}
	notes := t.notes
	if t.Failed {
		notes = append([]string{"**FAILED**"}, notes...)
	}
	return append(row, strings.Join(seeds, ", "), strings.Join(notes, "; "))
}

// some leaves out what does not apply.
func some(n int64) string {
	if n == 0 {
		return ""
	}
	return grouped(n)
}

// grouped writes a number with commas between its thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
