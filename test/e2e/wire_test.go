package e2e

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/proof"
)

// wireScene is what makes the bridge send a request.
type wireScene int

const (
	running  wireScene = iota // it sends them all the time
	idle                      // running, and most epochs are without output
	starting                  // it is killed and started again
	stopping                  // it is stopped in order and started again
	first                     // it is started for the first time: each fault has a pipeline of its own
	sweeping                  // it is started beside a dead member's open transaction
)

// wireKind is a request of the bridge. Every one that was ever seen in a test of
// this file has to be here.
type wireKind struct {
	key   kmsg.Key
	scene wireScene
	place string // where it is sent: "TV1", "classic", "consumer"; empty = everywhere
	small bool   // faults at it are in the small run
}

var wireKinds = []wireKind{
	// What makes an epoch true.
	{kmsg.Produce, running, "", true},
	{kmsg.TxnOffsetCommit, running, "", true},
	{kmsg.EndTxn, running, "", true},
	{kmsg.AddOffsetsToTxn, running, "TV1", true},
	{kmsg.AddPartitionsToTxn, running, "TV1", false},
	{kmsg.OffsetCommit, idle, "", false},
	// The group.
	{kmsg.JoinGroup, starting, "classic", true},
	{kmsg.SyncGroup, starting, "classic", false},
	{kmsg.Heartbeat, running, "classic", false},
	{kmsg.ConsumerGroupHeartbeat, starting, "consumer", true},
	{kmsg.LeaveGroup, stopping, "", false},
	{kmsg.OffsetFetch, starting, "", true},
	// Recovery, and what is read.
	{kmsg.InitProducerID, starting, "", true},
	{kmsg.FindCoordinator, starting, "", false},
	{kmsg.ApiVersions, starting, "", false},
	{kmsg.Metadata, starting, "", false},
	{kmsg.DescribeConfigs, starting, "", false},
	{kmsg.ListOffsets, first, "", false},
	{kmsg.OffsetForLeaderEpoch, starting, "", false},
	{kmsg.Fetch, running, "", false},
	{kmsg.ListTransactions, starting, "", false},
	{kmsg.DescribeTransactions, sweeping, "", false},
	{kmsg.DescribeGroups, sweeping, "", false},
	{kmsg.ConsumerGroupDescribe, sweeping, "", false},
}

// at says whether the request is sent there.
func (k wireKind) at(place crashPlace) bool {
	return k.place == "" || k.place == place.name || k.place == place.protocol
}

// tried says whether faults at it are tried there: KIP-848 changes what the group
// is asked, and the full size goes through that.
func (k wireKind) tried(place crashPlace) bool {
	if !k.at(place) || !*long && !k.small {
		return false
	}
	switch k.key {
	case kmsg.ConsumerGroupDescribe: // of a classic group only while nobody is in it
		return place.protocol == "consumer"
	case kmsg.ConsumerGroupHeartbeat, kmsg.LeaveGroup, kmsg.OffsetFetch, kmsg.OffsetCommit, kmsg.TxnOffsetCommit:
		return true
	}
	return place.protocol == "classic"
}

// started says that a process is started for each time that it suffers.
func (k wireKind) started() bool { return k.scene != running && k.scene != idle }

// decisive says that an error in the answer of the request, too, is tried.
func (k wireKind) decisive() bool {
	return k.key == kmsg.Produce || k.key == kmsg.TxnOffsetCommit || k.key == kmsg.EndTxn
}

// quick are the faults that a client notices at once, slow those that it waits for.
func (k wireKind) quick() []Fault {
	cuts := []Fault{CutRequest, ResetRequest, CutEOF, CutReset}
	if k.decisive() {
		return append(cuts, UnknownError, Refuse)
	}
	return cuts
}

func (k wireKind) slow() []Fault {
	switch {
	case *long:
		return []Fault{Swallow, Hold, HushRequests, HushAnswers}
	case k.key == kmsg.Produce:
		return []Fault{Swallow}
	case k.key == kmsg.TxnOffsetCommit:
		return []Fault{Swallow, HushRequests}
	case k.key == kmsg.EndTxn:
		return []Fault{Swallow, Hold, HushRequests, HushAnswers}
	}
	return nil
}

// lateness is longer than the client waits for an answer: a producer 3 s, in
// Produce 8 s, the others 10 s.
func (k wireKind) lateness() time.Duration {
	if k.scene == running && k.key != kmsg.Fetch && k.key != kmsg.Heartbeat {
		return size(4*time.Second, 9*time.Second)
	}
	return 11 * time.Second
}

// wired counts over the rows of one place, and knows every kind of request that was sent.
type wired struct {
	place         crashPlace
	rows, records atomic.Int64
	kills         atomic.Int64

	mu   sync.Mutex
	seen map[int16]bool
}

