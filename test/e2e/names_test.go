package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// shortSessions are time-outs that let a session end within a test. Rule: twice
// the epoch's, below the transaction's, below the session's.
var shortSessions = map[string]string{
	"BRIDGE_EPOCH_TIMEOUT":     "1s",
	"BRIDGE_TXN_TIMEOUT":       "5s",
	"BRIDGE_SESSION_TIMEOUT":   "6s",
	"BRIDGE_REBALANCE_TIMEOUT": "8s",
}

// shortConsumerSessions start a broker whose session time-out for KIP-848 is short.
var shortConsumerSessions = map[string]string{
	"group.consumer.session.timeout.ms":        "6000",
	"group.consumer.min.session.timeout.ms":    "1000",
	"group.consumer.heartbeat.interval.ms":     "1000",
	"group.consumer.min.heartbeat.interval.ms": "500",
}

// withShortSessions runs a test with both protocols where the version has them.
func withShortSessions(t *testing.T, test func(*testing.T, *rig)) {
	pipeline := func(t *testing.T, c *kafka.Cluster, protocol string) {
		settings := map[string]string{"BRIDGE_GROUP_PROTOCOL": protocol}
		for name, value := range shortSessions {
			settings[name] = value
		}
		test(t, newRig(t, c, plan{in: 2, out: 3, settings: settings}))
	}
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		t.Run("classic", func(t *testing.T) {
			t.Parallel()
			pipeline(t, c, "classic")
		})
		if c.Version() == kafka.V44 {
			t.Run("consumer", func(t *testing.T) {
				t.Parallel()
				pipeline(t, kafka.Start(t, kafka.Options{Version: kafka.V44, Properties: shortConsumerSessions}), "consumer")
			})
		}
	})
}

// TestZombie stops the owner for longer than its session, lets another process
// take over its name, and lets the first go on: it ends with 75, and everything
// is exact.
func TestZombie(t *testing.T) {
	withShortSessions(t, func(t *testing.T, r *rig) {
		rng := seeded(t)
		stopWatch := r.watched(t)
		feed := r.feed(t, 500)
		owner := r.start(t, "a")
		for range size(1, 5) {
			awaitCommit(t, owner, 0)
			pause(t, between(rng, 0, 200*time.Millisecond))
			if err := owner.Stop(); err != nil {
				t.Fatal(err)
			}
			successor := r.start(t, "a")
			awaitCommit(t, successor, 0)
			pause(t, 7*time.Second)
			if err := owner.Continue(); err != nil {
				t.Fatal(err)
			}
			mark := successor.Log.Len()
			exits(t, owner, 75)
			awaitCommit(t, successor, mark)
			owner = successor
		}
		feed.finish(t)
		r.settle(t)
		stopWatch()
		if aborted := owner.Log.Count("epoch aborted"); aborted > 0 {
			t.Logf("the zombie cost its successor %d epochs", aborted)
		}
		stop(t, owner)
		r.exact(t)
		r.record(t, "")
	})
}

// TestSleeper stops an owner for longer than its session while a process of
// another name takes over its partitions. Its own name is still its own when it
// goes on: it does not end, and everything is exact.
func TestSleeper(t *testing.T) {
	withShortSessions(t, func(t *testing.T, r *rig) {
		rng := seeded(t)
		stopWatch := r.watched(t)
		feed := r.feed(t, 500)
		sleeper := r.start(t, "a")
		awaitCommit(t, sleeper, 0)
		pause(t, between(rng, 0, 200*time.Millisecond))
		if err := sleeper.Stop(); err != nil {
			t.Fatal(err)
		}
		other := r.start(t, "b")
		awaitCommit(t, other, 0) // once the session has ended
		awaitCommit(t, other, other.Log.Len())
		mark := sleeper.Log.Len()
		if err := sleeper.Continue(); err != nil {
			t.Fatal(err)
		}
		awaitCommit(t, sleeper, mark)
		feed.finish(t)
		r.settle(t)
		stopWatch()
		stop(t, sleeper)
		stop(t, other)
		r.exact(t)
		r.record(t, "")
	})
}

// TestRemovedMember freezes a member in the middle of an epoch, removes it from
// the group by hand, and lets another take its partitions over, all within the
// transaction's time-out. When it goes on, its producer is still good, and only
// the member's credential in TxnOffsetCommit (KIP-447) keeps its epoch out.
func TestRemovedMember(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for _, protocol := range protocols(c) {
			t.Run(protocol, func(t *testing.T) {
				t.Parallel()
				proxy := distant(t, c)
				proxy.SetDelay(20 * time.Millisecond) // wide steps
				removedMember(t, newRig(t, c, plan{
					in: 2, out: 3, address: proxy.Addr(), settings: map[string]string{
						"BRIDGE_GROUP_PROTOCOL": protocol,
						// If the frozen epoch has its positions in the transaction already, the
						// successor waits for it to end, and ends it itself after twice this time.
						"BRIDGE_EPOCH_TIMEOUT": "2s",
					},
				}))
			})
		}
	})
}

