package plot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// scale maps values to heights.
type scale struct {
	frame
	from, to float64 // values at the bottom and at the top
	log      bool
	ticks    []float64
}

// scaleOf covers the values of a panel, from 0 on or, if logarithmic, from a power of ten on.
func (p Panel) scaleOf(f frame) scale {
	least, most := math.Inf(1), p.Mark
	for _, s := range p.Series {
		for _, v := range s.Values {
			if v.Is {
				most = max(most, v.Max)
				if v.Min > 0 {
					least = min(least, v.Min)
				}
			}
		}
	}
	if most <= 0 {
		most = 1
	}
	if p.Kind == Dots {
		s := scale{frame: f, log: true, from: math.Pow(10, math.Floor(math.Log10(min(least, most)))), to: most * 1.2}
		for t := s.from; t <= s.to; t *= 10 {
			for _, k := range []float64{1, 2, 5} {
				if k*t <= s.to {
					s.ticks = append(s.ticks, k*t)
				}
			}
		}
		return s
	}
	step := niceStep(most / 4)
	s := scale{frame: f, to: most * 1.12}
	for i := 0.0; i*step <= s.to; i++ {
		s.ticks = append(s.ticks, i*step)
	}
	return s
}

// niceStep is 1, 2, 2.5 or 5 times a power of ten, at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, k := range []float64{1, 2, 2.5, 5} {
		if k*power >= v {
			return k * power
		}
	}
	return 10 * power
}

func (s scale) y(v float64) float64 {
	share := (v - s.from) / (s.to - s.from)
	if s.log {
		share = math.Log(max(v, s.from)/s.from) / math.Log(s.to/s.from)
	}
	return s.bottom() - share*(s.bottom()-s.top())
}

// short writes a value of the scale in few characters.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + " M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 3, 64) + " k"
	case v >= 1000:
		return fmt.Sprintf("%d,%03d", int(math.Round(v))/1000, int(math.Round(v))%1000)
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}

func (p Panel) draw(c *canvas, f frame) {
	s := p.scaleOf(f)
	c.text(f.x+4, f.y+18, "start", "p", p.Title)
	for _, t := range s.ticks {
		c.line(f.begin(), s.y(t), f.end(), s.y(t), "grid")
		c.text(f.begin()-6, s.y(t)+4, "end", "", short(t))
	}
	c.line(f.begin(), f.bottom(), f.end(), f.bottom(), "axis") // below what is drawn: a line at 0 is still seen
	switch p.Kind {
	case Bars:
		p.bars(c, s)
	case Lines:
		p.lines(c, s)
	case Dots:
		p.dots(c, s)
	}
	if p.Mark > 0 {
		c.line(f.begin(), s.y(p.Mark), f.end(), s.y(p.Mark), "mark")
		// What it says stands beside the title, where no bar and no figure of one can reach.
		words := 6.2 * float64(len(p.MarkText))
		c.line(f.end()-words-28, f.y+14, f.end()-words-6, f.y+14, "mark")
		c.text(f.end(), f.y+18, "end", "mt", p.MarkText)
	}
}

// slot is the room of a label.
func (p Panel) slot(s scale) float64 { return (s.end() - s.begin()) / float64(max(1, len(p.Labels))) }

func (p Panel) labels(c *canvas, s scale) {
	for i, label := range p.Labels {
		c.text(s.begin()+(float64(i)+0.5)*p.slot(s), s.bottom()+17, "middle", "", label)
	}
}

func (p Panel) bars(c *canvas, s scale) {
	p.labels(c, s)
	slot := p.slot(s)
	wide := min(44, slot*0.86/float64(max(1, len(p.Series))))
	for i := range p.Labels {
		there := 0
		for _, one := range p.Series {
			if i < len(one.Values) && one.Values[i].Is {
				there++
			}
		}
		x := s.begin() + (float64(i)+0.5)*slot - wide*float64(there)/2
		for _, one := range p.Series {
			if i >= len(one.Values) || !one.Values[i].Is {
				continue
			}
			v := one.Values[i]
			c.printf(`<rect x="%s" y="%s" width="%s" height="%s" class="c%d"/>`,
				px(x+1), px(s.y(v.Mid)), px(wide-2), px(s.bottom()-s.y(v.Mid)), one.Color)
			whisker(c, s, x+wide/2, v)
			c.text(x+wide/2, s.y(v.Max)-5, "middle", "v", short(v.Mid))
			x += wide
		}
	}
}

func whisker(c *canvas, s scale, x float64, v Value) {
	if v.Min == v.Max {
		return
	}
	c.line(x, s.y(v.Min), x, s.y(v.Max), "w")
	c.line(x-3, s.y(v.Min), x+3, s.y(v.Min), "w")
	c.line(x-3, s.y(v.Max), x+3, s.y(v.Max), "w")
}

func (p Panel) lines(c *canvas, s scale) {
	p.labels(c, s)
	slot := p.slot(s)
	for k, one := range p.Series {
		var points []string
		aside := (float64(k) - float64(len(p.Series)-1)/2) * 7 // so that whiskers do not hide each other
		for i, v := range one.Values {
			if v.Is {
				points = append(points, px(s.begin()+(float64(i)+0.5)*slot+aside)+","+px(s.y(v.Mid)))
			}
		}
		c.printf(`<polyline points="%s" class="c%d l" style="fill:none"/>`, strings.Join(points, " "), one.Color)
		for i, v := range one.Values {
			if v.Is {
				x := s.begin() + (float64(i)+0.5)*slot + aside
				whisker(c, s, x, v)
				c.printf(`<circle cx="%s" cy="%s" r="3.5" class="c%d"/>`, px(x), px(s.y(v.Mid)), one.Color)
			}
		}
	}
}

// dots are sorted: at the middle is the median, at nine tenths the 90th percentile.
func (p Panel) dots(c *canvas, s scale) {
	for _, q := range []int{0, 25, 50, 75, 90, 100} {
		c.text(s.begin()+(s.end()-s.begin()-10)*float64(q)/100+5, s.bottom()+17, "middle", "", strconv.Itoa(q)+" %")
	}
	for _, one := range p.Series {
		var values []float64
		for _, v := range one.Values {
			if v.Is {
				values = append(values, v.Mid)
			}
		}
		slices.Sort(values)
		for i, v := range values {
			x := s.begin() + 5 + (s.end()-s.begin()-10)*(float64(i)+0.5)/float64(len(values))
			c.printf(`<circle cx="%s" cy="%s" r="3" class="c%d"/>`, px(x), px(s.y(v)), one.Color)
		}
	}
}
