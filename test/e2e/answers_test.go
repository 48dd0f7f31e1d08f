package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestLostAnswers loses the broker's answers to the requests that make an epoch
// true: after the broker has acted the connection ends, is reset, stays silent,
// or brings an unknown error; or the request itself is lost, or refused with that
// error. Once, and again and again. The bridge cannot tell what has happened, and
// every row is exact.
func TestLostAnswers(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for _, key := range []kmsg.Key{kmsg.EndTxn, kmsg.TxnOffsetCommit, kmsg.Produce} {
			for _, fault := range []Fault{CutEOF, CutReset, Swallow, UnknownError, CutRequest, Refuse} {
				t.Run(fmt.Sprintf("%s %s", key.Name(), fault), func(t *testing.T) {
					t.Parallel()
					lostAnswers(t, c, key, fault)
				})
			}
		}
	})
}

// lostAnswers loses one answer, waits for a commit after it, and then loses
// every second one for a while.
func lostAnswers(t *testing.T, c *kafka.Cluster, key kmsg.Key, fault Fault) {
	t.Helper()
	proxy, err := StartProxy(c.Bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	// A restart's delay is kept short, so that more of them fit into the test.
	r := newRig(t, c, plan{in: 2, out: 3, address: proxy.Addr(), settings: map[string]string{"BRIDGE_RESTART_MAX_DELAY": "500ms"}})
	stopWatch := r.watched(t)
	feed := r.feed(t, 500)
	p := r.start(t, "a")
	awaitCommit(t, p, 0)

	lose := func(rule Rule) {
		t.Helper()
		proxy.Set(&rule)
		eventually(t, "a lost answer", func() bool { return proxy.Hits() >= rule.Times || !p.Alive() })
		mark := p.Log.Len()
		proxy.Set(nil)
		awaitCommit(t, p, mark)
	}
	lose(Rule{Key: key, Fault: fault, Every: 1, Times: 1})
	times := size(3, 8)
	if fault == Swallow {
		times = size(1, 3) // each costs seconds
	}
	lose(Rule{Key: key, Fault: fault, Every: 2, Times: times})

	feed.finish(t)
	r.settle(t)
	stopWatch()
	r.exact(t)
	t.Logf("%d epochs aborted, in %v", p.Log.Count("epoch aborted"), time.Since(p.Started).Round(time.Millisecond))
	stop(t, p)
}
