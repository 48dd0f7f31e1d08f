package main

import (
	"bytes"
	"compress/flate"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestRecords(t *testing.T) {
	at := time.Unix(1_700_000_000, 123)
	for _, size := range []int{1024, 100, 1} {
		g := newGenerator(size)
		var last *kgo.Record
		for p := range int32(partitions) {
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
	var offset int64
	next := func(c *checker, numbers ...int64) {
		for _, n := range numbers {
			r := g.record("t", 1, n, time.Unix(1, 0))
			r.Offset = offset
			offset++
			c.add(r)
		}
	}
	for _, tc := range []struct {
		name    string
		numbers []int64
		want    verdict
	}{
		{"exact", []int64{0, 1, 2, 3}, verdict{Read: 4}},
		{"lost", []int64{0, 3}, verdict{Read: 2, Lost: 2}},
		{"lost at the end", []int64{0, 1, 2}, verdict{Read: 3, Lost: 1}},
		{"duplicated", []int64{0, 1, 1, 2, 3, 0}, verdict{Read: 6, Duplicated: 2}},
		{"out of order", []int64{0, 2, 1, 3}, verdict{Read: 4, OutOfOrder: 1}},
	} {
		c := newChecker(size)
		next(c, tc.numbers...)
		got := c.finish([partitions]int64{1: 4})
		if got != tc.want || got.exact() != (tc.name == "exact") {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		if c.ends[1] != offset {
			t.Errorf("%s: end %d, want %d", tc.name, c.ends[1], offset)
		}
	}
	c := newChecker(size)
	c.add(&kgo.Record{Value: []byte("nonsense")})
	if got := c.finish([partitions]int64{}); got.Altered != 1 || got.exact() {
		t.Errorf("nonsense: %+v", got)
	}
	if evenly(81) != each(10) {
		t.Errorf("evenly: %v", evenly(81))
	}
}

// TestLoad loads and feeds, and reads back, without the real broker.
func TestLoad(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "loaded", "fed"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	at := cluster.ListenAddrs()[0]
	if err := load(t.Context(), at, "loaded", 803, 100); err != nil {
		t.Fatal(err)
	}
	c, err := readAll(t.Context(), at, "loaded", 100, each(100))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.finish(each(100)); got != (verdict{Read: 800}) {
		t.Errorf("loaded: %+v", got)
	}

	stop := make(chan struct{})
	timer := time.AfterFunc(200*time.Millisecond, func() { close(stop) })
	defer timer.Stop()
	sent, err := feed(t.Context(), at, "fed", 1000, 100, stop)
	if err != nil {
		t.Fatal(err)
	}
	total := sample{ends: sent}.sum()
	if total < 1 || total > 200 || sent[0]-sent[partitions-1] > 1 { // less while the feeder makes ready
		t.Errorf("fed %v in 200 ms at 1,000 a second", sent)
	}
	if c, err = readAll(t.Context(), at, "fed", 100, sent); err != nil {
		t.Fatal(err)
	}
	if got := c.finish(sent); got != (verdict{Read: total}) {
		t.Errorf("fed: %+v", got)
	}
	if err := load(t.Context(), at, "missing", 8, 100); err == nil {
		t.Error("load of a topic that is not there: no error")
	}
}
