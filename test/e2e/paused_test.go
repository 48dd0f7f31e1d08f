package e2e

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestPausedPastTheTransaction stops a process for longer than its transaction
// may last and shorter than its session: the broker aborts the transaction, the
// answers look as if somebody else had taken over, and nobody has. The process
// goes on by itself.
func TestPausedPastTheTransaction(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := newRig(t, c, plan{in: 2, out: 3, settings: map[string]string{
			"BRIDGE_EPOCH_TIMEOUT":     "1s",
			"BRIDGE_TXN_TIMEOUT":       "2500ms",
			"BRIDGE_SESSION_TIMEOUT":   "30s",
			"BRIDGE_REBALANCE_TIMEOUT": "30s",
		}})
		rng := seeded(t)
		stopWatch := r.watched(t)
		feed := r.feed(t, 500)
		p := r.start(t, "a")
		awaitCommit(t, p, 0)
		for range size(2, 10) {
			pause(t, between(rng, 0, 200*time.Millisecond))
			if err := p.Stop(); err != nil {
				t.Fatal(err)
			}
			pause(t, 4500*time.Millisecond) // the broker looks for old transactions every second
			mark := p.Log.Len()
			if err := p.Continue(); err != nil {
				t.Fatal(err)
			}
			awaitCommit(t, p, mark)
		}
		feed.finish(t)
		r.settle(t)
		stopWatch()
		stop(t, p)
		r.exact(t)
		r.record(t, "")
		t.Logf("%d epochs aborted", p.Log.Count("epoch aborted"))
	})
}

// TestTimestampsOfTheBroker reads a topic whose times the broker has set
// (LogAppendTime): they are the records' times, and arrive as they are.
func TestTimestampsOfTheBroker(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := newRig(t, c, plan{in: 1, out: 1, preserve: true})
		in := c.Topic(t, 1, "message.timestamp.type=LogAppendTime")
		out := c.Topic(t, 1)
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		for range 3 {
			for range 5 {
				cl.Produce(t.Context(), &kgo.Record{Topic: in, Value: []byte("x"), Timestamp: time.UnixMilli(1)}, nil)
			}
			if err := cl.Flush(within(t, patience)); err != nil {
				t.Fatal(err)
			}
			pause(t, 5*time.Millisecond)
		}
		p := r.startWith(t, "a", map[string]string{
			"BRIDGE_INPUT_TOPICS": in, "BRIDGE_OUTPUT_TOPIC": out, "BRIDGE_GROUP_ID": out + "-group",
		}, "--until-end")
		exits(t, p, 0)
		want, got := times(t, c, in), times(t, c, out)
		if len(want) != 15 || len(got) != 15 {
			t.Fatalf("%d records in, %d out, want 15", len(want), len(got))
		}
		for i := range want {
			if !want[i].Equal(got[i]) || want[i].Year() < 2020 {
				t.Errorf("record %d: %v in, %v out", i, want[i], got[i])
			}
		}
	})
}

// times are those of the 15 records in partition 0 of a topic.
func times(t *testing.T, c *kafka.Cluster, topic string) []time.Time {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := within(t, patience)
	var all []time.Time
	for len(all) < 15 {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { all = append(all, r.Timestamp) })
		if ctx.Err() != nil {
			t.Fatalf("%d records in topic %s", len(all), topic)
		}
	}
	return all
}
