package audit

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchAll answers what the broker sends of a partition from an offset on.
func (s *stand) fetchAll(topic string, from int64) *kmsg.FetchResponseTopicPartition {
	s.t.Helper()
	c := &cluster{client: s.cl, bytes: 8 << 20}
	what := reading{id: s.TopicInfo(topic).TopicID}
	what.Topic = topic
	answer, err := c.once(s.t.Context(), what, from)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// text writes a record down, null apart from empty.
func (v *view) text() string {
	some := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%q", b)
	}
	t := fmt.Sprintf("%d %d %v %s %s", v.offset, v.time, v.appended, some(v.key), some(v.value))
	for _, h := range v.headers {
		t += fmt.Sprintf(" %q=%s", h.name, some(h.value))
	}
	return t
}

// TestDecode holds the decoder against the client's, from every offset: all codecs, transactions that committed and
// aborted, interleaved, records of all kinds.
func TestDecode(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "in"))
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		cl := s.client(kgo.ProducerBatchCompression(codec))
		if err := cl.ProduceSync(t.Context(), odd("in", 0, 30+i)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	one, two := s.client(kgo.TransactionalID("one")), s.client(kgo.TransactionalID("two"))
	for round := range 6 {
		for _, cl := range []*kgo.Client{one, two} {
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
		}
		for k := range 3 {
			for _, cl := range []*kgo.Client{one, two} {
				if err := cl.ProduceSync(t.Context(), odd("in", 0, 4+k)...).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.write(odd("in", 0, 3)...)
		for i, cl := range []*kgo.Client{one, two} {
			if err := cl.EndTransaction(t.Context(), kgo.TransactionEndTry((round>>i)%2 == 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	info := s.fetchAll("in", 0)
	end, total := info.HighWatermark, 0
	for from := int64(0); from < end; from++ {
		answer := s.fetchAll("in", from)
		var got, want []string
		next, err := newDecoder().decode(answer, from, func(r *view) { got = append(got, r.text()) })
		if err != nil {
			t.Fatal(err)
		}
		o := kgo.ProcessFetchPartitionOpts{Offset: from, IsolationLevel: kgo.ReadCommitted(), Topic: "in"}
		theirs, theirNext := kgo.ProcessFetchPartition(o, answer, kgo.DefaultDecompressor(), nil)
		for _, r := range theirs.Records {
			want = append(want, viewOf(r).text())
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || next != theirNext {
			t.Fatalf("from offset %d to %d, the client to %d:\n%q\n%q", from, next, theirNext, got, want)
		}
		total += len(got)
	}
	if total == 0 {
		t.Error("nothing was decoded")
	}
	t.Logf("%d offsets", end)
}

// TestDecodeBroken: whatever is cut off or altered is an error or the end, never a panic and never a record.
func TestDecodeBroken(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "in"))
	s.write(&kgo.Record{Topic: "in", Key: []byte("key"), Value: []byte("value"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("b")}}, Timestamp: time.UnixMilli(5)})
	whole := s.fetchAll("in", 0)
	read := func(raw []byte) (records int, next int64, err error) {
		answer := *whole
		answer.RecordBatches = raw
		next, err = newDecoder().decode(&answer, 0, func(*view) { records++ })
		return records, next, err
	}
	if n, next, err := read(whole.RecordBatches); n != 1 || next != 1 || err != nil {
		t.Fatal(n, next, err)
	}
	for i := range whole.RecordBatches {
		if n, next, err := read(whole.RecordBatches[:i]); n != 0 || next != 0 || err != nil {
			t.Errorf("cut off after %d bytes: %d records, to %d, %v", i, n, next, err)
		}
		for bit := range 8 {
			raw := bytes.Clone(whole.RecordBatches)
			raw[i] ^= 1 << bit
			n, _, err := read(raw)
			// The checksum covers neither the offset nor the leader epoch; a longer length is a batch that is cut off.
			if i >= fromCRC && (n != 0 || !errors.Is(err, errUnreadable)) {
				t.Errorf("byte %d, bit %d: %d records, %v", i, bit, n, err)
			}
		}
	}
	for n := range 2000 { // nor does nonsense behind a true checksum
		c := cursor{in: bytes.Repeat([]byte{byte(n), byte(n >> 3), 0xff}, n%7)}
		for range 10 {
			c.bytes()
		}
		if len(c.in) > 3*7 {
			t.Error(n)
		}
	}
}
