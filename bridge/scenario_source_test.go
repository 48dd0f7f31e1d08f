package bridge

import (
	"fmt"
	"hash/crc32"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// Inputs as they are found in the wild: compacted, written by many, with markers at the end, or unreadable.

// TestExpiredPositions: while the bridge was off the broker has forgotten its positions. It does not begin anew by
// itself, for everything would be copied twice.
func TestExpiredPositions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.feed("in", 20, 0, 1)
		unset := func(o *Options) { o.Start = offsets.Start{} }
		w.caughtUpBy(w.options(unset))
		w.pass(10 * time.Minute)
		if got := w.positions("g"); got != "none" && got != "" {
			t.Fatalf("the positions are still there: %s", got)
		}
		w.start(w.options(unset)).fails(txn.StatusConfig, `group "g" has no position`, "expired", "BRIDGE_START")
		w.exact("out", "in")
	}, kfake.BrokerConfigs(map[string]string{"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}))
}

// TestCompactedInput: nine of ten offsets are gone, and aborted transactions lie between. No gap of this kind is taken
// for a loss, no lag is negative, and a compacted output ends with the keys and values of the input.
func TestCompactedInput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, topic := range []string{"in", "out"} {
			if err := w.CreateTopic(topic, 2, map[string]string{"cleanup.policy": "compact"}); err != nil {
				t.Fatal(err)
			}
		}
		source := w.transactional("source")
		for i := range 40 {
			for p := range int32(2) {
				key := fmt.Appendf(nil, "key %d", i%4)
				w.write(&kgo.Record{Topic: "in", Partition: p, Key: key, Value: []byte(w.unique("in", p))})
				if i%13 == 0 {
					w.write(&kgo.Record{Topic: "in", Partition: p, Key: key}) // a tombstone
				}
			}
			if i%10 == 0 {
				source.end(kgo.TryAbort, "in", 0, 3)
			}
		}
		w.Compact()
		lags := w.scraped(func(scrape func() map[string]float64, registry *prometheus.Registry) {
			b := w.start(w.options(func(o *Options) { o.Registerer = registry }))
			w.caughtUp("in")
			w.pass(15 * time.Second) // the lag is looked at every ten seconds
			for name, lag := range scrape() {
				if lag != 0 {
					t.Errorf("%s = %v", name, lag)
				}
			}
			b.stopped()
			if b.restarts() > 0 {
				t.Errorf("%d restarts", b.restarts())
			}
		})
		if lags == 0 {
			t.Error("no lag was ever seen")
		}
		w.exact("out", "in")
		w.Compact()
		if in, out := w.live("in"), w.live("out"); !maps.Equal(in, out) || len(in) < 4 {
			t.Errorf("live keys of the input %v, of the output %v", in, out)
		}
	})
}

// live answers the newest value of each key of a topic, without those that were deleted.
func (w *world) live(topic string) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for p, records := range w.read(topic) {
		for _, r := range records {
			key := fmt.Sprintf("%d/%s", p, r.Key)
			if r.Value == nil {
				delete(all, key)
				continue
			}
			all[key] = string(r.Value)
		}
	}
	return all
}

// source is a transactional producer of the test.
type transactional struct {
	w  *world
	cl *kgo.Client
}

func (w *world) transactional(id string) transactional {
	w.t.Helper()
	return transactional{w, w.client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))}
}

// end writes n records to a partition in one transaction, and ends it.
func (s transactional) end(how kgo.TransactionEndTry, topic string, p int32, n int) {
	s.w.t.Helper()
	if err := s.cl.BeginTransaction(); err != nil {
		s.w.t.Fatal(err)
	}
	for range n {
		r := &kgo.Record{Topic: topic, Partition: p, Key: []byte("of a transaction"), Value: []byte(s.w.unique(topic, p))}
		if err := s.cl.ProduceSync(s.w.t.Context(), r).FirstErr(); err != nil {
			s.w.t.Fatal(err)
		}
	}
	if err := s.cl.EndTransaction(s.w.t.Context(), how); err != nil {
		s.w.t.Fatal(err)
	}
}

