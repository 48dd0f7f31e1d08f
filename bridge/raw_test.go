package bridge

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
)

const (
	saidPassed  = "batches are passed through as they are"
	saidDecoded = "batches are decoded"
)

func passing(o *Options) { o.PassThrough = true }

// TestPath: which pipelines pass batches through, said once.
func TestPath(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, why string
		change    func(*session)
	}{
		{"identity", "", func(*session) {}},
		{"switched off", "BRIDGE_PASS_THROUGH", func(s *session) { s.opts.PassThrough = false }},
		{"transform", "transform", func(s *session) { s.opts.Chain = chain(t, "drop_tombstones") }},
		{"by key", "BRIDGE_PARTITIONING", func(s *session) { s.opts.ByKey = true }},
		{"provenance", "BRIDGE_PROVENANCE", func(s *session) { s.opts.Provenance = true }},
		{"at least once", "exactly-once", func(s *session) { s.opts.Delivery = AtLeastOnce }},
		{"old transactions", "transaction.version", func(s *session) { s.version = 1 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			book := &logbook{}
			s := &session{Bridge: &Bridge{opts: Options{PassThrough: true, Delivery: ExactlyOnce, Chain: &transform.Spec{}}}, version: 2, log: slog.New(book)}
			tc.change(s)
			s.choosePath()
			s.choosePath()
			if s.raw != (tc.why == "") {
				t.Errorf("passes through: %v", s.raw)
			}
			said := slices.Concat(book.with(saidPassed), book.with(saidDecoded))
			if len(said) != 1 || !strings.Contains(said[0], tc.why) {
				t.Errorf("said %q, want %q once", said, tc.why)
			}
		})
	}
}

// crafted answers a batch of n records, values v<offset>, as a broker would send it.
func crafted(t *testing.T, base int64, n int, leaderEpoch int32, codec kgo.CompressionCodec) batch.Batch {
	t.Helper()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, "v%d", base+int64(i)), Timestamp: time.UnixMilli(1_700_000_000_000 + base)})
	}
	e, err := batch.NewEncoder(1<<20, codec)
	if err != nil {
		t.Fatal(err)
	}
	b := e.Encode(records)[0]
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[12:], uint32(leaderEpoch))
	return b
}

// of makes a crafted batch one of a producer's, transactional or control, whose checksum nobody looks at.
func of(b batch.Batch, producer int64, attributes uint16) batch.Batch {
	b.Reframe(producer, 0, 0)
	binary.BigEndian.PutUint16(b[21:], attributes)
	return b
}

const (
	bitTxn     = 0x10
	bitControl = 0x20
)

// marker is a control batch of one record.
func marker(t *testing.T, base, producer int64, kind uint16) batch.Batch {
	t.Helper()
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	e, err := batch.NewEncoder(1<<20, kgo.NoCompression())
	if err != nil {
		t.Fatal(err)
	}
	b := e.Encode([]*kgo.Record{{Key: key, Value: []byte{0, 0, 0, 0, 0, 0}, Timestamp: time.UnixMilli(1)}})[0]
	b = of(b, producer, bitTxn|bitControl)
	binary.BigEndian.PutUint64(b, uint64(base))
	return b
}

