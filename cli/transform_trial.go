package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/eosbridge/eosbridge/transform"
)

// trial passes the inputs of cases through instances of a chain, and notes what is wrong with each case.
type trial struct {
	build  func() transform.Transform
	cases  []trialCase
	faults [][]string // of each case

	first [][]outcome // what became of each input of each case, at first
}

// trialCase is one case: what goes in, and what has to come out.
type trialCase struct {
	name    string
	line    int // in the file
	input   []transform.Record
	output  []recordText
	refused bool   // the first record that is refused ends the case
	refusal string // part of its message
}

// outcome is what became of one input.
type outcome struct {
	results []transform.Record
	refusal string
}

// place is an input: which of which case.
type place struct{ nth, input int }

func (t *trial) run(ctx context.Context) error {
	var places []place
	for i := range t.cases {
		one, instance := &t.cases[i], t.build()
		var became []outcome
		for j := range one.input {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			in := cloneRecord(&one.input[j])
			results, err := instance.Apply(&in, nil)
			became = append(became, outcomeOf(results, err))
			places = append(places, place{i, j})
			if altered := differences(sides{"was", "now"}, &one.input[j], &in); len(altered) > 0 {
				t.blame(i, fmt.Sprintf("input %d: the transform altered the record that it was given\n%s", j+1, strings.Join(altered, "\n")))
			}
		}
		t.first = append(t.first, became)
		t.compare(i)
	}
	for _, again := range replays(places) {
		for piece := range slices.Chunk(again.order, max(again.piece, 1)) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			t.replay(again.how, piece)
		}
	}
	return nil
}

// replayed is a way in which the inputs pass again: in which order, and in pieces of which length, each through a new
// instance.
type replayed struct {
	how   string
	order []place
	piece int
}

// replays are the ways of a replay: an epoch that was aborted may be cut elsewhere, come in the company of other records,
// and to an instance that has seen other ones.
func replays(places []place) []replayed {
	const oddLength = 3
	reversed := slices.Clone(places)
	slices.Reverse(reversed)
	shuffled := slices.Clone(places)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	return []replayed{
		{"by another instance", places, 1},
		{"by one instance for all cases", places, len(places)},
		{"in the opposite order", reversed, len(places)},
		{"in another order, in pieces", shuffled, oddLength},
	}
}

// replay passes a piece through a new instance, and looks at the results only when all are there: they may not be
// overwritten by those that follow.
func (t *trial) replay(how string, piece []place) {
	instance := t.build()
	var all []transform.Record
	became := make([]outcome, len(piece))
	for i, at := range piece {
		in := cloneRecord(&t.cases[at.nth].input[at.input])
		from := len(all)
		results, err := instance.Apply(&in, all)
		if err != nil {
			became[i].refusal = err.Error()
			continue
		}
		all = results
		became[i].results = all[from:len(all):len(all)]
	}
	for i, at := range piece {
		if fault := t.first[at.nth][at.input].differs(became[i]); fault != "" {
			t.blame(at.nth, fmt.Sprintf("not deterministic: input %d, %s, became something else\n%s", at.input+1, how, fault))
		}
	}
}

// blame notes a fault, of those in a replay only the first.
func (t *trial) blame(nth int, fault string) {
	const replay = "not deterministic"
	if strings.HasPrefix(fault, replay) && slices.ContainsFunc(t.faults[nth], func(f string) bool { return strings.HasPrefix(f, replay) }) {
		return
	}
	t.faults[nth] = append(t.faults[nth], fault)
}

func outcomeOf(results []transform.Record, err error) outcome {
	if err != nil {
		return outcome{refusal: err.Error()}
	}
	return outcome{results: cloneRecords(results)}
}

// differs tells how another outcome of the same input differs.
func (o outcome) differs(other outcome) string {
	names := sides{"first", "again"}
	switch {
	case o.refusal != other.refusal:
		say := func(refusal string) string {
			if refusal == "" {
				return "not refused"
			}
			return "refused: " + refusal
		}
		return fmt.Sprintf("first %s\nagain %s", say(o.refusal), say(other.refusal))
	case len(o.results) != len(other.results):
		return fmt.Sprintf("first %s, again %s", records(len(o.results)), records(len(other.results)))
	}
	for i := range o.results {
		if lines := differences(names, &o.results[i], &other.results[i]); len(lines) > 0 {
			return fmt.Sprintf("output %d, %s", i+1, strings.Join(lines, "\n"))
		}
	}
	return ""
}

func records(n int) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", n)
}

// compare holds what became of a case to what is expected.
func (t *trial) compare(nth int) {
	one := &t.cases[nth]
	var got []transform.Record
	var from []*transform.Record
	for i, became := range t.first[nth] {
		if became.refusal != "" {
			switch {
			case !one.refused:
				t.blame(nth, fmt.Sprintf("input %d was refused: %s", i+1, became.refusal))
			case !strings.Contains(became.refusal, one.refusal):
				t.blame(nth, fmt.Sprintf("input %d was refused for another reason\n  want …%s…\n  got  %s", i+1, one.refusal, became.refusal))
			}
			return
		}
		for k := range became.results {
			got, from = append(got, became.results[k]), append(from, &one.input[i])
		}
	}
	switch {
	case one.refused:
		t.blame(nth, fmt.Sprintf("no record was refused, want the error …%s…\n%s", one.refusal, listed(got)))
	case len(got) != len(one.output):
		t.blame(nth, fmt.Sprintf("want %s, got %s\n%s", records(len(one.output)), records(len(got)), listed(got)))
	default:
		for i := range got {
			t.expect(nth, i, from[i], &got[i])
		}
	}
}

// expect compares one output.
func (t *trial) expect(nth, i int, from, got *transform.Record) {
	base := *from
	base.Target = ""
	want, err := t.cases[nth].output[i].over(base)
	if err != nil {
		t.blame(nth, fmt.Sprintf("output %d: %v", i+1, err))
		return
	}
	for _, text := range byField(differences(sides{"want", "got "}, &want, got)) {
		t.blame(nth, fmt.Sprintf("output %d, %s", i+1, text))
	}
}

// byField joins the lines of each field.
func byField(lines []string) (texts []string) {
	for _, line := range lines {
		if strings.HasPrefix(line, " ") {
			texts[len(texts)-1] += "\n" + line
		} else {
			texts = append(texts, line)
		}
	}
	return texts
}

// listed shows what came out in the place of what was expected.
func listed(got []transform.Record) string {
	const most = 5
	var lines []string
	for i := range got[:min(len(got), most)] {
		lines = append(lines, fmt.Sprintf("  got  key %s value %s", excerpt(got[i].Key, 0), excerpt(got[i].Value, 0)))
	}
	if len(got) > most {
		lines = append(lines, fmt.Sprintf("  and %d more", len(got)-most))
	}
	return strings.Join(lines, "\n")
}