// TestInterleavedProducers: three producers write between each other: one commits, one aborts, one knows no
// transactions. Aborted ranges are larger than what one fetch brings.
func TestInterleavedProducers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		commits, aborts := w.transactional("commits"), w.transactional("aborts")
		if err := aborts.cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			commits.end(kgo.TryCommit, "in", 0, 3)
			large := &kgo.Record{Topic: "in", Value: slices.Repeat([]byte(w.unique("aborted", 0)), 20_000)}
			if err := aborts.cl.ProduceSync(t.Context(), large).FirstErr(); err != nil {
				t.Fatal(err)
			}
			w.feed("in", 2, 0)
			if i%4 == 3 {
				if err := aborts.cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
					t.Fatal(err)
				}
				if err := aborts.cl.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.caughtUpBy(w.options(func(o *Options) { o.Memory = 1 << 20 }))
		w.exact("out", "in")
		if n := w.count("out"); n != 60 {
			t.Errorf("%d records, want 60", n)
		}
	})
}

// TestMarkersAtTheEnd: the last offsets of the input are markers. They are passed: the lag becomes 0, and a run
// --until-end ends.
func TestMarkersAtTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		source := w.transactional("source")
		source.end(kgo.TryCommit, "in", 0, 1)
		source.end(kgo.TryAbort, "in", 0, 1)
		b := w.start(w.options(untilEnd))
		if err := b.wait(); err != nil {
			t.Fatal(err)
		}
		if at, end := w.committed("g", "in", 0), w.PartitionInfo("in", 0).HighWatermark; at != end {
			t.Errorf("committed %d of %d", at, end)
		}
		w.exact("out", "in")
	})
}

// TestFirstRecordLate: the first epochs have nothing to commit.
func TestFirstRecordLate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		b := w.start(w.options())
		w.assigned(b, 1)
		w.pass(10 * time.Second)
		w.feed("in", 1, 0)
		w.pass(time.Millisecond)
		b.stopped()
		again := w.start(w.options())
		w.assigned(again, 1)
		w.caughtUp("in")
		w.pass(time.Second)
		again.stopped()
		w.exact("out", "in")
		if n := len(w.book.with("session failed, starting again")); n > 0 {
			t.Errorf("%d restarts", n)
		}
	})
}

// scraped runs a test while the lag metrics are read every 50 ms, and answers how many samples were above 0. None may
// be below.
func (w *world) scraped(test func(scrape func() map[string]float64, registry *prometheus.Registry)) (above int) {
	w.t.Helper()
	registry := prometheus.NewRegistry()
	scrape := func() map[string]float64 {
		lags := map[string]float64{}
		for name, value := range samples(gather(w.t, registry)) {
			if strings.HasPrefix(name, "eosbridge_lag_records") {
				lags[name] = value
			}
		}
		return lags
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for !closed(end) {
			for name, lag := range scrape() {
				if lag < 0 {
					w.t.Errorf("%s = %v", name, lag)
				}
				above++
			}
			w.pass(50 * time.Millisecond)
		}
	}()
	test(scrape, registry)
	close(end)
	<-ended
	return above
}

// TestLagMetrics under load, through a change of members and the end of a topic: never below 0, and what is no longer
// ours is no longer shown.
func TestLagMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wire.delay = time.Millisecond
		w.topics(4, "in-1", "in-2", "out")
		pattern := func(o *Options) { o.Inputs, o.Pattern = nil, regexp.MustCompile(`^(?:in.*)$`) }
		seen := w.scraped(func(scrape func() map[string]float64, registry *prometheus.Registry) {
			a := w.start(w.options(pattern, func(o *Options) { o.Registerer = registry }))
			w.assigned(a, 8)
			stop := w.feeding("in-1", 100*time.Millisecond, 0, 1, 2, 3)
			w.feed("in-2", 100, 0, 1, 2, 3)
			w.until("all partitions are shown", func() bool { return len(scrape()) == 8 })
			b := w.start(w.options(pattern, instance("b")))
			w.until("both share", func() bool { return a.holds() == 4 && b.holds() == 4 })
			w.until("four partitions are shown", func() bool { return len(scrape()) == 4 })
			b.stopped()
			w.assigned(a, 8)
			stop()
			w.caughtUp("in-1", "in-2")
			if err := w.DeleteTopic("in-2"); err != nil {
				t.Fatal(err)
			}
			w.until("the topic is given back", func() bool { return a.holds() == 4 })
			w.until("the topic is not shown", func() bool {
				for name := range scrape() {
					if strings.Contains(name, "in-2") {
						return false
					}
				}
				return true
			})
			a.stopped()
			if n := len(scrape()); n != 0 {
				t.Errorf("%d partitions are shown after the stop", n)
			}
		})
		if seen == 0 {
			t.Error("nothing was ever shown")
		}
	})
}