// TestReadAnswer: what is delivered of a fetched partition, and where the next fetch begins.
func TestReadAnswer(t *testing.T) {
	t.Parallel()
	plain := func(base int64, n int) batch.Batch { return crafted(t, base, n, 3, kgo.NoCompression()) }
	inTxn := func(base int64, n int, producer int64) batch.Batch {
		b := of(plain(base, n), producer, bitTxn)
		binary.BigEndian.PutUint64(b, uint64(base))
		binary.BigEndian.PutUint32(b[12:], 3)
		return b
	}
	abort, commit := uint16(0), uint16(1)
	for _, tc := range []struct {
		name    string
		from    int64
		batches []batch.Batch
		cut     int // bytes missing at the end
		aborted [][2]int64
		want    []int64 // base offsets of what is delivered
		next    int64
		err     error
	}{
		{name: "batches in a row", batches: []batch.Batch{plain(0, 3), plain(3, 2)}, want: []int64{0, 3}, next: 5},
		{name: "from within a batch", from: 2, batches: []batch.Batch{plain(0, 3), plain(3, 2)}, want: []int64{0, 3}, next: 5},
		{name: "a batch from before", from: 3, batches: []batch.Batch{plain(0, 3), plain(3, 2)}, want: []int64{3}, next: 5},
		{name: "the last one is cut off", batches: []batch.Batch{plain(0, 3), plain(3, 2)}, cut: 1, want: []int64{0}, next: 3},
		{name: "nothing but a cut off one", batches: []batch.Batch{plain(0, 3)}, cut: 70},
		{name: "a commit marker", batches: []batch.Batch{inTxn(0, 2, 9), marker(t, 2, 9, commit)}, want: []int64{0}, next: 3},
		{name: "nothing but markers", batches: []batch.Batch{marker(t, 0, 9, commit), marker(t, 1, 8, abort)}, next: 2},
		{
			name: "an aborted transaction", aborted: [][2]int64{{9, 0}},
			batches: []batch.Batch{inTxn(0, 2, 9), plain(2, 1), marker(t, 3, 9, abort), inTxn(4, 1, 9), marker(t, 5, 9, commit)}, want: []int64{2, 4}, next: 6,
		},
		{
			name: "two that alternate", aborted: [][2]int64{{9, 0}, {8, 5}, {9, 6}},
			batches: []batch.Batch{
				inTxn(0, 1, 9), inTxn(1, 1, 8), marker(t, 2, 9, abort), marker(t, 3, 8, commit), inTxn(4, 1, 9), inTxn(5, 1, 8),
				marker(t, 7, 9, commit), inTxn(8, 1, 9), marker(t, 9, 9, abort), marker(t, 10, 8, abort), inTxn(11, 1, 8),
			}, want: []int64{1, 4, 11}, next: 12,
		},
		{
			name: "told in any order", aborted: [][2]int64{{9, 3}, {9, 0}},
			batches: []batch.Batch{inTxn(0, 1, 9), marker(t, 1, 9, abort), inTxn(2, 1, 7), inTxn(3, 1, 9), marker(t, 4, 9, abort), inTxn(5, 1, 9)}, want: []int64{2, 5}, next: 6,
		},
		{name: "a producer without a transaction", aborted: [][2]int64{{9, 0}}, batches: []batch.Batch{of(plain(0, 1), 9, 0)}, want: []int64{0}, next: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := kmsg.NewFetchResponseTopicPartition()
			for _, b := range tc.batches {
				p.RecordBatches = append(p.RecordBatches, b...)
			}
			p.RecordBatches = p.RecordBatches[:len(p.RecordBatches)-tc.cut]
			for _, a := range tc.aborted {
				p.AbortedTransactions = append(p.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: a[0], FirstOffset: a[1]})
			}
			d, err := readAnswer(offsets.Position{Offset: tc.from, LeaderEpoch: -1}, &p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d == nil {
				if tc.next != 0 {
					t.Errorf("nothing, want up to %d", tc.next)
				}
				return
			}
			var got []int64
			for _, b := range d.batches {
				got = append(got, b.BaseOffset())
			}
			if !slices.Equal(got, tc.want) || d.after.Offset != tc.next {
				t.Errorf("batches at %v, then %d; want %v, then %d", got, d.after.Offset, tc.want, tc.next)
			}
		})
	}
	t.Run("damaged", func(t *testing.T) {
		t.Parallel()
		p := kmsg.NewFetchResponseTopicPartition()
		b := plain(5, 1)
		binary.BigEndian.PutUint32(b[8:], 3) // a length that no batch has
		p.RecordBatches = append(plain(0, 5), b...)
		if _, err := readAnswer(offsets.Position{}, &p, nil); !bytes.Contains([]byte(fmt.Sprint(err)), []byte("offset 4")) {
			t.Errorf("error %v, want one that names offset 4", err)
		}
	})
}

