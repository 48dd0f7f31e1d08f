package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/proof"
)

// abortSome refuses TxnOffsetCommit or EndTxn of about one epoch in three.
func abortSome(proxy *Proxy, seed uint64) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 2))
	proxy.SetJudge(func(key kmsg.Key, _ []byte, answer bool) (Rule, bool) {
		if answer || key != kmsg.TxnOffsetCommit && key != kmsg.EndTxn {
			return Rule{}, false
		}
		mu.Lock()
		defer mu.Unlock()
		return Rule{Fault: Refuse}, rng.IntN(11) < 2 // of both requests: 1 - (9/11)² = 0.33
	})
}

// TestHundredKills is kill -9 under load while one epoch in three is aborted at
// random: -long does it 100 times. It reports how long a kill keeps the output
// back, from SIGKILL to the next committed epoch.
func TestHundredKills(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		seed, proxy := seedOf(t), distant(t, c)
		abortSome(proxy, seed)
		r := newRig(t, c, plan{in: 2, out: 3, address: proxy.Addr(), settings: map[string]string{"BRIDGE_RESTART_MAX_DELAY": "500ms"}})
		k := newKiller(rand.New(rand.NewPCG(seed, 0)), proxy)
		began := time.Now()
		stopWatch := r.watched(t)
		feed := r.feed(t, 2000)

		var took []time.Duration // a life that was too short to commit has no part in it
		committed, aborted := 0, 0
		killed := began
		for k.kills < size(6, 100) {
			p := r.start(t, "a")
			k.kill(t, p)
			now := time.Now()
			if first, err := p.Log.Await(t.Context(), 0, Message(StepCommitted)); err == nil && killed != began {
				took = append(took, first.At.Sub(killed))
			}
			killed = now
			committed += p.Log.Count(StepCommitted)
			aborted += p.Log.Count("epoch aborted")
		}
		proxy.SetJudge(nil)
		feed.finish(t)
		last := r.start(t, "a")
		awaitRunning(t, last)
		r.settle(t)
		stopWatch()
		stop(t, last)
		r.exact(t)
		note := fmt.Sprintf("kill -9 to the next commit: %s; %d epochs committed, %d aborted at random", spread(took), committed, aborted)
		t.Logf("%s\n%s", note, k)
		proof.Record(t, proof.Result{
			Broker: c.Version(), Took: time.Since(began), Kills: int64(k.kills), Records: r.input.Acked(), Seed: seed, Note: note,
		})
	})
}
