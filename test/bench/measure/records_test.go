package measure

import (
	"bytes"
	"compress/flate"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/bench/figures"
)

func TestRecords(t *testing.T) {
	at := time.Unix(1_700_000_000, 123)
	for _, size := range []int{1024, 100, 1} {
		g := newGenerator(size)
		var last *kgo.Record
		for p := range int32(8) {
			for n := range int64(50) {
				r := g.record("t", p, n*n, at)
				if len(r.Value) != max(size, smallest) || len(r.Key) != 14 {
					t.Fatalf("value %d bytes, key %d bytes", len(r.Value), len(r.Key))
				}
				if o, ok := originOf(r, size); !ok || o.partition != p || o.number != n*n || !o.sent.Equal(at) {
					t.Fatalf("%q: %+v, %v", r.Value, o, ok)
				}
				if last != nil && bytes.Equal(last.Value, r.Value) {
					t.Fatal("two records are equal")
				}
				last = r
			}
		}
	}
}

func TestAltered(t *testing.T) {
	const size = 100
	for name, alter := range map[string]func(*kgo.Record){
		"text":        func(r *kgo.Record) { r.Value[99] ^= 1 },
		"number":      func(r *kgo.Record) { r.Value[12]++ },
		"no number":   func(r *kgo.Record) { r.Value[5] = 'x' },
		"length":      func(r *kgo.Record) { r.Value = r.Value[:99] },
		"partition":   func(r *kgo.Record) { r.Partition++ },
		"key":         func(r *kgo.Record) { r.Key[13]++ },
		"no key":      func(r *kgo.Record) { r.Key = nil },
		"header":      func(r *kgo.Record) { r.Headers[0].Value = []byte("other") },
		"two headers": func(r *kgo.Record) { r.Headers = append(r.Headers, r.Headers[0]) },
	} {
		r := newGenerator(size).record("t", 2, 7, time.Unix(1, 0))
		alter(r)
		if _, ok := originOf(r, size); ok {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// TestText holds the generator to its word: words compress, whole values do not repeat.
func TestText(t *testing.T) {
	g := newGenerator(1024)
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000
	for i := range int64(n) {
		_, _ = w.Write(g.record("t", 0, i, time.Unix(1, 0)).Value)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if share := float64(packed.Len()) / (n * 1024); share < 0.2 || share > 0.7 {
		t.Errorf("compresses to %.2f of its size", share)
	}
}

func TestChecker(t *testing.T) {
	const size = 100
	g := newGenerator(size)
	for _, tc := range []struct {
		name    string
		numbers []int64
		want    figures.Verdict
	}{
		{"exact", []int64{0, 1, 2, 3}, figures.Verdict{Read: 4}},
		{"lost", []int64{0, 3}, figures.Verdict{Read: 2, Lost: 2}},
		{"lost at the end", []int64{0, 1, 2}, figures.Verdict{Read: 3, Lost: 1}},
		{"lost at the start", []int64{1, 2, 3}, figures.Verdict{Read: 3, Lost: 1}},
		{"duplicated", []int64{0, 1, 1, 2, 3, 0}, figures.Verdict{Read: 6, Duplicated: 2}},
		{"out of order", []int64{0, 2, 1, 3}, figures.Verdict{Read: 4, OutOfOrder: 1}},
		{"late and twice", []int64{0, 2, 1, 1, 3}, figures.Verdict{Read: 5, OutOfOrder: 1, Duplicated: 1}},
		{"ahead of the positions", []int64{0, 1, 2, 3, 4, 5}, figures.Verdict{Read: 6, Ahead: 2}},
		{"a number from nowhere", []int64{0, 1, 2, 3, 999_999_999}, figures.Verdict{Read: 5, Altered: 1}},
	} {
		c := newChecker(3, size)
		for i, n := range tc.numbers {
			r := g.record("t", 1, n, time.Unix(1, 0))
			r.Offset = int64(i)
			c.add(r)
		}
		got := c.finish([]int64{0, 4, 0}, false)
		if got != tc.want || got.Exact() != (tc.name == "exact") {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		if got := c.finish([]int64{0, 4, 0}, true); got.Ahead != 0 {
			t.Errorf("%s: ahead although that is allowed: %+v", tc.name, got)
		}
	}
	c := newChecker(1, size)
	c.add(&kgo.Record{Value: []byte("nonsense")})
	if got := c.finish([]int64{0}, false); got.Altered != 1 || got.Exact() {
		t.Errorf("nonsense: %+v", got)
	}
}

// TestMarkers holds records against offsets: a marker takes one and is no record.
func TestMarkers(t *testing.T) {
	c := newChecker(2, 100)
	c.parts[0].markers = []int64{10, 21}
	for ends, want := range map[[2]int64]int64{{10, 5}: 15, {11, 5}: 15, {21, 5}: 25, {22, 5}: 25, {30, 0}: 28} {
		if got := c.records(ends[:]); got != want {
			t.Errorf("%d records below %v, want %d", got, ends, want)
		}
	}
}

func TestInput(t *testing.T) {
	if got := Evenly(81, 8); total(got) != 80 || got[0] != 10 {
		t.Errorf("evenly: %v", got)
	}
	if got := Evenly(3, 8); total(got) != 8 {
		t.Errorf("at least one each: %v", got)
	}
	if got := Hot(1000, 8); got[4] != 990 || got[0] != 1 {
		t.Errorf("hot: %v", got)
	}
}

// TestLoad loads and feeds, and reads back, without the real broker.
func TestLoad(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, "loaded", "fed"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	at := cluster.ListenAddrs()[0]
	for i, compression := range []string{"none", "lz4"} {
		in := Input{Topic: "loaded", Size: 100, Counts: Evenly(800, 8)}
		if err := load(t.Context(), at, in, compression); err != nil {
			t.Fatal(err)
		}
		c, err := readAll(t.Context(), at, in.Topic, 100, Evenly(int64(800*(i+1)), 8))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.finish(in.Counts, false); got != (figures.Verdict{Read: int64(800 * (i + 1)), Duplicated: int64(800 * i)}) {
			t.Errorf("loaded %d times: %+v", i+1, got)
		}
	}

	stop := make(chan struct{})
	timer := time.AfterFunc(200*time.Millisecond, func() { close(stop) })
	defer timer.Stop()
	in := Input{Topic: "fed", Size: 100, Counts: make([]int64, 8)}
	if err := feed(t.Context(), at, in, 1000, stop); err != nil {
		t.Fatal(err)
	}
	if n := in.Records(); n < 1 || in.Counts[0]-in.Counts[7] > 1 {
		t.Errorf("fed %v", in.Counts)
	}
	c, err := readAll(t.Context(), at, "fed", 100, in.Counts)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.finish(in.Counts, false); got != (figures.Verdict{Read: in.Records()}) {
		t.Errorf("fed: %+v", got)
	}
	if err := load(t.Context(), at, Input{Topic: "missing", Size: 100, Counts: Evenly(8, 8)}, "none"); err == nil {
		t.Error("load of a topic that is not there: no error")
	}
}