func (w *wired) tap(what Passing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[what.Key] = true
}

// unknown are the kinds of requests that were sent and that nobody plans a fault for.
func (w *wired) unknown() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for key := range w.seen {
		if !slices.ContainsFunc(wireKinds, func(k wireKind) bool { return k.key.Int16() == key && k.at(w.place) }) {
			names = append(names, kmsg.NameForKey(key))
		}
	}
	slices.Sort(names)
	return names
}

// TestLostAnswers does to every kind of request what a network may do: the
// connection ends or is reset before the broker has the request, or after it has
// acted; the answer never comes, or so late that nobody waits for it any longer;
// nothing gets through in one direction on any connection, and then all of it
// arrives. The requests that make an epoch true are also refused, and answered
// with an unknown error. Once, and again and again. The bridge cannot tell what
// has happened, and every row is exact.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, place := range crashPlaces {
		if !*long && place.protocol == "consumer" {
			continue
		}
		t.Run(place.name, func(t *testing.T) {
			t.Parallel()
			c := kafka.Shared(t, place.version)
			since := time.Now()
			w := &wired{place: place, seen: make(map[int16]bool)}
			t.Cleanup(func() { // behind the rows, which run beside each other
				if names := w.unknown(); len(names) > 0 {
					t.Errorf("the bridge sends %q, and no fault is tried there: add a row", names)
				}
				proof.Record(t, proof.Result{
					Broker: place.version, Took: time.Since(since), Rows: w.rows.Load(), Kills: w.kills.Load(),
					Records: w.records.Load(), Note: "faults on the wire, group protocol " + place.protocol,
				})
				t.Logf("%d rows, %d records, %v", w.rows.Load(), w.records.Load(), time.Since(since).Round(time.Millisecond))
			})
			for _, kind := range wireKinds {
				if !kind.tried(place) {
					continue
				}
				for _, run := range kind.runs() {
					t.Run(run.name, func(t *testing.T) {
						t.Parallel()
						w.strike(t, c, kind, run)
					})
				}
			}
		})
	}
}

// wireRun is what one pipeline suffers.
type wireRun struct {
	name     string
	faults   []Fault // one after the other
	lateness time.Duration
	again    bool // each also repeatedly
	short    bool // the time-outs of transaction and session are
}

// runs are those of one kind of request: the quick faults share a pipeline, where
// there is a second time.
func (k wireKind) runs() []wireRun {
	var all []wireRun
	if k.scene == first {
		for _, fault := range k.quick() {
			all = append(all, wireRun{name: k.key.Name() + " " + fault.String(), faults: []Fault{fault}})
		}
	} else {
		all = append(all, wireRun{name: k.key.Name(), faults: k.quick(), again: true, short: k.scene == starting})
	}
	for _, fault := range k.slow() {
		all = append(all, wireRun{
			name: k.key.Name() + " " + fault.String(), faults: []Fault{fault}, lateness: k.lateness(),
			again: *long && k.decisive(), short: k.scene == starting,
		})
		if *long && k.decisive() && (fault == HushRequests || fault == HushAnswers) {
			// The broker ends the transaction by itself, at a round that it makes every 10 s.
			all = append(all, wireRun{
				name: k.key.Name() + " " + fault.String() + " for long", faults: []Fault{fault}, lateness: 18 * time.Second, short: true,
			})
		}
	}
	return all
}

