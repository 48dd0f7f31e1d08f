package cluster

import (
	"testing"

	"github.com/eosbridge/eosbridge/test/e2e"
	"github.com/eosbridge/eosbridge/test/kafka"
)

// quickGroups lets members of the consumer protocol (KIP-848) be told of changes
// within a second, and has the session timeout that the rig's transaction
// timeout asks for. The brokers' minimums are 45 s and 5 s.
var quickGroups = map[string]string{
	"group.consumer.session.timeout.ms":        "20000",
	"group.consumer.min.session.timeout.ms":    "5000",
	"group.consumer.heartbeat.interval.ms":     "1000",
	"group.consumer.min.heartbeat.interval.ms": "500",
}

// TestClusterRollingRestart restarts all nodes in order, one after the other,
// twice. During the second time another process joins and leaves.
func TestClusterRollingRestart(t *testing.T) {
	c := startCluster(t, kafka.Options{Properties: quickGroups})
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			r, a := newRig(t, c, plan{place: apart, settings: map[string]string{"BRIDGE_GROUP_PROTOCOL": protocol}})
			var b *life
			for round := range 2 {
				for i, n := range c.Nodes() {
					if err := n.Stop(); err != nil {
						t.Fatal(err)
					}
					if round == 1 && i == 1 {
						b = r.start(t, "b") // while a node is away
					}
					r.commits(t, a)
					r.restart(t, n)
				}
				r.commits(t, a)
			}
			r.await(t, b, 0, "an assignment", e2e.Message("partitions assigned"))
			r.commits(t, b)
			r.finish(t)
			r.elect(t, r.allTopics(t)...)
		})
	}
}