// TestRepack: what is handed on as it is, what is decoded and why, and that its records are the same either way.
func TestRepack(t *testing.T) {
	t.Parallel()
	lz4, none := kgo.CodecLz4, kgo.CodecNone
	large := func(base int64) batch.Batch { return crafted(t, base, 400, 1, kgo.NoCompression()) }
	gap := func(b batch.Batch) batch.Batch {
		binary.BigEndian.PutUint32(b[23:], uint32(b.Count()+3)) // the last record was compacted away
		return intact(b)
	}
	for _, tc := range []struct {
		name  string
		d     delivery
		limit int
		codec *kgo.CompressionCodecType
		want  map[string]int
		first int64 // value of the first record
		count int
	}{
		{name: "large ones", d: delivery{batches: []batch.Batch{large(0), large(400)}}, want: map[string]int{passedAsIs: 2}, count: 800},
		{name: "one small one", d: delivery{batches: []batch.Batch{crafted(t, 0, 1, 1, kgo.NoCompression())}}, want: map[string]int{passedAsIs: 1}, count: 1},
		{name: "small ones between", d: delivery{batches: []batch.Batch{
			large(0), crafted(t, 400, 2, 1, kgo.NoCompression()), crafted(t, 402, 2, 1, kgo.GzipCompression()), crafted(t, 404, 2, 1, kgo.NoCompression()), large(406),
		}}, want: map[string]int{passedAsIs: 2, decodedSmall: 3}, count: 806},
		{name: "begins before the position", d: delivery{from: 150, batches: []batch.Batch{large(0), large(400)}}, want: map[string]int{passedAsIs: 1, decodedPart: 1}, first: 150, count: 650},
		{name: "gaps", d: delivery{batches: []batch.Batch{gap(large(0)), large(404)}}, want: map[string]int{passedAsIs: 1, decodedShape: 1}, count: 800},
		{name: "too large for the output", limit: 2000, d: delivery{batches: []batch.Batch{large(0)}}, want: map[string]int{decodedTooLarge: 1}, count: 400},
		{name: "of the codec that was asked for", codec: &none, d: delivery{batches: []batch.Batch{large(0)}}, want: map[string]int{passedAsIs: 1}, count: 400},
		{name: "of another codec", codec: &lz4, d: delivery{batches: []batch.Batch{large(0)}}, want: map[string]int{decodedCodec: 1}, count: 400},
		{name: "an older format", d: delivery{records: []*kgo.Record{{Value: []byte("v0")}}}, want: map[string]int{decodedFormat: 1}, count: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			limit := max(tc.limit, 1)
			if tc.limit == 0 {
				limit = 1 << 20
			}
			reasons := map[string]int{}
			c := &carrier{
				limit: func(string) int32 { return int32(limit) }, codec: tc.codec,
				passed:   func(reason string, n int) { reasons[reason] += n },
				decoder:  batch.Decoder{Decompressor: kgo.DefaultDecompressor()},
				perBatch: func() int64 { return 0 },
				encoder:  func(size int) (*batch.Encoder, error) { return batch.NewEncoder(size, kgo.Lz4Compression()) },
			}
			out, _, err := c.repack(&tc.d, "out")
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(reasons, tc.want) {
				t.Errorf("reasons %v, want %v", reasons, tc.want)
			}
			next := tc.first
			for _, b := range out {
				if !b.Portable() || len(b) > limit {
					t.Errorf("a batch of %d records and %d bytes: no broker would take it", b.Count(), len(b))
				}
				records, _, err := c.decoder.Decode(nil, "out", 0, b.BaseOffset(), b)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range records {
					if want := fmt.Sprintf("v%d", next); string(r.Value) != want && tc.name != "gaps" {
						t.Fatalf("value %s, want %s", r.Value, want)
					}
					next++
				}
			}
			if n := int(next - tc.first); n != tc.count {
				t.Errorf("%d records, want %d", n, tc.count)
			}
		})
	}
}

