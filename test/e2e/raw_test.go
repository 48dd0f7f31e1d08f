package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// passing is a pipeline between two topics whose batches are passed through, and
// that is judged by comparing the two record by record.
type passing struct{ *pair }

func newPassing(t *testing.T, c *kafka.Cluster, partitions int, in []string, out ...string) *passing {
	t.Helper()
	p := &passing{pair: newPair(t, c)}
	const kept = "retention.ms=-1" // the records are of 2023: the broker would clear them away at its next look
	p.from, p.to = c.Topic(t, partitions, append(in, kept)...), c.Topic(t, partitions, append(out, kept)...)
	p.rig.in, p.rig.group = p.from, p.to+"-group"
	p.settings = map[string]string{
		"BRIDGE_INPUT_TOPICS": p.from, "BRIDGE_OUTPUT_TOPIC": p.to, "BRIDGE_GROUP_ID": p.rig.group, "BRIDGE_PASS_THROUGH": "auto",
	}
	maps.Copy(p.settings, shortSessions)
	return p
}

// record is one of everything, in turn: null and empty keys and values, headers
// that repeat, bytes that are no text, old timestamps.
func (p *passing) record(i int) *kgo.Record {
	r := &kgo.Record{Topic: p.from, Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)*37%1_000_000)}
	switch i % 4 {
	case 1:
		r.Key, r.Value = []byte{}, []byte{}
	case 2:
		r.Key, r.Value = fmt.Append(nil, "key ", i%50), []byte(strings.Repeat(fmt.Sprint("value ", i, " "), 1+i%40))
	case 3:
		r.Key = []byte{0xff, 0, byte(i)}
		r.Headers = []kgo.RecordHeader{{Key: "h", Value: nil}, {Key: "h", Value: []byte{}}, {Key: "", Value: fmt.Append(nil, i)}}
	}
	return r
}