// strike does the faults to one pipeline.
func (w *wired) strike(t *testing.T, c *kafka.Cluster, kind wireKind, run wireRun) {
	t.Helper()
	proxy, err := StartProxy(c.Bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	proxy.Tap(w.tap)
	// A restart's delay is kept short, so that more of them fit into the test.
	p := plan{in: 2, out: 3, address: proxy.Addr(), settings: map[string]string{
		"BRIDGE_RESTART_MAX_DELAY": "500ms", "BRIDGE_GROUP_PROTOCOL": w.place.protocol,
	}}
	switch kind.scene {
	case idle:
		p.form, p.settings["BRIDGE_TRANSFORM"] = keepLittle, "filter_header(keep=yes)"
	case sweeping:
		p.settings["BRIDGE_EPOCH_TIMEOUT"] = "2s" // a transaction twice as old is swept
	}
	if run.short { // an answer to JoinGroup may take the rebalance's time
		p.settings["BRIDGE_EPOCH_TIMEOUT"], p.settings["BRIDGE_TXN_TIMEOUT"] = "2s", "6s"
		p.settings["BRIDGE_SESSION_TIMEOUT"], p.settings["BRIDGE_REBALANCE_TIMEOUT"] = "8s", "10s"
	}
	r := &wireRig{rig: newRig(t, c, p), proxy: proxy, kind: kind}
	stopWatch := r.watched(t)
	feed := r.feed(t, 500)
	if kind.scene != first {
		r.process = r.start(t, "a")
		awaitCommit(t, r.process, 0)
	}
	for _, fault := range run.faults {
		r.lose(t, Rule{Key: kind.key, Fault: fault, Every: 1, Times: 1, For: run.lateness})
		w.rows.Add(1)
		if run.again {
			again := Rule{Key: kind.key, Fault: fault, Every: 2, Times: size(3, 8), For: run.lateness}
			if kind.started() || run.lateness > 0 {
				again.Every, again.Times = 1, 3
			}
			r.lose(t, again)
			w.rows.Add(1)
		}
	}
	feed.finish(t)
	r.settle(t)
	stopWatch()
	r.exact(t)
	stop(t, r.process)
	w.records.Add(r.input.Acked())
	w.kills.Add(int64(r.kills))
}

// wireRig is a rig whose process suffers faults at one kind of request.
type wireRig struct {
	*rig
	proxy   *Proxy
	kind    wireKind
	process *Process
	kills   int
}

// lose lets the rule strike as often as it may, and waits for a commit after it.
func (r *wireRig) lose(t *testing.T, rule Rule) {
	t.Helper()
	if r.kind.scene == starting {
		r.end(t) // what it sends while it runs is spared
	}
	r.proxy.Set(&rule)
	for range rule.Times {
		r.send(t)
		eventually(t, "a fault at "+rule.Key.Name(), func() bool {
			// A start sends some requests once: if it has come through, another one follows.
			through := r.kind.started() && r.process.Log.Count(StepCommitted) >= 10
			return r.proxy.Hits() >= rule.Times || !r.process.Alive() || through
		})
		if r.proxy.Hits() >= rule.Times {
			break
		}
	}
	if hits := r.proxy.Hits(); hits < rule.Times {
		t.Fatalf("%s, %s: %d faults, want %d", rule.Key.Name(), rule.Fault, hits, rule.Times)
	}
	mark := 0
	if !r.kind.started() {
		mark = r.process.Log.Len()
	}
	r.proxy.Set(nil)
	if _, err := r.process.Log.Await(within(t, patience), mark, Message(StepCommitted)); err != nil {
		t.Fatalf("%s, %s: no commit after %d faults: %v", rule.Key.Name(), rule.Fault, rule.Times, err)
	}
}

// send makes the bridge send the request.
func (r *wireRig) send(t *testing.T) {
	t.Helper()
	switch r.kind.scene {
	case running, idle:
		return
	case starting:
		r.end(t)
	case stopping:
		stop(t, r.process)
	case sweeping:
		r.end(t)
		r.remove(t, "a")
		r.leaveOpen(t)
	case first: // nothing was before
	}
	r.process = r.start(t, "a")
}

// end kills the process, if it is there.
func (r *wireRig) end(t *testing.T) {
	t.Helper()
	if r.process.Alive() {
		kill(t, r.process)
		r.kills++
	}
}

// leaveOpen leaves the open transaction of a member behind that is removed from
// the group: whoever gets its partitions has to wait for their positions, and ends
// the transaction when nobody else does.
func (r *wireRig) leaveOpen(t *testing.T) {
	t.Helper()
	dead := &crashRig{rig: r.rig}
	dead.dieAs(t, "b", "commit: EndTxn ready", 2, nil)
	r.kills++
	r.remove(t, "b")
}

// remove takes a dead member out of the group.
func (r *wireRig) remove(t *testing.T, instance string) {
	t.Helper()
	left, err := r.adm.LeaveGroup(within(t, patience), kadm.LeaveGroup(r.group).InstanceIDs(instance).Reason("removed by a test"))
	if err == nil {
		err = left.Error()
	}
	if err != nil {
		t.Fatalf("remove %s: %v", instance, err)
	}
}

// TestRequestWithoutRow: a kind of request that is not in the table is told, and
// one that is there but is not sent at that place.
func TestRequestWithoutRow(t *testing.T) {
	w := &wired{place: crashPlaces[0], seen: make(map[int16]bool)}
	for _, key := range []kmsg.Key{kmsg.EndTxn, kmsg.JoinGroup} {
		w.tap(Passing{Key: key.Int16()})
	}
	if names := w.unknown(); names != nil {
		t.Errorf("unknown %q", names)
	}
	for _, key := range []kmsg.Key{kmsg.CreateTopics, kmsg.AddOffsetsToTxn} {
		w.tap(Passing{Key: key.Int16()})
	}
	if names := w.unknown(); !slices.Equal(names, []string{"AddOffsetsToTxn", "CreateTopics"}) {
		t.Errorf("unknown %q", names)
	}
}
