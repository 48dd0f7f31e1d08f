package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// TestClusterMoves moves coordinators and leaders while everybody lives.
func TestClusterMoves(t *testing.T) {
	c := startCluster(t, kafka.Options{})

	// SIGTERM lets a node hand over what it leads before it ends.
	t.Run("coordinators stop in order", func(t *testing.T) {
		r, a := newRig(t, c, plan{place: apart})
		for _, pick := range []func() *kafka.Node{
			func() *kafka.Node { return r.coordinator(t, 0) },
			func() *kafka.Node { return r.groupCoordinator(t) },
		} {
			n := pick()
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			r.commits(t, a)
			r.restart(t, n)
			r.elect(t, r.allTopics(t)...)
			r.commits(t, a)
		}
		r.finish(t)
	})

	for _, row := range []struct {
		name   string
		topics func(*rig) []string
	}{
		{"transaction coordinators", func(*rig) []string { return []string{transactions} }},
		{"group coordinators", func(*rig) []string { return []string{positions} }},
		{"output leaders", func(r *rig) []string { return []string{r.out} }},
		{"everything at once", func(r *rig) []string {
			return []string{transactions, positions, r.out, r.in}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, a := newRig(t, c, plan{place: spread})
			topics := row.topics(r)
			for _, topic := range topics {
				r.rotate(t, topic, 0)
			}
			for round := range 6 {
				before := r.leaders(t, topics...)
				for _, topic := range topics {
					r.rotate(t, topic, round+1)
				}
				eventually(t, "a move", func(context.Context) error {
					after := r.leaders(t, topics...)
					for p, leader := range after {
						if leader == before[p] {
							return fmt.Errorf("%s is led by %d, as before", p, leader)
						}
					}
					return nil
				})
				r.commits(t, a)
				pause(t, 300*time.Millisecond)
			}
			r.finish(t)
		})
	}
}

// leaders are the node ids that lead each partition of the topics.
func (r *rig) leaders(t *testing.T, topics ...string) map[oracle.Source]int32 {
	t.Helper()
	all := make(map[oracle.Source]int32)
	eventually(t, "leaders", func(ctx context.Context) error {
		meta, err := r.metadata(ctx, topics...)
		for _, topic := range meta.Topics {
			for _, p := range topic.Partitions {
				all[oracle.Source{Topic: topic.Topic, Partition: p.Partition}] = p.Leader
			}
		}
		return err
	})
	return all
}

// rotate gives each partition of a topic another leader, in even rounds by an
// election, in odd ones by taking the replica that leads away, and giving it
// back.
func (r *rig) rotate(t *testing.T, topic string, round int) {
	t.Helper()
	turned := func(partition int32) []int32 {
		ids := make([]int32, 0, len(r.cluster.Nodes()))
		for i := range r.cluster.Nodes() {
			next := (int(partition) + round + i) % len(r.cluster.Nodes())
			ids = append(ids, int32(r.cluster.Node(next).ID()))
		}
		return ids
	}
	if round%2 == 1 {
		r.assign(t, topic, func(partition int32) []int32 { return turned(partition)[:2] })
	}
	r.assign(t, topic, turned)
	r.elect(t, topic)
}
