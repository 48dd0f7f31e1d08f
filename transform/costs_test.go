package transform

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var measureCosts = flag.Bool("costs", false, "measure what each engine costs and write it into docs/transforms.md; on a quiet machine, half a minute")

// engine is a way to keep the orders of Europe above 100 and to set a field in them.
type engine struct {
	name, expr string  // the expression of a chain, or empty for Go
	most       float64 // times native Go, which the documented table may not exceed
	guest      string  // built for the tests, in the place of the file in expr
}

// orderEngines are the rows of the table.
func orderEngines() []engine {
	return []engine{
		{"native Go", "", 1, ""},
		{"CEL", `filter(value.region == "eu" && value.amount > 100) | set(value.tier = "gold")`, 2, ""},
		{"jq", `jq(select(.region == "eu" and .amount > 100) | .tier = "gold")`, 15, ""},
		{"WASM", "wasm(@order.wasm)", 15, "go"},
	}
}

func (e engine) build(t testing.TB) Transform {
	if e.expr == "" {
		return applyFunc(nativeOrder)
	}
	if e.guest != "" {
		return chainOf(t, "wasm(@"+goGuest(t, e.guest)+")")
	}
	return chainOf(t, e.expr)
}

// orderMixes are the inputs: what is dropped costs less than what is changed.
func orderMixes() []struct {
	name    string
	records []Record
} {
	eu, us := Record{Value: order("eu", "250.10")}, Record{Value: order("us", "250.10")}
	return []struct {
		name    string
		records []Record
	}{{"all kept", []Record{eu}}, {"half kept", []Record{eu, us}}}
}

// TestEngines: each of them makes the same of the orders, or the table compares nothing.
func TestEngines(t *testing.T) {
	records := []Record{
		{Value: order("eu", "250.10")}, {Value: order("us", "250.10")}, {Value: order("eu", "100")}, {Value: order("eu", "100.01")}, {Value: order("eu", "-1e9")},
	}
	for i := range records {
		var want []Record
		for _, e := range orderEngines() {
			out, err := e.build(t).Apply(&records[i], nil)
			if err != nil {
				t.Fatal(err)
			}
			if e.expr == "" {
				want = out
			}
			if len(out) != len(want) || len(out) == 1 && e.name != "jq" && !bytes.Equal(out[0].Value, want[0].Value) { // jq sorts names
				t.Errorf("%s made %d records of record %d, native Go %d: %s", e.name, len(out), i, len(want), outcome{records: out})
			}
		}
	}
}

// engineCost is what one engine needs per record.
type engineCost struct {
	cpu         []float64 // ns, of each round
	bytes, made float64   // allocated
}

func (c engineCost) median() float64 {
	sorted := slices.Sorted(slices.Values(c.cpu))
	return sorted[len(sorted)/2]
}

const (
	costRounds = 7
	costRound  = 400 * time.Millisecond
)

// measure passes records for the time of a round.
func (c *engineCost) measure(t *testing.T, tr Transform, records []Record) {
	t.Helper()
	var before, after runtime.MemStats
	out := make([]Record, 0, 2)
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, n := cpuTime(t), 0
	for began := time.Now(); time.Since(began) < costRound; {
		for range 200 {
			var err error
			if out, err = tr.Apply(&records[n%len(records)], out[:0]); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	c.cpu = append(c.cpu, float64(cpuTime(t)-cpu)/float64(n))
	runtime.ReadMemStats(&after)
	c.bytes, c.made = float64(after.TotalAlloc-before.TotalAlloc)/float64(n), float64(after.Mallocs-before.Mallocs)/float64(n)
}

const (
	costsBegin = "<!-- Measured: make bench-transforms -->\n"
	costsEnd   = "<!-- End of what was measured. -->\n"
)

// TestCosts measures with -costs, the engines taking turns. Without, it holds what is documented to the aims.
func TestCosts(t *testing.T) {
	path := filepath.Join("..", "docs", "transforms.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, hasBegin := strings.Cut(string(content), costsBegin)
	have, after, hasEnd := strings.Cut(rest, costsEnd)
	if !hasBegin || !hasEnd {
		t.Fatalf("%s has lost the marks around the table of costs", path)
	}
	if *measureCosts {
		have = costTable(t)
		if err := os.WriteFile(path, []byte(before+costsBegin+have+costsEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Log("\n" + have)
	}
	for _, e := range orderEngines() {
		row := regexp.MustCompile(`(?m)^\| ` + e.name + ` \|.*$`).FindString(have)
		ratios := regexp.MustCompile(`\*\*([0-9.]+)\*\*`).FindAllStringSubmatch(row, -1)
		if len(ratios) != len(orderMixes()) {
			t.Errorf("%s is not in the table: write it anew with make bench-transforms", e.name)
		}
		for _, match := range ratios {
			if ratio, err := strconv.ParseFloat(match[1], 64); err != nil || ratio > e.most {
				t.Errorf("%s costs %s times native Go, the aim is %g", e.name, match[1], e.most)
			}
		}
	}
}

// costTable measures all engines and returns the table.
func costTable(t *testing.T) string {
	t.Helper()
	engines, mixes := orderEngines(), orderMixes()
	costs := make([][]engineCost, len(engines))
	for i := range engines {
		costs[i] = make([]engineCost, len(mixes))
	}
	for range costRounds {
		for m := range mixes {
			for i := range engines {
				costs[i][m].measure(t, engines[i].build(t), mixes[m].records)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, %s, one core; median of %d rounds in turn, in brackets the lowest and the highest.\n\n", processor(), runtime.Version(), costRounds)
	b.WriteString("| engine |")
	for _, mix := range mixes {
		fmt.Fprintf(&b, " CPU per record, %s | times native Go | allocations |", mix.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|---|---|", len(mixes)) + "\n")
	for i, e := range engines {
		fmt.Fprintf(&b, "| %s |", e.name)
		for m := range mixes {
			c := costs[i][m]
			fmt.Fprintf(&b, " %s [%s–%s] | **%.2f** | %.1f, %.0f bytes |", micro(c.median()), micro(slices.Min(c.cpu)), micro(slices.Max(c.cpu)), c.median()/costs[0][m].median(), c.made, c.bytes)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for _, e := range engines[1:] {
		fmt.Fprintf(&b, "- %s: `%s`\n", e.name, e.expr)
	}
	return b.String() + "\n"
}

func micro(ns float64) string { return fmt.Sprintf("%.2f µs", ns/1000) }

// processor names the machine's, where it can be told.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if match := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(info); err == nil && match != nil {
		return string(match[1])
	}
	return runtime.GOARCH
}
