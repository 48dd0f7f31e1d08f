package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/eosbridge/eosbridge/test/bench/figures"
)

// The marks between which the page holds the results.
const (
	markBegin = "<!-- bench: what follows is made by make bench -->\n"
	markEnd   = "<!-- bench: end -->\n"
)

// folder of the plots, beside the page.
const folder = "performance"

// Write makes the results in the page anew, and the plots in the folder beside it. It fails if a lost cell has no cause.
func Write(file string, results *figures.Store) error {
	known, err := parseCauses(causesText)
	if err != nil {
		return err
	}
	text, err := render(results, known)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	all, err := between(string(old), "\n"+text+"\n")
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	dir := filepath.Join(filepath.Dir(file), folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, svg := range plots(results) {
		if err := os.WriteFile(filepath.Join(dir, name+".svg"), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(all), 0o644)
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

// section is one part of the benchmark on the page.
type section struct {
	part, title, intro string
	plots              []string
	tables             func(figures.Set) []table
}

// render is all that lies between the marks.
func render(results *figures.Store, known causes) (string, error) {
	s := store{results}
	var b strings.Builder
	aimed, peers := s.targets(), s.peers()
	if len(aimed) > 0 {
		b.WriteString("### Targets\n\n")
		t := table{{"what", "aimed at", "measured", ""}}
		for _, one := range aimed {
			t = append(t, []string{one.what, one.target, one.measured, word(one.met)})
		}
		t.markdown(&b)
		b.WriteString("\n")
	}
	lost, err := known.lost(append(aimed, peers...))
	if err != nil {
		return "", err
	}
	if len(lost) > 1 {
		b.WriteString("### What is lost, and why\n\n")
		lost.markdown(&b)
		b.WriteString("\n")
	}
	var missing []string
	for _, one := range sections {
		p, ok := results.Part(one.part)
		if !ok {
			missing = append(missing, one.part)
			continue
		}
		one.write(&b, p)
	}
	if len(missing) > 0 {
		fmt.Fprintf(&b, "Not measured yet: %s.\n", strings.Join(missing, ", "))
	}
	return b.String(), nil
}

func word(met bool) string {
	if met {
		return "met"
	}
	return "**missed**"
}

func (one section) write(b *strings.Builder, p figures.Part) {
	fmt.Fprintf(b, "### %s\n\n%s\n\n", one.title, one.intro)
	for _, name := range one.plots {
		fmt.Fprintf(b, "![%s](%s/%s.svg)\n\n", name, folder, name)
	}
	for _, t := range one.tables(p.Runs) {
		if len(t) > 1 {
			t.markdown(b)
			b.WriteString("\n")
		}
	}
	for _, variant := range names(p) {
		fmt.Fprintf(b, "- *%s*: %s\n", variant, p.Variants[variant])
	}
	flags := ""
	if p.Flags != "" {
		flags = "; run with `" + p.Flags + "`"
	}
	fmt.Fprintf(b, "\nPart `%s`, %s, %.0f min: %s; Apache Kafka %s, one node on the same machine; bridge %s, %s%s. Median [smallest–largest] of the runs.\n\n",
		p.Name, p.Date, p.Seconds/60, p.Machine, p.Kafka, p.Bridge, p.Go, flags)
}

// names are the variants of a part that have something to say of themselves, in the order of tables.
func names(p figures.Part) (list []string) {
	seen := map[string]bool{}
	for _, workload := range p.Runs.Workloads() {
		for _, v := range p.Runs.Variants(workload) {
			if !seen[v] && p.Variants[v] != "" {
				seen[v] = true
				list = append(list, v)
			}
		}
	}
	return list
}
