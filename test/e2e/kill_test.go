package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// killer ends one process after the other with SIGKILL: every second one early
// in its life, the others after a commit, at a random step of an epoch.
type killer struct {
	rng   *rand.Rand
	kills int
	hits  map[string]int // by the last step that the log shows
}

func newKiller(rng *rand.Rand) *killer { return &killer{rng: rng, hits: make(map[string]int)} }

// kill waits for the planned moment of the process's life and ends it.
func (k *killer) kill(t *testing.T, p *Process) {
	t.Helper()
	if k.kills%2 == 0 {
		k.early(t, p)
	} else {
		k.late(t, p)
	}
	kill(t, p)
	k.hits[p.Log.LastStep()]++
	k.kills++
}

// early waits 30 to 900 ms from the start.
func (k *killer) early(t *testing.T, p *Process) {
	t.Helper()
	pause(t, time.Until(p.Started.Add(between(k.rng, 30*time.Millisecond, 900*time.Millisecond))))
}

// late waits for up to three commits and then for a random step of the epoch
// after, and strikes there, or up to 3 ms later.
func (k *killer) late(t *testing.T, p *Process) {
	t.Helper()
	mark := 0
	for range 1 + k.rng.IntN(3) {
		awaitCommit(t, p, mark)
		mark = p.Log.Len()
	}
	step := Steps[k.rng.IntN(len(Steps))]
	await(t, p, mark, step, Message(step))
	if k.rng.IntN(2) == 0 {
		pause(t, between(k.rng, 0, 3*time.Millisecond))
	}
}

// String says how many kills hit each step.
func (k *killer) String() string {
	parts := []string{fmt.Sprintf("%d kills, by the last step in the log:", k.kills)}
	for _, step := range append([]string{StepNone}, Steps...) {
		parts = append(parts, fmt.Sprintf("%q %d", step, k.hits[step]))
	}
	return strings.Join(parts, " ")
}

// distant puts 5 ms between the bridge and its broker: on loopback a step of the
// protocol takes less time than a signal, and no kill would hit it.
func distant(t *testing.T, c *kafka.Cluster) (address string) {
	t.Helper()
	proxy, err := StartProxy(c.Bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	proxy.SetDelay(5 * time.Millisecond)
	return proxy.Addr()
}

// TestKill is Kafka's own bar for exactly-once, with more kills: keyed records
// fed at a steady pace from two partitions into three, the bridge killed again
// and again, one reader from the start and one at the end.
func TestKill(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := newRig(t, c, plan{in: 2, out: 3, address: distant(t, c)})
		killedRun(t, r, size[int64](12_000, 100_000), size(8, 20))
	})
}

// TestKillOrder is the variant with one partition, in which the output is the
// input, in its order.
func TestKillOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := newRig(t, c, plan{in: 1, out: 1, preserve: true, address: distant(t, c)})
		killedRun(t, r, size[int64](6_000, 33_333), size(6, 20))
	})
}

// killedRun feeds at least so many records while the bridge is killed at least
// so many times, and then wants everything exact.
func killedRun(t *testing.T, r *rig, records int64, kills int) {
	t.Helper()
	k := newKiller(seeded(t))
	feed := r.feed(t, 4000)
	stopWatch := r.watched(t)
	for k.kills < kills || r.input.Acked() < records {
		k.kill(t, r.start(t, "a"))
	}
	feed.finish(t)
	last := r.start(t, "a")
	awaitRunning(t, last) // all may have been bridged before
	r.settle(t)
	stopWatch()
	stop(t, last)
	r.exact(t)
	t.Log(k)
}
