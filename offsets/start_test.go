package offsets

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestParseStart(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]Start{
		"":                          {},
		"earliest":                  {Kind: StartEarliest},
		"latest":                    {Kind: StartLatest},
		"2026-01-02T12:00:00Z":      {StartTime, noon},
		"2026-01-02T13:00:00+01:00": {StartTime, noon},
		"2026-01-02T12:00:00.25Z":   {StartTime, noon.Add(250 * time.Millisecond)},
		"1970-01-01T00:00:00Z":      {StartTime, time.UnixMilli(0)},
	} {
		got, err := ParseStart(text)
		if err != nil || got.Kind != want.Kind || !got.At.Equal(want.At) {
			t.Errorf("ParseStart(%q) = %v, %v, want %v", text, got, err, want)
			continue
		}
		again, err := ParseStart(got.String())
		if err != nil || again.Kind != got.Kind || !again.At.Equal(got.At) {
			t.Errorf("ParseStart(%q) prints %q, which reads as %v, %v", text, got, again, err)
		}
	}
	for _, text := range []string{
		"Earliest", "latest ", "now", "0", "-1", "2026-01-02", "2026-01-02 12:00:00", "2026-01-02T12:00:00",
		"1969-12-31T23:59:59.999Z", // -1 ms, a broker's word for "latest"
		"0001-01-01T00:00:00Z",
	} {
		if got, err := ParseStart(text); err == nil || !strings.Contains(err.Error(), "earliest") {
			t.Errorf("ParseStart(%q) = %v, %v, want an error that names a remedy", text, got, err)
		}
	}
}

func TestStartKindString(t *testing.T) {
	for kind, want := range map[StartKind]string{
		StartUnset: "unset", StartEarliest: "earliest", StartLatest: "latest", StartTime: "time", 9: "StartKind(9)",
	} {
		if got := kind.String(); got != want {
			t.Errorf("%d: %q, want %q", int(kind), got, want)
		}
	}
}

// offsetsOf drops the leader epochs, which are kfake's business.
func offsetsOf(p Positions) map[TopicPartition]int64 {
	m := make(map[TopicPartition]int64)
	for tp, at := range p {
		m[tp] = at.Offset
	}
	return m
}

func TestResolve(t *testing.T) {
	b := newBroker(t, kfake.SeedTopics(3, "in"), kfake.SeedTopics(1, "other"))
	p0, p1, p2 := TopicPartition{"in", 0}, TopicPartition{"in", 1}, TopicPartition{"in", 2}
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// Partition 0: 4 records, 2 of them deleted; partition 1: 3 records and an open transaction of 2 more;
	// partition 2: empty.
	produce(t, b.cl, p0, 3, old)
	produce(t, b.cl, p0, 1, old.Add(time.Hour))
	if err := b.DeleteRecords("in", 0, 2); err != nil {
		t.Fatal(err)
	}
	produce(t, b.cl, p1, 3, old)
	open := b.begin(t, "id")
	produce(t, open, p1, 2, old.Add(2*time.Hour))

	for _, test := range []struct {
		name  string
		start Start
		want  map[TopicPartition]int64
	}{
		{"unset", Start{}, map[TopicPartition]int64{p0: 2, p1: 0, p2: 0}},
		{"earliest", Start{Kind: StartEarliest}, map[TopicPartition]int64{p0: 2, p1: 0, p2: 0}},
		// The open transaction of partition 1 must not be skipped.
		{"latest", Start{Kind: StartLatest}, map[TopicPartition]int64{p0: 4, p1: 3, p2: 0}},
		{"time of the first", Start{StartTime, old}, map[TopicPartition]int64{p0: 2, p1: 0, p2: 0}},
		{"time in between", Start{StartTime, old.Add(time.Minute)}, map[TopicPartition]int64{p0: 3, p1: 3, p2: 0}},
		{"exact time", Start{StartTime, old.Add(time.Hour)}, map[TopicPartition]int64{p0: 3, p1: 3, p2: 0}},
		{"finer than a millisecond", Start{StartTime, old.Add(time.Hour + time.Microsecond)}, map[TopicPartition]int64{p0: 3, p1: 3, p2: 0}},
		{"after everything", Start{StartTime, old.Add(3 * time.Hour)}, map[TopicPartition]int64{p0: 4, p1: 5, p2: 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Resolve(t.Context(), b.adm, test.start, []string{"in"})
			if err != nil || !maps.Equal(offsetsOf(got), test.want) {
				t.Errorf("Resolve = %v, %v, want %v", got, err, test.want)
			}
		})
	}
	t.Run("several topics", func(t *testing.T) {
		got, err := Resolve(t.Context(), b.adm, Start{Kind: StartEarliest}, []string{"other", "in", "other"})
		if want := []TopicPartition{p0, p1, p2, {"other", 0}}; err != nil || !slices.Equal(got.Sorted(), want) {
			t.Errorf("Resolve = %v, %v, want %v", got, err, want)
		}
	})
	t.Run("no topics", func(t *testing.T) { // to kadm that means all topics
		if got, err := Resolve(t.Context(), b.adm, Start{Kind: StartLatest}, nil); err != nil || got == nil || len(got) != 0 {
			t.Errorf("Resolve = %v, %v, want nothing", got, err)
		}
	})
}

