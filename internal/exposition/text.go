package exposition

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// family is all series of one name, as text.
type family struct {
	name, help string
	head       []byte // HELP and TYPE; made with the first series, which tells the type
	series     []byte // of the scrape under way
}

// add writes one metric, which is a line, or several for a histogram or a summary.
func (f *family) add(m *dto.Metric) error {
	kind := ""
	switch {
	case m.Counter != nil:
		kind = "counter"
		f.line("", m.Label, "", 0, m.Counter.GetValue())
	case m.Gauge != nil:
		kind = "gauge"
		f.line("", m.Label, "", 0, m.Gauge.GetValue())
	case m.Untyped != nil:
		kind = "untyped"
		f.line("", m.Label, "", 0, m.Untyped.GetValue())
	case m.Summary != nil:
		kind = "summary"
		for _, q := range m.Summary.Quantile {
			f.line("", m.Label, "quantile", q.GetQuantile(), q.GetValue())
		}
		f.line("_sum", m.Label, "", 0, m.Summary.GetSampleSum())
		f.line("_count", m.Label, "", 0, float64(m.Summary.GetSampleCount()))
	case m.Histogram != nil:
		kind = "histogram"
		for _, b := range m.Histogram.Bucket {
			if !math.IsInf(b.GetUpperBound(), 1) {
				f.line("_bucket", m.Label, "le", b.GetUpperBound(), float64(b.GetCumulativeCount()))
			}
		}
		f.line("_bucket", m.Label, "le", math.Inf(1), float64(m.Histogram.GetSampleCount()))
		f.line("_sum", m.Label, "", 0, m.Histogram.GetSampleSum())
		f.line("_count", m.Label, "", 0, float64(m.Histogram.GetSampleCount()))
	default:
		return fmt.Errorf("metric %s has no value", f.name)
	}
	if f.head == nil {
		if f.help != "" {
			f.head = append(escaped(fmt.Appendf(f.head, "# HELP %s ", f.name), f.help, "\\\n"), '\n')
		}
		f.head = fmt.Appendf(f.head, "# TYPE %s %s\n", f.name, kind)
	}
	return nil
}

// line writes name, labels and value; bound is the value of one more label, if that has a name.
func (f *family) line(suffix string, labels []*dto.LabelPair, boundary string, bound, value float64) {
	out := append(append(f.series, f.name...), suffix...)
	separator := byte('{')
	for _, l := range labels {
		out = append(append(append(out, separator), l.GetName()...), '=', '"')
		out = append(escaped(out, l.GetValue(), "\\\n\""), '"')
		separator = ','
	}
	if boundary != "" {
		out = append(append(append(out, separator), boundary...), '=', '"')
		out = append(number(out, bound), '"')
		separator = ','
	}
	if separator == ',' {
		out = append(out, '}')
	}
	f.series = append(number(append(out, ' '), value), '\n')
}

// escaped writes a text with a backslash before each of the given characters; a new line becomes \n.
func escaped(out []byte, text, special string) []byte {
	for {
		i := strings.IndexAny(text, special)
		if i < 0 {
			return append(out, text...)
		}
		out = append(append(out, text[:i]...), '\\', text[i])
		if text[i] == '\n' {
			out[len(out)-1] = 'n'
		}
		text = text[i+1:]
	}
}

// number writes a value as Prometheus reads it: +Inf, -Inf, NaN, or the shortest text that says it exactly.
func number(out []byte, v float64) []byte {
	if whole := int64(v); float64(whole) == v && -1<<53 < whole && whole < 1<<53 && !(v == 0 && math.Signbit(v)) { // quicker, and easier to read
		return strconv.AppendInt(out, whole, 10)
	}
	return strconv.AppendFloat(out, v, 'g', -1, 64)
}
