package bridge

import (
	"fmt"
	"time"
)

// The picture of the epochs in units of its own; CSS stretches it.
const (
	timelineBar    = 10  // width, with the gap
	timelineHeight = 100 // of the longest epoch
	timelineTop    = 12  // room for the sign of an aborted epoch
)

// drawTimeline draws an epoch as a bar of its steps, the oldest at the left. epochs has the newest first, and one at least.
//
// What a colour says is said without it, too: an aborted epoch has a cross above it, a carried one is hollow, and each
// bar has a title.
func drawTimeline(m *markup, epochs []EpochSummary) {
	longest, aborted, carried := time.Duration(0), 0, 0
	for _, e := range epochs {
		longest = max(longest, lasted(e))
		switch e.Outcome {
		case OutcomeAborted:
			aborted++
		case OutcomeCarried:
			carried++
		}
	}
	m.put(`<figure>
<svg class="timeline" viewBox="0 0 %s %s" preserveAspectRatio="none" role="img" aria-labelledby="tl-title tl-desc">
<title id="tl-title">The last %s epochs</title>
<desc id="tl-desc">Oldest at the left. %s aborted, %s carried; the longest took %s from its barrier.</desc>
`, pageTimeline*timelineBar, timelineTop+timelineHeight, len(epochs), aborted, carried, stepText(longest))
	for i, e := range epochs {
		drawEpoch(m, e, (pageTimeline-1-i)*timelineBar, longest)
	}
	m.put(`</svg>
<figcaption><span>the newest at the right; height: up to %s</span>
<ul class="legend"><li class="align">aligned</li><li class="flush">flushed</li><li class="offsets">offsets sent</li><li class="commit">committed</li><li class="carry">carried</li><li class="abort">aborted</li></ul>
</figcaption>
</figure>
`, stepText(longest))
}

// lasted is the time to the last step that an epoch has reached.
func lasted(e EpochSummary) time.Duration {
	return max(e.Aligned, e.Flushed, e.OffsetsSent, e.Committed)
}

func drawEpoch(m *markup, e EpochSummary, x int, longest time.Duration) {
	const width, bottom = timelineBar - 2, timelineTop + timelineHeight
	// y is where the bar is when a step was reached: less is higher.
	y := func(d time.Duration) float64 {
		return bottom - timelineHeight*float64(d)/float64(max(longest, 1))
	}
	m.put("<g class=\"bar %s\"><title>epoch %s: %s, aligned %s, flushed %s, offsets sent %s, committed %s</title>\n", e.Outcome,
		int64(e.Epoch), outcomeText(e), stepText(e.Aligned), stepText(e.Flushed), stepText(e.OffsetsSent), stepText(e.Committed))
	below := time.Duration(0)
	for _, step := range []struct {
		class literal
		at    time.Duration
	}{{"align", e.Aligned}, {"flush", e.Flushed}, {"offsets", e.OffsetsSent}, {"commit", e.Committed}} {
		if step.at <= below {
			continue
		}
		top := y(step.at)
		m.put("<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>\n", step.class, x+1, decimal(top), width, decimal(max(y(below)-top, 0.5)))
		below = step.at
	}
	if below == 0 { // not even aligned, or in no time: there has to be something to see and to point at
		m.put("<rect class=\"none\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"3\"/>\n", x+1, bottom-3, width)
	}
	if e.Outcome == OutcomeAborted {
		top := y(below) - 10
		m.put("<path class=\"cross\" d=\"M%s %sl6 7m0 -7l-6 7\"/>\n", x+2, decimal(top))
	}
	m.put("</g>\n")
}

func decimal(f float64) string { return fmt.Sprintf("%.1f", f) }
