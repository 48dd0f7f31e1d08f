package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// deleteBefore removes the records of an input partition below offset; -1 is
// the end of the log.
func (r *rig) deleteBefore(t *testing.T, partition int32, offset int64) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset(r.in, partition, offset, -1)
	resp, err := r.adm.DeleteRecords(within(t, patience), offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatalf("delete records: %v", err)
	}
}

// TestTransactionalSourcePastRetention reads a source that was written by
// transactions, some of them aborted, and whose records are gone when the bridge
// starts again: the position is at the log's end, behind the last marker, so it
// goes on.
func TestTransactionalSourcePastRetention(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := newRig(t, c, plan{in: 2, out: 3})
		for round := range 2 {
			p := r.start(t, "a")
			feed := r.feedAs(t, oracle.Feed{
				Total: 600, Rate: 1000, Rotten: 3, TransactionalID: r.in + "-feed",
			})
			feed.wait(t)
			r.settle(t) // also behind the markers
			if round == 0 {
				stop(t, p)
			} else {
				kill(t, p)
			}
			for partition := range int32(2) {
				r.deleteBefore(t, partition, -1)
			}
		}
		p := r.start(t, "a")
		awaitRunning(t, p)
		r.settle(t)
		r.feedNow(t, 100)
		r.exact(t)
		r.record(t, "")
		stop(t, p)
	})
}

// TestTruncatedSource deletes records that the bridge has not read: it stops,
// names both offsets, and skips nothing in silence.
func TestTruncatedSource(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := newRig(t, c, plan{in: 1, out: 1, preserve: true})
		p := r.start(t, "a")
		r.feedNow(t, 1234)
		r.settle(t)
		stop(t, p)
		r.feedNow(t, 1000)
		r.deleteBefore(t, 0, 1765)

		p = r.start(t, "a")
		exits(t, p, 1)
		last := p.Log.Events(0)[p.Log.Len()-1].Line
		for _, offset := range []string{"1234", "1765"} {
			if !p.Log.Contains(offset) {
				t.Errorf("offset %s is not in the log, which ends with %q", offset, last)
			}
		}
		if got := r.position(t, 0); got != 1234 {
			t.Errorf("position %d, want 1234", got)
		}
		if v := r.verdict(t); v.Out != 1234 || v.Duplicated.Count != 0 || !v.Undamaged() {
			t.Error(v)
		}
	})
}

// TestStartSurvivesKill begins at the end, or at a time, and is killed as soon
// as its positions are there and before any commit of an epoch. What is fed
// while it is down is not skipped.
func TestStartSurvivesKill(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for name, skip := range map[string]int64{"latest": 500, "time": 250} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, c, plan{in: 2, out: 3})
				start := "latest"
				if name == "time" {
					origin := oracle.Origin{Source: r.sources()[0], Seq: skip}
					start = r.form.Record(origin).Timestamp.UTC().Format(time.RFC3339Nano)
				}
				r.plan.settings = map[string]string{"BRIDGE_START": start}
				for _, s := range r.sources() {
					r.during.Skip(s, skip)
				}
				r.feedNow(t, 1000)
				rng := seeded(t)
				for life := range 4 {
					p := r.start(t, "a")
					if life == 0 {
						eventually(t, "positions", func() bool { return r.position(t, 0) >= 0 })
					} else {
						pause(t, between(rng, 30*time.Millisecond, 900*time.Millisecond))
					}
					kill(t, p)
					for partition := range int32(2) {
						if at := r.position(t, partition); at < skip {
							t.Errorf("position %d of partition %d, want %d or later", at, partition, skip)
						}
					}
					r.feedNow(t, 100)
				}
				p := r.start(t, "a")
				awaitRunning(t, p)
				r.exact(t)
				r.record(t, "")
				stop(t, p)
			})
		}
	})
}

// TestPartitionAddedUnderLoad adds an input partition while records are fed,
// into the new one, too, from its first offset on; BRIDGE_START=latest does not
// apply to it.
func TestPartitionAddedUnderLoad(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for _, protocol := range protocols(c) {
			t.Run(protocol, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, c, plan{in: 2, out: 3, settings: map[string]string{
					"BRIDGE_START": "latest", "BRIDGE_GROUP_PROTOCOL": protocol,
				}})
				stopWatch := r.watched(t)
				p := r.start(t, "a")
				eventually(t, "positions", func() bool { return r.position(t, 0) >= 0 && r.position(t, 1) >= 0 })
				feed := r.feed(t, 500)
				awaitCommit(t, p, 0)
				resp, err := r.adm.CreatePartitions(within(t, patience), 1, r.in)
				if err == nil {
					err = resp.Error()
				}
				if err != nil {
					t.Fatal(err)
				}
				added := oracle.Source{Topic: r.in, Partition: 2}
				if err := feed.AddSource(within(t, patience), added); err != nil {
					t.Fatal(err)
				}
				since := time.Now()
				eventually(t, "the new partition's output", func() bool {
					_, seen := r.during.Highest()[added]
					return seen
				})
				t.Logf("the new partition was bridged after %v", time.Since(since).Round(time.Millisecond))
				feed.finish(t)
				r.settle(t)
				stopWatch()
				r.exact(t)
				r.record(t, "")
				stop(t, p)
			})
		}
	})
}

// TestStartIsRefused: without positions and with an output that is not empty,
// nobody knows where to begin. The process asks, with status 78.
func TestStartIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := newRig(t, c, plan{in: 1, out: 1, preserve: true})
		p := r.start(t, "a")
		r.feedNow(t, 100)
		r.settle(t)
		stop(t, p)
		if resp, err := r.adm.DeleteGroups(within(t, patience), r.group); err != nil || resp.Error() != nil {
			t.Fatal(err, resp.Error())
		}
		p = r.start(t, "a")
		exits(t, p, 78)
		if !p.Log.Contains("BRIDGE_START") {
			t.Error("the remedy is not named")
		}
		if v := r.verdict(t); !v.Exact() {
			t.Error(fmt.Sprint("not exact: ", v))
		}
	})
}
