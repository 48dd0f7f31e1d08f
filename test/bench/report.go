package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
)

const feedName = "feed"

// farName is the name of feed with a delay.
func farName(delay time.Duration) string { return feedName + " +" + delay.String() }

// The figures that are reported.
var (
	rate      = metric{"records/s", func(m measurement) (float64, bool) { return m.RecordsPerSecond, m.RecordsPerSecond > 0 }, thousands}
	flow      = metric{"steady records/s", func(m measurement) (float64, bool) { return m.SteadyPerSecond, m.SteadyPerSecond > 0 }, thousands}
	cpu       = metric{"CPU-s/M", func(m measurement) (float64, bool) { return m.CPUPerMillion, m.CPUPerMillion > 0 }, decimals(2)}
	brokerCPU = metric{"broker CPU-s/M", func(m measurement) (float64, bool) { return m.BrokerPerMillion, m.BrokerPerMillion > 0 }, decimals(2)}
	core      = metric{"CPU, % of a core", func(m measurement) (float64, bool) { return 100 * m.CPUSeconds, m.CPUSeconds > 0 }, decimals(1)}
	peak      = metric{"peak MiB", func(m measurement) (float64, bool) { return m.PeakMiB, m.PeakMiB > 0 }, decimals(0)}
	startUp   = metric{"start s", func(m measurement) (float64, bool) { return m.StartSeconds, m.StartSeconds > 0 }, decimals(2)}
	stall     = metric{"stall %", func(m measurement) (float64, bool) {
		if m.StallShare == nil {
			return 0, false
		}
		return 100 * *m.StallShare, true
	}, decimals(2)}
	interval  = metric{"interval ms", func(m measurement) (float64, bool) { return m.Epochs.Interval, m.Epochs.Interval > 0 }, decimals(0)}
	commitP50 = metric{"commit p50 ms", func(m measurement) (float64, bool) { return m.Epochs.CommitP50, m.Epochs.Committed > 0 }, decimals(1)}
	commitP99 = metric{"commit p99 ms", func(m measurement) (float64, bool) { return m.Epochs.CommitP99, m.Epochs.Committed > 0 }, decimals(1)}
	delayP50  = metric{"latency p50 ms", func(m measurement) (float64, bool) { return m.LatencyP50, m.LatencyP50 > 0 }, decimals(1)}
	delayP99  = metric{"latency p99 ms", func(m measurement) (float64, bool) { return m.LatencyP99, m.LatencyP99 > 0 }, decimals(1)}
	others    = metric{"others %", func(m measurement) (float64, bool) { return 100 * m.Others, true }, decimals(0)}
)

// line is one run, for whoever waits.
func (m measurement) line() string {
	text := []string{fmt.Sprintf("%s round %d %s:", m.Workload, m.Round, m.Variant)}
	for _, f := range []metric{rate, flow, cpu, brokerCPU, peak, startUp, stall, interval, commitP50, commitP99, delayP50, delayP99, others} {
		if v, ok := f.of(m); ok {
			text = append(text, f.as(v)+" "+f.name+",")
		}
	}
	if e := m.Epochs; e.Align > 0 {
		text = append(text, fmt.Sprintf("steps %.1f/%.1f/%.1f/%.1f ms, closed by %v,", e.Align, e.Flush, e.Offsets, e.End, e.Triggers))
	}
	if m.Epochs.Aborted > 0 {
		text = append(text, fmt.Sprintf("%d epochs ABORTED,", m.Epochs.Aborted))
	}
	return strings.Join(append(text, m.Verdict.String()), " ")
}

// report is everything that a benchmark found out.
type report struct {
	Machine string        `json:"machine"`
	Kafka   string        `json:"kafka"`
	Bridge  string        `json:"bridge"`
	Go      string        `json:"go"`
	Date    string        `json:"date"`
	Runs    []measurement `json:"runs"`
	Tables  []table       `json:"tables"`
}

