package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// odd are records in which something is easily lost: null or empty, repeated headers, bytes that are no text, times at
// the ends of what Kafka can say.
func odd(topic string, p int32) []*kgo.Record {
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	// The client counts time in nanoseconds: later ones (Kafka's milliseconds reach on) do not survive it.
	far := time.Date(2262, 4, 11, 23, 47, 16, 854_000_000, time.UTC)
	records := []*kgo.Record{
		{},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("tombstone")},
		{Value: []byte("no key")},
		{Key: []byte("empty value"), Value: []byte{}},
		{Key: binary, Value: binary, Headers: []kgo.RecordHeader{{Key: string(binary), Value: binary}}},
		{Value: []byte("repeated headers"), Headers: []kgo.RecordHeader{
			{Key: "b", Value: []byte("1")},
			{Key: "a", Value: []byte("2")},
			{Key: "b", Value: []byte("3")},
			{Key: "b", Value: []byte("1")},
		}},
		{Value: []byte("empty headers"), Headers: []kgo.RecordHeader{
			{Key: "null"}, {Key: "empty", Value: []byte{}}, {Key: "", Value: []byte("no name")}, {},
		}},
		{Value: []byte("time 0"), Timestamp: time.UnixMilli(0)},
		{Value: []byte("time 1"), Timestamp: time.UnixMilli(1)},
		{Value: []byte("far future"), Timestamp: far},
		{Value: []byte("back again"), Timestamp: time.UnixMilli(1_700_000_000_123)},
		{Value: bytes.Repeat([]byte("large "), 20_000)},
	}
	for i, r := range records {
		r.Topic, r.Partition = topic, p
		if r.Timestamp.IsZero() {
			r.Timestamp = time.UnixMilli(1_600_000_000_000 + int64(i))
		}
	}
	return records
}

// TestFidelity: what no transform changes arrives byte for byte, with and without a chain.
func TestFidelity(t *testing.T) {
	for name, expression := range map[string]string{
		"no chain":     "",
		"identity":     "identity",
		"added header": "set_header(x=y) | drop_header(x)",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				w.write(odd("in", 1)...)
				for _, r := range odd("in", 0) {
					w.write(r) // a batch of its own
				}
				w.caughtUpBy(w.options(func(o *Options) { o.Chain = chain(w.t, expression) }))
				w.exact("out", "in")
				want := texts(odd("in", 0))
				w.same(map[int32][]string{0: texts(w.read("out")[0])}, map[int32][]string{0: want})
			})
		})
	}
}

// TestFidelityOfBatches: whatever codec a batch came in, the records stay. (In real time: the decoder of zstd is
// closed by a finalizer, outside of any bubble.)
func TestFidelityOfBatches(t *testing.T) {
	inRealTime(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		for name, codec := range map[string]kgo.CompressionCodec{
			"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
			"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		} {
			cl := w.client(kgo.ProducerBatchCompression(codec))
			var records []*kgo.Record
			for i := range 50 {
				records = append(records, &kgo.Record{Topic: "in", Value: fmt.Appendf(nil, "%s %d %s", name, i, strings.Repeat("x", 100))})
			}
			if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		w.caughtUpBy(w.options())
		w.exact("out", "in")
	})
}

// TestOutputs: a chain may drop, multiply and reorder what it makes of a record; the order of the inputs stays.
func TestOutputs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(3, "in", "out")
		w.feed("in", 300, 0, 1, 2)
		fan := func(in *transform.Record) int { return int(in.Offset*7) % 5 } // 0 to 4 outputs
		s := &script{apply: func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
			for i := range fan(in) {
				r := *in
				r.Value = fmt.Appendf(nil, "%s#%d", in.Value, i)
				out = append(out, r)
			}
			return out, nil
		}}
		want := map[int32][]string{}
		for p, records := range w.read("in") {
			for _, r := range records {
				for i := range fan(&transform.Record{Offset: r.Offset}) {
					m := *r
					m.Value = fmt.Appendf(nil, "%s#%d", r.Value, i)
					want[p] = append(want[p], text(&m))
				}
			}
		}
		w.caughtUpBy(w.options(func(o *Options) { o.Chain = scripted(w.t, s) }))
		got := map[int32][]string{}
		for p, records := range w.read("out") {
			got[p] = texts(records)
		}
		w.same(got, want)
	})
}