// TestResolveTimeRace: a record that arrives between the broker's answer "nothing that late" and the question for
// the end of the log must not be skipped.
func TestResolveTimeRace(t *testing.T) {
	b := newBroker(t, kfake.SeedTopics(1, "in"), kfake.NumBrokers(1), kfake.SleepOutOfOrder())
	in, at := TopicPartition{"in", 0}, time.Now()
	produce(t, b.cl, in, 2, at.Add(-time.Hour))
	other := b.client(t)
	produce(t, other, in, 1, at.Add(-time.Hour)) // the connection is up

	var asked atomic.Int32
	b.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if r.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp >= 0 {
			asked.Store(1)
			return nil, nil, false
		}
		if asked.Load() == 1 { // the question for the end that follows the one for the time
			asked.Store(2)
			b.SleepControl(func() { produce(t, other, in, 1, at) })
		}
		return nil, nil, false
	})
	got, err := Resolve(t.Context(), b.adm, Start{StartTime, at}, []string{"in"})
	if err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 2 {
		t.Fatal("kadm no longer asks twice: this test proves nothing")
	}
	if got[in].Offset != 3 {
		t.Errorf("start at %d, want 3: the record at 3 came in time", got[in].Offset)
	}
}

func TestResolveFailures(t *testing.T) {
	for _, kind := range []Start{{Kind: StartEarliest}, {Kind: StartLatest}, {StartTime, time.Now()}} {
		t.Run(kind.Kind.String(), func(t *testing.T) {
			b := newBroker(t, kfake.SeedTopics(2, "in"))
			if got, err := Resolve(t.Context(), b.adm, kind, []string{"in", "nowhere"}); got != nil ||
				!errors.Is(err, kerr.UnknownTopicOrPartition) || !strings.Contains(err.Error(), `"nowhere"`) {
				t.Errorf("missing topic: %v, %v", got, err)
			}
			// One partition without an answer must fail all of it: it would be read as "nothing there".
			f := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "in", Partitions: []int32{1}, Err: kerr.InvalidRequest, Count: -1})
			if got, err := Resolve(t.Context(), b.adm, kind, []string{"in"}); got != nil ||
				!errors.Is(err, kerr.InvalidRequest) || !strings.Contains(err.Error(), "in-1") {
				t.Errorf("one partition refused: %v, %v", got, err)
			}
			f.Remove()
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "in", Partitions: []int32{0}, Err: kerr.TopicAuthorizationFailed, Count: -1})
			if got, err := Resolve(t.Context(), b.adm, kind, []string{"in"}); got != nil || !errors.Is(err, kerr.TopicAuthorizationFailed) {
				t.Errorf("denied: %v, %v", got, err)
			}
		})
	}
	b := newBroker(t, kfake.SeedTopics(1, "in"))
	for name, start := range map[string]Start{
		"before 1970":  {StartTime, time.UnixMilli(-1)},
		"unknown kind": {Kind: 9},
	} {
		if got, err := Resolve(t.Context(), b.adm, start, []string{"in"}); err == nil {
			t.Errorf("%s resolves to %v", name, got)
		}
	}
}