func removedMember(t *testing.T, r *rig) {
	t.Helper()
	rng := seeded(t)
	stopWatch := r.watched(t)
	feed := r.feed(t, 500)
	sleeper := r.start(t, "a")
	var takeovers []time.Duration
	for range size(3, 10) {
		awaitCommit(t, sleeper, sleeper.Log.Len())
		mark := sleeper.Log.Len()
		step := []string{StepBarrier, StepAligned, StepFlushed}[rng.IntN(3)]
		await(t, sleeper, mark, step, Message(step))
		if err := sleeper.Stop(); err != nil {
			t.Fatal(err)
		}
		left, err := r.adm.LeaveGroup(within(t, patience), kadm.LeaveGroup(r.group).InstanceIDs("a").Reason("removed by a test"))
		if err == nil {
			err = left.Error()
		}
		if err != nil {
			t.Fatalf("remove the member: %v", err)
		}
		other := r.start(t, "b")
		took := awaitCommit(t, other, 0).At.Sub(other.Started)
		takeovers = append(takeovers, took)
		if took > 25*time.Second {
			t.Errorf("the successor waited %v: the frozen member's transaction was not swept, it timed out", took)
			t.Logf("%s", other.Log.Tail(60))
		}
		mark = sleeper.Log.Len()
		if err := sleeper.Continue(); err != nil {
			t.Fatal(err)
		}
		awaitCommit(t, other, other.Log.Len())
		stop(t, other)
		await(t, sleeper, mark, "joining", State("joining"))
	}
	awaitCommit(t, sleeper, sleeper.Log.Len())
	feed.finish(t)
	r.settle(t)
	stopWatch()
	r.exact(t)
	r.record(t, "")
	t.Logf("%d epochs aborted; start of the successor to its first commit: %s", sleeper.Log.Count("epoch aborted"), spread(takeovers))
	stop(t, sleeper)
}

// supervisor keeps a process running as systemd or Kubernetes would, except
// after status 75.
type supervisor struct {
	mu     sync.Mutex
	codes  []int // of the lives that ended
	latest *Process
	done   chan struct{}
}

func supervise(ctx context.Context, t *testing.T, r *rig, instance string) *supervisor {
	t.Helper()
	s := &supervisor{done: make(chan struct{}), latest: r.start(t, instance)}
	go func() { // ended by status 75, or by ctx
		defer close(s.done)
		for {
			p := s.present()
			select {
			case <-p.Exited():
			case <-ctx.Done():
				return
			}
			code, _ := p.Wait(ctx) // it has ended
			s.mu.Lock()
			s.codes = append(s.codes, code)
			s.mu.Unlock()
			if code == 75 || ctx.Err() != nil {
				return
			}
			next, err := Launch(bridgeBinary(t), r.environ(instance, nil), "run")
			if err != nil {
				t.Error(err)
				return
			}
			r.mu.Lock()
			r.lives = append(r.lives, &life{next, instance})
			r.mu.Unlock()
			s.mu.Lock()
			s.latest = next
			s.mu.Unlock()
		}
	}()
	return s
}

func (s *supervisor) present() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

func (s *supervisor) ended() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.codes...)
}

// TestTwoOfOneName runs two live processes under one instance id, both
// supervised: the newest wins, the other ends with 75 in its first life, and
// after that there is peace.
func TestTwoOfOneName(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for _, protocol := range protocols(c) {
			t.Run(protocol, func(t *testing.T) {
				t.Parallel()
				twoOfOneName(t, newRig(t, c, plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_GROUP_PROTOCOL": protocol}}))
			})
		}
	})
}

func twoOfOneName(t *testing.T, r *rig) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopWatch := r.watched(t)
	feed := r.feed(t, 500)
	holder := supervise(ctx, t, r, "a")
	awaitCommit(t, holder.present(), 0)
	for range size(2, 5) {
		newcomer := supervise(ctx, t, r, "a")
		awaitCommit(t, newcomer.present(), 0)
		select {
		case <-holder.done:
		case <-within(t, patience).Done():
			t.Fatalf("the earlier process goes on beside the newest; it ended %v", holder.ended())
		}
		if codes := holder.ended(); len(codes) != 1 || codes[0] != 75 {
			t.Errorf("the earlier process ended with %v, want 75 once", codes)
		}
		mark := newcomer.present().Log.Len()
		pause(t, 4*time.Second) // longer than a heartbeat: nobody may come back
		awaitCommit(t, newcomer.present(), mark)
		if codes := newcomer.ended(); codes != nil {
			t.Errorf("the newest ended, too: %v", codes)
		}
		holder = newcomer
	}
	feed.finish(t)
	r.settle(t)
	stopWatch()
	cancel()
	<-holder.done
	stop(t, holder.present())
	r.exact(t)
	r.record(t, "")
}