// TestTransformSeesTheRecord: a transform is told where a record comes from, and everything of it.
func TestTransformSeesTheRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.write(odd("in", 1)...)
		s := perRecord(func(r *transform.Record) error {
			seen := &kgo.Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
			for _, h := range r.Headers {
				seen.Headers = append(seen.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			r.Key, r.Headers, r.Timestamp = nil, nil, time.UnixMilli(0)
			r.Value = fmt.Appendf(nil, "%s/%d/%d %q %s", r.Topic, r.Partition, r.Offset, r.Target, text(seen))
			return nil
		})
		w.caughtUpBy(w.options(func(o *Options) { o.Chain = scripted(w.t, s) }))
		out := w.read("out")[1]
		for i, r := range odd("in", 1) {
			if got, want := string(out[i].Value), fmt.Sprintf("in/1/%d %q %s", i, "", text(r)); got != want {
				t.Errorf("record %d was seen as\n%s\nwant\n%s", i, got, want)
			}
		}
	})
}

// TestRoutePerRecord: each record goes to the topic that the chain names, the rest to the default output, within
// one transaction.
func TestRoutePerRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out", "even", "third")
		w.feed("in", 100, 0, 1)
		s := perRecord(func(r *transform.Record) error {
			switch {
			case r.Offset%2 == 0:
				r.Target = "even"
			case r.Offset%3 == 0:
				r.Target = "third"
			}
			return nil
		})
		s.targets = []string{"even", "third"}
		w.caughtUpBy(w.options(func(o *Options) { o.Chain = scripted(w.t, s) }))
		want := map[string]map[int32][]string{"out": {}, "even": {}, "third": {}}
		for p, records := range w.read("in") {
			for _, r := range records {
				to := "out"
				if r.Offset%2 == 0 {
					to = "even"
				} else if r.Offset%3 == 0 {
					to = "third"
				}
				want[to][p] = append(want[to][p], text(r))
			}
		}
		for topic := range want {
			got := map[int32][]string{}
			for p, records := range w.read(topic) {
				got[p] = texts(records)
			}
			w.same(got, want[topic])
		}
	})
}

// TestTransformFails: a record that cannot be transformed ends the process with its coordinates, and nothing of
// its epoch counts.
func TestTransformFails(t *testing.T) {
	broken := errors.New("no such currency")
	for name, fail := range map[string]func() error{
		"error": func() error { return broken },
		"panic": func() error { panic("index out of reach") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				w.feed("in", 10, 0, 1)
				s := perRecord(func(r *transform.Record) error {
					if r.Partition == 1 && r.Offset == 15 {
						return fail()
					}
					return nil
				})
				b := w.start(w.options(func(o *Options) { o.Chain = scripted(w.t, s) }))
				w.caughtUp("in")
				before := w.positions("g")
				w.feed("in", 10, 1)
				err := b.fails(txn.StatusFailure, "topic in", "partition 1", "offset 15", "scripted")
				if name == "error" && !errors.Is(err, broken) {
					t.Errorf("the cause is lost: %v", err)
				}
				if after := w.positions("g"); after != before {
					t.Errorf("positions moved from %s to %s", before, after)
				}
				if n := w.count("out"); n != 20 {
					t.Errorf("%d records are visible, want the 20 of the epochs before", n)
				}
				if b.restarts() != 0 {
					t.Errorf("%d restarts for a record that fails each time", b.restarts())
				}
				stacks := w.book.with("transform panicked")
				switch {
				case name == "error" && len(stacks) != 0:
					t.Errorf("a stack without a panic: %v", stacks)
				case name == "panic" && len(stacks) != 1:
					t.Errorf("the stack was logged %d times", len(stacks))
				case name == "panic" && (!strings.Contains(stacks[0], "lane_test.go") || !strings.Contains(stacks[0], "offset=15")):
					t.Errorf("the stack does not lead to the transform: %s", stacks[0])
				}
				w.gone("g")
				w.settled("out")
			})
		})
	}
}

