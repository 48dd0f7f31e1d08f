package audit

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestContentDiffers: no two of these may have the same hash.
func TestContentDiffers(t *testing.T) {
	h := func(name string, value []byte) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: value} }
	records := []*kgo.Record{
		{},
		{Key: []byte{}},
		{Value: []byte{}},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("ab")},
		{Value: []byte("ab")},
		{Key: []byte("a"), Value: []byte("b")},
		{Key: []byte{0}},
		{Key: []byte{0, 0}},
		{Headers: []kgo.RecordHeader{h("", nil)}},
		{Headers: []kgo.RecordHeader{h("", []byte{})}},
		{Headers: []kgo.RecordHeader{h("", nil), h("", nil)}},
		{Headers: []kgo.RecordHeader{h("a", []byte("b"))}},
		{Headers: []kgo.RecordHeader{h("ab", nil)}},
		{Headers: []kgo.RecordHeader{h("", []byte("ab"))}},
		{Headers: []kgo.RecordHeader{h("a", nil), h("b", nil)}},
		{Headers: []kgo.RecordHeader{h("b", nil), h("a", nil)}},
		{Headers: []kgo.RecordHeader{h("eosbridge.topic", nil)}},
		{Headers: []kgo.RecordHeader{h("eosbridge.topics", nil)}},
	}
	for n := 1; n < 70; n++ { // every length around the hash's steps, and every place in it
		value := bytes.Repeat([]byte{7}, n)
		records = append(records, &kgo.Record{Value: value}, &kgo.Record{Headers: []kgo.RecordHeader{h(string(value)+"x", nil)}})
		for i := range value {
			other := bytes.Clone(value)
			other[i]++
			records = append(records, &kgo.Record{Value: other}, &kgo.Record{Headers: []kgo.RecordHeader{h(string(other)+"x", nil)}})
		}
	}
	seen := map[uint64]int{}
	for i, r := range records {
		hash, key := contentOf(viewOf(r), false)
		if k, ok := seen[hash]; ok {
			t.Errorf("records %d and %d have the same hash: %+v, %+v", k, i, records[k], r)
		}
		seen[hash] = i
		if (key == 0) != (r.Key == nil) {
			t.Errorf("key %q has the hash %d", r.Key, key)
		}
	}
}

// TestStrip: provenance headers do not count when they are ours to ignore, and others do.
func TestStrip(t *testing.T) {
	plain := &kgo.Record{Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "a"}, {Key: "eosbridge.other"}}}
	with := marked(&kgo.Record{Value: plain.Value, Headers: plain.Headers}, "in", 3, 4, "1/1")
	for strip, same := range map[bool]bool{true: true, false: false} {
		a, _ := contentOf(viewOf(plain), strip)
		b, _ := contentOf(viewOf(with), strip)
		if (a == b) != same {
			t.Errorf("strip %v: equal %v", strip, a == b)
		}
	}
}

func TestNamed(t *testing.T) {
	index := func(topic []byte, partition int32) int32 {
		if string(topic) == "in" && partition == 3 {
			return 9
		}
		return foreign
	}
	for _, row := range []struct {
		topic, output string
		offset        int64
		want          string
	}{
		{"in", "1/1", 4, "9 4 1/1"},
		{"in", "2/3", 1 << 60, "9 1152921504606846976 2/3"},
		{"other", "1/1", 4, "-2 4 1/1"},
		{"in", "0/1", 4, "-1 0 0/0"},
		{"in", "2/1", 4, "-1 0 0/0"},
		{"in", "1", 4, "-1 0 0/0"},
		{"in", "a/b", 4, "-1 0 0/0"},
		{"in", "1/99999999999999999999", 4, "-1 0 0/0"},
		{"in", "1/1", -4, "-1 0 0/0"},
	} {
		var it item
		it.named(viewOf(marked(&kgo.Record{}, row.topic, 3, row.offset, row.output)).headers, index)
		if got := fmt.Sprintf("%d %d %d/%d", it.from, it.origin, it.output, it.of); got != row.want {
			t.Errorf("%+v: %s, want %s", row, got, row.want)
		}
	}
	full := viewOf(marked(&kgo.Record{}, "in", 3, 4, "1/1")).headers
	for i, h := range full {
		var it item
		it.named(append(append([]headerView{}, full[:i]...), full[i+1:]...), index)
		if needed := string(h.name) != "eosbridge.epoch"; (it.from == unnamed) != needed {
			t.Errorf("without %s: %d", h.name, it.from)
		}
	}
}

// TestPartitionOf holds our hash against the client library's, which is the Java producer's too.
func TestPartitionOf(t *testing.T) {
	theirs := kgo.StickyKeyPartitioner(nil).ForTopic("x")
	for i := range 2000 {
		key := bytes.Repeat([]byte{byte(i), byte(i >> 3)}, i%9)
		key = append(key, fmt.Append(nil, i)[:i%4%len(fmt.Append(nil, i))]...)
		if len(key) == 0 {
			key = []byte{byte(i)}
		}
		if got, want := partitionOf(key, 0, 7), int32(theirs.Partition(&kgo.Record{Key: key}, 7)); got != want {
			t.Fatalf("key %x goes to %d, want %d", key, got, want)
		}
	}
	if got := partitionOf(nil, 12, 5); got != 2 {
		t.Errorf("a record without a key goes to %d", got)
	}
}

func TestParseFrom(t *testing.T) {
	for _, good := range []string{"", "earliest", "2026-01-31T00:00:00Z", "a/0=5", "a.b-c/0=5, a.b-c/1=0"} {
		if _, err := ParseFrom(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"latest", "yesterday", "a=5", "a/b=5", "a/0=", "a/0=-1", "/0=1", "a/0=1,", "a/-1=1"} {
		if _, err := ParseFrom(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// viewOf shows a record of the client as one that was decoded here.
func viewOf(r *kgo.Record) *view {
	v := &view{offset: r.Offset, time: r.Timestamp.UnixMilli(), appended: r.Attrs.TimestampType() == 1, key: r.Key, value: r.Value}
	for _, h := range r.Headers {
		v.headers = append(v.headers, headerView{[]byte(h.Key), h.Value})
	}
	return v
}
