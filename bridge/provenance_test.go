package bridge

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
)

// parted takes the last five headers off a record and answers them as text without the epoch, which must be a number.
func parted(t *testing.T, r *kgo.Record) string {
	t.Helper()
	own := r.Headers[max(0, len(r.Headers)-provenanceHeaders):]
	r.Headers = r.Headers[:len(r.Headers)-len(own)]
	if len(own) != provenanceHeaders {
		t.Fatalf("headers %q", own)
	}
	if epoch, err := strconv.Atoi(string(own[3].Value)); err != nil || epoch < 1 {
		t.Errorf("epoch %q, %v", own[3].Value, err)
	}
	text := ""
	for i, name := range []string{"eosbridge.topic", "eosbridge.partition", "eosbridge.offset", "eosbridge.epoch", "eosbridge.output"} {
		if own[i].Key != name {
			t.Errorf("header %d is %q, want %q", i, own[i].Key, name)
		}
		if name != "eosbridge.epoch" {
			text += " " + string(own[i].Value)
		}
	}
	return text
}

// TestProvenance: each output says where it comes from, and is otherwise what it would have been.
func TestProvenance(t *testing.T) {
	for name, expression := range map[string]string{"no chain": "", "chain": "set_header(x=y) | drop_header(x)"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				w.write(odd("in", 1)...)
				w.caughtUpBy(w.options(func(o *Options) { o.Provenance, o.Chain = true, chain(w.t, expression) }))
				got := w.read("out")[1]
				for i, r := range got {
					if origin, want := parted(t, r), fmt.Sprintf(" in 1 %d 1/1", i); origin != want {
						t.Errorf("record %d comes from%s, want%s", i, origin, want)
					}
				}
				w.same(map[int32][]string{1: texts(got)}, map[int32][]string{1: texts(odd("in", 1))})
			})
		})
	}
}

// TestProvenanceOfMany: outputs are counted per input; an input that becomes nothing leaves nothing.
func TestProvenanceOfMany(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.feed("in", 40, 0)
		s := &script{apply: func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
			for range in.Offset % 4 {
				out = append(out, *in) // they share their headers
			}
			return out, nil
		}}
		w.caughtUpBy(w.options(func(o *Options) { o.Provenance, o.Chain = true, scripted(w.t, s) }))
		var got, want []string
		for _, r := range w.read("out")[0] {
			got = append(got, parted(t, r))
		}
		for offset := range 40 {
			for i := range offset % 4 {
				want = append(want, fmt.Sprintf(" in 0 %d %d/%d", offset, i+1, offset%4))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
}

// TestProvenanceOfChained: in a row of bridges the last one's word stands alone, and what only looks like ours stays.
func TestProvenanceOfChained(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "middle", "out")
		w.feed("in", 1, 0)
		theirs := []kgo.RecordHeader{{Key: "eosbridge.other", Value: []byte("x")}, {Key: "Eosbridge.topic"}, {Key: "eosbridge.other"}}
		w.write(&kgo.Record{Topic: "in", Headers: theirs})
		w.caughtUpBy(w.options(func(o *Options) { o.Provenance, o.Output = true, "middle" }))
		second := w.options(func(o *Options) { o.Provenance, o.Inputs = true, []string{"middle"} })
		second.Group, second.Prefix = "g2", "g2"
		b := w.start(second)
		w.until("everything is committed", func() bool { return w.behind("g2", "middle") == 0 })
		b.stopped()
		got := w.read("out")[0]
		if len(got) != 2 {
			t.Fatalf("%d records", len(got))
		}
		for i, r := range got {
			if origin, want := parted(t, r), fmt.Sprintf(" middle 0 %d 1/1", w.read("middle")[0][i].Offset); origin != want {
				t.Errorf("record %d comes from%s, want%s", i, origin, want)
			}
		}
		if len(got[0].Headers) != 0 || !slices.EqualFunc(got[1].Headers, theirs, func(a, b kgo.RecordHeader) bool {
			return a.Key == b.Key && string(a.Value) == string(b.Value) && (a.Value == nil) == (b.Value == nil)
		}) {
			t.Errorf("headers %q and %q", got[0].Headers, got[1].Headers)
		}
	})
}

// TestProvenanceAllocates: what it costs in allocations does not grow with the records, and nothing it adds lies in
// memory that another record can reach.
func TestProvenanceAllocates(t *testing.T) {
	var records []*kgo.Record
	var source []int64
	shared := []kgo.RecordHeader{{Key: "a"}, {Key: "b"}}
	for i := range 1000 {
		records = append(records, &kgo.Record{})
		source = append(source, 1_000_000_000_000+int64(i/3))
	}
	piece := work{tp: offsets.TopicPartition{Topic: "in"}}
	if n := testing.AllocsPerRun(10, func() {
		for _, r := range records {
			r.Headers = shared
		}
		stamp(records, source, piece, "")
	}); n > 10 {
		t.Errorf("%v allocations for a piece of 1,000 records", n)
	}
	for i, r := range records {
		if len(r.Headers) != cap(r.Headers) || cap(r.Headers[4].Value) != len(r.Headers[4].Value) {
			t.Fatal("spare capacity that the next record owns")
		}
		if got, want := string(r.Headers[4].Value)+" "+string(r.Headers[6].Value), fmt.Sprintf("%d %d/%d", source[i], i%3+1, min(3, 1000-i/3*3)); got != want {
			t.Fatalf("record %d: %s, want %s", i, got, want)
		}
	}
}

func BenchmarkProvenance(b *testing.B) {
	records := make([]*kgo.Record, 1000)
	source := make([]int64, len(records))
	for i := range records {
		records[i], source[i] = &kgo.Record{}, int64(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range records {
			r.Headers = nil
		}
		stamp(records, source, work{tp: offsets.TopicPartition{Topic: "in"}}, "")
	}
}
