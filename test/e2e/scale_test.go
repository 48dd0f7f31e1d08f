package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// pods are instance ids as a StatefulSet gives them.
var pods = []string{"eosbridge-0", "eosbridge-1", "eosbridge-2"}

// scaled is a pipeline with one partition more than it has instances.
func scaled(t *testing.T, c *kafka.Cluster, settings map[string]string) *rig {
	t.Helper()
	return newRig(t, c, plan{in: 4, out: 3, settings: maps.Clone(settings)})
}

// up starts an instance of each name and waits for a commit of each.
func (r *rig) up(t *testing.T, names ...string) []*Process {
	t.Helper()
	var all []*Process
	for _, name := range names {
		all = append(all, r.start(t, name))
	}
	for _, p := range all {
		awaitCommit(t, p, 0)
	}
	return all
}

// ongoing are an instance's transactions that nobody has begun to end. One that was ended is not among them, although its
// coordinator may still be writing markers.
func (r *rig) ongoing(t *testing.T, name string) []string {
	t.Helper()
	listed, err := r.adm.ListTransactions(within(t, patience), nil, []string{"Ongoing"})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(listed.TransactionalIDs(), func(id string) bool { return !strings.HasPrefix(id, r.group+"."+name+".") })
}

// dangle kills an instance that has a transaction open, so that nobody ends it.
func (r *rig) dangle(t *testing.T, p *Process, name string) {
	t.Helper()
	for {
		await(t, p, p.Log.Len(), "an epoch", Message(StepBarrier))
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		// Frozen, it sends nothing more: what is open stays open until somebody else ends it.
		if len(r.ongoing(t, name)) > 0 {
			kill(t, p)
			return
		}
		if err := p.Continue(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestScaleToZero stops two of three instances in order and kills the third in the middle of its epoch. While nobody is
// there the broker ends the transaction that was left, so that readers are not held; then all come back under their names.
func TestScaleToZero(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		// The transaction ends within the test; a stop has more time than it needs on a slow machine.
		r := scaled(t, c, map[string]string{"BRIDGE_EPOCH_TIMEOUT": "3s", "BRIDGE_TXN_TIMEOUT": "8s"})
		stopWatch := r.watched(t)
		feed := r.feed(t, 500)
		all := r.up(t, pods...)
		r.dangle(t, all[2], pods[2])
		stop(t, all[0])
		stop(t, all[1])
		for _, name := range pods[:2] {
			if open := r.ongoing(t, name); len(open) > 0 {
				t.Errorf("a stop in order left something open: %v", open)
			}
		}
		rest := r.rest()
		rest.Group = "" // the feed goes on: what is fed now waits for an instance
		if err := oracle.Quiescent(within(t, patience), r.adm, rest); err != nil {
			t.Fatalf("with no instance left: %v", err)
		}
		all = r.up(t, pods...)
		feed.finish(t)
		r.settle(t)
		stopWatch()
		for _, p := range all {
			stop(t, p)
		}
		r.exact(t)
		r.record(t, "three instances, to zero with one killed, and back")
	})
}

// TestScaleDownDangling goes from three instances to one, and those that go are killed in the middle of their epochs. Nobody
// will come back under their names: the one that stays gets their partitions once their sessions are over, and nothing of
// theirs stays open.
func TestScaleDownDangling(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := scaled(t, c, shortSessions)
		stopWatch := r.watched(t)
		feed := r.feed(t, 500)
		all := r.up(t, pods...)
		mark := all[0].Log.Len()
		r.dangle(t, all[1], pods[1])
		r.dangle(t, all[2], pods[2])
		await(t, all[0], mark, "the partitions of the others", Message("partitions assigned"))
		feed.finish(t)
		r.settle(t) // every partition is read to its end, and no transaction of the pipeline is open
		stopWatch()
		swept := all[0].Log.Count("abandoned transaction aborted")
		stop(t, all[0])
		r.exact(t)
		r.record(t, fmt.Sprintf("from three instances to one, two killed: %d transactions swept by the survivor, the others timed out", swept))
	})
}
