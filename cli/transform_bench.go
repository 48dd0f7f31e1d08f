package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eosbridge/eosbridge/transform"
)

func transformBenchCommand() command {
	return command{
		name:    "bench",
		summary: "measure what a chain costs per record",
		usage: `usage: eosbridge transform bench [--chain CHAIN] [--for DURATION] [--json] [FILE]

Passes the records of a file, over and over, through one instance of the chain, and through the identity for
comparison: what reading and writing cost is not in it. One instance is what one lane does on one core. CPU time is
that of the whole process, with the collector's share; it holds on a busy machine, too. Without a file the records are
order events of 500 bytes, with an id, a region, an amount and items.

  --chain CHAIN    the chain; without it that of BRIDGE_TRANSFORM
  --for DURATION   how long to measure each (2s)
  --json           print a JSON array of objects with the numbers

The file holds a record per line, in the form of 'eosbridge transform run --help'; - is the standard input.`,
		example: `eosbridge transform bench --chain 'filter(value.region == "eu" && value.amount > 100) | set(value.tier = "gold")'
kcat -b localhost:9092 -t orders -C -c 1000 -e -J | jq -c '{key, value: .payload}' |
  eosbridge transform bench --chain 'json_delete(customer)' -`,
		run: runTransformBench,
	}
}

// benched is what one chain costs.
type benched struct {
	Chain       string  `json:"chain"`
	Records     int64   `json:"records"`
	PerSecond   float64 `json:"records_per_second"`
	CPU         float64 `json:"cpu_ns_per_record"`
	Bytes       float64 `json:"allocated_bytes_per_record"`
	Allocations float64 `json:"allocations_per_record"`
	Results     float64 `json:"results_per_record"`
	Refused     int64   `json:"refused"`

	refusal error // the first
}

func runTransformBench(ctx context.Context, c *Context, args []string) error {
	flags := newFlags("transform bench")
	expr := flags.String("chain", "", "")
	lasts := flags.Duration("for", 2*time.Second, "")
	asJSON := flags.Bool("json", false, "")
	files, err := parseFlagsAndNames(flags, args)
	switch {
	case err != nil:
		return err
	case len(files) > 1:
		return usageErrorf("%d files are named: put all records into one", len(files))
	case *lasts <= 0:
		return usageErrorf("--for %s: use more than 0", *lasts)
	}
	spec, err := chainOf(ctx, c, *expr)
	if err != nil {
		return err
	}
	sample, err := sampleRecords(ctx, c, files)
	if err != nil {
		return err
	}
	if c.Environ["GOGC"] == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(bridgeGCPercent))
	}
	identity, err := transform.Parse("")
	if err != nil {
		return err
	}
	var all []benched
	for _, one := range []*transform.Spec{identity, spec} {
		b, err := bench(ctx, one, sample, *lasts)
		if err != nil {
			return err
		}
		all = append(all, b)
	}
	if *asJSON {
		return printJSON(c.Stdout, all)
	}
	return writeBench(c.Stdout, all)
}

// sampleRecords reads the records to measure with.
func sampleRecords(ctx context.Context, c *Context, files []string) ([]transform.Record, error) {
	if len(files) == 0 {
		return orderEvents(), nil
	}
	in := c.Stdin
	if files[0] != "-" {
		f, err := os.Open(files[0])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	var sample []transform.Record
	err := eachRecord(ctx, in, func(number int, r *transform.Record, err error, _ bool) error {
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", files[0], number, err)
		}
		sample = append(sample, *r)
		return nil
	})
	if err == nil && len(sample) == 0 {
		err = fmt.Errorf("%s holds no record", files[0])
	}
	return sample, err
}

// orderEvents are records of 500 bytes for those who have none at hand. Half are from Europe, half are worth more
// than 100.
func orderEvents() []transform.Record {
	const count, size = 100, 500
	regions := []string{"eu", "us"}
	var events []transform.Record
	for i := range int64(count) {
		r := firstBase(i)
		r.Key = fmt.Appendf(nil, "customer-%d", i%10)
		value := fmt.Appendf(nil, `{"id":"order-%08d","region":%q,"amount":%d.50,"currency":"EUR","customer":{"id":%d,"name":"Müller & Söhne"},`+
			`"items":[{"sku":"A-1001","qty":2,"price":19.90},{"sku":"B-2002","qty":1,"price":149.00}],"created":"2026-01-02T03:04:05.678Z","note":"`,
			i, regions[i%2], 50+i, i%10)
		r.Value = append(append(value, strings.Repeat("x", size-len(value)-2)...), `"}`...)
		events = append(events, r)
	}
	return events
}

// bench measures a chain.
func bench(ctx context.Context, spec *transform.Spec, sample []transform.Record, lasts time.Duration) (benched, error) {
	b := benched{Chain: spec.String()}
	if spec.Identity() {
		b.Chain = "identity"
	}
	chain := spec.New()
	var results []transform.Record
	out := int64(0)
	round := func() {
		for i := range sample {
			r := &sample[i] // which no transform alters
			var err error
			if results, err = chain.Apply(r, results[:0]); err != nil {
				b.Refused++
				if b.refusal == nil {
					b.refusal = fmt.Errorf("%s/%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
				}
			}
			out += int64(len(results))
		}
		b.Records += int64(len(sample))
	}
	round() // the first one allocates what the others use again
	warm := b.Records
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpuBefore, err := cpuTime()
	if err != nil {
		return b, err
	}
	b.Records, b.Refused, out = 0, 0, 0
	began := time.Now()
	for time.Since(began) < lasts || b.Records < warm {
		if ctx.Err() != nil {
			return b, context.Cause(ctx)
		}
		round()
	}
	elapsed := time.Since(began)
	cpuAfter, err := cpuTime()
	if err != nil {
		return b, err
	}
	runtime.ReadMemStats(&after)
	n := float64(b.Records)
	b.PerSecond = n / elapsed.Seconds()
	b.CPU = float64(cpuAfter-cpuBefore) / n
	b.Bytes = float64(after.TotalAlloc-before.TotalAlloc) / n
	b.Allocations = float64(after.Mallocs-before.Mallocs) / n
	b.Results = float64(out) / n
	return b, nil
}

func writeBench(w io.Writer, all []benched) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "records/s\tCPU/record\tallocated/record\tallocations/record\tresults/record\t")
	for _, b := range all {
		fmt.Fprintf(table, "%.0f\t%.0f ns\t%.0f B\t%.2f\t%.2f\t  %s\n", b.PerSecond, b.CPU, b.Bytes, b.Allocations, b.Results, b.Chain)
	}
	err := table.Flush()
	for _, b := range all {
		if b.Refused > 0 && err == nil {
			_, err = fmt.Fprintf(w, "refused: %d of %d records, at first %v\n", b.Refused, b.Records, b.refusal)
		}
	}
	if last := all[len(all)-1]; err == nil && last.Refused == last.Records {
		err = errors.New("the chain refuses every record: give records that are like yours")
	}
	return err
}