func newReport(o *options, runs []measurement) *report {
	rep := &report{
		Machine: machine(), Kafka: kafka.V44, Bridge: version(o.bridge), Go: runtime.Version(),
		Date: time.Now().UTC().Format(time.DateOnly), Runs: runs,
	}
	var copies, feeds []string
	for _, m := range runs {
		list := &copies
		if strings.HasPrefix(m.Workload, feedName) {
			list = &feeds
		}
		if !slices.Contains(*list, m.Workload) {
			*list = append(*list, m.Workload)
		}
	}
	slices.Sort(feeds) // the near one first
	if len(copies) > 0 {
		rep.Tables = append(rep.Tables, figures(runs, o.variants, copies,
			"Throughput", []metric{rate, flow, cpu, brokerCPU, peak, startUp, stall, interval, commitP50, commitP99, others}))
	}
	if len(feeds) > 0 {
		rep.Tables = append(rep.Tables, figures(runs, o.variants, feeds,
			fmt.Sprintf("Steady load, %d records/s of %d bytes", o.feedRate, workloads[feedName].size),
			[]metric{core, brokerCPU, peak, stall, interval, commitP50, commitP99, delayP50, delayP99, others}))
	}
	if t := pairs(runs, copies, o.variants); len(t.Rows) > 0 {
		rep.Tables = append(rep.Tables, t)
	}
	if t := targets(runs, copies, o.delay); len(t.Rows) > 0 {
		rep.Tables = append(rep.Tables, t)
	}
	return rep
}

// inexact is an error if any run duplicated, lost, reordered or altered a record.
func (rep *report) inexact() error {
	for _, m := range rep.Runs {
		if !m.Verdict.exact() {
			return fmt.Errorf("%s round %d %s: %s", m.Workload, m.Round, m.Variant, m.Verdict)
		}
	}
	return nil
}

// table is a heading and rows; the first row holds the names of the columns.
type table struct {
	Title string     `json:"title"`
	Rows  [][]string `json:"rows"`
}

// figures has a row for each workload and variant.
func figures(runs []measurement, variants, names []string, title string, metrics []metric) table {
	head := []string{"workload", "variant", "runs"}
	for _, m := range metrics {
		head = append(head, m.name)
	}
	t := table{Title: title, Rows: [][]string{append(head, "records")}}
	for _, name := range names {
		for _, variant := range variants {
			row, found := []string{name, variant, ""}, 0
			for _, m := range metrics {
				s := spreadOf(valuesOf(runs, name, variant, m))
				found = max(found, s.Runs)
				row = append(row, s.text(m.as))
			}
			if found > 0 {
				row[2] = strconv.Itoa(found)
				t.Rows = append(t.Rows, append(row, verdictOf(runs, name, variant)))
			}
		}
	}
	return t
}

func verdictOf(runs []measurement, name, variant string) string {
	aborted := 0
	for _, m := range runs {
		if m.Workload != name || m.Variant != variant {
			continue
		}
		if !m.Verdict.exact() {
			return m.Verdict.String()
		}
		aborted += m.Epochs.Aborted
	}
	if aborted > 0 {
		return fmt.Sprintf("exact, %d epochs aborted", aborted)
	}
	return "exact"
}

