package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// seats are the node ids of a pipeline's coordinators: of its positions, and of
// the first process's two transactional ids.
type seats struct {
	group int32
	slots [2]int32
}

// placing puts the coordinators where a case needs them.
type placing func(*testing.T, *rig)

// apart has the coordinators of the ids on one node and that of the group on another.
func apart(t *testing.T, r *rig) {
	r.lead(t, transactions, r.cluster.Node(0))
	r.lead(t, positions, r.cluster.Node(1))
}

// together has all of them on one node.
func together(t *testing.T, r *rig) {
	r.lead(t, transactions, r.cluster.Node(0))
	r.lead(t, positions, r.cluster.Node(0))
}

// spread has the coordinators of the two ids on two nodes: the hashes of their
// names differ by one.
func spread(t *testing.T, r *rig) {
	r.rotate(t, transactions, 0)
}

// Kafka's own topics, whose leaders are the coordinators.
const (
	transactions = "__transaction_state"
	positions    = "__consumer_offsets"
)

// seats are where the pipeline's coordinators are now.
func (r *rig) seats(t *testing.T) seats {
	t.Helper()
	ids := [2]string{r.group + ".a.0", r.group + ".a.1"}
	var s seats
	eventually(t, "coordinators", func(ctx context.Context) error {
		groups := r.adm.FindGroupCoordinators(ctx, r.group)
		txns := r.adm.FindTxnCoordinators(ctx, ids[:]...)
		s = seats{group: groups[r.group].NodeID, slots: [2]int32{txns[ids[0]].NodeID, txns[ids[1]].NodeID}}
		return errors.Join(groups.Error(), txns.Error())
	})
	return s
}

// coordinator is the node that coordinates the transactions of a slot.
func (r *rig) coordinator(t *testing.T, slot int) *kafka.Node {
	t.Helper()
	return r.cluster.NodeByID(r.seats(t).slots[slot])
}

// groupCoordinator is the node that keeps the positions.
func (r *rig) groupCoordinator(t *testing.T) *kafka.Node {
	t.Helper()
	return r.cluster.NodeByID(r.seats(t).group)
}

// leader is the node that leads a partition which has its leader not on one of
// the nodes to spare, if there is one.
func (r *rig) leader(t *testing.T, topic string, spare ...*kafka.Node) *kafka.Node {
	t.Helper()
	var found *kafka.Node
	eventually(t, "leaders of "+topic, func(ctx context.Context) error {
		meta, err := r.metadata(ctx, topic)
		if err != nil {
			return err
		}
		for _, p := range meta.Topics[topic].Partitions.Sorted() {
			n := r.cluster.NodeByID(p.Leader)
			if n == nil {
				return errors.Join(p.Err, fmt.Errorf("%s/%d has no leader", topic, p.Partition))
			}
			found = n
			free := true
			for _, s := range spare {
				free = free && s != n
			}
			if free {
				return nil
			}
		}
		return nil
	})
	return found
}

// lead makes a node the leader of every partition of a topic, by an assignment
// with it in front and an election.
func (r *rig) lead(t *testing.T, topic string, node *kafka.Node) {
	t.Helper()
	order := []int32{int32(node.ID())}
	for _, n := range r.cluster.Nodes() {
		if n != node {
			order = append(order, int32(n.ID()))
		}
	}
	r.assign(t, topic, func(int32) []int32 { return order })
	r.elect(t, topic)
}

// assign gives the partitions of a topic their replicas, the preferred leader
// first, and waits until they are in sync.
func (r *rig) assign(t *testing.T, topic string, replicas func(partition int32) []int32) {
	t.Helper()
	eventually(t, "assignment of "+topic, func(ctx context.Context) error {
		meta, err := r.metadata(ctx, topic)
		if err != nil {
			return err
		}
		var req kadm.AlterPartitionAssignmentsReq
		for p := range meta.Topics[topic].Partitions {
			req.Assign(topic, p, replicas(p))
		}
		answers, err := r.adm.AlterPartitionAssignments(ctx, req)
		if err != nil {
			return err
		}
		return answers.Error()
	})
	eventually(t, "assigned replicas of "+topic, func(ctx context.Context) error {
		meta, err := r.metadata(ctx, topic)
		if err != nil {
			return err
		}
		for _, p := range meta.Topics[topic].Partitions {
			if want := replicas(p.Partition); len(p.Replicas) != len(want) || len(p.ISR) != len(want) || p.Leader < 0 {
				return fmt.Errorf("%s/%d: leader %d, in sync %v of %v, want %v", topic, p.Partition, p.Leader, p.ISR, p.Replicas, want)
			}
		}
		return nil
	})
}

// elect makes the preferred replicas the leaders.
func (r *rig) elect(t *testing.T, topics ...string) {
	t.Helper()
	eventually(t, "election", func(ctx context.Context) error {
		meta, err := r.metadata(ctx, topics...)
		if err != nil {
			return err
		}
		set := make(kadm.TopicsSet)
		for _, topic := range topics {
			for p := range meta.Topics[topic].Partitions {
				set.Add(topic, p)
			}
		}
		results, err := r.adm.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
		if err != nil {
			return err
		}
		for _, topic := range results {
			for _, p := range topic {
				if p.Err != nil && !errors.Is(p.Err, kerr.ElectionNotNeeded) {
					return fmt.Errorf("%s/%d: %w", p.Topic, p.Partition, p.Err)
				}
			}
		}
		return nil
	})
}

// allTopics are the topics of the cluster, Kafka's own included.
func (r *rig) allTopics(t *testing.T) []string {
	t.Helper()
	var names []string
	eventually(t, "the list of topics", func(ctx context.Context) error {
		meta, err := r.metadata(ctx)
		names = meta.Topics.Names()
		return err
	})
	return names
}
