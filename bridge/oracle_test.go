package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/transform"
)

// What goes in, what comes out, and the judgement.

// topic makes one topic.
func (w *world) topic(name string, partitions int32) {
	w.t.Helper()
	if err := w.CreateTopic(name, partitions, nil); err != nil {
		w.t.Fatal(err)
	}
}

// topics makes topics with the same number of partitions.
func (w *world) topics(partitions int32, names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.topic(name, partitions)
	}
}

// write produces the records in their order, to the partitions they name.
func (w *world) write(records ...*kgo.Record) {
	w.t.Helper()
	if err := w.cl.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	w.fed.Add(int64(len(records)))
}

// feed writes n records to each of the partitions. Their values are unique and tell where they come from.
func (w *world) feed(topic string, n int, partitions ...int32) {
	w.t.Helper()
	var records []*kgo.Record
	for i := range n {
		for _, p := range partitions {
			records = append(records, &kgo.Record{Topic: topic, Partition: p, Key: fmt.Append(nil, i), Value: []byte(w.unique(topic, p))})
		}
	}
	w.write(records...)
}

// serial numbers the values of feed.
var serial atomic.Int64

func (w *world) unique(topic string, p int32) string {
	return fmt.Sprintf("%s/%d/%d", topic, p, serial.Add(1))
}

// read answers what a read_committed reader finds in a topic, by partition, without markers.
func (w *world) read(topic string) map[int32][]*kgo.Record {
	w.t.Helper()
	ends, err := w.adm.ListCommittedOffsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	at, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			w.t.Fatal(o.Err)
		}
		at[o.Partition] = kgo.NewOffset().AtStart()
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	found := map[int32][]*kgo.Record{}
	cl := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	defer cl.Close()
	for len(left) > 0 {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		fetches := cl.PollFetches(ctx)
		done := ctx.Err() != nil // what is left was aborted
		cancel()
		fetches.EachError(func(_ string, p int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				w.t.Logf("read topic %s partition %d: %v", topic, p, err)
			}
		})
		if fetches.Empty() && done {
			break
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				found[r.Partition] = append(found[r.Partition], r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return found
}

// count answers how many records a read_committed reader finds.
func (w *world) count(topic string) int {
	w.t.Helper()
	n := 0
	for _, records := range w.read(topic) {
		n += len(records)
	}
	return n
}

// text is everything of a record but its place.
func text(r *kgo.Record) string {
	var b strings.Builder
	bytesText(&b, r.Key)
	b.WriteByte('=')
	bytesText(&b, r.Value)
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " %q:", h.Key)
		bytesText(&b, h.Value)
	}
	fmt.Fprintf(&b, " @%d", r.Timestamp.UnixMilli())
	return b.String()
}

// bytesText keeps null and empty apart.
func bytesText(b *strings.Builder, v []byte) {
	if v == nil {
		b.WriteString("null")
		return
	}
	fmt.Fprintf(b, "%q", v)
}

func texts(records []*kgo.Record) []string {
	all := make([]string, len(records))
	for i, r := range records {
		all[i] = text(r)
	}
	return all
}

// exact demands that the output holds the inputs exactly once, each partition in its order, byte for byte.
func (w *world) exact(output string, inputs ...string) {
	w.t.Helper()
	want := map[int32][]string{}
	for _, in := range inputs {
		for p, records := range w.read(in) {
			want[p] = append(want[p], texts(records)...)
		}
	}
	got := map[int32][]string{}
	for p, records := range w.read(output) {
		got[p] = texts(records)
	}
	if len(inputs) > 1 { // topics interleave
		for _, m := range []map[int32][]string{want, got} {
			for p := range m {
				slices.Sort(m[p])
			}
		}
	}
	w.same(got, want)
}

