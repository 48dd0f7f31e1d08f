package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestMembersComeAndGo has one member that stays and one that joins and leaves
// again and again, every second time by SIGKILL. It reports what a graceful
// change of members costs.
func TestMembersComeAndGo(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for _, protocol := range protocols(c) {
			t.Run(protocol, func(t *testing.T) {
				t.Parallel()
				membersComeAndGo(t, c, protocol)
			})
		}
	})
}

func membersComeAndGo(t *testing.T, c *kafka.Cluster, protocol string) {
	t.Helper()
	r := newRig(t, c, plan{in: 4, out: 3, settings: map[string]string{"BRIDGE_GROUP_PROTOCOL": protocol}})
	stopWatch := r.watched(t)
	feed := r.feed(t, 1000)
	stays := r.start(t, "stays")
	awaitCommit(t, stays, 0)

	var joins, silences, gaps []time.Duration
	aborted, graceful := 0, 0
	cycles := size(6, 20)
	if protocol == "consumer" {
		cycles = size(4, 20) // the broker's heartbeat interval of 5 s is in each
	}
	for cycle := range cycles {
		mark, before := stays.Log.Len(), time.Now()
		r.gaps.begin()
		guest := r.start(t, "guest")
		joins = append(joins, awaitCommit(t, guest, 0).At.Sub(guest.Started))
		if cycle%2 == 1 {
			awaitCommit(t, guest, guest.Log.Len())
			kill(t, guest)
			continue
		}
		left := stays.Log.Len()
		stop(t, guest)
		awaitCommit(t, stays, left) // and it has the partitions back soon
		graceful++
		gaps = append(gaps, r.gaps.end())
		for _, p := range []*Process{stays, guest} {
			for _, e := range p.Log.Events(0) {
				if e.Message == "epoch aborted" && e.At.After(before) {
					aborted++
				}
			}
		}
		silences = append(silences, longestSilence(before, stays.Log.Events(mark), guest.Log.Events(0)))
	}
	feed.finish(t)
	// A killed guest's partitions are its own until its session ends: take them back.
	last := r.start(t, "guest")
	awaitRunning(t, last)
	r.settle(t)
	stopWatch()
	stop(t, last)
	stop(t, stays)
	r.exact(t)
	t.Logf("start of the process to the joiner's first commit: %s", spread(joins))
	t.Logf("per graceful join and leave: %d epochs aborted in %d; longest time without a commit of either: %s; without a record of any one partition: %s",
		aborted, graceful, spread(silences), spread(gaps))
	r.record(t, fmt.Sprintf("%s: %d graceful joins and leaves, %d epochs aborted in them; without a commit: %s", protocol, graceful, aborted, spread(silences)))
}

// longestSilence is the longest time between two commits of any of the processes.
func longestSilence(from time.Time, logs ...[]Event) time.Duration {
	var longest time.Duration
	for last := from; ; {
		next := time.Time{}
		for _, events := range logs {
			for _, e := range events {
				if e.Message == StepCommitted && e.At.After(last) && (next.IsZero() || e.At.Before(next)) {
					next = e.At
				}
			}
		}
		if next.IsZero() {
			return longest
		}
		longest = max(longest, next.Sub(last))
		last = next
	}
}

// TestIdleMemberLetsJoin has a member with nothing to read: a joiner gets its
// share long before the rebalance timeout of 60 s.
func TestIdleMemberLetsJoin(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for _, protocol := range protocols(c) {
			t.Run(protocol, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, c, plan{in: 4, out: 3, settings: map[string]string{"BRIDGE_GROUP_PROTOCOL": protocol}})
				r.feedNow(t, 40)
				idle := r.start(t, "idle")
				r.settle(t)
				joiner := r.start(t, "joiner")
				awaitAssigned(t, joiner)
				// It commits only what it reads itself.
				feed := r.feed(t, 100)
				took := awaitCommit(t, joiner, 0).At.Sub(joiner.Started)
				if took > 40*time.Second {
					t.Errorf("the idle member held up the joiner for %v", took)
				}
				t.Logf("the joiner's first commit was %v after its start", took.Round(time.Millisecond))
				feed.finish(t)
				r.settle(t)
				stop(t, joiner)
				stop(t, idle)
				r.exact(t)
				r.record(t, "")
			})
		}
	})
}

// TestRevokedWhileCarrying moves partitions while the positions of epochs
// without output are still carried: most records are filtered out, members come
// and go, and every second one is killed.
func TestRevokedWhileCarrying(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for _, protocol := range protocols(c) {
			t.Run(protocol, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, c, plan{in: 4, out: 3, form: keepBlocks, settings: map[string]string{
					"BRIDGE_GROUP_PROTOCOL": protocol,
					"BRIDGE_TRANSFORM":      "filter_header(keep=yes)",
				}})
				rng := seeded(t)
				stopWatch := r.watched(t)
				feed := r.feed(t, 1000)
				stays := r.start(t, "stays")
				awaitCommit(t, stays, 0)
				for cycle := range size(4, 20) {
					guest := r.start(t, "guest")
					awaitAssigned(t, guest)
					pause(t, between(rng, 0, 1500*time.Millisecond))
					if cycle%2 == 1 {
						kill(t, guest)
					} else {
						stop(t, guest)
					}
				}
				feed.finish(t)
				last := r.start(t, "guest")
				awaitRunning(t, last)
				r.settle(t)
				stopWatch()
				stop(t, last)
				stop(t, stays)
				r.exact(t)
				r.record(t, "")
				t.Logf("%d epochs aborted in the member that stayed", stays.Log.Count("epoch aborted"))
			})
		}
	})
}
