package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestTakeOver measures how long a kill keeps the output back: from SIGKILL to
// the next committed epoch of a process of the same name, started at once. The
// times are reported; what is asserted is that no time-out was waited for.
func TestTakeOver(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for _, protocol := range protocols(c) {
			t.Run(protocol, func(t *testing.T) {
				t.Parallel()
				takeOver(t, newRig(t, c, plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_GROUP_PROTOCOL": protocol}}))
			})
		}
	})
}

func takeOver(t *testing.T, r *rig) {
	t.Helper()
	rng := seeded(t)
	stopWatch := r.watched(t)
	feed := r.feed(t, 500)
	p := r.start(t, "a")
	awaitCommit(t, p, 0)
	var commits, records []time.Duration
	for range size(8, 20) {
		pause(t, between(rng, 0, 300*time.Millisecond))
		killed := time.Now()
		kill(t, p)
		p = r.start(t, "a")
		committed := awaitCommit(t, p, 0).At
		commits = append(commits, committed.Sub(killed))
		more := r.during.More()
		select {
		case <-more:
			records = append(records, time.Since(killed))
		case <-within(t, patience).Done():
			t.Fatal("no record after the commit")
		}
		if took := commits[len(commits)-1]; took > 30*time.Second {
			t.Errorf("%v to the next commit: that is a time-out of transaction (40 s) or session (45 s)", took)
		}
	}
	feed.finish(t)
	r.settle(t)
	stopWatch()
	r.exact(t)
	stop(t, p)
	t.Logf("SIGKILL to the next committed epoch: %s; to the next visible record: %s", spread(commits), spread(records))
	r.record(t, fmt.Sprintf("%s: SIGKILL to the next committed epoch: %s", r.plan.settings["BRIDGE_GROUP_PROTOCOL"], spread(commits)))
}
