package e2e

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestGuarantees runs the three guarantees under the same kills, and shows what
// each promises and what it does not: exactly-once is exact, at-least-once
// repeats and loses nothing, at-most-once loses and repeats nothing.
//
// Every second kill hits while a Produce request is on its way and gets lost:
// between commit and produce at-most-once has a few milliseconds only, too
// little for a kill by chance.
func TestGuarantees(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for _, delivery := range []string{"exactly-once", "at-least-once", "at-most-once"} {
			t.Run(delivery, func(t *testing.T) {
				t.Parallel()
				proxy, err := StartProxy(c.Bootstrap())
				if err != nil {
					t.Fatal(err)
				}
				defer proxy.Close()
				r := newRig(t, c, plan{in: 2, out: 3, address: proxy.Addr(), settings: map[string]string{"BRIDGE_DELIVERY": delivery}})
				guarantee(t, r, proxy, delivery)
			})
		}
	})
}

// guarantee kills in rounds until what is not promised was seen, at most eight.
func guarantee(t *testing.T, r *rig, proxy *Proxy, delivery string) {
	t.Helper()
	rng := seeded(t)
	feed := r.feed(t, 3000)
	for round := 1; ; round++ {
		for i := range size(3, 6) {
			p := r.start(t, "a")
			awaitCommit(t, p, 0)
			pause(t, between(rng, 0, 400*time.Millisecond))
			if i%2 == 1 {
				proxy.Set(&Rule{Key: kmsg.Produce, Fault: CutRequest, Every: 1, Times: 1 << 30})
				eventually(t, "a lost Produce request", func() bool { return proxy.Hits() > 0 })
			}
			kill(t, p)
			proxy.Set(nil)
		}
		feed.finish(t)
		p := r.start(t, "a")
		awaitRunning(t, p)
		r.settle(t)
		stop(t, p)
		v := r.verdict(t)
		if !v.Undamaged() || v.OutOfOrder.Count > 0 {
			t.Fatal(v)
		}
		seen := false
		switch delivery {
		case "exactly-once":
			seen = true
			if !v.Exact() {
				t.Error(v)
			}
		case "at-least-once":
			seen = v.Duplicated.Count > 0
			if v.Lost.Count > 0 {
				t.Error(v)
			}
		case "at-most-once":
			seen = v.Lost.Count > 0
			if v.Duplicated.Count > 0 {
				t.Error(v)
			}
		}
		t.Logf("round %d: in %d, out %d, duplicated %d, lost %d", round, v.In, v.Out, v.Duplicated.Count, v.Lost.Count)
		if seen || t.Failed() {
			return
		}
		if round == 8 {
			t.Fatal("what is not promised was never seen: are these different guarantees at all?")
		}
		feed = r.feed(t, 3000)
	}
}
