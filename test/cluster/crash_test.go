package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/e2e"
	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestClusterCrash ends brokers with SIGKILL, each chosen for what it is to the
// pipeline, and starts them again a few commits later.
func TestClusterCrash(t *testing.T) {
	c := startCluster(t, kafka.Options{})
	for _, row := range []struct {
		name    string
		place   placing
		victims func(*testing.T, *rig) []*kafka.Node
	}{
		{"transaction coordinator", apart, func(t *testing.T, r *rig) []*kafka.Node {
			return []*kafka.Node{r.coordinator(t, 0)}
		}},
		{"group coordinator", apart, func(t *testing.T, r *rig) []*kafka.Node {
			return []*kafka.Node{r.groupCoordinator(t)}
		}},
		{"output leader", apart, func(t *testing.T, r *rig) []*kafka.Node {
			return []*kafka.Node{r.leader(t, r.out, r.coordinator(t, 0), r.groupCoordinator(t))}
		}},
		{"input leader", apart, func(t *testing.T, r *rig) []*kafka.Node {
			return []*kafka.Node{r.leader(t, r.in, r.coordinator(t, 0), r.groupCoordinator(t))}
		}},
		{"all coordinators and a leader on one", together, func(t *testing.T, r *rig) []*kafka.Node {
			return []*kafka.Node{r.coordinator(t, 0)} // it leads one partition of each topic, too
		}},
		{"transaction coordinator and output leader", apart, func(t *testing.T, r *rig) []*kafka.Node {
			first := r.coordinator(t, 0)
			return []*kafka.Node{first, r.leader(t, r.out, first, r.groupCoordinator(t))}
		}},
		{"all brokers", nil, func(_ *testing.T, r *rig) []*kafka.Node { return r.cluster.Nodes() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, a := newRig(t, c, plan{place: row.place})
			victims := row.victims(t, r)
			for _, n := range victims {
				if err := n.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			if len(victims) == 1 {
				r.commits(t, a) // two of three are enough
			} else {
				pause(t, 3*time.Second) // one of three has no quorum
			}
			r.restart(t, victims...)
			r.commits(t, a)
			eventually(t, "all replicas in sync", r.inSync)
			r.finish(t)
			r.elect(t, r.allTopics(t)...) // the next case finds leaders everywhere
		})
	}
}

// restart starts nodes that were ended, at the same time.
func (r *rig) restart(t *testing.T, nodes ...*kafka.Node) {
	t.Helper()
	for _, n := range nodes {
		if err := n.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all replicas in sync", r.inSync)
}

// TestClusterCrashInCommit ends the coordinator of the epoch that is being
// committed, at the moment the log says so: when EndTxn is on its way, or when
// it was just answered and the coordinator has to write its markers (it is in
// PREPARE_COMMIT then).
func TestClusterCrashInCommit(t *testing.T) {
	c := startCluster(t, kafka.Options{})
	for _, step := range []string{e2e.StepOffsets, e2e.StepCommitted} {
		t.Run(step, func(t *testing.T) {
			r, a := newRig(t, c, plan{place: spread})
			outcomes := make(map[string]int)
			for range 4 {
				nodes := r.seats(t).slots
				e := r.await(t, a, a.Log.Len(), step, e2e.Message(step))
				victim := r.cluster.NodeByID(nodes[e.Epoch%2])
				if err := victim.Kill(); err != nil {
					t.Fatal(err)
				}
				mark := a.Log.Len()
				states := r.prepared(t)
				r.commits(t, a)
				events := a.Log.Events(max(0, mark-20))
				if slices.ContainsFunc(events, func(got e2e.Event) bool {
					return got.Message == e2e.StepCommitted && got.Epoch == e.Epoch
				}) {
					outcomes["committed"]++
				} else {
					outcomes["not known to be committed"]++
				}
				outcomes[states]++
				r.restart(t, victim)
				r.commits(t, a)
				r.elect(t, r.allTopics(t)...)
			}
			t.Logf("epoch at the kill: %v", outcomes)
			r.finish(t)
		})
	}
}

// prepared looks, until a new coordinator answers, for transactions that are in
// the middle of a commit.
func (r *rig) prepared(t *testing.T) string {
	t.Helper()
	ctx := within(t, 10*time.Second)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		listed, err := r.adm.ListTransactions(ctx, nil, []string{"PrepareCommit"})
		if err == nil {
			for id := range listed {
				if id == r.group+".a.0" || id == r.group+".a.1" {
					return "PrepareCommit seen"
				}
			}
		}
		groups := r.adm.FindTxnCoordinators(ctx, r.group+".a.0", r.group+".a.1")
		if groups.Error() == nil && err == nil {
			return "PrepareCommit not seen"
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Sprintf("states unknown: %v", err)
		}
	}
}
