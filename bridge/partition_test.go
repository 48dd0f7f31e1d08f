package bridge

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/transform"
)

// TestMurmur2 holds the vectors of Kafka's own test of its hash (org.apache.kafka.common.utils.UtilsTest).
func TestMurmur2(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want { //nolint:gosec // Kafka's hash is signed
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

// TestMurmur2LikeTheClient compares every length of tail with the client's own hash for the default partitioner.
func TestMurmur2LikeTheClient(t *testing.T) {
	t.Parallel()
	theirs := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	ours := partitioner(true, "").ForTopic("t")
	for n := range 40 {
		for p := 1; p < 20; p++ {
			key := make([]byte, n)
			for i := range key {
				key[i] = byte(251*i + n*p)
			}
			r := &kgo.Record{Key: key}
			if got, want := ours.Partition(r, p), theirs.Partition(r, p); got != want {
				t.Fatalf("key %x of %d bytes over %d partitions: %d, Kafka's producer chooses %d", key, n, p, got, want)
			}
		}
	}
}

// where answers the output partition of each value.
func (w *world) where(topic string) map[string]int32 {
	w.t.Helper()
	at := map[string]int32{}
	for p, records := range w.read(topic) {
		for _, r := range records {
			at[string(r.Value)] = p
		}
	}
	return at
}

func TestPartitioningPreserve(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topic("in", 5)
		w.topic("out", 7) // more is allowed
		w.feed("in", 20, 0, 1, 2, 3, 4)
		w.caughtUpBy(w.options())
		w.exact("out", "in")
	})
}

// TestPartitioningKey goes from 5 to 3 partitions: keyed records go where Kafka's producers would put them, and
// records without a key follow their source partition, the same at each replay.
func TestPartitioningKey(t *testing.T) {
	for _, transforms := range []string{"", "set_header(a=b)"} {
		t.Run(transforms, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topic("in", 5)
				w.topic("out", 3)
				want := map[string]int32{}
				theirs := kgo.StickyKeyPartitioner(nil).ForTopic("out")
				for i := range 200 {
					p := int32(i % 5)
					r := &kgo.Record{Topic: "in", Partition: p, Value: []byte(w.unique("in", p))}
					want[string(r.Value)] = p % 3
					switch i % 4 {
					case 0:
						r.Key = []byte{} // a key, though empty
						want[string(r.Value)] = int32(theirs.Partition(r, 3))
					case 1, 2:
						r.Key = fmt.Append(nil, i/3)
						want[string(r.Value)] = int32(theirs.Partition(r, 3))
					}
					w.write(r)
				}
				w.caughtUpBy(w.options(func(o *Options) { o.ByKey, o.Chain = true, chain(w.t, transforms) }))
				got := w.where("out")
				if len(got) != len(want) {
					t.Errorf("%d records, want %d", len(got), len(want))
				}
				for value, p := range want {
					if at, ok := got[value]; !ok || at != p {
						t.Errorf("record %s is in partition %d (%v), want %d", value, at, ok, p)
					}
				}
			})
		})
	}
}

// TestPartitioningKeyOfTheOutput: the key that counts is the one that the transforms leave.
func TestPartitioningKeyOfTheOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topic("in", 2)
		w.topic("out", 8)
		w.feed("in", 50, 0, 1)
		rekey := scripted(w.t, perRecord(func(r *transform.Record) error { r.Key = []byte("foobar"); return nil }))
		w.caughtUpBy(w.options(func(o *Options) { o.ByKey, o.Chain = true, rekey }))
		n := 0
		want := kgo.StickyKeyPartitioner(nil).ForTopic("out").Partition(&kgo.Record{Key: []byte("foobar")}, 8)
		for value, p := range w.where("out") {
			n++
			if int(p) != want {
				t.Errorf("%s is in partition %d, want %d", value, p, want)
			}
		}
		if n != 100 {
			t.Errorf("%d records, want 100", n)
		}
	})
}
