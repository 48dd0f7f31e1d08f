package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// killer ends one process after the other with SIGKILL: every second one early
// in its life, the others after a commit, at a random step of an epoch.
type killer struct {
	rng   *rand.Rand
	proxy *Proxy // between the bridge and the broker
	kills int
	steps map[string]int // by the last step that the log shows
	wire  map[string]int // by the request whose outcome the bridge did not know yet
}

func newKiller(rng *rand.Rand, proxy *Proxy) *killer {
	return &killer{rng: rng, proxy: proxy, steps: make(map[string]int), wire: make(map[string]int)}
}

// onTheWire are the protocol's requests, the later ones first.
var onTheWire = []kmsg.Key{kmsg.EndTxn, kmsg.TxnOffsetCommit, kmsg.AddOffsetsToTxn, kmsg.Produce, kmsg.InitProducerID}

// inFlight is the latest of the protocol's requests that has no answer yet.
func (k *killer) inFlight() string {
	for _, key := range onTheWire {
		if k.proxy.InFlight(key) {
			return key.Name()
		}
	}
	return "none"
}

// kill waits for the planned moment of the process's life and ends it.
func (k *killer) kill(t *testing.T, p *Process) {
	t.Helper()
	if k.kills%2 == 0 {
		k.early(t, p)
	} else {
		k.late(t, p)
	}
	k.wire[k.inFlight()]++
	kill(t, p)
	k.steps[p.Log.LastStep()]++
	k.kills++
}

// early waits 30 to 900 ms from the start.
func (k *killer) early(t *testing.T, p *Process) {
	t.Helper()
	pause(t, time.Until(p.Started.Add(between(k.rng, 30*time.Millisecond, 900*time.Millisecond))))
}

// late waits for up to three commits and then for a random moment of the epochs
// after: a step in the log, or one of the two decisive requests on its way. It
// strikes there, or a little later.
func (k *killer) late(t *testing.T, p *Process) {
	t.Helper()
	mark := 0
	for range 1 + k.rng.IntN(3) {
		awaitCommit(t, p, mark)
		mark = p.Log.Len()
	}
	switch n := k.rng.IntN(len(Steps) + 4); {
	case n < len(Steps):
		await(t, p, mark, Steps[n], Message(Steps[n]))
	default:
		select {
		case <-k.proxy.Next(onTheWire[n%2]): // EndTxn, TxnOffsetCommit
		case <-p.Exited():
		case <-within(t, patience).Done():
			t.Fatalf("no %s was sent", onTheWire[n%2].Name())
		}
	}
	if k.rng.IntN(2) == 0 {
		pause(t, between(k.rng, 0, 2*distance))
	}
}

// String says how many kills hit each step.
func (k *killer) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d kills; last step in the log:", k.kills)
	for _, step := range append([]string{StepNone}, Steps...) {
		fmt.Fprintf(&text, " %q %d,", step, k.steps[step])
	}
	text.WriteString(" request in flight:")
	for _, key := range onTheWire {
		fmt.Fprintf(&text, " %s %d,", key.Name(), k.wire[key.Name()])
	}
	fmt.Fprintf(&text, " none %d", k.wire["none"])
	return text.String()
}

// distance is how long each answer takes to the bridge.
const distance = 5 * time.Millisecond

// distant puts a network between the bridge and its broker: on loopback a step
// of the protocol takes less time than a signal, and no kill would hit it.
func distant(t *testing.T, c *kafka.Cluster) *Proxy {
	t.Helper()
	proxy, err := StartProxy(c.Bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	proxy.SetDelay(distance)
	return proxy
}

// TestKill is Kafka's own bar for exactly-once, with more kills: keyed records
// fed at a steady pace from two partitions into three, the bridge killed again
// and again, one reader from the start and one at the end.
func TestKill(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		killedRun(t, c, plan{in: 2, out: 3}, size[int64](12_000, 100_000), size(8, 20))
	})
}

// TestKillOrder is the variant with one partition, in which the output is the
// input, in its order. On TV2 its batches are passed through.
func TestKillOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		killedRun(t, c, plan{in: 1, out: 1, preserve: true, raw: true}, size[int64](6_000, 33_333), size(6, 20))
	})
}

// killedRun feeds at least so many records while the bridge is killed at least
// so many times, and then wants everything exact.
func killedRun(t *testing.T, c *kafka.Cluster, p plan, records int64, kills int) {
	t.Helper()
	killedRig(t, c, p, records, kills)
}

// killedRig is killedRun, for a test that looks at more.
func killedRig(t *testing.T, c *kafka.Cluster, p plan, records int64, kills int) *rig {
	t.Helper()
	proxy := distant(t, c)
	p.address = proxy.Addr()
	r := newRig(t, c, p)
	k := newKiller(seeded(t), proxy)
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
	r.record(t, k.String())
	return r
}