// same compares outputs by partition.
func (w *world) same(got, want map[int32][]string) {
	w.t.Helper()
	partitions := map[int32]bool{}
	for p := range got {
		partitions[p] = true
	}
	for p := range want {
		partitions[p] = true
	}
	for _, p := range slices.Sorted(maps.Keys(partitions)) {
		g, m := got[p], want[p]
		if slices.Equal(g, m) {
			continue
		}
		i := 0
		for i < min(len(g), len(m)) && g[i] == m[i] {
			i++
		}
		w.t.Errorf("partition %d: %d records, want %d; the first difference is at %d:\n got  %v\n want %v",
			p, len(g), len(m), i, g[i:min(i+3, len(g))], m[i:min(i+3, len(m))])
	}
}

// committed answers the group's position of a partition, -1 without one.
func (w *world) committed(group, topic string, partition int32) int64 {
	w.t.Helper()
	info := w.GroupInfo(group)
	if info == nil {
		return -1
	}
	c, ok := info.Commits[topic][partition]
	if !ok {
		return -1
	}
	return c.Offset
}

// behind answers how many offsets the group has still to commit, up to the last stable offsets. It sends no
// requests, so that no fault meant for a bridge hits it.
func (w *world) behind(group string, topics ...string) int64 {
	w.t.Helper()
	var n int64
	for _, topic := range topics {
		for _, p := range w.PartitionInfos(topic) {
			n += p.LastStableOffset - max(w.committed(group, topic, p.Partition), p.LogStartOffset)
		}
	}
	return n
}

// commitAt sets a position of a group without members.
func (w *world) commitAt(group, topic string, p int32, offset int64) {
	w.t.Helper()
	var at kadm.Offsets
	at.AddOffset(topic, p, offset, -1)
	if err := w.adm.CommitAllOffsets(w.t.Context(), group, at); err != nil {
		w.t.Fatal(err)
	}
}

// caughtUp waits until everything is committed.
func (w *world) caughtUp(topics ...string) {
	w.t.Helper()
	w.until("everything is committed", func() bool { return w.behind("g", topics...) == 0 })
}

// positions answers the committed positions of a group as text, to see whether they have moved.
func (w *world) positions(group string) string {
	info := w.GroupInfo(group)
	if info == nil {
		return "none"
	}
	var all []string
	for topic, partitions := range info.Commits {
		for p, c := range partitions {
			all = append(all, fmt.Sprintf("%s/%d=%d", topic, p, c.Offset))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// script is a transform that a test writes. Every lane has an instance of it, so it must be safe for use by
// several goroutines.
type script struct {
	apply   func(in *transform.Record, out []transform.Record) ([]transform.Record, error)
	targets []string
}

// Apply implements transform.Transform.
func (s *script) Apply(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
	return s.apply(in, out)
}

// Targets names the topics that the script may route to.
func (s *script) Targets() []string { return s.targets }

// scripts holds the scripts of running tests by name: an expression is the one way into a chain.
var scripts sync.Map

func init() {
	transform.Register(transform.Definition{
		Name: "scripted", Usage: "scripted(name)", Doc: "For tests.", Example: "scripted(none)",
		New: func(arg string) (transform.Transform, error) {
			s, ok := scripts.Load(arg)
			if !ok {
				return nil, fmt.Errorf("no script %q", arg)
			}
			return s.(*script), nil
		},
	})
}

// scripted makes a chain of one script.
func scripted(t *testing.T, s *script) *transform.Spec {
	t.Helper()
	name := fmt.Sprint(serial.Add(1))
	scripts.Store(name, s)
	t.Cleanup(func() { scripts.Delete(name) })
	return chain(t, "scripted("+name+")")
}

// perRecord makes a script from a function of one record to one record.
func perRecord(f func(r *transform.Record) error) *script {
	return &script{apply: func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
		r := *in
		if err := f(&r); err != nil {
			return out, err
		}
		return append(out, r), nil
	}}
}

// caughtUpBy runs a bridge until everything is committed, and stops it.
func (w *world) caughtUpBy(o Options) *running {
	w.t.Helper()
	b := w.start(o)
	w.caughtUp(o.Inputs...)
	b.stopped()
	return b
}
