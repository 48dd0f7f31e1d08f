package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/proof"
)

// Answers to a copy that is too late, each of which is possible at its moment.
var (
	taken       = []string{"NONE"}
	staleEpoch  = []string{"INVALID_PRODUCER_EPOCH"}
	fenced      = []string{"PRODUCER_FENCED"}
	goneMember  = []string{"UNKNOWN_MEMBER_ID"}
	otherMember = []string{"FENCED_INSTANCE_ID"}
	// INVALID_TXN_STATE: the coordinator of transactions has still found the partition in it (KIP-890's verification), and
	// the marker came before the record was appended.
	markersOnWay = []string{"NONE", "CONCURRENT_TRANSACTIONS", "TRANSACTION_ABORTABLE", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"}
	endedOrMore  = []string{"NONE", "PRODUCER_FENCED"}
	untried      []string // see TestLateCopies
)

// ambushes are the copies and their moments, with the answers of the brokers.
var ambushes = []struct {
	key      kmsg.Key
	fails    bool // the transaction is given up; the copy is the original, which was lost on its way
	at       moment
	tv1, tv2 []string
}{
	{kmsg.TxnOffsetCommit, false, beforeEnd, taken, taken},
	{kmsg.TxnOffsetCommit, false, afterEnd, markersOnWay, markersOnWay},
	{kmsg.TxnOffsetCommit, false, afterOffset, markersOnWay, staleEpoch},
	{kmsg.TxnOffsetCommit, false, afterNext, markersOnWay, staleEpoch},
	{kmsg.TxnOffsetCommit, false, reopened, staleEpoch, staleEpoch},
	{kmsg.TxnOffsetCommit, false, reoffset, untried, staleEpoch},
	{kmsg.EndTxn, false, afterEnd, endedOrMore, endedOrMore},
	{kmsg.EndTxn, false, afterOffset, endedOrMore, endedOrMore},
	{kmsg.EndTxn, false, afterNext, endedOrMore, endedOrMore},
	{kmsg.EndTxn, false, reopened, fenced, fenced},
	{kmsg.EndTxn, false, reoffset, fenced, fenced},

	{kmsg.TxnOffsetCommit, true, beforeFence, goneMember, goneMember},
	{kmsg.TxnOffsetCommit, true, afterFence, staleEpoch, staleEpoch},
	{kmsg.TxnOffsetCommit, true, reopened, staleEpoch, staleEpoch},
	{kmsg.TxnOffsetCommit, true, reoffset, otherMember, staleEpoch},
	{kmsg.EndTxn, true, beforeFence, taken, taken}, // then it is a commit, and the positions say so
	{kmsg.EndTxn, true, afterFence, fenced, fenced},
	{kmsg.EndTxn, true, reopened, fenced, fenced},
	{kmsg.EndTxn, true, reoffset, fenced, fenced},
}

// TestLateCopies delivers requests of the running bridge late, over a second
// connection: does the broker let them overtake, and does the bridge stay exact?
//
// n is a transaction on one of the two ids, n+1 the next one on the other, n+2 the
// next one on the same id. "–" is a refusal.
//
//	copy, while n was committed             TxnOffsetCommit(n)             EndTxn(n)
//	                                        3.9.1          4.4.0           3.9.1     4.4.0
//	--------------------------------------  -------------  --------------  --------  --------
//	TxnOffsetCommit(n) is answered          TAKEN, same    TAKEN, same     (sent)    (sent)
//	EndTxn(n) is answered                   TAKEN if the markers are       no effect no effect
//	                                        still on their way, or –
//	TxnOffsetCommit(n+1) is answered        –              –               – or no effect
//	EndTxn(n+1) is answered                 –              –               – or no effect
//	n+2 is produced                         –              –               –         –
//	TxnOffsetCommit(n+2) is answered        – BUT HARMFUL  –               –         –
//
//	original, lost, while n is given up     TxnOffsetCommit(n)             EndTxn(n)
//	--------------------------------------  -----------------------------  ------------------
//	before the fence                        – (the member is gone)         TAKEN: n is true
//	after it; n+2 is produced; after        – (before it is looked at:     –
//	TxnOffsetCommit(n+2)                    epoch, then member)
//
// What is taken is so in both senses: the bridge finds it in the positions.
//
// "–" in the row of TxnOffsetCommit(n+1) holds as soon as n's markers are written,
// which the test waits for. While they are on their way the copy is taken there,
// too, and overtakes TxnOffsetCommit(n+1) ([TestLateCopyBeforeMarkers]).
//
// HARMFUL: the group coordinator of 3.9.1, when it refuses a TxnOffsetCommit for
// its old epoch, drops the positions that the same producer id has pending, and
// their commit is without effect until the next one
// ([TestLateCopiesUnguarded], "e3 half guarded").
//
// Both need a copy of a TxnOffsetCommit that was answered. The bridge makes none,
// TCP neither, so they are not tried here. A late original does neither: after a
// TxnOffsetCommit without an answer the bridge does not go on to EndTxn, it leaves
// the group, and both ids are fenced, which waits for markers. The broker looks at
// the member before it drops anything (last row).
func TestLateCopies(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for name, fails := range map[string]bool{"of commits": false, "of failed commits": true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				lateCopies(t, c, fails)
			})
		}
		t.Run("of the dead", func(t *testing.T) {
			t.Parallel()
			copiesOfTheDead(t, c)
		})
	})
}

