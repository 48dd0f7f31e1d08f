package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// swallowing is a sink that acknowledges at once.
type swallowing struct {
	txn.Participant
	records int
}

func (s *swallowing) Produce(_ context.Context, _ txn.Epoch, records []*kgo.Record, done func(*kgo.Record, error)) {
	s.records += len(records)
	done(nil, nil)
}

// bench is a lane without goroutines around it, and a piece of input that can be given to it again and again.
type bench struct {
	lane   *lane
	spec   *transform.Spec
	sink   *swallowing
	epoch  *epoch
	slab   []kgo.Record
	pieces []*kgo.Record
	value  []byte
	next   int64
	tp     offsets.TopicPartition
}

func newBench(expression string, n int) (*bench, error) {
	parsed, err := transform.Parse(expression)
	if err != nil {
		return nil, err
	}
	sink := &swallowing{}
	l := &lane{
		sink: sink, convert: converter{target: func(string) string { return "out" }}, budget: newBudget(1 << 30), failed: func(error) {},
		log: slog.New(slog.DiscardHandler), tracker: offsets.NewTracker(),
	}
	if !parsed.Identity() {
		l.convert.chain, l.pace = parsed.New(), &pace{}
	}
	e := newEpoch(1)
	close(e.gate)
	return &bench{lane: l, spec: parsed, sink: sink, epoch: e, slab: make([]kgo.Record, n), pieces: make([]*kgo.Record, n), value: make([]byte, 100), tp: offsets.TopicPartition{Topic: "in"}}, nil
}

// piece is one batch of input on its way through the lane.
func (b *bench) piece() error {
	now := time.UnixMilli(1_700_000_000_000)
	for i := range b.slab {
		b.slab[i] = kgo.Record{Topic: "in", Offset: b.next, Key: b.value[:10], Value: b.value, Timestamp: now}
		b.pieces[i] = &b.slab[i]
		b.next++
	}
	b.lane.budget.take(1000)
	return b.lane.handle(context.Background(), work{epoch: b.epoch, tp: b.tp, records: b.pieces, size: 1000})
}

// TestLaneAllocates: what a piece costs in allocations does not grow with its records, neither without a transform nor
// with one that changes nothing but the place or the existence of records.
func TestLaneAllocates(t *testing.T) {
	for _, expression := range []string{"", "identity", "drop_tombstones", "drop_tombstones | route(elsewhere)"} {
		var perPiece []float64
		for _, n := range []int{10, 10_000} {
			b, err := newBench(expression, n)
			if err != nil {
				t.Fatal(err)
			}
			perPiece = append(perPiece, b.allocations(t))
			if want := 21 * allocationTrials * n; b.sink.records != want {
				t.Fatalf("%q: %d records came out of %d", expression, b.sink.records, want)
			}
			if used := b.lane.budget.used.Load(); used != 0 {
				t.Fatalf("%q: %d bytes were not given back", expression, used)
			}
		}
		if perPiece[1] > perPiece[0] || perPiece[0] > 10 {
			t.Errorf("%q: %v allocations for a piece of 10 records, %v for one of 10,000", expression, perPiece[0], perPiece[1])
		}
	}
}

const allocationTrials = 5

// allocations is how often a piece allocates, in the best of some trials: what is left of other tests counts too, and on a
// busy machine that is more.
func (b *bench) allocations(t *testing.T) float64 {
	t.Helper()
	least := math.Inf(1)
	for range allocationTrials {
		least = min(least, testing.AllocsPerRun(20, func() {
			if err := b.piece(); err != nil {
				t.Fatal(err)
			}
		}))
	}
	return least
}

// lend gives the lane a crew as large as that of a bridge with so many lanes.
func (b *bench) lend(lanes int) {
	if !b.spec.Identity() {
		b.lane.crew = newCrew(lanes, func() converter {
			return converter{chain: b.spec.New(), target: b.lane.convert.target}
		})
	}
}

// benched are the chains of BenchmarkLane. With the last two the hands of a crew have something to do: jq allocates some
// fifty times for a record, the search nothing.
var benched = []struct{ name, expression string }{
	{"identity", ""},
	{"drop_tombstones", "drop_tombstones"},
	{"jq", `jq(select(.region == "eu") | .tier = "gold" | .total = ([.items[].price] | add))`},
	{"search", "regex_replace(`(?i)(customer|invoice)[^}]*@[a-z.]+`, x)"},
}

// BenchmarkLane is what a lane with all the records costs: in time, for the bridge with that partition, and in CPU time,
// for the machine. quickest-ns is the time of the quickest piece: what the mean says on a quiet machine, it says on a busy one
// too, without the collector's share. The collector and the heap are those of a bridge at work: with an empty heap there is a
// collection for each piece, it runs on the other processors even while one lane is alone, and no hand seems to help.
func BenchmarkLane(b *testing.B) {
	const n = 1000
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	inFlight := make([]byte, 16<<20)
	for _, chain := range benched {
		for _, lanes := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%s/lanes=%d", chain.name, lanes), func(b *testing.B) {
				bench, err := newBench(chain.expression, n)
				if err != nil {
					b.Fatal(err)
				}
				bench.value = []byte(`{"id":"order 0000017","region":"eu","amount":120.50,"items":[{"sku":"a","price":20.25},{"sku":"b","price":100.25}]}`)
				bench.lend(lanes)
				b.ReportAllocs()
				before, quickest := cpuTime(b), time.Duration(math.MaxInt64)
				for b.Loop() {
					began := time.Now()
					if err := bench.piece(); err != nil {
						b.Fatal(err)
					}
					quickest = min(quickest, time.Since(began))
				}
				records := float64(b.N) * n
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/records, "ns/record")
				b.ReportMetric(float64(quickest.Nanoseconds())/n, "quickest-ns/record")
				b.ReportMetric(float64(cpuTime(b)-before)/records, "cpu-ns/record")
			})
		}
	}
	runtime.KeepAlive(inFlight)
}

// cpuTime is what the process has computed, in nanoseconds, the collector's share included.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
