package e2e

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// firstOwn is the first header that a dead letter has beyond those of its record.
const firstOwn = "eosbridge.dlq.topic"

// poisoned is a pipeline in which one record of twenty cannot be read: the condition asks for a number and finds "no".
// Those are not to be in the output.
func poisoned(p plan, dlq string) plan {
	p.form = func(f *oracle.Form) { f.Keep = func(o oracle.Origin) bool { return o.Seq%20 != 7 } }
	settings := map[string]string{
		"BRIDGE_TRANSFORM": `filter(headers.keep == "yes" || int(headers.keep) > 0)`,
		"BRIDGE_ON_ERROR":  "dlq", "BRIDGE_DLQ_TOPIC": dlq,
	}
	maps.Copy(settings, p.settings)
	p.settings = settings
	return p
}

// letters reads all dead letters that a read_committed reader sees.
func letters(t *testing.T, c *kafka.Cluster, dlq string) []*kgo.Record {
	t.Helper()
	ends, err := c.Admin(t).ListCommittedOffsets(within(t, patience), dlq)
	if err != nil {
		t.Fatal(err)
	}
	at, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if at[o.Partition] = kgo.NewOffset().AtStart(); o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	cl := c.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{dlq: at}), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer cl.Close()
	var all []*kgo.Record
	for len(left) > 0 {
		fetches := cl.PollFetches(within(t, patience))
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				all = append(all, r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return all
}

// undone is the record that a dead letter was.
func undone(r *kgo.Record) *kgo.Record {
	for i, h := range slices.Backward(r.Headers) {
		if h.Key == firstOwn {
			was := *r
			was.Headers = r.Headers[:i]
			return &was
		}
	}
	return r
}

// dead demands that the dead letters are exactly the records that may not be in the output, whole and once each, and
// answers how many.
func (r *rig) dead(t *testing.T, dlq string) int {
	t.Helper()
	found := map[oracle.Origin]bool{}
	last := map[oracle.Source]int64{}
	for _, letter := range letters(t, r.cluster, dlq) {
		was := undone(letter)
		o, err := oracle.OriginOf(was)
		if err != nil {
			t.Errorf("a dead letter without origin at offset %d: %v", letter.Offset, letter.Headers)
			continue
		}
		offset, known := r.input.Offset(o)
		want := r.form.Record(o)
		switch {
		case found[o]:
			t.Errorf("two dead letters of %s", o)
		case r.form.Keep(o):
			t.Errorf("a dead letter of %s, which is in the output", o)
		case !known, header(letter, firstOwn) != o.Topic, header(letter, "eosbridge.dlq.partition") != fmt.Sprint(o.Partition), header(letter, "eosbridge.dlq.offset") != fmt.Sprint(offset):
			t.Errorf("the dead letter of %s, at offset %d, names another record: %v", o, offset, letter.Headers)
		case string(want.Key) != string(was.Key), string(want.Value) != string(was.Value), (want.Value == nil) != (was.Value == nil),
			!want.Timestamp.Equal(was.Timestamp), fmt.Sprint(want.Headers) != fmt.Sprint(was.Headers):
			t.Errorf("the dead letter of %s is not what it was: %v, was %v", o, was, want)
		case last[o.Source] > o.Seq:
			t.Errorf("the dead letter of %s is behind that of %d", o, last[o.Source])
		}
		found[o], last[o.Source] = true, o.Seq
	}
	missing := 0
	for _, s := range r.input.Sources() {
		for seq := range r.input.Count(s) {
			if o := (oracle.Origin{Source: s, Seq: seq}); !r.form.Keep(o) && !found[o] {
				missing++
			}
		}
	}
	if missing > 0 {
		t.Errorf("%d records are neither in the output nor dead letters", missing)
	}
	return len(found)
}

// TestDLQKill: 5 % of the records cannot be bridged, and the bridge is killed again and again; -long does it 50 times.
// Each record is in exactly one of output and dead letters.
func TestDLQKill(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		dlq := c.Topic(t, 2)
		r := killedRig(t, c, poisoned(plan{in: 2, out: 3}, dlq), size[int64](6_000, 100_000), size(5, 50))
		n := r.dead(t, dlq)
		if n == 0 {
			t.Error("there was nothing to be dead")
		}
		t.Logf("%d dead letters", n)
	})
}