// behindProxy is a pipeline whose bridge talks to the cluster through a proxy.
func behindProxy(t *testing.T, c *kafka.Cluster, p plan) (*rig, *Proxy) {
	t.Helper()
	proxy, err := StartProxy(c.Bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	p.address = proxy.Addr()
	return newRig(t, c, p), proxy
}

// lateCopies delivers a copy at each moment, each time in the middle of a run.
func lateCopies(t *testing.T, c *kafka.Cluster, fails bool) {
	t.Helper()
	r, proxy := behindProxy(t, c, plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_RESTART_MAX_DELAY": "200ms"}})
	stopWatch := r.watched(t)
	feed := r.feed(t, 500)
	p := r.start(t, "a")
	awaitCommit(t, p, 0)
	scenarios := int64(0)
	for _, row := range ambushes {
		want := row.tv1
		if c.Version() == kafka.V44 {
			want = row.tv2
		}
		if row.fails != fails || want == nil {
			continue
		}
		scenarios++
		a := newAmbush(c.Bootstrap(), row.key, row.at, fails)
		a.marked = func(id string) error { return marked(t, r.adm, id) }
		if fails {
			// The client sends a commit again itself when its connection is cut, so that one is refused.
			rule := Rule{Key: row.key, Fault: CutRequest, Every: 1, Times: 1}
			if row.key == kmsg.EndTxn {
				rule.Fault = Refuse
			}
			a.lose = func() { proxy.Set(&rule) }
		}
		proxy.Tap(a.see(t))
		answer := a.await(t)
		proxy.Tap(nil)
		if !slices.Contains(want, answer) {
			t.Errorf("%s, fails=%v, copied %s: answered %s, want one of %q", row.key.Name(), fails, row.at, answer, want)
		}
		awaitCommit(t, p, p.Log.Len())
	}
	feed.finish(t)
	r.settle(t)
	takenOver(t, r, p, "a", "b")
	stopWatch()
	r.exact(t)
	proof.Record(t, proof.Result{Broker: c.Version(), Scenarios: scenarios, Records: r.input.Acked(), Note: "late copies of TxnOffsetCommit and EndTxn"})
}

// deliverUntilJudged delivers a copy and names the broker's answer. A coordinator that is just extending or ending a
// transaction of the same id says CONCURRENT_TRANSACTIONS before it looks at who asks: then the copy comes again.
func deliverUntilJudged(ctx context.Context, address string, frame []byte) (string, error) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		answer, err := DeliverCopy(ctx, address, frame)
		if err != nil || !strings.Contains(answer, "CONCURRENT_TRANSACTIONS") {
			return answer, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
}

// marked waits until nothing is left to be written of the id's last commit.
func marked(t *testing.T, adm *kadm.Client, id string) error {
	ctx := within(t, patience)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		described, err := adm.DescribeTransactions(ctx, id)
		if err != nil {
			return err
		}
		if described[id].State != "PrepareCommit" {
			return described[id].Err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// takenOver kills the process, starts it anew, and lets one of another name go on
// after it: each finds the positions where they should be.
func takenOver(t *testing.T, r *rig, p *Process, name, other string) {
	t.Helper()
	kill(t, p)
	p = r.start(t, name)
	awaitRunning(t, p)
	r.feedNow(t, 100)
	r.settle(t)
	stop(t, p)
	p = r.start(t, other)
	awaitRunning(t, p)
	r.feedNow(t, 100)
	r.settle(t)
	stop(t, p)
}

// dead is a killed process's last transaction: its positions are in it, and its
// commit has not reached the broker.
type dead struct{ offsets, end []byte }

// killBeforeEnd kills the process between TxnOffsetCommit and EndTxn.
func killBeforeEnd(t *testing.T, r *rig, proxy *Proxy, p *Process) dead {
	t.Helper()
	a := newAmbush("", kmsg.EndTxn, "never", false)
	seen := make(chan struct{}, 1)
	watch := a.see(t)
	proxy.Set(&Rule{Key: kmsg.EndTxn, Fault: CutRequest, Every: 1, Times: 1 << 30})
	proxy.Tap(func(p Passing) {
		watch(p)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.frames[kmsg.EndTxn] != nil && a.stage != over {
			a.stage = over
			seen <- struct{}{}
		}
	})
	select {
	case <-seen:
	case <-within(t, patience).Done():
		t.Fatal("no commit came")
	}
	kill(t, p)
	proxy.Tap(nil)
	proxy.Set(nil)
	return dead{offsets: a.frames[kmsg.TxnOffsetCommit], end: a.frames[kmsg.EndTxn]}
}

// copiesOfTheDead delivers what a killed process had sent or was about to send:
// before its successor fences it, and after.
func copiesOfTheDead(t *testing.T, c *kafka.Cluster) {
	t.Helper()
	r, proxy := behindProxy(t, c, plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_EPOCH_TIMEOUT": "2s"}})
	deliver := func(d dead, when string, offsets, end []string) {
		t.Helper()
		for _, one := range []struct {
			name  string
			frame []byte
			want  []string
		}{{"TxnOffsetCommit", d.offsets, offsets}, {"EndTxn", d.end, end}} {
			answer, err := deliverUntilJudged(within(t, patience), c.Bootstrap(), one.frame)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(one.want, answer) {
				t.Errorf("%s, late, %s: answered %s, want one of %q", one.name, when, answer, one.want)
			}
		}
	}
	late := slices.Concat(staleEpoch, otherMember, goneMember)
	stopWatch := r.watched(t)
	feed := r.feed(t, 500)

	// Its commit arrives after its death and before the fence: then it is a commit.
	p := r.start(t, "a")
	awaitCommit(t, p, 0)
	d := killBeforeEnd(t, r, proxy, p)
	deliver(d, "before the fence", taken, taken)

	// After the fence both are too late.
	p = r.start(t, "a")
	awaitCommit(t, p, 0)
	d = killBeforeEnd(t, r, proxy, p)
	p = r.start(t, "a")
	awaitCommit(t, p, 0)
	deliver(d, "after the fence", late, fenced)

	// Another name takes over, and ends the transaction of the absent one.
	d = killBeforeEnd(t, r, proxy, p)
	left, err := r.adm.LeaveGroup(within(t, patience), kadm.LeaveGroup(r.group).InstanceIDs("a").Reason("removed by a test"))
	if err == nil {
		err = left.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	p = r.start(t, "b")
	awaitCommit(t, p, 0)
	deliver(d, "after a take-over", late, []string{"PRODUCER_FENCED", "INVALID_TXN_STATE"})
	awaitCommit(t, p, p.Log.Len())

	feed.finish(t)
	r.settle(t)
	takenOver(t, r, p, "b", "a")
	stopWatch()
	r.exact(t)
	proof.Record(t, proof.Result{Broker: c.Version(), Scenarios: 3, Kills: 4, Records: r.input.Acked(), Note: "late copies of a killed process's TxnOffsetCommit and EndTxn"})
}
