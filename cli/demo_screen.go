package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
)

// demoProgress is a moment of a run.
type demoProgress struct {
	elapsed         time.Duration
	total, in, out  int64 // records: of the run, acknowledged by the input, shown by the output
	kills, allKills int
	epochs          int64 // as the bridges reported them
}

// demoScreen shows the progress: one line that is drawn again on a terminal,
// a line about every second elsewhere. One goroutine at a time may use it.
type demoScreen struct {
	out      io.Writer
	terminal bool
	columns  func() int // of the terminal
	drawn    bool       // the cursor stands after a progress line
}

func newDemoScreen(out io.Writer) *demoScreen {
	s := &demoScreen{out: out}
	file, ok := out.(*os.File)
	if !ok {
		return s
	}
	descriptor := int(file.Fd())
	s.terminal = term.IsTerminal(descriptor)
	s.columns = func() int {
		columns, _, err := term.GetSize(descriptor)
		if err != nil || columns <= 0 {
			return 80
		}
		return columns
	}
	return s
}

// period is how often show is worth calling.
func (s *demoScreen) period() time.Duration {
	if s.terminal {
		return 100 * time.Millisecond
	}
	return time.Second
}

// show draws the progress.
func (s *demoScreen) show(p demoProgress) {
	if !s.terminal {
		fmt.Fprintf(s.out, "%6.1f s   in %7s   out %7s   kills %3d   epochs %4d\n",
			p.elapsed.Seconds(), grouped(p.in), grouped(p.out), p.kills, p.epochs)
		return
	}
	text := fmt.Sprintf("  in %s  out %s  kills %d/%d  epochs %d",
		grouped(p.in), grouped(p.out), p.kills, p.allKills, p.epochs)
	// One column stays free: a full line makes some terminals wrap.
	line := demoBar(p.out, p.total, s.columns()-1-len(text)) + text
	fmt.Fprint(s.out, "\r"+line[:min(len(line), max(0, s.columns()-1))]+"\x1b[K")
	s.drawn = true
}

// clear takes the progress line away, for a line that stays.
func (s *demoScreen) clear() {
	if s.drawn {
		fmt.Fprint(s.out, "\r\x1b[K")
		s.drawn = false
	}
}

// demoBar is at most 42 columns wide, and nothing where fewer than 12 are free.
func demoBar(done, total int64, columns int) string {
	width := min(columns, 42) - 2
	if width < 10 || total <= 0 {
		return ""
	}
	full := int(min(done, total) * int64(width) / total)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

// grouped writes 40000 as 40,000.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// demoReport is what a whole run found.
type demoReport struct {
	verdict     verdict
	end         demoEnd
	kills       int
	afterCommit int             // of the kills
	resumed     []time.Duration // from a kill to the next committed epoch
}

// exact is the last word: nothing doubled, lost, late or altered, and nothing
// left open that could still change it.
func (r demoReport) exact() bool {
	return r.verdict.exact() && r.end.open == 0 && r.end.held == 0
}

// write prints the report, its numbers aligned to the right, a remark after each.
func (r demoReport) write(out io.Writer) error {
	v := r.verdict
	type row struct {
		name   string
		number string
		remark string
	}
	rows := []row{
		{"records in", grouped(v.In), "acknowledged by the input topic"},
		{"records out", grouped(v.Out), "shown to a read_committed reader that ran throughout"},
		{"duplicated", grouped(v.Duplicated), ""},
		{"lost", grouped(v.Lost), ""},
		{"out of order", grouped(v.OutOfOrder), "within a partition"},
		{"altered", grouped(v.Altered), "other bytes, another partition, or never sent"},
		{"kills", grouped(int64(r.kills)), r.killRemark()},
	}
	if len(r.resumed) > 0 {
		sorted := slices.Sorted(slices.Values(r.resumed))
		median, longest := sorted[len(sorted)/2].Seconds(), sorted[len(sorted)-1].Seconds()
		rows = append(rows, row{"next commit after a kill", fmt.Sprintf("%.2f s", median), fmt.Sprintf("median; %.2f s at most", longest)})
	}
	rows = append(rows,
		row{"epochs committed", grouped(int64(v.Committed)), "transactions with a commit marker in the output"},
		row{"epochs aborted", grouped(int64(v.Aborted)), r.abortRemark()},
		row{"transactions left open", grouped(int64(r.end.open)), r.openRemark()},
	)
	var widest int
	for _, row := range rows {
		widest = max(widest, len(row.number))
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		line := fmt.Sprintf("  %s\t%*s", row.name, widest, row.number)
		if row.remark != "" {
			line += "\t" + row.remark
		}
		fmt.Fprintln(table, line)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	answer := "no"
	if r.exact() {
		answer = "yes"
	}
	if _, err := fmt.Fprintf(out, "\nEXACTLY ONCE: %s\n", answer); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (r demoReport) killRemark() string {
	if r.kills == 0 {
		return ""
	}
	return fmt.Sprintf("SIGKILL: %d soon after a start, %d after a commit", r.kills-r.afterCommit, r.afterCommit)
}

func (r demoReport) abortRemark() string {
	if r.verdict.Aborted == 0 {
		return "transactions with an abort marker"
	}
	return fmt.Sprintf("cut short; the %s records they had written were never shown", grouped(r.verdict.RolledBack))
}

func (r demoReport) openRemark() string {
	if r.end.held > 0 {
		return fmt.Sprintf("%d partitions hold records back from readers", r.end.held)
	}
	return ""
}
