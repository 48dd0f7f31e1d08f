package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/txn"
)

// whole is a ring that produces whole batches to a topic of its own, without the bridge around it: what the requests of
// package txn's own making do on a real broker. Its positions are of the output topic, for want of an input.
type whole struct {
	t     *testing.T
	ctx   context.Context
	c     *kafka.Cluster
	proxy *Proxy
	topic string
	ring  *txn.Ring
}

const wholePartitions = 3

func newWhole(t *testing.T, configs ...string) *whole {
	t.Helper()
	c := kafka.Shared(t, kafka.V44)
	proxy, err := StartProxy(c.Bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	w := &whole{t: t, ctx: within(t, time.Minute), c: c, proxy: proxy, topic: c.Topic(t, wholePartitions, configs...)}
	w.ring = w.open()
	return w
}

func (w *whole) open() *txn.Ring {
	w.t.Helper()
	r, err := txn.Open(w.ctx, txn.Options{
		Prefix: w.topic, Instance: "me", Group: w.topic, Version: 2, Batches: true, Timeout: 40 * time.Second,
		Client: func(opts ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.proxy.Addr())}, opts...)...)
		},
		Admin:   w.c.Admin(w.t),
		Present: func() txn.Credential { return txn.Credential{Generation: -1} },
		TopicID: func(string) [16]byte {
			topics, err := w.c.Admin(w.t).Metadata(w.ctx, w.topic)
			if err != nil {
				w.t.Error(err)
			}
			return topics.Topics[w.topic].ID
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(r.Close)
	return r
}

// batches makes one compressed batch of each of these pairs of values.
func (w *whole) batches(values ...string) []batch.Batch {
	w.t.Helper()
	e, err := batch.NewEncoder(1<<20, kgo.Lz4Compression())
	if err != nil {
		w.t.Fatal(err)
	}
	var all []batch.Batch
	for pair := range slices.Chunk(values, 2) {
		var records []*kgo.Record
		for _, v := range pair {
			records = append(records, &kgo.Record{Value: []byte(v + strings.Repeat("-", 200)), Timestamp: time.Now()})
		}
		all = append(all, e.Encode(records)...)
	}
	return all
}

// produce hands batches over; the channel has what became of them.
func (w *whole) produce(n txn.Epoch, partition int32, batches ...batch.Batch) <-chan error {
	done := make(chan error, 1)
	w.ring.ProduceBatches(w.ctx, n, w.topic, partition, batches, func(err error) { done <- err })
	return done
}

func (w *whole) begin(n txn.Epoch) {
	w.t.Helper()
	if err := w.ring.Begin(w.ctx, n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *whole) commit(n txn.Epoch) error {
	if err := w.ring.PreCommit(w.ctx, n); err != nil {
		return err
	}
	_, err := w.ring.Commit(w.ctx, txn.Checkpoint{
		Epoch: n, Credential: txn.Credential{Generation: -1},
		Positions: offsets.Positions{{Topic: w.topic}: {Offset: int64(n), LeaderEpoch: 0}},
	})
	return err
}

func (w *whole) mustCommit(n txn.Epoch) {
	w.t.Helper()
	if err := w.commit(n); err != nil {
		w.t.Fatalf("epoch %d: %v", n, err)
	}
}

// expect wants a read_committed reader to see these values, by partition, and the group to be at this position.
func (w *whole) expect(position int64, want [wholePartitions][]string) {
	w.t.Helper()
	adm := w.c.Admin(w.t)
	ends := map[int32]int64{}
	eventually(w.t, "the end of all transactions", func() bool {
		stable, err1 := adm.ListCommittedOffsets(w.ctx, w.topic)
		last, err2 := adm.ListEndOffsets(w.ctx, w.topic)
		if err := errors.Join(err1, err2, stable.Error(), last.Error()); err != nil {
			w.t.Fatal(err)
		}
		open := false
		for p := range int32(wholePartitions) {
			s, _ := stable.Lookup(w.topic, p)
			l, _ := last.Lookup(w.topic, p)
			if open = open || s.Offset != l.Offset; l.Offset > 0 {
				ends[p] = l.Offset
			}
		}
		return !open
	})
	reader := w.c.Client(w.t, kgo.ConsumeTopics(w.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	var got [wholePartitions][]string
	for len(ends) > 0 {
		fetches := reader.PollFetches(w.ctx)
		if err := fetches.Err0(); err != nil {
			w.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				value, _, _ := strings.Cut(string(r.Value), "-")
				got[r.Partition] = append(got[r.Partition], value)
			}
			if r.Offset+1 >= ends[r.Partition] {
				delete(ends, r.Partition)
			}
		})
	}
	for p := range want {
		if !slices.Equal(got[p], want[p]) {
			w.t.Errorf("partition %d: a read_committed reader sees %q, want %q", p, got[p], want[p])
		}
	}
	at, err := offsets.Committed(w.ctx, adm, w.topic)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		w.t.Fatal(err)
	}
	if got := at[offsets.TopicPartition{Topic: w.topic}].Offset; got != position {
		w.t.Errorf("the position is %d, want %d", got, position)
	}
}

