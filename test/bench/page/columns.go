// Package page makes docs/performance.md and its plots of what the benchmark has measured.
package page

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/eosbridge/eosbridge/test/bench/figures"
)

// column is one figure as it is shown.
type column struct {
	name, head string
	times      float64 // what is shown of a value of 1
	decimals   int
	lower      bool // is better
}

// columns by the name of the figure.
var columns = byName([]column{
	{figures.Rate, "records/s", 1, 0, false},
	{figures.Steady, "steady s", 1, 1, false},
	{figures.CPU, "CPU-s/M", 1, 3, true},
	{figures.LifeCPU, "CPU-s/M, whole life", 1, 3, true},
	{figures.BrokerCPU, "broker CPU-s/M", 1, 2, true},
	{figures.Core, "% of a core", 100, 2, true},
	{figures.BrokerCore, "broker, % of a core", 100, 0, true},
	{figures.Peak, "peak MiB", 1, 0, true},
	{figures.Resident, "resident MiB", 1, 0, true},
	{figures.Start, "start s", 1, 2, true},
	{figures.Stall, "stall %", 100, 2, true},
	{figures.Held, "held %", 100, 2, true},
	{figures.Interval, "interval ms", 1, 1, true},
	{figures.Commit, "commit p50 ms", 1, 1, true},
	{figures.Commit99, "commit p99 ms", 1, 1, true},
	{figures.Latency, "latency p50 ms", 1, 1, true},
	{figures.Latency99, "latency p99 ms", 1, 1, true},
	{figures.Recovery, "recovery s", 1, 2, true},
	{figures.Passed, "passed %", 100, 1, false},
	{figures.Others, "others %", 100, 1, true},
})

func byName(list []column) map[string]column {
	m := map[string]column{}
	for _, c := range list {
		m[c.name] = c
	}
	return m
}

func (c column) text(v float64) string { return number(c.times*v, c.decimals) }

// spread is median [min–max], or a dash for what was not measured.
func (c column) spread(s figures.Spread) string {
	switch s.Runs {
	case 0:
		return "–"
	case 1:
		return c.text(s.Median)
	default:
		return fmt.Sprintf("%s [%s–%s]", c.text(s.Median), c.text(s.Min), c.text(s.Max))
	}
}

// number writes 1,234,567 or 1.234.
func number(v float64, decimals int) string {
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return whole
}

// shown is the order of figures in a line about a run.
var shown = []string{
	figures.Rate, figures.Steady, figures.CPU, figures.LifeCPU, figures.BrokerCPU, figures.Core, figures.BrokerCore, figures.Peak,
	figures.Resident, figures.Start, figures.Stall, figures.Held, figures.Interval, figures.Commit, figures.Commit99, figures.Latency,
	figures.Latency99, figures.Recovery, figures.Passed, figures.Others,
}

// Line is one run, for whoever waits.
func Line(r figures.Run) string {
	text := []string{r.Name() + ":"}
	for _, name := range shown {
		if v, ok := r.Values[name]; ok {
			text = append(text, columns[name].text(v)+" "+columns[name].head+",")
		}
	}
	if r.Aborted > 0 {
		text = append(text, fmt.Sprintf("%d epochs ABORTED,", r.Aborted))
	}
	return strings.Join(append(text, r.Verdict.String(), r.Note), " ")
}

// table is rows of text; the first holds the names of the columns.
type table [][]string

func (t table) markdown(b *strings.Builder) {
	for i, row := range t {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(b, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
}

// figuresOf has a row for each workload, point and variant. Figures that none of the runs has are left out.
func figuresOf(runs figures.Set, names ...string) table {
	var used []string
	for _, name := range names {
		if len(runs.Values(name)) > 0 {
			used = append(used, name)
		}
	}
	points := false
	for _, r := range runs {
		points = points || r.Point != ""
	}
	head := []string{"workload"}
	if points {
		head = append(head, "at")
	}
	head = append(head, "variant", "runs")
	for _, name := range used {
		head = append(head, columns[name].head)
	}
	t := table{append(head, "records")}
	for _, workload := range runs.Workloads() {
		for _, point := range runs.Points(workload) {
			for _, variant := range runs.Variants(workload) {
				some := runs.Of(workload, point, variant)
				if len(some) == 0 {
					continue
				}
				row := []string{workload}
				if points {
					row = append(row, point)
				}
				row = append(row, variant, strconv.Itoa(len(some)))
				for _, name := range used {
					row = append(row, columns[name].spread(some.Spread(name)))
				}
				t = append(t, append(row, verdictOf(some)))
			}
		}
	}
	return t
}

// verdictOf is what became of the records of several runs.
func verdictOf(runs figures.Set) string {
	aborted := 0
	for _, r := range runs {
		if !r.Verdict.Exact() {
			return r.Verdict.String()
		}
		aborted += r.Aborted
	}
	if aborted > 0 {
		return fmt.Sprintf("exact, %d epochs aborted", aborted)
	}
	return "exact"
}

// ratiosOf has the ratios of pairs of variants, round by round.
func ratiosOf(runs figures.Set, pairs [][2]string, names ...string) table {
	head := []string{"workload", "pair"}
	for _, name := range names {
		head = append(head, columns[name].head)
	}
	t := table{head}
	for _, workload := range runs.Workloads() {
		for _, point := range runs.Points(workload) {
			for _, pair := range pairs {
				row, found := []string{strings.TrimSuffix(workload+" "+point, " "), pair[0] + " / " + pair[1]}, false
				for _, name := range names {
					s := figures.SpreadOf(runs.Ratios(workload, point, pair[0], pair[1], name))
					found = found || s.Runs > 0
					row = append(row, ratio.spread(s))
				}
				if found {
					t = append(t, row)
				}
			}
		}
	}
	return t
}

// ratio is how ratios are shown.
var ratio = column{times: 1, decimals: 3}