// intact gives a batch whose header was changed a checksum again.
func intact(b batch.Batch) batch.Batch {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// TestPassThrough: everything that a batch may hold arrives, with every codec, and the counters tell the truth. (Not in
// a bubble: zstd's decoder outlives one.)
func TestPassThrough(t *testing.T) {
	inRealTime(t, func(t *testing.T, w *world) {
		w.topics(6, "in", "out")
		b := w.start(w.options(passing))
		w.assigned(b, 6)
		for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
			cl := w.client(kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			at := time.UnixMilli(1_600_000_000_123)
			long := bytes.Repeat([]byte(fmt.Sprint("long ", i)), 2000)
			records := []*kgo.Record{
				{Key: nil, Value: nil},
				{Key: []byte{}, Value: []byte{}},
				{Key: []byte("k"), Value: long, Headers: []kgo.RecordHeader{{Key: "h", Value: nil}, {Key: "h", Value: []byte{}}, {Key: "", Value: []byte{0, 255}}}},
				{Key: []byte("k"), Value: nil, Timestamp: at},
			}
			for _, r := range records {
				r.Topic, r.Partition = "in", int32(i)
			}
			if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			w.fed.Add(4)
		}
		w.caughtUp("in")
		b.stopped()
		in, out := w.read("in"), w.read("out")
		for p := range in {
			if len(out[p]) != len(in[p]) {
				t.Errorf("partition %d: %d records of %d", p, len(out[p]), len(in[p]))
				continue
			}
			for i, r := range in[p] {
				if got, want := contents(out[p][i]), contents(r); got != want {
					t.Errorf("partition %d: %s, want %s", p, got, want)
				}
			}
		}
		var records int64
		for _, e := range b.epochs() {
			records += e.RecordsOut
			if e.RecordsIn != e.RecordsOut {
				t.Errorf("epoch %d: %d records in, %d out", e.Epoch, e.RecordsIn, e.RecordsOut)
			}
		}
		if records != 20 {
			t.Errorf("%d records were counted, want 20", records)
		}
		if len(w.book.with(saidPassed)) != 1 {
			t.Error("not passed through")
		}
		if n := b.budget.Load().used.Load(); n != 0 {
			t.Errorf("%d bytes were never given back", n)
		}
	})
}

// contents shows null and empty apart.
func contents(r *kgo.Record) string {
	return fmt.Sprintf("key %#v value %#v headers %#v at %d", r.Key, r.Value, r.Headers, r.Timestamp.UnixMilli())
}

// TestPassThroughHoldsRebalances: between the taking of batches and the barrier no rebalance runs, also if no poll
// comes in between: the budget is used up by the first look.
func TestPassThroughHoldsRebalances(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, name := range []string{"in", "out"} {
			if err := w.CreateTopic(name, 2, map[string]string{"max.message.bytes": "8388608"}); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var said []string // by the first member
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, what)
		}
		a := w.start(w.options(passing, longEpochs, func(o *Options) { o.Memory, o.EpochTimeout = 8<<20, 20*time.Second }))
		w.assigned(a, 2)
		w.feed("in", 1, 0)
		w.caughtUp("in") // the first epoch closes at once; the next one is long
		w.ControlKey(int16(kmsg.JoinGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			if req := r.(*kmsg.JoinGroupRequest); *req.InstanceID == "a" {
				note("join")
			}
			return nil, nil, false
		})
		w.ControlKey(int16(kmsg.TxnOffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			note("positions")
			return nil, nil, false
		})
		release := w.stuck()
		large := w.client(kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := large.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: make([]byte, 3<<20)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.until("the budget is used up", func() bool { return a.budget.Load().exhausted() })
		b := w.start(w.options(passing, longEpochs, instance("b")))
		w.pass(10 * time.Second)
		release()
		w.until("both share", func() bool { return a.holds() == 1 && b.holds() == 1 })
		mu.Lock()
		if len(said) == 0 || said[0] != "positions" {
			t.Errorf("the first member sent %v: it rejoined with batches in an open epoch", said)
		}
		mu.Unlock()
		w.feed("in", 10, 0, 1)
		w.pass(5 * time.Second)
		a.stopped()
		b.stopped()
		w.exact("out", "in")
		if n := abortedEpochs(a, b); n > 0 {
			t.Errorf("%d epochs aborted", n)
		}
	})
}

