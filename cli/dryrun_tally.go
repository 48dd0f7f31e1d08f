package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/eosbridge/eosbridge/transform"
)

// dryTally counts what became of the records of a dry run, and keeps some for show.
type dryTally struct {
	Group      string           `json:"group"`
	Chain      string           `json:"chain"`
	Partitions int              `json:"partitions"`
	Positioned int              `json:"partitions_with_position"` // the others begin by BRIDGE_START
	Seconds    float64          `json:"seconds"`
	Read       int64            `json:"read"`
	Out        int64            `json:"out"`
	Unchanged  int64            `json:"unchanged"`
	Changed    int64            `json:"changed"`
	Dropped    int64            `json:"dropped"`
	Failed     int64            `json:"failed"`
	Classes    []*dryClass      `json:"failed_by_class"`
	Outputs    map[string]int64 `json:"out_by_topic"`
	Warnings   []string         `json:"warnings,omitempty"`
	Samples    []*drySample     `json:"samples"`

	sample int
	kept   map[string][]*drySample // of each fate
	seen   map[string]int64
	chance *rand.Rand
}

// The fates of a record.
const (
	fateUnchanged = "unchanged"
	fateChanged   = "changed"
	fateDropped   = "dropped"
	fateFailed    = "failed"
)

// dryClass counts the failures of one transform.
type dryClass struct {
	Class string `json:"class"`
	Count int64  `json:"count"`
	First string `json:"first"` // where
	Error string `json:"error"` // of the first
}

// drySample is a record before and after.
type drySample struct {
	Fate   string            `json:"fate"`
	Before json.RawMessage   `json:"before"`
	After  []json.RawMessage `json:"after,omitempty"`
	Error  string            `json:"error,omitempty"`

	at    string
	lines []string
}

func newDryTally(group string, chain *transform.Spec, sample int) *dryTally {
	t := &dryTally{
		Group: group, Chain: chain.String(), Classes: []*dryClass{}, Outputs: map[string]int64{}, Samples: []*drySample{}, sample: sample,
		kept: map[string][]*drySample{}, seen: map[string]int64{}, chance: rand.New(rand.NewPCG(1, 2)),
	}
	if chain.Identity() {
		t.Chain = "identity"
	}
	return t
}

// add counts one record and what became of it; output is the topic for results that are not routed.
func (t *dryTally) add(in *transform.Record, out []transform.Record, err error, output string) {
	t.Read++
	fate := fateChanged
	switch {
	case err != nil:
		fate, out = fateFailed, nil
		t.Failed++
		t.class(in, err)
	case len(out) == 0:
		fate = fateDropped
		t.Dropped++
	case len(out) == 1 && sameRecord(*in, out[0]):
		fate = fateUnchanged
		t.Unchanged++
	default:
		t.Changed++
	}
	t.Out += int64(len(out))
	for i := range out {
		topic := output
		if out[i].Target != "" {
			topic = out[i].Target
		}
		t.Outputs[topic]++
	}
	if fate != fateUnchanged {
		t.show(fate, in, out, err)
	}
}

// class counts a failure under the transform that refused the record.
func (t *dryTally) class(in *transform.Record, err error) {
	name := "chain"
	var refused *transform.Error
	var panicked *transform.PanicError
	switch {
	case errors.As(err, &panicked):
		name = fmt.Sprintf("%s (stage %d), panicked", panicked.Transform, panicked.Stage)
	case errors.As(err, &refused):
		name = fmt.Sprintf("%s (stage %d)", refused.Transform, refused.Stage)
	}
	i := slices.IndexFunc(t.Classes, func(c *dryClass) bool { return c.Class == name })
	if i < 0 {
		i = len(t.Classes)
		t.Classes = append(t.Classes, &dryClass{Class: name, First: coordinates(in), Error: err.Error()})
	}
	t.Classes[i].Count++
}

func coordinates(r *transform.Record) string {
	return fmt.Sprintf("%s/%d@%d", r.Topic, r.Partition, r.Offset)
}

// show keeps a record for the report such that each of its fate has the same chance.
func (t *dryTally) show(fate string, in *transform.Record, out []transform.Record, err error) {
	t.seen[fate]++
	kept, at := t.kept[fate], len(t.kept[fate])
	if at == t.sample {
		at = int(t.chance.Int64N(t.seen[fate]))
		if at >= t.sample {
			return
		}
	}
	s := &drySample{Fate: fate, at: coordinates(in), Before: appendRecord(nil, in)}
	for i := range out {
		s.After = append(s.After, appendRecord(nil, &out[i]))
	}
	switch fate {
	case fateFailed:
		s.Error = err.Error()
		s.lines = []string{s.Error}
	case fateDropped:
		s.lines = []string{fmt.Sprintf("key %s value %s", excerpt(in.Key, 0), excerpt(in.Value, 0))}
	default:
		s.lines = changes(in, out)
	}
	if at == len(kept) {
		t.kept[fate] = append(kept, s)
	} else {
		kept[at] = s
	}
}

// changes tells what became of a record, and of several results how each differs.
func changes(in *transform.Record, out []transform.Record) []string {
	const most = 3
	if len(out) == 1 {
		return differences(sides{"was", "is "}, in, &out[0])
	}
	lines := []string{fmt.Sprintf("became %d records", len(out))}
	for i := range out[:min(len(out), most)] {
		lines = append(lines, fmt.Sprintf("%d:", i+1))
		for _, line := range differences(sides{"was", "is "}, in, &out[i]) {
			lines = append(lines, "  "+line)
		}
	}
	return lines
}

// finish puts the samples in order.
func (t *dryTally) finish() {
	t.Samples = []*drySample{}
	for _, fate := range []string{fateChanged, fateDropped, fateFailed} {
		t.Samples = append(t.Samples, t.kept[fate]...)
	}
}

func (t *dryTally) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "dry run: nothing was produced, nothing committed, no group joined\n\n  chain        %s\n", strings.ReplaceAll(t.Chain, "\n", "\n               "))
	fmt.Fprintf(&b, "  input        %d partitions, %d of them from the positions of group %s\n", t.Partitions, t.Positioned, t.Group)
	for _, warning := range t.Warnings {
		fmt.Fprintf(&b, "  warning      %s\n", warning)
	}
	for _, s := range t.Samples {
		fmt.Fprintf(&b, "\n%s %s\n", s.at, s.Fate)
		for _, line := range s.lines {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	fmt.Fprintf(&b, "\n  read         %d records in %.1f s\n", t.Read, t.Seconds)
	fmt.Fprintf(&b, "  unchanged    %d\n  changed      %d\n  dropped      %d\n  failed       %d\n", t.Unchanged, t.Changed, t.Dropped, t.Failed)
	for _, c := range t.Classes {
		fmt.Fprintf(&b, "    %s: %d, first %s: %s\n", c.Class, c.Count, c.First, c.Error)
	}
	fmt.Fprintf(&b, "  would go out %d records\n", t.Out)
	for _, topic := range slices.Sorted(maps.Keys(t.Outputs)) {
		fmt.Fprintf(&b, "    %s: %d\n", topic, t.Outputs[topic])
	}
	_, err := io.WriteString(w, b.String())
	return err
}
