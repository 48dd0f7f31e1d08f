package bridge

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/proof"
)

// journey is a trial whose bridges' requests pass frames.
type journey struct {
	*trial
	frames *frames
}

func inJourney(t *testing.T, p *phase, test func(t *testing.T, j *journey)) {
	t.Helper()
	var j *journey
	inTrialOf(t, p, func(w *world) { j = &journey{frames: w.frames()} }, func(t *testing.T, tr *trial) {
		j.trial = tr
		test(t, j)
	})
}

// worlds are the clusters and groups in which requests are sent.
var worlds = []phase{{name: "classic"}, {name: "KIP-848", consumer: true}, {name: "below 2", below2: true}}

// step lets a bridge send requests of some kinds.
type step struct {
	name   string
	do     func(j *journey)
	feed   string // key of the records while it is waited for
	ends   int    // sessions that it makes fail
	sweeps bool   // it leaves a transaction behind for a sweep
}

// steps pass through everything that a bridge does, each after the other from what is most often done.
var steps = []step{
	{name: "copy", feed: kept, do: func(j *journey) { j.feedFor(kept, 100*time.Millisecond) }},
	{name: "drop", feed: dropped, do: func(j *journey) { j.feedFor(dropped, 1500*time.Millisecond) }},
	// A join whose answer is lost is made again under a new generation, which an epoch on its way may meet.
	{name: "rebalance", feed: kept, ends: 1, do: func(j *journey) {
		j.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress, TopLevel: true})
		j.feedFor(kept, 4*time.Second)
	}},
	{name: "start again", feed: kept, do: (*journey).again, ends: 1},
	{name: "look around", feed: kept, do: func(j *journey) { j.feedFor(kept, 11*time.Second) }},
	{name: "stop and start", feed: kept, do: func(j *journey) {
		if !closed(j.b.ended) {
			j.b.stop()
			<-j.b.ended
		}
		j.start()
		j.feedFor(kept, time.Second)
	}},
	{name: "sweep", feed: kept, ends: 2, sweeps: true, do: func(j *journey) {
		j.leaveOpen()
		j.feedFor(dropped, 7*time.Second) // until the transaction is old enough
		j.again()
	}},
}

// again makes the session fail.
func (j *journey) again() {
	h := j.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownServerError})
	j.feedFor(kept, time.Second)
	h.Remove()
}

// feedFor writes records for a while.
func (j *journey) feedFor(key string, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		j.feed(key)
		j.pass(min(d, 250*time.Millisecond))
	}
}

// leaveOpen leaves a transaction behind, as an instance does that dies for good.
func (j *journey) leaveOpen() {
	j.t.Helper()
	cl := j.client(kgo.TransactionalID("g.dead.0"), kgo.TransactionTimeout(50*time.Second), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		j.t.Fatal(err)
	}
	if err := cl.ProduceSync(j.t.Context(), &kgo.Record{Topic: "out", Value: []byte("never seen")}).FirstErr(); err != nil {
		j.t.Fatal(err)
	}
	cl.Close()
}

// route is a kind of request, and the step that lets a bridge send it.
type route struct {
	world string
	step  string
	keys  []kmsg.Key
}

var routes = []route{
	{"classic", "copy", []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.TxnOffsetCommit, kmsg.EndTxn}},
	{"classic", "drop", []kmsg.Key{kmsg.OffsetCommit}},
	{"classic", "rebalance", []kmsg.Key{kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup}},
	{"classic", "start again", []kmsg.Key{
		kmsg.ApiVersions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.InitProducerID, kmsg.OffsetFetch, kmsg.LeaveGroup, kmsg.OffsetForLeaderEpoch,
		kmsg.DescribeConfigs, kmsg.ListTransactions, kmsg.GetTelemetrySubscriptions, kmsg.PushTelemetry,
	}},
	{"classic", "look around", []kmsg.Key{kmsg.ListOffsets}},
	{"classic", "stop and start", []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata, kmsg.InitProducerID, kmsg.OffsetFetch, kmsg.JoinGroup, kmsg.LeaveGroup}},
	{"classic", "sweep", []kmsg.Key{kmsg.DescribeGroups, kmsg.DescribeTransactions}},
	{"KIP-848", "start again", []kmsg.Key{kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe, kmsg.LeaveGroup}},
	{"KIP-848", "look around", []kmsg.Key{kmsg.ConsumerGroupHeartbeat}},
	{"below 2", "copy", []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.InitProducerID}},
}

// row lets requests of a kind meet a mishap.
func (j *journey) row(key kmsg.Key, m mishap, often bool, s step) outcome {
	j.up()
	n := 1
	if often {
		n = -1
	}
	sessions := len(j.failures())
	j.frames.arm(key, m, n)
	b := j.b
	got := outcome{status: -1}
	for got.steps < 3 && j.frames.hits() == 0 && !closed(j.b.ended) {
		got.steps++
		s.do(j)
		// What suffered in the row before may still wait for its time-out.
		for i := 0; i < 20 && j.frames.hits() == 0 && !closed(j.b.ended); i++ {
			j.feedFor(s.feed, 250*time.Millisecond)
		}
	}
	if j.b != b {
		sessions = 0
	}
	lasts := m.lasts
	if often {
		lasts += 4 * time.Second
	}
	if lasts > 0 {
		j.feedFor(kept, lasts)
	}
	got.hits = j.frames.heal()
	j.pass(50 * time.Millisecond) // the last answer is on its way
	j.feed(kept)
	if s.sweeps && !closed(j.b.ended) {
		j.again() // a sweep that failed is made good by the next one
	}
	got.broken = j.settle()
	if closed(j.b.ended) {
		got.status, got.err = exitCodeOf(j.b.err), j.b.err
	}
	got.sessions = j.failures()[sessions:]
	got.broken = append(got.broken, j.differences()...)
	return got
}