func TestWritten(t *testing.T) {
	b := newBroker(t, kfake.SeedTopics(2, "a", "b", "c", "d"))
	check := func(want string, topics ...string) {
		t.Helper()
		written, err := Written(t.Context(), b.adm, topics)
		if err != nil || strings.Join(written, " ") != want {
			t.Errorf("Written(%v) = %q, %v, want %q", topics, written, err, want)
		}
	}
	check("")
	check("", "a", "b", "c")
	produce(t, b.cl, TopicPartition{"c", 1}, 1, time.Now())
	check("c", "a", "b", "c")
	check("", "a", "b")
	// What retention took away was written once.
	produce(t, b.cl, TopicPartition{"b", 0}, 2, time.Now())
	if err := b.DeleteRecords("b", 0, 2); err != nil {
		t.Fatal(err)
	}
	check("b c", "c", "b", "a")
	// An aborted transaction was written too: nobody can tell from the log's ends, and asking is the safe side.
	aborted := b.begin(t, "id")
	produce(t, aborted, TopicPartition{"d", 0}, 1, time.Now())
	end(t, aborted, kgo.TryAbort)
	check("d", "d")

	if _, err := Written(t.Context(), b.adm, []string{"a", "nowhere"}); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("missing topic: %v", err)
	}
}

func TestFirstStart(t *testing.T) {
	b := newBroker(t, kfake.SeedTopics(2, "new", "known", "part"))
	for _, topic := range []string{"new", "known", "part"} {
		produce(t, b.cl, TopicPartition{topic, 0}, 2, time.Now())
		produce(t, b.cl, TopicPartition{topic, 1}, 3, time.Now())
	}
	latest := Start{Kind: StartLatest}
	topics := []string{"part", "new", "known"}

	// Nobody has been here: all topics.
	first, err := FirstStart(t.Context(), b.adm, "g", topics, latest)
	if err != nil || len(first) != 6 {
		t.Fatalf("FirstStart of a new group = %v, %v", first, err)
	}
	if p, err := Committed(t.Context(), b.adm, "g"); err != nil || len(p) != 0 {
		t.Fatalf("FirstStart committed %v, %v", p, err)
	}

	// One position for a topic, be it 0, means that it was started before.
	b.commit(t, "g", Positions{{"known", 0}: {2, -1}, {"known", 1}: {3, -1}, {"part", 1}: {0, -1}})
	first, err = FirstStart(t.Context(), b.adm, "g", topics, latest)
	if want := map[TopicPartition]int64{{"new", 0}: 2, {"new", 1}: 3}; err != nil || !maps.Equal(offsetsOf(first), want) {
		t.Errorf("FirstStart = %v, %v, want %v", first, err, want)
	}
	if !slices.Equal(topics, []string{"part", "new", "known"}) {
		t.Errorf("the caller's topics became %v", topics)
	}

	// Committed, it is not a first start any more: a process killed in between does not resolve again.
	b.commit(t, "g", first)
	produce(t, b.cl, TopicPartition{"new", 0}, 5, time.Now())
	first, err = FirstStart(t.Context(), b.adm, "g", topics, latest)
	if err != nil || first == nil || len(first) != 0 {
		t.Errorf("second start = %v, %v, want no positions", first, err)
	}
}

func TestFirstStartFailures(t *testing.T) {
	b := newBroker(t, kfake.SeedTopics(1, "in"))
	if _, err := FirstStart(t.Context(), b.adm, "g", []string{"nowhere"}, Start{}); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("missing topic: %v", err)
	}
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: "g", Err: kerr.GroupAuthorizationFailed})
	// Unreadable positions are not "no positions".
	if p, err := FirstStart(t.Context(), b.adm, "g", []string{"in"}, Start{}); p != nil || !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Errorf("denied: %v, %v", p, err)
	}
}
