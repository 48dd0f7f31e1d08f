package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
)

// BenchmarkContent hashes records of 100 bytes.
func BenchmarkContent(b *testing.B) {
	r := viewOf(&kgo.Record{Key: []byte("customer-00000017"), Value: bytes.Repeat([]byte("x"), 100)})
	b.ReportAllocs()
	for b.Loop() {
		contentOf(r, true)
	}
}

// BenchmarkNamed reads provenance headers.
func BenchmarkNamed(b *testing.B) {
	u := &unit{sources: []*source{{side: newSide(offsets.TopicPartition{Topic: "orders", Partition: 0})}}}
	index := u.index()
	r := viewOf(marked(&kgo.Record{}, "orders", 0, 123_456_789, "1/1"))
	b.ReportAllocs()
	for b.Loop() {
		var it item
		it.named(r.headers, index)
		if it.from != 0 {
			b.Fatal(it)
		}
	}
}

// endless answers n records in chunks of 8,000.
func endless(n int) func(int64) pull {
	return func(int64) pull {
		list, at := make([]item, 8000), 0
		return func(context.Context) ([]item, error) {
			if at >= n {
				return nil, io.EOF
			}
			list = list[:min(8000, n-at)]
			for i := range list {
				list[i] = item{hash: uint64(at + i), offset: int64(at + i), from: unnamed}
			}
			at += len(list)
			return list, nil
		}
	}
}

// heap reports what is alive at the end, so that -benchtime 100000000x shows whether memory grows with the records.
func heap(b *testing.B, alive ...any) {
	b.Helper()
	b.StopTimer()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB-alive")
	runtime.KeepAlive(alive)
}

// BenchmarkMerge compares a partition with its copy; one operation is one record on both sides.
func BenchmarkMerge(b *testing.B) {
	s := &source{side: newSide(offsets.TopicPartition{}), open: endless(b.N)}
	s.committed, s.end = int64(b.N), int64(b.N)
	t := &target{side: newSide(offsets.TopicPartition{}), open: endless(b.N), queues: []*queue{{}}}
	m := &merge{sources: []*source{s}, targets: []*target{t}, limits: Limits{}.orDefaults(), book: newBook(1)}
	b.ReportAllocs()
	if err := m.run(b.Context()); err != nil || len(m.book.counts) > 0 {
		b.Fatal(err, m.book.counts)
	}
	heap(b, m)
}

// BenchmarkOrigins does the same by provenance headers.
func BenchmarkOrigins(b *testing.B) {
	s := &source{side: newSide(offsets.TopicPartition{}), open: endless(b.N)}
	s.committed, s.end = int64(b.N), int64(b.N)
	t := &target{side: newSide(offsets.TopicPartition{})}
	t.open = func(from int64) pull {
		next := endless(b.N)(from)
		return func(ctx context.Context) ([]item, error) {
			list, err := next(ctx)
			for i := range list {
				list[i].from, list[i].origin, list[i].output, list[i].of = 0, list[i].offset, 1, 1
			}
			return list, err
		}
	}
	o := &origins{sources: []*source{s}, targets: []*target{t}, book: newBook(1)}
	b.ReportAllocs()
	if err := o.run(b.Context()); err != nil || len(o.book.counts) > 0 {
		b.Fatal(err, o.book.counts)
	}
	heap(b, o)
}

// BenchmarkRun audits partitions of an embedded broker (kfake), whose own work is in the figure, too.
func BenchmarkRun(b *testing.B) {
	const records = 200_000
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "in", "out"))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	value := bytes.Repeat([]byte("x"), 100)
	var at kadm.Offsets
	for p := range int32(2) {
		for i := range records / 2 {
			for _, topic := range []string{"in", "out"} {
				cl.Produce(b.Context(), &kgo.Record{Topic: topic, Partition: p, Key: fmt.Append(nil, i), Value: value, Timestamp: time.UnixMilli(int64(i))}, nil)
			}
		}
		at.AddOffset("in", p, records/2, -1)
	}
	if err := cl.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := kadm.NewClient(cl).CommitAllOffsets(b.Context(), "g", at); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := Run(b.Context(), Options{
			Group: "g", Inputs: []string{"in"}, Output: "out", Identity: true, Parallel: 2, Client: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)},
		})
		if err != nil || r.Verdict != Pass {
			b.Fatal(err, r)
		}
	}
	b.ReportMetric(float64(records*b.N)/b.Elapsed().Seconds(), "records/s")
}