// pairs has the ratios to the plain copy.
func pairs(runs []measurement, names, variants []string) table {
	t := table{Title: "Ratios, round by round"}
	for _, name := range names {
		for _, variant := range variants {
			row, found := []string{name, variant + " / " + variantPlain}, false
			for _, m := range []metric{cpu, rate, flow, brokerCPU, peak} {
				s := spreadOf(ratios(runs, name, variant, variantPlain, m))
				found = found || s.Runs > 0
				row = append(row, s.text(decimals(2)))
			}
			if variant != variantPlain && found {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	if len(t.Rows) > 0 {
		t.Rows = slices.Insert(t.Rows, 0, []string{"workload", "pair", cpu.name, rate.name, flow.name, brokerCPU.name, peak.name})
	}
	return t
}

// targets holds the bridge against what was aimed at.
func targets(runs []measurement, copies []string, delay time.Duration) table {
	t := table{Title: "Targets"}
	add := func(what string, s spread, as func(float64) string, limit float64, atMost bool) {
		if s.Runs == 0 {
			return
		}
		word, met := "at most ", s.Median <= limit
		if !atMost {
			word, met = "at least ", s.Median >= limit
		}
		verdict := "met"
		if !met {
			verdict = "missed"
		}
		t.Rows = append(t.Rows, []string{what, word + as(limit), s.text(as), verdict})
	}
	for _, name := range copies {
		add(name+": CPU-s/M, bridge / plain", spreadOf(ratios(runs, name, variantBridge, variantPlain, cpu)), decimals(2), 1.25, true)
		add(name+": records/s, bridge / plain", spreadOf(ratios(runs, name, variantBridge, variantPlain, rate)), decimals(2), 0.9, false)
		add(name+": peak MiB", spreadOf(valuesOf(runs, name, variantBridge, peak)), decimals(0), 256, true)
	}
	add("stall %", spreadOf(valuesOf(runs, feedName, variantBridge, stall)), decimals(2), 2, true)
	if delay > 0 {
		add("stall %, +"+delay.String()+" an answer", spreadOf(valuesOf(runs, farName(delay), variantBridge, stall)), decimals(2), 5, true)
	}
	if len(t.Rows) > 0 {
		t.Rows = slices.Insert(t.Rows, 0, []string{"what", "target", "measured", ""})
	}
	return t
}

// text is median [min-max], or a dash for what was not measured.
func (s spread) text(as func(float64) string) string {
	switch s.Runs {
	case 0:
		return "–"
	case 1:
		return as(s.Median)
	default:
		return fmt.Sprintf("%s [%s–%s]", as(s.Median), as(s.Min), as(s.Max))
	}
}

func decimals(n int) func(float64) string {
	return func(v float64) string { return strconv.FormatFloat(v, 'f', n, 64) }
}

// thousands writes 1,234,567.
func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// The marks between which a document holds the last figures.
const (
	markBegin = "<!-- bench: generated by make bench BENCHFLAGS=-into=docs/performance.md -->\n"
	markEnd   = "<!-- bench: end -->\n"
)

// into replaces what a document holds between the marks.
func (rep *report) into(file string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := rep.write(&b, asMarkdown); err != nil {
		return err
	}
	text, err := between(string(old), "\n"+b.String()+"\n")
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// between puts new text between the marks.
func between(old, text string) (string, error) {
	before, rest, ok := strings.Cut(old, markBegin)
	_, after, ok2 := strings.Cut(rest, markEnd)
	if !ok || !ok2 {
		return "", fmt.Errorf("no marks %q and %q", markBegin, markEnd)
	}
	return before + markBegin + text + markEnd + after, nil
}

// style is how a table is printed.
type style func(io.Writer, table) error

func (rep *report) write(w io.Writer, show style) error {
	fmt.Fprintf(w, "%s; Apache Kafka %s, one node on the same machine; bridge %s, %s; %s.\n", rep.Machine, rep.Kafka, rep.Bridge, rep.Go, rep.Date)
	fmt.Fprintf(w, "Median [smallest–largest] of the runs.\n")
	for _, t := range rep.Tables {
		if err := show(w, t); err != nil {
			return err
		}
	}
	return nil
}

func asText(w io.Writer, t table) error {
	fmt.Fprintf(w, "\n%s\n", t.Title)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range t.Rows {
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	return columns.Flush()
}

func asMarkdown(w io.Writer, t table) error {
	fmt.Fprintf(w, "\n### %s\n\n", t.Title)
	for i, row := range t.Rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return nil
}

// machine names the processor and the cores.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s)", runtime.NumCPU(), model)
}

// version asks the bridge for its own.
func version(binary string) string {
	out, err := exec.Command(binary, "version").Output()
	if err != nil {
		return "of unknown version"
	}
	name, _, _ := strings.Cut(strings.TrimSpace(string(out)), ",") // the rest is Go's and the library's
	return strings.TrimPrefix(name, "eosbridge ")
}
