package transform

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// order is an order event of 500 bytes, as pipelines see them.
func order(region string, amount string) []byte {
	doc := fmt.Sprintf(`{"id":"ord-000012345678","customer":{"id":90071992547,"name":"Müller & Söhne","email":"info@example.org","vip":true},`+
		`"region":%q,"currency":"EUR","amount":%s,"items":[{"sku":"A-1001","qty":2,"price":19.90},{"sku":"B-2002","qty":1,"price":149.00},{"sku":"C-3003","qty":5,"price":3.25}],`+
		`"created":"2026-01-02T03:04:05.678Z","channel":"web","note":"`, region, amount)
	const size = 500
	return []byte(doc + strings.Repeat("x", size-len(doc)-len(`"}`)) + `"}`)
}

// nativeOrder is the same task in Go, as an author of a transform would write it.
func nativeOrder(in *Record, out []Record) ([]Record, error) {
	if gjson.GetBytes(in.Value, "region").Str != "eu" || gjson.GetBytes(in.Value, "amount").Num <= 100 {
		return out, nil
	}
	value, err := sjson.SetBytes(in.Value, "tier", "gold")
	if err != nil {
		return out, err
	}
	out = append(out, *in)
	out[len(out)-1].Value = value
	return out, nil
}

func chainOf(t testing.TB, expr string) *Chain {
	t.Helper()
	spec, err := ParseWith(expr, outside())
	if err != nil {
		t.Fatal(err)
	}
	return spec.New()
}

// BenchmarkOrder is the cost of each engine on the same task, for a profile; make bench-transforms
// writes the table.
func BenchmarkOrder(b *testing.B) {
	for _, mix := range orderMixes() {
		for _, e := range orderEngines() {
			b.Run(mix.name+"/"+e.name, func(b *testing.B) {
				tr, out := e.build(b), make([]Record, 0, 2)
				var err error
				b.ReportAllocs()
				i, before := 0, cpuTime(b)
				for b.Loop() {
					if out, err = tr.Apply(&mix.records[i%len(mix.records)], out[:0]); err != nil {
						b.Fatal(err)
					}
					i++
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// cpuTime is what the process has computed, in nanoseconds, the collector's share included:
// it holds on a busy machine, where the time on the clock does not.
func cpuTime(t testing.TB) int64 {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// BenchmarkBuild is what an expression costs at the start, once per lane.
func BenchmarkBuild(b *testing.B) {
	for _, expr := range []string{
		`filter(value.region == "eu" && value.amount > 100)`,
		`jq(select(.region == "eu" and .amount > 100) | .tier = "gold")`,
	} {
		b.Run(expr, func(b *testing.B) {
			for b.Loop() {
				if _, err := Parse(expr); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