// TestOutputPartitionsAdded while records go there by key: they go on, each once, and the new partitions get their share.
func TestOutputPartitionsAdded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		b := w.start(w.options(func(o *Options) { o.ByKey = true }))
		w.assigned(b, 2)
		w.feed("in", 50, 0, 1)
		w.caughtUp("in")
		w.addPartitions("out", 4)
		for range 60 { // the client learns of them with its metadata, while records flow
			w.feed("in", 10, 0, 1)
			w.pass(time.Second)
		}
		w.caughtUp("in")
		b.stopped()
		want, got := map[string]int{}, map[string]int{}
		for _, records := range w.read("in") {
			for _, r := range records {
				want[string(r.Value)]++
			}
		}
		out := w.read("out")
		for _, records := range out {
			for _, r := range records {
				got[string(r.Value)]++
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d records, want %d", len(got), len(want))
		}
		if len(out[2])+len(out[3]) == 0 {
			t.Error("nothing has gone to the new partitions")
		}
		if b.restarts() > 0 {
			t.Errorf("%d restarts", b.restarts())
		}
	})
}

// TestUnreadableBatch: the input holds a batch that cannot be unpacked. The bridge tries again, for that costs nothing,
// does not go on behind it, and ends with the partition's name.
func TestUnreadableBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.feed("in", 10, 0)
		w.produceUnreadable("in")
		w.feed("in", 10, 0)
		b := w.start(w.options(func(o *Options) { o.RestartLimit = 3 }))
		b.fails(txn.StatusFailure, "topic in partition 0", "unable to decompress batch")
		if n := w.count("out"); n > 10 {
			t.Errorf("%d records, want those before the batch at most", n)
		}
		if at := w.committed("g", "in", 0); at > 10 {
			t.Errorf("the position is %d, behind the batch", at)
		}
	})
}

// TestOutputWithTimesOfItsOwn: an output topic that replaces the records' times is named, once.
func TestOutputWithTimesOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "plain")
		if err := w.CreateTopic("out", 1, map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
			t.Fatal(err)
		}
		w.feed("in", 10, 0)
		b := w.start(w.options())
		w.caughtUp("in")
		w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true}) // a session more
		w.feed("in", 10, 0)
		w.caughtUp("in")
		b.stopped()
		const warning = "the output topic gives records new times: message.timestamp.type=LogAppendTime"
		if said := w.book.with(warning); len(said) != 1 || !strings.Contains(said[0], "topic=out") {
			t.Errorf("said %v", said)
		}
		second := w.start(w.options(func(o *Options) { o.Group, o.Prefix, o.Output = "h", "h", "plain" }))
		w.until("the second group has caught up", func() bool { return w.behind("h", "in") == 0 })
		second.stopped()
		if said := w.book.with(warning); len(said) != 1 {
			t.Errorf("said of a topic that keeps times: %v", said)
		}
	})
}

// produceUnreadable writes a batch of three records that says it is gzip, and is not.
func (w *world) produceUnreadable(topic string) {
	w.t.Helper()
	batch := kmsg.NewRecordBatch()
	batch.PartitionLeaderEpoch, batch.Magic, batch.Attributes = -1, 2, 1
	batch.LastOffsetDelta, batch.NumRecords = 2, 3
	batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = -1, -1, -1
	batch.FirstTimestamp, batch.MaxTimestamp = time.Now().UnixMilli(), time.Now().UnixMilli()
	batch.Records = []byte("this is no gzip at all")
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	raw := batch.AppendTo(nil)
	batch.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	rt, rp := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	rt.Topic, rt.TopicID, rp.Records = topic, w.TopicInfo(topic).TopicID, batch.AppendTo(nil)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(w.t.Context(), w.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
