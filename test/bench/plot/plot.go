// Package plot draws what the benchmark has measured as SVG: bars, lines and sorted dots, with the range of the runs
// as whiskers. The pictures are text, the same for the same figures, and bring their own background for light and dark.
package plot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Kind is how a panel is drawn.
type Kind int

// The kinds of panels.
const (
	Bars  Kind = iota // a group of bars for each label
	Lines             // a line for each series over the labels
	Dots              // sorted values of each series from left to right, on a logarithmic scale
)

// Value is a figure and the range of the runs that it is the median of.
type Value struct {
	Mid, Min, Max float64
	Is            bool // there is one
}

// Series is one variant in a panel: a value for each label, or with Dots as many as there are.
type Series struct {
	Name   string
	Color  int // 0 to 7
	Values []Value
}

// Panel is one diagram.
type Panel struct {
	Title  string // with the unit
	Kind   Kind
	Labels []string // along the bottom
	Series []Series
	Mark   float64 // a line across at this value, with MarkText; 0 = none
	// MarkText says what the mark is.
	MarkText string
}

// Figure is some panels, two in a row, under one legend.
type Figure struct {
	Title  string
	Panels []Panel
}

// Measures of the drawing, in pixels.
const (
	width       = 880
	margin      = 16
	panelHeight = 240
	above       = 34 // of a panel: its title
	below       = 30 // its labels
	left        = 58 // its scale
	headHeight  = 64 // title and legend
)

// style are the colours: of the series, and all else, in light and in dark. They differ in brightness as well, so that
// they can be told apart without colour.
const style = `<style>
text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#1f2328}
.h{font-size:15px;font-weight:600}.p{font-weight:600}.v{font-size:10px}
.bg{fill:#fff}.grid{stroke:#d8dee4}.axis,.w{stroke:#57606a}.mark{stroke:#b35900;stroke-dasharray:5 4}.mt{fill:#b35900;font-size:11px}
.c0{fill:#0b57d0;stroke:#0b57d0}.c1{fill:#66a3ff;stroke:#66a3ff}.c2{fill:#b3541e;stroke:#b3541e}.c3{fill:#8c959f;stroke:#8c959f}
.c4{fill:#1a7f37;stroke:#1a7f37}.c5{fill:#8250df;stroke:#8250df}.c6{fill:#bf3989;stroke:#bf3989}.c7{fill:#9a6700;stroke:#9a6700}
.l{fill:none;stroke-width:2}.w{stroke-width:1.2}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bg{fill:#0d1117}.grid{stroke:#30363d}.axis,.w{stroke:#9da7b3}
.mark{stroke:#f0a35e}.mt{fill:#f0a35e}
.c0{fill:#4493f8;stroke:#4493f8}.c1{fill:#a5cbff;stroke:#a5cbff}.c2{fill:#e8834a;stroke:#e8834a}.c3{fill:#9198a1;stroke:#9198a1}
.c4{fill:#3fb950;stroke:#3fb950}.c5{fill:#ab7df8;stroke:#ab7df8}.c6{fill:#f778ba;stroke:#f778ba}.c7{fill:#d29922;stroke:#d29922}
.l{fill:none}}
</style>
`

// canvas collects the text of a picture.
type canvas struct{ strings.Builder }

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

func (c *canvas) text(x, y float64, anchor, class, text string) {
	c.printf(`<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`, px(x), px(y), anchor, class, escape(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.printf(`<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, px(x1), px(y1), px(x2), px(y2), class)
}

// px writes a coordinate with a tenth of a pixel.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

// SVG is the picture.
func (f Figure) SVG() string {
	rows := (len(f.Panels) + 1) / 2
	height := headHeight + rows*panelHeight + margin
	var c canvas
	c.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`, width, height, width, height)
	c.printf("<title>%s</title>", escape(f.Title))
	c.WriteString(style)
	c.printf(`<rect class="bg" width="%d" height="%d"/>`, width, height)
	c.text(margin, 26, "start", "h", f.Title)
	x := float64(margin)
	for _, s := range f.legend() {
		c.printf(`<rect x="%s" y="40" width="12" height="12" class="c%d"/>`, px(x), s.Color)
		c.text(x+17, 50, "start", "", s.Name)
		x += 34 + 6.8*float64(len(s.Name))
	}
	wide := float64(width-3*margin) / 2
	if len(f.Panels) == 1 {
		wide = width - 2*margin
	}
	for i, p := range f.Panels {
		p.draw(&c, frame{
			x: margin + float64(i%2)*(wide+margin), y: float64(headHeight + i/2*panelHeight), w: wide, h: panelHeight - 8,
		})
	}
	c.WriteString("</svg>\n")
	return c.String()
}

// legend is every series once.
func (f Figure) legend() (all []Series) {
	seen := map[string]bool{}
	for _, p := range f.Panels {
		for _, s := range p.Series {
			if !seen[s.Name] {
				seen[s.Name] = true
				all = append(all, s)
			}
		}
	}
	return all
}

// frame is where a panel lies.
type frame struct{ x, y, w, h float64 }

// Bottom, top and the ends of the plotted area.
func (f frame) bottom() float64 { return f.y + f.h - below }
func (f frame) top() float64    { return f.y + above }
func (f frame) begin() float64  { return f.x + left }
func (f frame) end() float64    { return f.x + f.w - 4 }