// TestDLQReplay: what was a dead letter goes back into the input once, although the replay is killed, and from there to the
// output, once what it failed at is corrected.
func TestDLQReplay(t *testing.T) {
	c := kafka.Shared(t, kafka.V44)
	t.Parallel()
	dlq := c.Topic(t, 1)
	r := newRig(t, c, poisoned(plan{in: 2, out: 2, preserve: true}, dlq))
	r.feedNow(t, 4_000)
	exits(t, r.start(t, "a", "--until-end"), 0)
	if n := r.dead(t, dlq); n != 200 {
		t.Fatalf("%d dead letters, want 200", n)
	}
	replay := func() *Process {
		p, err := Launch(bridgeBinary(t), r.environ("a", nil), "dlq", "replay")
		if err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lives = append(r.lives, &life{p, "the replay"})
		return p
	}
	killed := replay()
	await(t, killed, 0, "a gate", Message(StepFlushed))
	kill(t, killed)
	exits(t, replay(), 0)
	exits(t, replay(), 0) // has nothing left to do
	again := map[oracle.Origin]int{}
	for _, record := range r.all(t, r.in) {
		o, err := oracle.OriginOf(record)
		if err != nil || strings.Contains(fmt.Sprint(record.Headers), "eosbridge.") || record.Partition != o.Partition {
			t.Fatalf("partition %d has %v", record.Partition, record)
		}
		again[o]++
	}
	for o, n := range again {
		if want := map[bool]int{true: 1, false: 2}[r.form.Keep(o)]; n != want {
			t.Errorf("%s is %d times in the input, want %d", o, n, want)
		}
	}
	if len(again) != 4_000 {
		t.Errorf("%d records in the input", len(again))
	}
	exits(t, r.startWith(t, "a", map[string]string{"BRIDGE_TRANSFORM": ""}, "--until-end"), 0)
	if n := len(r.all(t, r.out)); n != 4_000 {
		t.Errorf("%d records in the output, want all", n)
	}
}

// all reads a topic as a read_committed reader does.
func (r *rig) all(t *testing.T, topic string) []*kgo.Record { return letters(t, r.cluster, topic) }

// TestDLQRefused: what only the broker refuses. Its clock is not ours, so a time that is a little too far ahead is left for it
// to judge; a record of which nobody knew that it is too large comes with the next reading of the topic's configuration.
func TestDLQRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for name, passThrough := range map[string]string{"decoded": "off", "pass-through": "auto"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dlq := c.Topic(t, 1, "message.timestamp.after.max.ms=9223372036854775807")
				in := c.Topic(t, 2, "message.timestamp.after.max.ms=9223372036854775807")
				out := c.Topic(t, 2, "message.timestamp.after.max.ms=1000", "max.message.bytes=20000")
				cl := c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
				var records []*kgo.Record
				write := func(p int32, value []byte, at time.Time) {
					records = append(records, &kgo.Record{Topic: in, Partition: p, Value: value, Timestamp: at})
				}
				now, soon := time.Now().Add(-time.Hour), time.Now().Add(4*time.Minute)
				noise := make([]byte, 40_000)
				_, _ = rand.Read(noise) // never fails
				for i := range 300 {
					switch i {
					case 50, 51, 250:
						write(0, fmt.Appendf(nil, "too late %d", i), soon)
					case 150:
						write(0, noise, now)
					default:
						write(0, fmt.Append(nil, i), now)
					}
					write(1, fmt.Append(nil, i), now)
				}
				if err := cl.ProduceSync(within(t, patience), records...).FirstErr(); err != nil {
					t.Fatal(err)
				}
				r := &rig{cluster: c, adm: c.Admin(t), in: in, out: out, group: out + "-group", plan: plan{preserve: true, settings: map[string]string{
					"BRIDGE_ON_ERROR": "dlq", "BRIDGE_DLQ_TOPIC": dlq, "BRIDGE_PASS_THROUGH": passThrough,
				}}}
				t.Cleanup(func() { r.cleanUp(t) })
				exits(t, r.start(t, "a", "--until-end"), 0)
				classes := map[string]string{}
				for _, letter := range letters(t, c, dlq) {
					classes[header(letter, "eosbridge.dlq.offset")] += header(letter, "eosbridge.dlq.class") + header(letter, "eosbridge.dlq.attempts")
				}
				if want := map[string]string{"50": "timestamp2", "51": "timestamp2", "250": "timestamp2", "150": "too-large1"}; !maps.Equal(classes, want) {
					t.Errorf("dead letters %v, want %v", classes, want)
				}
				if n := len(r.all(t, out)); n != 596 {
					t.Errorf("%d records in the output, want 596", n)
				}
				if report := r.audit(t, 0, nil); report.Sources[0].DeadLetters != 4 || report.Sources[0].Verified != 300 {
					t.Errorf("audited: %+v", report.Sources)
				}
			})
		}
	})
}
