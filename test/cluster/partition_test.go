package cluster

import (
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestClusterNetworkPartition lets the network between the bridge and one broker
// lose its packets in one direction or both, for less and for more than the
// transaction timeout. The brokers and the readers do not notice. TCP sends
// again what was lost: the broker gets requests long after the bridge gave up.
func TestClusterNetworkPartition(t *testing.T) {
	space := newNamespace(t)
	c := startCluster(t, kafka.Options{Host: space.Host()})
	const timeout = 6 * time.Second
	settings := map[string]string{
		"BRIDGE_EPOCH_TIMEOUT":     "2s",
		"BRIDGE_TXN_TIMEOUT":       timeout.String(),
		"BRIDGE_SESSION_TIMEOUT":   "8s",
		"BRIDGE_REBALANCE_TIMEOUT": "10s",
		"BRIDGE_RESTART_MAX_DELAY": "2s",
	}
	for _, d := range []Direction{ToBroker, FromBroker, Both} {
		t.Run(string(d), func(t *testing.T) {
			for _, cut := range []struct {
				name string
				time time.Duration
			}{{"shorter", timeout / 2}, {"longer", 2 * timeout}} {
				t.Run(cut.name+" than the transaction timeout", func(t *testing.T) {
					r, a := newRig(t, c, plan{place: apart, space: space, settings: settings})
					for _, pick := range []func() *kafka.Node{
						func() *kafka.Node { return r.coordinator(t, 0) },
						func() *kafka.Node { return r.groupCoordinator(t) },
						func() *kafka.Node { return r.leader(t, r.out, r.coordinator(t, 0), r.groupCoordinator(t)) },
					} {
						if err := space.Cut(d, pick().Addr()); err != nil {
							t.Fatal(err)
						}
						pause(t, cut.time)
						if err := space.Heal(); err != nil {
							t.Fatal(err)
						}
						r.commits(t, a)
					}
					r.finish(t)
				})
			}
		})
	}
}