// TestLateAnswer: an answer that arrives after its partition was revoked, or revoked and assigned again, is not
// taken.
func TestLateAnswer(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("again %v", again), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				w.feed("in", 10, 0, 1)
				woken := make(chan struct{}, 100)
				f := w.fetcher(func() { woken <- struct{}{} })
				gate := make(chan struct{})
				w.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
					w.SleepControl(func() { <-gate })
					return nil, nil, false
				})
				zero, one := offsets.TopicPartition{Topic: "in"}, offsets.TopicPartition{Topic: "in", Partition: 1}
				f.add(zero, offsets.Position{Offset: 2, LeaderEpoch: -1})
				f.add(one, offsets.Position{LeaderEpoch: -1})
				w.pass(time.Second) // the first fetch is on its way
				f.drop([]offsets.TopicPartition{zero})
				if again {
					f.add(zero, offsets.Position{Offset: 7, LeaderEpoch: -1})
				}
				close(gate)
				got := map[int32]int64{}
				for len(got) < 2 {
					select {
					case <-woken:
					case <-time.After(5 * time.Second):
						if again {
							t.Fatalf("only %v was fetched", got)
						}
						got[0] = 7
						continue
					}
					all, failures := f.take(100)
					if len(failures) > 0 {
						t.Fatal(failures)
					}
					for _, d := range all {
						got[d.tp.Partition] = d.from
					}
				}
				if got[0] != 7 || got[1] != 0 {
					t.Errorf("taken from %v", got)
				}
			})
		})
	}
}

// fetcher is one of a client that consumes topic "in" without a group's help.
func (w *world) fetcher(wake func()) *fetcher {
	w.t.Helper()
	cl := w.client(kgo.Dialer(w.link.Dial), kgo.ConsumerGroup("fetching"), kgo.ConsumeTopics("in"), kgo.FetchMaxWait(500*time.Millisecond), kgo.DisableAutoCommit(),
		kgo.AdjustFetchOffsetsFn(func(ctx context.Context, _ map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
	id := w.TopicInfo("in").TopicID
	f := newFetcher(cl, w.link, func(string) [16]byte { return id }, wake, testLog(w.t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.run(w.t.Context())
	}()
	w.t.Cleanup(func() {
		f.stop()
		<-ended
	})
	w.until("the leaders are known", func() bool {
		n, _, _ := cl.PartitionLeader("in", 1)
		return n >= 0
	})
	return f
}

// TestPassThroughMembersComeAndGo: what a member has given up it neither reads nor deals any more. (kfake, which lets no
// static member of a KIP-848 group leave)
func TestPassThroughMembersComeAndGo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		stop := w.feeding("in", 10*time.Millisecond, 0, 1, 2, 3)
		a := w.start(w.options(passing))
		w.assigned(a, 4)
		for range 3 {
			b := w.start(w.options(passing, instance("b")))
			w.assigned(b, 2)
			w.pass(500 * time.Millisecond)
			b.stopped()
			w.assigned(a, 4)
			w.pass(200 * time.Millisecond)
		}
		stop()
		w.caughtUp("in")
		a.stopped()
		w.exact("out", "in")
		if n := abortedEpochs(a); n > 0 {
			t.Errorf("%d epochs were thrown away", n)
		}
	})
}