// judgeWire demands that a row is exact, that the bridge goes on, and that no more sessions have failed than that
// explains: what the step has ended, one for each request that met the mishap, what its time-outs add, and one that may
// still meet what the row before has left behind.
func (o outcome) judgeWire(p *phase, m mishap, s step) (faults []string) {
	faults = append(faults, o.broken...)
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if o.hits == 0 {
		fault("the request was never sent")
	}
	if most := 1 + s.ends*o.steps + o.hits + m.sessions; len(o.sessions) > most {
		fault("%d sessions failed, and at most %d are explained", len(o.sessions), most)
	}
	// kfake does not let KIP-848 members go by LeaveGroup. One that could not leave by itself, for its request was
	// lost, reads like a newcomer of our name; Kafka lets it go.
	if o.status >= 0 && (!p.consumer || o.status != 75) {
		fault("it ended with status %d: %v", o.status, o.err)
	}
	return faults
}

// TestWireKinds: every kind of request that a bridge sends has a route, and each kind that has one is sent.
func TestWireKinds(t *testing.T) {
	var mu sync.Mutex
	sent := map[kmsg.Key]bool{}
	t.Run("worlds", func(t *testing.T) {
		for i := range worlds {
			t.Run(worlds[i].name, func(t *testing.T) {
				inJourney(t, &worlds[i], func(t *testing.T, j *journey) {
					for _, s := range steps {
						s.do(j)
					}
					for _, fault := range append(j.settle(), j.differences()...) {
						t.Error(fault)
					}
					mu.Lock()
					defer mu.Unlock()
					for _, key := range j.frames.sent() {
						sent[key] = true
					}
				})
			})
		}
	})
	has := map[kmsg.Key]bool{}
	for _, r := range routes {
		for _, key := range r.keys {
			has[key] = true
		}
	}
	for key := range sent {
		if !has[key] {
			t.Errorf("%s is sent, and no route has it", key.Name())
		}
	}
	for key := range has {
		if !sent[key] {
			t.Errorf("%s has a route, and is never sent", key.Name())
		}
	}
}

// TestMatrixOfTheWire lets every kind of request meet every mishap, once and, for four seconds, each time. kfake
// answers in place of a broker. Without -long, half of the kinds meet each mishap once, and a seventh often.
func TestMatrixOfTheWire(t *testing.T) {
	var rows atomic.Int64
	t.Run("rows", func(t *testing.T) {
		for i, r := range routes {
			p := &worlds[slices.IndexFunc(worlds, func(p phase) bool { return p.name == r.world })]
			s := steps[slices.IndexFunc(steps, func(s step) bool { return s.name == r.step })]
			for k, key := range r.keys {
				if raced && !*long && (i+k)%2 > 0 {
					continue
				}
				t.Run(strings.ReplaceAll(fmt.Sprint(r.world, ", ", r.step, "/", key.Name()), " ", "_"), func(t *testing.T) {
					rows.Add(tryOnTheWire(t, p, s, key, i+k))
				})
			}
		}
	})
	proof.Record(t, proof.Result{Broker: proof.Fake, Rows: rows.Load()})
}

// tryOnTheWire tries one kind in one bubble, and answers how many rows that has.
func tryOnTheWire(t *testing.T, p *phase, s step, key kmsg.Key, place int) (rows int64) {
	type row struct {
		mishap
		often bool
	}
	var all []row
	for i, m := range mishaps {
		if *long || (place+i)%2 == 0 && !raced {
			all = append(all, row{m, false})
		}
		if *long || (place+i)%7 == 0 {
			all = append(all, row{m, true})
		}
	}
	inJourney(t, p, func(t *testing.T, j *journey) {
		for _, r := range all {
			for _, fault := range j.row(key, r.mishap, r.often, s).judgeWire(p, r.mishap, s) {
				t.Errorf("%s, often %v: %s", r.name, r.often, fault)
			}
			if t.Failed() {
				return
			}
		}
	})
	return int64(len(all))
}

// TestJudgeOfTheWire: each way in which a row can go wrong is noticed.
func TestJudgeOfTheWire(t *testing.T) {
	t.Parallel()
	three := []string{ClassAborted, ClassAborted, ClassInDoubt}
	for _, tc := range []struct {
		consumer bool
		got      outcome
		fault    string // empty: fine
	}{
		{false, outcome{steps: 1, hits: 1, status: -1}, ""},
		{false, outcome{steps: 1, hits: 1, status: -1, sessions: three}, ""},
		{false, outcome{steps: 1, hits: 1, status: -1, sessions: slices.Concat(three, three)}, "at most 4"},
		{false, outcome{status: -1}, "never sent"},
		{false, outcome{steps: 1, hits: 1, status: -1, broken: []string{"came twice"}}, "came twice"},
		{false, outcome{steps: 1, hits: 1, status: 75}, "status 75"},
		{true, outcome{steps: 1, hits: 1, status: 75}, ""},
		{true, outcome{steps: 1, hits: 1, status: 1}, "status 1"},
	} {
		faults := strings.Join(tc.got.judgeWire(&phase{consumer: tc.consumer}, mishap{sessions: 1}, step{ends: 1}), "; ")
		if (faults == "") != (tc.fault == "") || !strings.Contains(faults, tc.fault) {
			t.Errorf("%+v: %q, want %q", tc.got, faults, tc.fault)
		}
	}
}
