package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func value(mid, least, most float64) Value { return Value{Mid: mid, Min: least, Max: most, Is: true} }

func figure() Figure {
	return Figure{Title: "CPU & <rate>", Panels: []Panel{
		{
			Title: "bars", Kind: Bars, Labels: []string{"W1", "W2"}, Mark: 1, MarkText: "equal",
			Series: []Series{{"bridge", 0, []Value{value(0.9, 0.8, 1.1), {}}}, {"plain", 3, []Value{value(1, 1, 1), value(2, 1.5, 2.5)}}},
		},
		{Title: "lines", Kind: Lines, Labels: []string{"1", "10", "100"}, Series: []Series{{"plain", 3, []Value{value(5, 4, 6), {}, value(7, 7, 7)}}}},
		{Title: "dots", Kind: Dots, Mark: 0.5, Series: []Series{{"bridge", 0, []Value{value(0.2, 0.2, 0.2), value(30, 30, 30), value(0.1, 0.1, 0.1)}}}},
	}}
}

// elements counts the elements of a picture, and fails if it is not well formed.
func elements(t *testing.T, svg string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return counts
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok {
			counts[start.Name.Local]++
		}
	}
}

func TestSVG(t *testing.T) {
	svg := figure().SVG()
	counts := elements(t, svg)
	// Background, two in the legend, three bars: the one that was not measured is left out.
	if counts["rect"] != 6 || counts["polyline"] != 1 || counts["circle"] != 2+3 {
		t.Errorf("elements %v", counts)
	}
	for _, want := range []string{"CPU &amp; &lt;rate&gt;", "prefers-color-scheme:dark", ">equal</text>", ">100</text>", ">90 %</text>"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	// The first panel begins at headHeight. Words within its plotted area could lie on a figure.
	if want := `y="` + px(headHeight+18) + `" text-anchor="end" class="mt">equal`; !strings.Contains(svg, want) {
		t.Errorf("the mark's words are not beside the title: no %s in\n%s", want, svg)
	}
	for _, bad := range []string{"NaN", "Inf"} {
		if strings.Contains(svg, bad) {
			t.Errorf("%s in\n%s", bad, svg)
		}
	}
	if svg != figure().SVG() {
		t.Error("the same figures, another picture")
	}
	// The dots are sorted: what comes later lies further right and, being larger, higher.
	if first, last := strings.LastIndex(svg, `cx="`), strings.Index(svg, `r="3"`); first < last {
		t.Error("no dots")
	}
	if s := (Figure{Title: "empty", Panels: []Panel{{Kind: Bars}, {Kind: Lines}, {Kind: Dots}}}).SVG(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
		t.Errorf("of nothing:\n%s", s)
	}
}

func TestScale(t *testing.T) {
	f := frame{x: 0, y: 0, w: 400, h: 200}
	s := Panel{Kind: Bars, Series: []Series{{"a", 1, []Value{value(10, 5, 20)}}}}.scaleOf(f)
	if s.from != 0 || s.to < 20 || s.y(0) != f.bottom() || s.y(20) < f.top() || s.y(10) <= s.y(20) {
		t.Errorf("%+v", s)
	}
	s = Panel{Kind: Dots, Mark: 0.5, Series: []Series{{"a", 1, []Value{value(0.13, 0.13, 0.13), value(47, 47, 47)}}}}.scaleOf(f)
	if !s.log || math.Abs(s.from-0.1) > 1e-12 || s.to < 47 || s.y(0.1) != f.bottom() || s.y(47) < f.top() {
		t.Errorf("%+v", s)
	}
	for v, want := range map[float64]float64{0.9: 1, 1.1: 2, 2.2: 2.5, 3: 5, 6: 10, 0.03: 0.05, 1200: 2000} {
		if got := niceStep(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("step for %v is %v, want %v", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 150: "150", 4000: "4,000", 20_000: "20 k", 1_700_000: "1.7 M"} {
		if got := short(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