// gone demands that the group has no member.
func (w *world) gone(group string) {
	w.t.Helper()
	if members := w.GroupInfo(group).Members; len(members) != 0 {
		w.t.Errorf("the group still has %d members", len(members))
	}
}

// settled demands that no transaction is open in a topic.
func (w *world) settled(topic string) {
	w.t.Helper()
	for _, p := range w.PartitionInfos(topic) {
		if p.LastStableOffset != p.HighWatermark {
			w.t.Errorf("topic %s: a transaction is open at offset %d of %d", topic, p.LastStableOffset, p.HighWatermark)
		}
	}
}

// TestRecordRefused: a record that the broker will never take ends the process with its coordinates.
func TestRecordRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"identity":      func(*Options) {},
		"pass-through":  passing,
		"chain":         func(o *Options) { o.Chain = chain(t, "set_header(a=b)") },
		"at-least-once": func(o *Options) { o.Delivery = AtLeastOnce },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topic("in", 2)
				limit := "2000"
				if err := w.CreateTopic("out", 2, map[string]string{"max.message.bytes": limit}); err != nil {
					t.Fatal(err)
				}
				w.feed("in", 10, 0, 1)
				b := w.start(w.options(change))
				w.caughtUp("in")
				before := w.positions("g")
				noise := make([]byte, 5000)
				_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // which no codec makes smaller
				w.write(
					&kgo.Record{Topic: "in", Partition: 1, Value: []byte("before")},
					&kgo.Record{Topic: "in", Partition: 1, Key: []byte("key"), Value: noise},
					&kgo.Record{Topic: "in", Partition: 1, Value: []byte("after")},
				)
				b.fails(txn.StatusFailure, "output topic out", "topic in partition 1 offset 11", "key 3 bytes", "value 5000 bytes", "max.message.bytes")
				if after := w.positions("g"); after != before {
					t.Errorf("positions moved from %s to %s", before, after)
				}
				if n := w.count("out"); name != "at-least-once" && n != 20 {
					t.Errorf("%d records are visible, want 20", n)
				}
				w.gone("g")
				w.settled("out")
			})
		})
	}
}

// TestLargeRecords: a topic that takes more than the default gets it. The client is made anew for the first such record, and
// no epoch is thrown away after that.
func TestLargeRecords(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, topic := range []string{"in", "out"} {
			if err := w.CreateTopic(topic, 1, map[string]string{"max.message.bytes": "8000000"}); err != nil {
				t.Fatal(err)
			}
		}
		cl := w.client(kgo.ProducerBatchMaxBytes(8_000_000))
		r := &kgo.Record{Topic: "in", Value: bytes.Repeat([]byte{1, 2, 3, 4, 5}, 1_000_000)}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		b := w.start(w.options(func(o *Options) { o.Producing = []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())} }))
		w.caughtUp("in")
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: r.Value[:4_000_000]}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.caughtUp("in")
		if n := b.restarts(); n > 1 {
			t.Errorf("%d restarts", n)
		}
		b.stopped()
		w.exact("out", "in")
	})
}

// TestOrderAcrossEpochs: the outputs of an epoch come before those of the next, also when the broker is slow to
// acknowledge and each epoch is one record. (Producing before the flush of the epoch before breaks this.)
func TestOrderAcrossEpochs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		var at []string
		w.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			req := kreq.(*kmsg.ProduceRequest)
			if req.TransactionID == nil {
				return nil, nil, false
			}
			slow := *req.TransactionID == "g.a.0"
			w.SleepControl(func() {
				if slow { // the first slot's records take longer than an epoch of the second
					w.pass(200 * time.Millisecond)
				}
			})
			at = append(at, *req.TransactionID)
			return nil, nil, false
		})
		b := w.start(w.options(func(o *Options) { o.EpochMaxRecords, o.EpochInterval = 1, time.Millisecond }))
		w.trickle("in", 0, 60, 20*time.Millisecond)
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		if !slices.Contains(at, "g.a.1") || b.outcomes()[OutcomeCommitted] < 4 {
			t.Errorf("the slots did not take turns: %v, %v", at, b.outcomes())
		}
	}, kfake.NumBrokers(1))
}
