package transform

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// typical returns records as a pipeline sees them, with three headers each.
func typical(count int) []Record {
	records := make([]Record, count)
	for i := range records {
		records[i] = Record{
			Topic: "orders", Partition: int32(i % 8), Offset: int64(i),
			Key: fmt.Appendf(nil, "customer-%08d", i%1000), Value: slices.Repeat([]byte("x"), 100),
			Headers: []Header{
				{"trace-id", fmt.Appendf(nil, "%032x", i)},
				{"region", []byte("eu")},
				{"customer-id", fmt.Append(nil, i)},
			},
			Timestamp: time.UnixMilli(int64(i)),
		}
	}
	return records
}

// costs are the allocations per record that each expression may make on typical records.
// One that writes new headers makes one per chunk of the arena.
var costs = []struct {
	expr string
	most float64
}{
	{"", 0},
	{"identity", 0},
	{"drop_tombstones", 0},
	{"filter_header(region=eu)", 0},
	{"filter_header(region=us)", 0},
	{"filter_header(none)", 0},
	{"route(orders-eu)", 0},
	{"sample(50%)", 0},
	{"set_key_from_header(customer-id)", 0},
	{"drop_header(none)", 0},
	{"set_header(region=eu)", 0}, // is so already
	{"drop_header(trace-id)", 0.05},
	{"set_header(origin=eosbridge)", 0.07},
	{"set_header(region=us)", 0.05},
	{"drop_tombstones | filter_header(region=eu) | sample(50%) | set_key_from_header(customer-id) | route(orders-eu)", 0},
}

// jsonCosts are the same for records whose value is the order of 500 bytes. What changes the
// value allocates the new one, and nothing else.
var jsonCosts = []struct {
	expr string
	most float64
}{
	{`json_set(tier="gold")`, 1},
	{`json_set(currency="EUR")`, 0}, // is so already
	{`json_set(customer.address.city="Ulm")`, 1},
	{`json_insert(at=offset)`, 1},
	{`json_delete(note, customer.email, items[*].price)`, 1},
	{`json_delete(none)`, 0},
	{`json_keep(id, amount, items[*].sku)`, 1},
	{`json_rename(amount=total, customer.id=number)`, 1},
	{`json_mask(customer.email, note)`, 1},
	{`json_mask(customer.email, note, secret: testdata/mask.secret)`, 1},
	{`json_flatten`, 1},
	{`json_explode(items)`, 0},
	{`json_extract(customer)`, 0},
	{`json_hoist(payload)`, 1},
	{`json_cast(amount=string)`, 1},
	{`json_time(created, rfc3339, unix_ms)`, 1},
	{`key_from_json(customer.id)`, 0},
	{`key_from_json(id)`, 0},
	{`header_from_json(region=region)`, 0.05},
	{`route_by_json(region, eu=a, *=b)`, 0},
	{`route_by_topic(orders=a)`, 0},
	{`timestamp_from_json(created, rfc3339)`, 0},
	{`compress(zstd)`, 1},
	{`compress(gzip)`, 1},
	{`jq(select(.region == "eu" and .amount > 100) | .tier = "gold")`, 55}, // gojq's values, and its machine for each record
}

func TestAllocationsJSON(t *testing.T) {
	in := Record{Topic: "orders", Value: order("eu", "250.10")}
	for _, cost := range jsonCosts {
		chain := chainOf(t, cost.expr)
		out := make([]Record, 0, 8)
		perRecord := testing.AllocsPerRun(200, func() {
			var err error
			if out, err = chain.Apply(&in, out[:0]); err != nil {
				t.Fatal(err)
			}
		})
		if perRecord > cost.most {
			t.Errorf("%q allocates %g times per record, at most %g expected", cost.expr, perRecord, cost.most)
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	in := Record{Topic: "orders", Value: order("eu", "250.10")}
	for _, cost := range jsonCosts {
		b.Run(cost.expr, func(b *testing.B) {
			chain := chainOf(b, cost.expr)
			out := make([]Record, 0, 8)
			b.ReportAllocs()
			for b.Loop() {
				out, _ = chain.Apply(&in, out[:0])
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	records := typical(1000)
	for _, cost := range costs {
		spec, err := Parse(cost.expr)
		if err != nil {
			t.Fatal(err)
		}
		chain := spec.New()
		out := make([]Record, 0, len(records))
		perRun := testing.AllocsPerRun(20, func() {
			out = out[:0]
			for i := range records {
				out, _ = chain.Apply(&records[i], out)
			}
		})
		if perRecord := perRun / float64(len(records)); perRecord > cost.most {
			t.Errorf("%q allocates %g times per record, at most %g expected", cost.expr, perRecord, cost.most)
		}
	}
}

// TestAllocationsMultiplying: the buffers between stages are reused once they have grown.
func TestAllocationsMultiplying(t *testing.T) {
	c := catalog{}
	c.add(Definition{Name: "twice", Usage: "twice", Doc: "For tests.", Example: "twice", New: func(string) (Transform, error) {
		return applyFunc(func(in *Record, out []Record) ([]Record, error) { return append(out, *in, *in), nil }), nil
	}})
	chain := parseWith(t, c, "twice | twice | twice | twice | twice").New()
	in := Record{Value: []byte("v")}
	var out []Record
	if perRun := testing.AllocsPerRun(100, func() { out, _ = chain.Apply(&in, out[:0]) }); perRun != 0 {
		t.Errorf("%g allocations per record", perRun)
	}
	if len(out) != 32 {
		t.Errorf("%d results, want 32", len(out))
	}
}

func TestArena(t *testing.T) {
	var a arena
	var taken [][]Header
	for i := range 500 {
		size := i % 70 // beyond half a chunk as well
		h := a.take(size)
		if len(h) != 0 || cap(h) != size {
			t.Fatalf("take(%d) gave length %d, capacity %d", size, len(h), cap(h))
		}
		for range size {
			h = append(h, Header{Key: fmt.Sprint(i)})
		}
		taken = append(taken, h)
	}
	for i, h := range taken {
		for _, header := range h {
			if header.Key != fmt.Sprint(i) {
				t.Fatalf("slice %d holds a header of slice %s", i, header.Key)
			}
		}
	}
}

func BenchmarkChain(b *testing.B) {
	records := typical(1024)
	for _, cost := range costs {
		name := cost.expr
		if name == "" {
			name = "empty"
		}
		b.Run(name, func(b *testing.B) {
			spec, err := Parse(cost.expr)
			if err != nil {
				b.Fatal(err)
			}
			chain := spec.New()
			out := make([]Record, 0, 2)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				out, _ = chain.Apply(&records[i%len(records)], out[:0])
				i++
			}
		})
	}
}