// fill produces n records to each of the partitions, in batches of so many.
func (p *passing) fill(t *testing.T, partitions, n, each int, opts ...kgo.Opt) {
	t.Helper()
	cl := p.cluster.Client(t, append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	for at := 0; at < n; at += each {
		var all []*kgo.Record
		for k := range min(each, n-at) {
			for partition := range partitions {
				r := p.record(at + k)
				r.Partition = int32(partition)
				all = append(all, r)
			}
		}
		if err := cl.ProduceSync(within(t, patience), all...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// text shows a record so that null and empty differ.
func text(r *kgo.Record) string {
	return fmt.Sprintf("%#v %#v %#v %d", r.Key, r.Value, r.Headers, r.Timestamp.UnixMilli())
}

// visible reads what a read_committed reader sees, by partition.
func (p *passing) visible(t *testing.T, topic string) map[int32][]string {
	t.Helper()
	ends, err := p.adm.ListCommittedOffsets(within(t, patience), topic)
	if err != nil {
		t.Fatal(err)
	}
	at, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		at[o.Partition] = kgo.NewOffset().AtStart()
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	cl := p.cluster.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	found := map[int32][]string{}
	ctx := within(t, patience)
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("read %s: %v, with %v left", topic, err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				found[r.Partition] = append(found[r.Partition], text(r))
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return found
}

// arrived waits until the group's positions are at the end of the input.
func (p *passing) arrived(t *testing.T) {
	t.Helper()
	eventually(t, "the end of the input", func() bool {
		ends, err := p.adm.ListCommittedOffsets(within(t, patience), p.from)
		if err != nil {
			return false
		}
		behind := false
		ends.Each(func(o kadm.ListedOffset) { behind = behind || o.Offset > 0 && p.position(t, o.Partition) < o.Offset })
		return !behind
	})
}

// same demands that the output is what was seen of the input.
func (p *passing) same(t *testing.T, want map[int32][]string) {
	t.Helper()
	eventually(t, "the end of the last transaction", func() bool {
		ends, err := p.adm.ListEndOffsets(within(t, patience), p.to)
		stable, stableErr := p.adm.ListCommittedOffsets(within(t, patience), p.to)
		return err == nil && stableErr == nil && maps.EqualFunc(ends[p.to], stable[p.to], func(a, b kadm.ListedOffset) bool { return a.Offset == b.Offset })
	})
	got := p.visible(t, p.to)
	for partition, records := range want {
		if slices.Equal(got[partition], records) {
			continue
		}
		t.Errorf("partition %d: %d records of %d", partition, len(got[partition]), len(records))
		for i, r := range records {
			if i >= len(got[partition]) || got[partition][i] != r {
				t.Errorf("the first that differs is record %d: %s", i, r)
				break
			}
		}
	}
	if len(got) != len(want) {
		t.Errorf("records in %d partitions, want %d", len(got), len(want))
	}
}

// TestPassThroughSources copies inputs of every kind, with a kill in the middle,
// and wants each record as it was.
func TestPassThroughSources(t *testing.T) {
	t.Parallel()
	c := kafka.Shared(t, kafka.V44)
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for name, tc := range map[string]struct {
		in, out []string
		fill    func(t *testing.T, p *passing)
	}{
		"codecs": {fill: func(t *testing.T, p *passing) {
			for _, codec := range codecs {
				p.fill(t, 3, 400, 200, kgo.ProducerBatchCompression(codec))
			}
		}},
		"small batches": {fill: func(t *testing.T, p *passing) {
			for i, codec := range codecs {
				p.fill(t, 2, 60, 1+i, kgo.ProducerBatchCompression(codec))
			}
		}},
		"an empty partition": {fill: func(t *testing.T, p *passing) { p.fill(t, 1, 500, 100) }},
		"transactions, some aborted": {fill: func(t *testing.T, p *passing) {
			cl := p.cluster.Client(t, kgo.TransactionalID(p.from+"-feed"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for i := range 40 {
				if err := cl.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				for k := range 20 {
					r := p.record(20*i + k)
					r.Partition = int32(k % 2)
					cl.Produce(t.Context(), r, nil)
				}
				if err := cl.Flush(within(t, patience)); err != nil {
					t.Fatal(err)
				}
				end := kgo.TransactionEndTry(i%3 > 0)
				if err := cl.EndTransaction(within(t, patience), end); err != nil {
					t.Fatal(err)
				}
				if i%7 == 0 { // others write beside them
					p.fill(t, 2, 3, 3)
				}
			}
		}},
		"the broker's timestamps": {in: []string{"message.timestamp.type=LogAppendTime"}, fill: func(t *testing.T, p *passing) {
			p.fill(t, 2, 400, 100, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
		}},
		"a smaller limit": {out: []string{"max.message.bytes=5000"}, fill: func(t *testing.T, p *passing) {
			p.fill(t, 2, 2000, 1000, kgo.ProducerBatchCompression(kgo.NoCompression()))
		}},
		"compacted": {
			in: []string{
				"cleanup.policy=compact", "segment.ms=100", "min.cleanable.dirty.ratio=0.001", "min.compaction.lag.ms=0", "delete.retention.ms=100",
			},
			fill: func(t *testing.T, p *passing) { p.compacted(t) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPassing(t, c, 3, tc.in, tc.out...)
			tc.fill(t, p)
			want := p.visible(t, p.from)
			first := p.startWith(t, "a", p.settings)
			awaitAssigned(t, first)
			pause(t, between(seeded(t), 0, 300*time.Millisecond))
			kill(t, first)
			last := p.startWith(t, "a", p.settings)
			awaitRunning(t, last)
			p.arrived(t)
			stop(t, last)
			if !last.Log.Contains("batches are passed through as they are") {
				t.Error("nothing was passed through")
			}
			p.same(t, want)
		})
	}
}

// compacted fills the input and waits until the log cleaner has left gaps in it.
func (p *passing) compacted(t *testing.T) {
	t.Helper()
	cl := p.cluster.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	write := func(n int) {
		var all []*kgo.Record
		for i := range n {
			r := p.record(4*i + 2)                                         // with a key of fifty
			r.Key, r.Timestamp = fmt.Append(nil, "key ", i%97), time.Now() // by which segments end
			all = append(all, r)
		}
		if err := cl.ProduceSync(within(t, patience), all...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		write(60) // a segment ends with the first record after its time
		pause(t, 200*time.Millisecond)
	}
	ctx := within(t, patience)
	seen := func() int { return len(p.visible(t, p.from)[0]) }
	for seen() == 5*60 {
		pause(t, time.Second)
		if ctx.Err() != nil {
			t.Fatal("the log cleaner has left no gaps")
		}
	}
	// It must be through with this log before anybody compares.
	policy := "delete"
	if _, err := kadm.NewClient(cl).AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "cleanup.policy", Value: &policy}}, p.from); err != nil {
		t.Fatal(err)
	}
	for before := -1; before != seen(); {
		before = seen()
		pause(t, time.Second)
	}
}
