package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eosbridge/eosbridge/test/e2e"
	"github.com/eosbridge/eosbridge/test/oracle"
	"github.com/eosbridge/eosbridge/test/proof"
)

// finish ends the feed, waits until the processes that run have bridged
// everything and the cluster is whole, stops them, and asks for an exact verdict
// and an unbroken invariant. The result is recorded.
func (r *rig) finish(t *testing.T) {
	t.Helper()
	until := time.Now() // gaps at the end are the feed's
	r.stopFeed()
	if err := <-r.fed; err != nil {
		t.Fatal(err)
	}
	ctx := within(t, patience)
	rest := oracle.Rest{Prefix: r.group, Outputs: []string{r.out}, Group: r.group, Inputs: []string{r.in}}
	if err := oracle.Quiescent(ctx, r.adm, rest); err != nil {
		t.Error(err)
	}
	r.stopWatch()
	r.watching.Wait()
	for _, l := range r.living() {
		r.stop(t, l)
	}
	if err := r.follower.Rest(within(t, patience)); err != nil {
		t.Error(err)
	}
	v := r.verdict(t)
	if !v.Exact() {
		t.Errorf("not exact: %s", v)
	}
	if err := r.watch.Err(); err != nil {
		t.Error(err)
	}
	if r.watch.Samples() == 0 {
		t.Error("the invariant was never sampled")
	}
	r.record(t, v, until)
}

func (r *rig) living() []*life {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*life
	for _, l := range r.lives {
		if l.Alive() {
			all = append(all, l)
		}
	}
	return all
}

// verdict reads all output once more and compares.
func (r *rig) verdict(t *testing.T) oracle.Verdict {
	t.Helper()
	ctx := within(t, patience)
	if err := r.reader.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	final, err := oracle.ReadAll(ctx, r.reading(), r.during)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.follower.Check(ctx); err != nil {
		t.Fatal(err)
	}
	r.tell()
	v := final.Compare(r.during)
	r.follower.Into(&v)
	return v
}

// tell hands on what the processes' logs say of their transactions.
func (r *rig) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, l := range r.lives {
		who := fmt.Sprintf("life %d of %s", i, l.instance)
		for _, said := range l.Log.Outcomes() {
			r.follower.Tell(oracle.Producer{ID: said.ProducerID, Epoch: said.ProducerEpoch}, said.Committed,
				fmt.Sprintf("%s: epoch %d", who, said.Epoch))
		}
	}
}

// restarted is what the bridge says when it begins anew within the process.
const restarted = "session failed, starting again"

func (r *rig) record(t *testing.T, v oracle.Verdict, until time.Time) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var logs [][]e2e.Event
	aborted, restarts := 0, 0
	for _, l := range r.lives {
		logs = append(logs, l.Log.Events(0))
		aborted += l.Log.Count("epoch aborted")
		restarts += l.Log.Count(restarted)
	}
	gap := longestGap(until, logs...)
	note := fmt.Sprintf("3 nodes; %v without a commit at the longest, %d epochs aborted, %d restarts in the process; invariant held in %d samples",
		gap.Round(10*time.Millisecond), aborted, restarts, r.watch.Samples())
	t.Logf("%s; %s", v, note)
	for _, l := range r.lives {
		for _, e := range l.Log.Events(0) {
			if e.Message == restarted {
				t.Logf("%s: %s", l.instance, e.Line)
			}
		}
	}
	proof.Record(t, proof.Result{
		Broker: proof.V44, Took: time.Since(r.began), Scenarios: 1, Records: v.In,
		Lost: v.Lost.Count, Duplicated: v.Duplicated.Count, OutOfOrder: v.OutOfOrder.Count,
		Torn: v.Torn.Count, LeftOpen: v.LeftOpen.Count, Note: note,
	})
}

// longestGap is the longest time between two commits of any of the processes.
func longestGap(until time.Time, logs ...[]e2e.Event) time.Duration {
	var longest time.Duration
	for last := (time.Time{}); ; {
		next := until
		for _, events := range logs {
			for _, e := range events {
				if e.Message == e2e.StepCommitted && e.At.After(last) && e.At.Before(next) {
					next = e.At
					break // a log is in order
				}
			}
		}
		if !last.IsZero() {
			longest = max(longest, next.Sub(last))
		}
		if next.Equal(until) {
			return longest
		}
		last = next
	}
}

// metadata is what the cluster says now. The client would repeat what it heard a
// few seconds ago, save when it is asked for authorized operations, too.
func (r *rig) metadata(ctx context.Context, topics ...string) (kadm.Metadata, error) {
	return r.adm.Metadata(kadm.WithAuthorizedOps(ctx), topics...)
}

// inSync is nil when every partition of the cluster has a leader and all its
// replicas.
func (r *rig) inSync(ctx context.Context) error { return r.replicated(ctx, len(r.cluster.Nodes())) }

// writable is nil when every partition has a leader and as many replicas as a
// write needs.
func (r *rig) writable(ctx context.Context) error { return r.replicated(ctx, len(r.cluster.Nodes())-1) }

func (r *rig) replicated(ctx context.Context, replicas int) error {
	meta, err := r.metadata(ctx)
	if err != nil {
		return err
	}
	if n := len(meta.Brokers); n < replicas {
		return fmt.Errorf("%d brokers", n)
	}
	for _, topic := range meta.Topics.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			if p.Leader < 0 || len(p.ISR) < replicas {
				return errors.Join(p.Err, fmt.Errorf("%s/%d: leader %d, in sync %v of %v, offline %v",
					topic.Topic, p.Partition, p.Leader, p.ISR, p.Replicas, p.OfflineReplicas))
			}
		}
	}
	return nil
}