// TestBatchesOnKafka: eight epochs of several batches, four on each slot, in their order and once; each commit moves
// the producer epoch and begins the sequence numbers anew, or the broker would have refused the next. On TV2.
func TestBatchesOnKafka(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	var want [wholePartitions][]string
	for n := txn.Epoch(1); n <= 8; n++ {
		w.begin(n)
		for p := range int32(wholePartitions) {
			values := []string{}
			for i := range 10 {
				values = append(values, fmt.Sprintf("%d/%d/%d", p, n, i))
			}
			all := w.batches(values...)
			w.produce(n, p, all[:2]...)
			w.produce(n, p, all[2:]...)
			want[p] = append(want[p], values...)
		}
		w.mustCommit(n)
	}
	w.expect(8, want)
}

// TestBatchesAnswersLost: a batch whose answer was lost is sent again and appended once, an EndTxn whose answer was
// lost is repeated. On TV2.
func TestBatchesAnswersLost(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.EndTxn} {
		for _, fault := range []Fault{CutEOF, CutReset, CutRequest, Swallow} {
			t.Run(fmt.Sprintf("%s/%s", key.Name(), fault), func(t *testing.T) {
				t.Parallel()
				w := newWhole(t)
				w.begin(1)
				w.produce(1, 0, w.batches("a", "b")...)
				w.mustCommit(1)
				times := 2
				if fault == Swallow {
					times = 1 // it takes until the client's time-out
				}
				w.proxy.Set(&Rule{Key: key, Fault: fault, Every: 2, Times: times})
				var want [wholePartitions][]string
				want[0] = []string{"a", "b"}
				for n := txn.Epoch(2); n <= 5; n++ {
					w.begin(n)
					values := []string{fmt.Sprint(n, "c"), fmt.Sprint(n, "d"), fmt.Sprint(n, "e")}
					w.produce(n, 0, w.batches(values...)...)
					want[0] = append(want[0], values...)
					w.mustCommit(n)
				}
				if w.proxy.Hits() != times {
					t.Errorf("%d answers were lost, want %d", w.proxy.Hits(), times)
				}
				w.expect(5, want)
			})
		}
	}
}

// TestBatchesAborted: nobody reads what was aborted. On TV2.
func TestBatchesAborted(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	w.begin(1)
	if err := <-w.produce(1, 0, w.batches("a")...); err != nil {
		t.Fatal(err)
	}
	w.ring.Abort(w.ctx)
	w.expect(0, [wholePartitions][]string{})
}

// TestBatchesFenced: a newer ring of the same name ends the older one's epochs, wherever these are. On TV2.
func TestBatchesFenced(t *testing.T) {
	for name, prepared := range map[string]bool{"before the flush": false, "after the flush": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWhole(t)
			w.begin(1)
			if err := <-w.produce(1, 0, w.batches("old")...); err != nil {
				t.Fatal(err)
			}
			if prepared {
				if err := w.ring.PreCommit(w.ctx, 1); err != nil {
					t.Fatal(err)
				}
			}
			newer := w.open()
			var err error
			if prepared {
				_, err = w.ring.Commit(w.ctx, txn.Checkpoint{
					Epoch: 1, Credential: txn.Credential{Generation: -1}, Positions: offsets.Positions{{Topic: w.topic}: {Offset: 7}},
				})
			} else {
				w.produce(1, 0, w.batches("older")...)
				err = w.ring.PreCommit(w.ctx, 1)
			}
			if !errors.Is(err, txn.ErrInDoubt) || !txn.MaybeFenced(err) {
				t.Errorf("the fenced ring's error is %v", err)
			}
			w.ring = newer
			w.begin(1)
			w.produce(1, 0, w.batches("new")...)
			w.mustCommit(1)
			w.expect(1, [wholePartitions][]string{{"new"}})
		})
	}
}

// TestBatchesRefused: what the broker refuses ends the epoch by name, and nothing of it is read. On TV2.
func TestBatchesRefused(t *testing.T) {
	for name, c := range map[string]struct {
		configs []string
		spoil   func(batch.Batch)
		want    error
	}{
		"damaged":      {spoil: func(b batch.Batch) { b[len(b)-9] ^= 4 }, want: kerr.CorruptMessage},
		"too large":    {configs: []string{"max.message.bytes=100"}, spoil: func(batch.Batch) {}, want: kerr.MessageTooLarge},
		"without keys": {configs: []string{"cleanup.policy=compact"}, spoil: func(batch.Batch) {}, want: kerr.InvalidRecord},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWhole(t, c.configs...)
			w.begin(1)
			all := w.batches("aaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc", "dddddddddddd")
			last := all[len(all)-1]
			last[7] = 40 // where it was in the source
			c.spoil(last)
			failed := <-w.produce(1, 1, last)
			err := w.ring.PreCommit(w.ctx, 1)
			for _, err := range []error{failed, err} {
				if !errors.Is(err, c.want) || !txn.Refused(err) || !strings.Contains(err.Error(), "partition 1: source offset 40") {
					t.Errorf("%v, want %v", err, c.want)
				}
			}
			t.Log(err)
			w.ring.Abort(w.ctx)
			w.expect(0, [wholePartitions][]string{})
		})
	}
}
