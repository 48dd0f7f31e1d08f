package proof

import (
	"fmt"
	"slices"
	"strings"
)

// Case is a fault that is known to befall programs like this one, and what tries it here. Of its last four fields a
// Case has Tests, or says in one of the others why it has none.
type Case struct {
	ID    string // S01 to S50: scenarios; O01 to O67: what others have reported of their bridges and clients
	Fault string // what goes wrong, and what has to follow
	Where string // public threads that tell of it

	Tests  []string // "room.TestName", or "room.TestName/words of a subtest's name"
	Never  string   // why it cannot happen here
	Lacks  string   // the part of it that needs something that is not built yet
	Untold string   // the part of it that no test tries
}

// Standing is how much of a case is tried.
type Standing int

// The standings, the best first.
const (
	Tried    Standing = iota // by the tests named
	Partly                   // the tests named try a part of it; the case says which part they do not
	Never                    // it cannot happen here
	NotBuilt                 // it is about something that is not built yet
	Untried                  // no test tries it
)

// String names the standing.
func (s Standing) String() string {
	return [...]string{"tried", "tried in part", "cannot happen", "not built yet", "not tried"}[s]
}

// Standing tells how much of the case is tried.
func (c Case) Standing() Standing {
	switch {
	case len(c.Tests) > 0 && c.Lacks+c.Untold == "":
		return Tried
	case len(c.Tests) > 0:
		return Partly
	case c.Never != "":
		return Never
	case c.Lacks != "":
		return NotBuilt
	default:
		return Untried
	}
}

// Cases are all of them: scenarios first.
func Cases() []Case { return slices.Concat(scenarios, reports) }

// brokerNames are the brokers in the order of tables, with their headings.
var brokerNames = []struct{ name, heading string }{
	{V44, "Kafka 4.4.0"}, {V39, "Kafka 3.9.1"}, {Fake, "kfake"}, {Model, "model"},
}

// brokers are where a case is tried, in the order of tables.
func (c Case) brokers(all Catalogue) []string {
	on := map[string]bool{}
	for _, ref := range c.Tests {
		if test, err := all.Find(ref); err == nil {
			for _, b := range test.Brokers {
				on[b] = true
			}
		}
	}
	var names []string
	for _, b := range brokerNames {
		if on[b.name] {
			names = append(names, b.name)
		}
	}
	return names
}

// caseTables are the generated part of docs/proof.md: a summary, then one table of the scenarios and one of the reports.
func caseTables(all Catalogue) string {
	var b strings.Builder
	b.WriteString("\n### How much of them is tried\n\n")
	writeTable(&b, standingRows(all))
	b.WriteString("\n### Scenarios\n\n")
	writeTable(&b, caseRows(all, scenarios))
	b.WriteString("\n### What others have reported\n\n")
	writeTable(&b, caseRows(all, reports))
	b.WriteString("\n")
	return b.String()
}

func standingRows(all Catalogue) [][]string {
	rows := [][]string{{"", "scenarios", "reports", "all"}}
	count := func(is func(Case) bool) (cells []string) {
		var n [2]int
		for i, cases := range [][]Case{scenarios, reports} {
			for _, c := range cases {
				if is(c) {
					n[i]++
				}
			}
		}
		return []string{fmt.Sprint(n[0]), fmt.Sprint(n[1]), fmt.Sprint(n[0] + n[1])}
	}
	for s := Tried; s <= Untried; s++ {
		rows = append(rows, append([]string{s.String()}, count(func(c Case) bool { return c.Standing() == s })...))
	}
	rows = append(rows, append([]string{"all"}, count(func(Case) bool { return true })...))
	for _, broker := range brokerNames {
		rows = append(rows, append([]string{"tried, at least in part, on " + broker.heading},
			count(func(c Case) bool { return slices.Contains(c.brokers(all), broker.name) })...))
	}
	return rows
}

func caseRows(all Catalogue, cases []Case) [][]string {
	rows := [][]string{{"", "What goes wrong, and what has to follow", "Tried by", "On"}}
	for _, c := range cases {
		fault := c.Fault
		if c.Where != "" {
			fault += " (" + c.Where + ")"
		}
		on := strings.Join(c.brokers(all), ", ")
		if on == "" && len(c.Tests) > 0 {
			on = "no broker needed"
		}
		rows = append(rows, []string{c.ID, fault, c.triedBy(), on})
	}
	return rows
}

// triedBy names the tests and what they leave out.
func (c Case) triedBy() string {
	var parts []string
	for _, ref := range c.Tests {
		parts = append(parts, "`"+ref+"`")
	}
	text := []string{strings.Join(parts, ", ")}
	if text[0] == "" {
		text = nil
	}
	for _, why := range []struct{ label, text string }{
		{"cannot happen here", c.Never}, {"not built yet", c.Lacks}, {"not tried", c.Untold},
	} {
		if why.text != "" {
			text = append(text, "**"+why.label+":** "+why.text)
		}
	}
	return strings.Join(text, "; ")
}

// writeTable writes rows as Markdown; the first holds the names of the columns.
func writeTable(b *strings.Builder, rows [][]string) {
	for i, row := range rows {
		for _, cell := range row {
			b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
}
