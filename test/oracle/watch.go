package oracle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Watch samples, while the bridge runs and is killed, the invariant of
// exactly-once: what is visible is the image of the input below the committed
// positions. It holds in both directions.
//
//   - Nothing is visible at or above the position: first it notes the highest
//     visible record, then it asks for stable positions. The broker answers only
//     when no transaction is open over a partition, so a transaction whose output
//     is already visible has its positions in the answer.
//   - Everything below the position is visible: first it asks for the stable
//     positions, then for the end of the output, and waits until the reader is
//     there. What lies below was produced before its position was committed.
type Watch struct {
	adm     *kadm.Client
	group   string
	outputs []string
	reader  *Reader
	checker *Checker

	mu       sync.Mutex
	ahead    Finding
	behind   Finding
	backward Finding
	samples  int
	gaps     []gap
	checked  map[Source]int64 // all wanted below this seq were seen
	last     map[Source]int64 // positions of the last sample
}

// gap is what was missing below a position.
type gap struct {
	source   Source
	from, to int64 // seqs
	position int64
	missing  int
	at       time.Time
}

// NewWatch watches the group's positions and the output that reader reads.
func NewWatch(adm *kadm.Client, group string, outputs []string, reader *Reader) *Watch {
	return &Watch{
		adm: adm, group: group, outputs: outputs, reader: reader, checker: reader.checker,
		checked: make(map[Source]int64), last: make(map[Source]int64),
	}
}

// Run samples every interval until ctx ends. Samples that the broker could not
// answer (unstable, moving) are not counted.
func (w *Watch) Run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = w.Sample(ctx) // an unanswered sample proves nothing either way
		}
	}
}

// Sample checks the invariant once. The error says that there was no answer.
func (w *Watch) Sample(ctx context.Context) error {
	visible := w.checker.Highest()
	positions, err := w.positions(ctx)
	if err != nil {
		return err
	}
	ends, err := w.adm.ListEndOffsets(ctx, w.outputs...)
	if err != nil {
		return fmt.Errorf("watch: end offsets: %w", err)
	}
	w.notAhead(visible, positions)
	if err := w.reader.Reach(ctx, ends); err != nil {
		return err
	}
	w.notBehind(positions)
	return nil
}

// positions asks until the answer is stable.
func (w *Watch) positions(ctx context.Context) (map[Source]int64, error) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		all, err := w.adm.FetchOffsets(kadm.RequireStable(ctx), w.group)
		if err == nil {
			err = all.Error()
		}
		switch {
		case err == nil:
			positions := make(map[Source]int64)
			all.Each(func(o kadm.OffsetResponse) {
				positions[Source{Topic: o.Topic, Partition: o.Partition}] = o.At
			})
			return positions, nil
		case !errors.Is(err, kerr.UnstableOffsetCommit):
			return nil, fmt.Errorf("watch: positions: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

func (w *Watch) notAhead(visible, positions map[Source]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples++
	for s, seq := range visible {
		offset, known := w.checker.input.Offset(Origin{Source: s, Seq: seq})
		if known && offset >= positions[s] {
			w.ahead.add("%s/%d (offset %d) is visible, the position is %d", s, seq, offset, positions[s])
		}
	}
	for s, at := range positions {
		if at < w.last[s] {
			w.backward.add("%s: from %d to %d", s, w.last[s], at)
		}
		w.last[s] = at
	}
}

func (w *Watch) notBehind(positions map[Source]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s, at := range positions {
		below := w.checker.input.Below(s, at)
		missing := w.checker.Missing(s, w.checked[s], below, math.MaxInt)
		for _, o := range missing {
			w.behind.add("%s is below the position %d and not visible", o, at)
		}
		if n := len(missing); n > 0 {
			w.gaps = append(w.gaps, gap{source: s, from: missing[0].Seq, to: missing[n-1].Seq + 1, position: at, missing: n, at: time.Now()})
		}
		w.checked[s] = max(w.checked[s], below)
	}
}

// Samples is the number of answered samples.
func (w *Watch) Samples() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.samples
}

// ErrInvariant says that output and positions were seen apart.
var ErrInvariant = errors.New("visible output is not the image of the committed positions")

// Err is nil if the invariant held in every sample.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ahead.Count+w.behind.Count+w.backward.Count == 0 {
		return nil
	}
	return fmt.Errorf("%w: ahead of the position %d %q, missing below it %d %q, positions going back %d %q",
		ErrInvariant, w.ahead.Count, w.ahead.Examples, w.behind.Count, w.behind.Examples,
		w.backward.Count, w.backward.Examples)
}

// Explain says what became of the records that were missing below a position: did the same reader see them later, does
// another one that starts anew, and are they in the log at all, whatever became of their transactions? It is empty if
// nothing was missing. The output is read as it is now.
func (w *Watch) Explain(ctx context.Context, what Reading) string {
	w.mu.Lock()
	gaps := w.gaps
	w.mu.Unlock()
	if len(gaps) == 0 {
		return ""
	}
	readers := []struct {
		name string
		by   *Checker
	}{{name: "seen by the same reader later", by: w.checker}, {name: "by a new one"}, {name: "by one of uncommitted records"}}
	for i := range readers[1:] {
		what := Reading{Brokers: what.Brokers, Topics: what.Topics, Uncommitted: i == 1}
		fresh, err := ReadAll(ctx, what, w.checker)
		if err != nil {
			return err.Error()
		}
		readers[i+1].by = fresh
	}
	var text strings.Builder
	for _, g := range gaps {
		fmt.Fprintf(&text, "%s %s: %d missing of %d to %d below %d;", g.at.Format("15:04:05.000"), g.source, g.missing, g.from, g.to-1, g.position)
		for _, r := range readers {
			fmt.Fprintf(&text, " %s: all but %d,", r.name, len(r.by.Missing(g.source, g.from, g.to, math.MaxInt)))
		}
		text.WriteByte('\n')
	}
	return text.String()
}
