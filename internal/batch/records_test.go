package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func codecs() map[string]kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
}

// seen is what a reader of a record sees, null and empty told apart.
func seen(r *kgo.Record) string {
	return fmt.Sprintf("key %#v value %#v headers %#v at %d", r.Key, r.Value, r.Headers, r.Timestamp.UnixMilli())
}

// TestEncode: what was encoded decodes to the same records, of every codec, in batches within the limit.
func TestEncode(t *testing.T) {
	for name, codec := range codecs() {
		t.Run(name, func(t *testing.T) {
			const limit = 2000
			records := some(300)
			records[100].Value = make([]byte, 3*limit) // has a batch of its own
			records[200].Timestamp = time.UnixMilli(-1)
			e := encoder(t, limit, codec)
			batches := e.Encode(records)
			decode := &Decoder{Decompressor: kgo.DefaultDecompressor()}
			var got []*kgo.Record
			for i, b := range batches {
				if !b.Intact() || !b.Portable() || b.LastOffset() != int64(b.Count()-1) || b.ProducerID() != -1 || b.BaseSequence() != -1 || b.Transactional() {
					t.Fatalf("batch %d: %x", i, []byte(b[:headerSize]))
				}
				if b.Count() > 1 && name == "none" && len(b) > limit {
					t.Errorf("batch %d has %d bytes and %d records, the limit is %d", i, len(b), b.Count(), limit)
				}
				if first, rest, err := Next(b); err != nil || len(rest) != 0 || len(first) != len(b) {
					t.Errorf("batch %d: next: %d bytes, %d left, %v", i, len(first), len(rest), err)
				}
				before := len(got)
				var next int64
				var err error
				if got, next, err = decode.Decode(got, "t", 3, 0, b); err != nil || next != b.LastOffset()+1 || len(got)-before != b.Count() {
					t.Fatalf("batch %d: %d records, next %d, %v", i, len(got)-before, next, err)
				}
				newest := slices.MaxFunc(got[before:], func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) })
				if !b.MaxTimestamp().Equal(newest.Timestamp) {
					t.Errorf("batch %d: newest %s, want %s", i, b.MaxTimestamp(), newest.Timestamp)
				}
			}
			if len(batches) < 4 || len(got) != len(records) {
				t.Fatalf("%d batches, %d records of %d", len(batches), len(got), len(records))
			}
			for i := range records {
				if g, w := seen(got[i]), seen(records[i]); g != w {
					t.Fatalf("record %d: %s, want %s", i, g, w)
				}
			}
		})
	}
}

// TestDecodeFrom: a fetch may begin in the middle of a batch.
func TestDecodeFrom(t *testing.T) {
	b := whole(t, 10, kgo.SnappyCompression())
	b[7] = 100
	for from, want := range map[int64]int{0: 10, 100: 10, 101: 9, 109: 1, 110: 0, 200: 0} {
		got, next, err := (&Decoder{Decompressor: kgo.DefaultDecompressor()}).Decode(nil, "t", 3, from, b)
		if err != nil || len(got) != want || next != max(from, 110) {
			t.Errorf("from %d: %d records, want %d; next %d, %v", from, len(got), want, next, err)
		}
		if want > 0 && (got[0].Offset != max(from, 100) || got[0].Topic != "t" || got[0].Partition != 3) {
			t.Errorf("from %d: %+v", from, got[0])
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, spoil := range map[string]func(Batch){
		"damaged payload":         func(b Batch) { b[len(b)-1] ^= 1 },
		"damaged header":          func(b Batch) { b[atProducerID] ^= 1 },
		"fewer records than said": func(b Batch) { b[atCount+3]++; b[atLastDelta+3]++; stamp(b) },
		"negative count":          func(b Batch) { b[atCount] = 0x80; stamp(b) },
		"damaged and reframed":    func(b Batch) { b[len(b)-1] ^= 1; b.Reframe(1, 2, 3) },
		"unreadable compression":  func(b Batch) { b[atAttributes+1] |= 3; stamp(b) },
	} {
		t.Run(name, func(t *testing.T) {
			b := whole(t, 10)
			spoil(b)
			got, next, err := (&Decoder{Decompressor: kgo.DefaultDecompressor()}).Decode(nil, "t", 3, 0, b)
			if err == nil || len(got) > 0 || next != 0 {
				t.Errorf("%d records, next %d, %v", len(got), next, err)
			}
			if name == "fewer records than said" && !errors.Is(err, ErrCorrupt) {
				t.Error(err)
			}
		})
	}
}

// TestAsTheClient: batches of kgo's producer, fetched as bytes, decode to the very records that kgo's consumer gives,
// and what the Encoder makes of these reaches a consumer as they did. (kfake)
func TestAsTheClient(t *testing.T) {
	for name, codec := range codecs() {
		t.Run(name, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("in"), kgo.ProducerBatchCompression(codec))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			records := some(100)
			for i := 0; i < len(records); i += 40 {
				if err := cl.ProduceSync(ctx, records[i:min(i+40, len(records))]...).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			want := consume(ctx, t, c, "in", len(records))

			decode := &Decoder{Decompressor: kgo.DefaultDecompressor()}
			var got []*kgo.Record
			var fallback []Batch
			for rest := fetch(ctx, t, cl, c, "in"); len(rest) > 0; {
				var b Batch
				if b, rest, err = Next(rest); err != nil {
					t.Fatal(err)
				}
				from := len(got)
				if got, _, err = decode.Decode(got, "in", 0, 0, b); err != nil {
					t.Fatal(err)
				}
				fallback = append(fallback, encoder(t, 1000, codec).Encode(got[from:])...)
			}
			expectSame(t, got, want, func(r *kgo.Record) string { return fmt.Sprintf("%#v %#v", *r, r.Attrs) })
			for _, b := range fallback {
				produce(ctx, t, cl, c, b)
			}
			expectSame(t, consume(ctx, t, c, "out", len(records)), want, seen)
		})
	}
}

func expectSame(t *testing.T, got, want []*kgo.Record, show func(*kgo.Record) string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if g, w := show(got[i]), show(want[i]); g != w {
			t.Fatalf("record %d:\n  %s\nwant\n  %s", i, g, w)
		}
	}
}

