package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/eosbridge/eosbridge/audit"
)

// auditScreen shows how far an audit is: one line that is drawn again on a terminal, a line every five seconds
// elsewhere.
type auditScreen struct {
	demoScreen
	progress *audit.Progress
	began    time.Time
	done     chan struct{}
	drawing  sync.WaitGroup
}

func newAuditScreen(out io.Writer, progress *audit.Progress) *auditScreen {
	return &auditScreen{demoScreen: *newDemoScreen(out), progress: progress, began: time.Now(), done: make(chan struct{})}
}

// start draws until stop.
func (s *auditScreen) start() {
	period := 5 * time.Second
	if s.terminal {
		period = 100 * time.Millisecond
	}
	s.drawing.Go(func() { // stop ends it and waits
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.draw()
			case <-s.done:
				return
			}
		}
	})
}

func (s *auditScreen) stop() {
	close(s.done)
	s.drawing.Wait()
	s.clear()
}

func (s *auditScreen) draw() {
	read, total := s.progress.Read.Load(), s.progress.Total.Load()
	elapsed := time.Since(s.began)
	if total == 0 {
		s.line("  waiting for open transactions on the output", 0, 0)
		return
	}
	// A second look at a part counts again: more than all is all.
	text := fmt.Sprintf("  %s of %s offsets  %s/s", grouped(min(read, total)), grouped(total), grouped(int64(float64(read)/elapsed.Seconds())))
	s.line(text, read, total)
}

func (s *auditScreen) line(text string, done, total int64) {
	if !s.terminal {
		fmt.Fprintf(s.out, "%6.1f s%s\n", time.Since(s.began).Seconds(), text)
		return
	}
	line := demoBar(done, total, s.columns()-1-len(text)) + text
	fmt.Fprint(s.out, "\r"+line[:min(len(line), max(0, s.columns()-1))]+"\x1b[K")
	s.drawn = true
}

// writeAudit prints the report for people.
func writeAudit(out io.Writer, r *audit.Report) error {
	var b strings.Builder
	p := r.Pipeline
	fmt.Fprintf(&b, "group %s: %s -> %s, by %s\n\n", p.Group, strings.Join(p.Inputs, ", "), strings.Join(p.Outputs, ", "), auditMethod(r))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "source\tpartition\tfrom\tcommitted\trecords\tchecksum\tmay be deleted up to\tverdict\t")
	for _, s := range r.Sources {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t%s\t%d\t%s\t\n", s.Topic, s.Partition, s.From, s.Committed, grouped(s.Records), s.Checksum, s.Verified, s.Verdict)
	}
	fmt.Fprintln(table, "target\tpartition\tfrom\tend\trecords\tchecksum\t\tverdict\t")
	for _, t := range r.Targets {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t%s\t\t%s\t\n", t.Topic, t.Partition, t.LogStart, t.End, grouped(t.Records), t.Checksum, t.Verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, s := range r.Sources {
		if s.DeadLetters > 0 {
			fmt.Fprintf(&b, "\nsource %s/%d: %s records are dead letters\n", s.Topic, s.Partition, grouped(s.DeadLetters))
		}
	}
	writeFindings(&b, r)
	writeReasons(&b, "cannot tell", r, func(u, _ []audit.Undecided) []audit.Undecided { return u })
	writeReasons(&b, "not audited", r, func(_, o []audit.Undecided) []audit.Undecided { return o })
	fmt.Fprintf(&b, "\ndigest %s\nVERDICT: %s\n", r.Digest, strings.ToUpper(string(r.Verdict)))
	_, err := io.WriteString(out, b.String())
	return err
}

// auditMethod names the ways in which the partitions were compared.
func auditMethod(r *audit.Report) string {
	methods := map[string]bool{}
	for _, t := range r.Targets {
		methods[t.Method] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(methods)), " and ")
}

func writeFindings(b *strings.Builder, r *audit.Report) {
	for _, kind := range audit.Kinds() {
		n := r.Counts[kind]
		if n == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s: %s\n", kind, grouped(n))
		shown := int64(0)
		for _, f := range r.Examples {
			if f.Kind != kind {
				continue
			}
			shown++
			var parts []string
			if f.Source != nil {
				parts = append(parts, "source "+f.Source.String())
			}
			if f.Target != nil {
				parts = append(parts, "target "+f.Target.String())
			}
			if f.Detail != "" {
				parts = append(parts, f.Detail)
			}
			fmt.Fprintf(b, "  %s\n", strings.Join(parts, ", "))
		}
		if shown < n {
			fmt.Fprintf(b, "  and %s more\n", grouped(n-shown))
		}
	}
}

// writeReasons prints what was left out, one line for each reason and partition.
func writeReasons(b *strings.Builder, title string, r *audit.Report, which func(undecided, outside []audit.Undecided) []audit.Undecided) {
	var lines []string
	add := func(topic string, partition int32, list []audit.Undecided) {
		for _, u := range list {
			records := ""
			if u.Records > 0 {
				records = grouped(u.Records) + " records: "
			}
			lines = append(lines, fmt.Sprintf("  %s/%d: %s%s\n", topic, partition, records, u.Reason))
		}
	}
	for _, s := range r.Sources {
		add(s.Topic, s.Partition, which(s.Undecided, s.Outside))
	}
	for _, t := range r.Targets {
		add(t.Topic, t.Partition, which(t.Undecided, t.Outside))
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n%s:\n%s", title, strings.Join(lines, ""))
	}
}