func consume(ctx context.Context, t *testing.T, c *kfake.Cluster, topic string, n int) (all []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for len(all) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

// fetch answers the bytes of partition 0 from its start.
func fetch(ctx context.Context, t *testing.T, cl *kgo.Client, c *kfake.Cluster, topic string) []byte {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MaxWaitMillis = 1<<20, 100
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, c.TopicInfo(topic).TopicID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.PartitionMaxBytes = 1 << 20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl.Broker(int(c.LeaderFor(topic, 0))))
	if err != nil {
		t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0].RecordBatches
}

func produce(ctx context.Context, t *testing.T, cl *kgo.Client, c *kfake.Cluster, b Batch) {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	req.Topics = []kmsg.ProduceRequestTopic{{
		Topic: "out", TopicID: c.TopicInfo("out").TopicID, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: b}},
	}}
	resp, err := req.RequestWith(ctx, cl.Broker(int(c.LeaderFor("out", 0))))
	if err != nil {
		t.Fatal(err)
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("code %d", code)
	}
}

// FuzzNext: whatever a fetch holds, nothing panics, batches and rest are the input, and what is reframed is as intact
// as it was.
func FuzzNext(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(codecs())) {
		b := whole(f, 5, codecs()[name])
		f.Add([]byte(b), int64(7), int16(1), int32(0))
		f.Add([]byte(append(slices.Clone(b), b[:70]...)), int64(-1), int16(-1), int32(-1))
	}
	f.Add([]byte{}, int64(0), int16(0), int32(0))
	decode := &Decoder{Decompressor: kgo.DefaultDecompressor()}
	f.Fuzz(func(t *testing.T, log []byte, id int64, epoch int16, sequence int32) {
		size, read := len(log), 0
		for rest := log; len(rest) > 0; {
			b, after, err := Next(rest)
			if err != nil {
				if len(after) != len(rest) || b != nil {
					t.Fatalf("%v, with %d of %d bytes left", err, len(after), len(rest))
				}
				break
			}
			read += len(b)
			rest = after
			if len(b) < headerSize || read+len(rest) != size {
				t.Fatalf("a batch of %d bytes, %d read, %d left of %d", len(b), read, len(rest), size)
			}
			if b.Codec() == kgo.CodecNone { // the others are the client's, and may take a lot of memory
				if records, next, err := decode.Decode(nil, "t", 0, 0, b); err == nil && b.Portable() && (len(records) > b.Count() || next < 0) {
					t.Fatalf("%d records of %d, next %d", len(records), b.Count(), next)
				}
			}
			intact := b.Intact()
			b.Reframe(id, epoch, sequence)
			if b.Intact() != intact {
				t.Fatalf("intact was %t", intact)
			}
			if b.ProducerID() != id || b.ProducerEpoch() != epoch || b.BaseSequence() != sequence || !b.Transactional() {
				t.Fatalf("%x", []byte(b[:headerSize]))
			}
		}
	})
}
