package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sweepBed is a kfake cluster (in process; not Apache Kafka: it knows neither the Prepare states nor
// CONCURRENT_TRANSACTIONS, which the tests answer in its place) with a group "app" and a topic "out".
type sweepBed struct {
	*kfake.Cluster
	t   *testing.T
	ctx context.Context
	cl  *kgo.Client
	adm *kadm.Client
	log bytes.Buffer
}

func newSweepBed(t *testing.T, opts ...kfake.Opt) *sweepBed {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(3), kfake.SeedTopics(4, "in", "out"),
		kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "100"}),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &sweepBed{Cluster: c, t: t}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	b.ctx = ctx
	b.cl = b.client()
	b.adm = kadm.NewClient(b.cl)
	return b
}

func (b *sweepBed) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// open leaves a transaction open under the id, with one record in the partition of "out".
func (b *sweepBed) open(id string, partition int32) *kgo.Client {
	b.t.Helper()
	cl := b.client(kgo.TransactionalID(id))
	if err := cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	if err := cl.ProduceSync(b.ctx, &kgo.Record{Topic: "out", Partition: partition, Value: []byte(id)}).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
	return cl
}

// join adds a member to the group and waits until it is n members strong.
func (b *sweepBed) join(instance string, n int, opts ...kgo.Opt) {
	b.t.Helper()
	b.client(append([]kgo.Opt{
		kgo.ConsumerGroup("app"), kgo.InstanceID(instance), kgo.ConsumeTopics("in"), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(100 * time.Millisecond),
	}, opts...)...)
	if _, err := b.WaitGroupStable(b.ctx, "app", n); err != nil {
		b.t.Fatal(err)
	}
}

func consumerProtocol() []kgo.Opt {
	return []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}
}

// options sweep everything that is not young by an hour's clock error.
func (b *sweepBed) options() SweepOptions {
	return SweepOptions{
		Prefix: "app", Self: "me", OwnSlots: []string{"app.me.0", "app.me.1"}, Group: "app",
		OlderThan: -time.Hour, TxnTimeout: 40 * time.Second,
		Logger: slog.New(slog.NewJSONHandler(&b.log, nil)),
	}
}

func (b *sweepBed) sweep(o SweepOptions) ([]string, error) {
	swept, err := Sweep(b.ctx, b.adm, b.cl, o)
	var ids []string
	for _, s := range swept {
		ids = append(ids, s.ID.String())
	}
	return ids, err
}

// expect sweeps and wants exactly these ids aborted, and no error.
func (b *sweepBed) expect(o SweepOptions, want ...string) {
	b.t.Helper()
	if got, err := b.sweep(o); err != nil || !slices.Equal(got, want) {
		b.t.Errorf("swept %q, %v, want %q", got, err, want)
	}
}

// stillOpen wants exactly these ids to have an open transaction.
func (b *sweepBed) stillOpen(want ...string) {
	b.t.Helper()
	listed, err := b.adm.ListTransactions(b.ctx, nil, []string{stateOngoing})
	if got := listed.TransactionalIDs(); err != nil || !slices.Equal(got, want) {
		b.t.Errorf("open are %q, %v, want %q", got, err, want)
	}
}

func (b *sweepBed) countFences() *kfake.FaultHandle {
	return b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Observe: true, Count: -1})
}

func TestSweepAbortsTheDead(t *testing.T) {
	for name, protocol := range map[string][]kgo.Opt{"classic": nil, "KIP-848": consumerProtocol()} {
		t.Run(name, func(t *testing.T) {
			b := newSweepBed(t)
			b.join("me", 1, protocol...)
			dead := b.open("app.dead.1", 2)
			if p := b.PartitionInfo("out", 2); p.LastStableOffset != 0 || p.HighWatermark != 1 {
				t.Fatalf("before the sweep: %+v", p)
			}
			b.expect(b.options(), "app.dead.1")
			b.stillOpen()
			// The marker is written: readers go on.
			if p := b.PartitionInfo("out", 2); p.LastStableOffset != p.HighWatermark {
				t.Errorf("after the sweep: %+v", p)
			}
			b.expect(b.options()) // nothing is left to do
			// If it was not dead after all, it cannot go on unnoticed.
			err := dead.ProduceSync(b.ctx, &kgo.Record{Topic: "out", Partition: 2}).FirstErr()
			if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
				t.Errorf("the fenced owner produces with %v", err)
			}
			if log := b.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, `"level":"INFO"`) ||
				!strings.Contains(log, `"txn_id":"app.dead.1"`) || !strings.Contains(log, `"age":`) || !strings.Contains(log, `"instance":"dead"`) {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// TestSweepLeavesTheLiving: of all that is open, only what is ours by name, of an instance that is gone, or a slot of
// our own that we do not use.
func TestSweepLeavesTheLiving(t *testing.T) {
	for name, protocol := range map[string][]kgo.Opt{"classic": nil, "KIP-848": consumerProtocol()} {
		t.Run(name, func(t *testing.T) {
			b := newSweepBed(t)
			b.join("me", 1, protocol...)
			b.join("sibling", 2, protocol...)
			for i, id := range []string{
				"app.me.0", "app.me.1", // in use
				"app.me.7",                       // an older layout of ours
				"app.sibling.0", "app.sibling.1", // a live member
				"app.dead.0", "app.dead-2.1", // gone
				"app10.dead.0", "ap.dead.0", "app.a.b.0", // other pipelines
				"app.dead.10", "app.dead", "app.dead.x", // other people's naming
			} {
				b.open(id, int32(i%4))
			}
			b.expect(b.options(), "app.dead-2.1", "app.dead.0", "app.me.7")
			b.stillOpen("ap.dead.0", "app.a.b.0", "app.dead", "app.dead.10", "app.dead.x", "app.me.0", "app.me.1",
				"app.sibling.0", "app.sibling.1", "app10.dead.0")
		})
	}
}

func TestSweepLeavesTheYoung(t *testing.T) {
	b := newSweepBed(t)
	b.join("me", 1)
	b.open("app.dead.0", 0)
	b.open("app.me.7", 1) // ours: age does not matter
	o := b.options()
	o.OlderThan = time.Hour
	fences := b.countFences()
	b.expect(o, "app.me.7")
	b.stillOpen("app.dead.0")
	if n := fences.Hits(); n != 1 {
		t.Errorf("%d InitProducerID requests, want 1", n)
	}

	// The start time counts, not when it was first seen.
	b.ControlKey(int16(kmsg.DescribeTransactions), b.describing("app.dead.0", stateOngoing, time.Now().Add(-2*time.Hour)))
	swept, err := Sweep(b.ctx, b.adm, b.cl, o)
	if err != nil || len(swept) != 1 || swept[0].Age < 2*time.Hour || swept[0].Age > 3*time.Hour {
		t.Errorf("swept %+v, %v, want one of two hours", swept, err)
	}
}

// describing answers one DescribeTransactions about the id in the broker's place.
func (b *sweepBed) describing(id, state string, start time.Time) func(kmsg.Request) (kmsg.Response, error, bool) {
	return func(r kmsg.Request) (kmsg.Response, error, bool) {
		resp := r.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		st := kmsg.NewDescribeTransactionsResponseTransactionState()
		st.TransactionalID, st.State, st.StartTimestamp = id, state, start.UnixMilli()
		resp.TransactionStates = append(resp.TransactionStates, st)
		return resp, nil, true
	}
}

// idle makes n ids of dead instances that have no transaction.
func (b *sweepBed) idle(n int) {
	b.t.Helper()
	var (
		next    atomic.Int32
		workers sync.WaitGroup
	)
	for range 16 {
		workers.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				id := ID{"app", fmt.Sprintf("dead-%d", i), i % 2}.String()
				req := kmsg.NewPtrInitProducerIDRequest()
				req.TransactionalID, req.TransactionTimeoutMillis = &id, 40_000
				if resp, err := req.RequestWith(b.ctx, b.cl); err != nil || resp.ErrorCode != 0 {
					b.t.Errorf("InitProducerID: %v, %+v", err, resp)
				}
			}
		})
	}
	workers.Wait()
	if b.t.Failed() {
		b.t.FailNow()
	}
}

// TestSweepFencesNoIdleID: ids live on for days after their process. Fencing each would cost a write per id and
// would keep them alive for ever. An old broker lists them although it was asked for open transactions only.
func TestSweepFencesNoIdleID(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("filter ignored %v", old), func(t *testing.T) {
			b := newSweepBed(t)
			b.join("me", 1)
			b.idle(2000)
			b.open("app.gone.0", 0)
			var listings atomic.Int32
			if old {
				b.ControlKey(int16(kmsg.ListTransactions), func(r kmsg.Request) (kmsg.Response, error, bool) {
					r.(*kmsg.ListTransactionsRequest).StateFilters = nil
					listings.Add(1)
					return nil, nil, false
				})
			}
			fences := b.countFences()
			described := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, Observe: true, Count: -1, TxnID: "app.dead-7.1"})
			b.expect(b.options(), "app.gone.0")
			if n := fences.Hits(); n != 1 {
				t.Errorf("%d InitProducerID requests, want 1", n)
			}
			if n := described.Hits(); n != 0 {
				t.Errorf("an idle id was described %d times", n)
			}
			if old && listings.Load() == 0 {
				t.Error("the control for an old broker was not used")
			}
		})
	}
}

func TestSweepAsksNothingWithoutReason(t *testing.T) {
	b := newSweepBed(t)
	b.open("other.dead.0", 0)
	b.open("app.me.0", 1)
	asked := b.Fault(kfake.Fault{
		Keys:    []kmsg.Key{kmsg.DescribeGroups, kmsg.ConsumerGroupDescribe, kmsg.DescribeTransactions, kmsg.InitProducerID},
		Observe: true, Count: -1,
	})
	b.expect(b.options())
	if n := asked.Hits(); n != 0 {
		t.Errorf("%d requests although none of the open transactions is ours to sweep", n)
	}
	if b.log.Len() > 0 {
		t.Errorf("a healthy sweep logs %s", &b.log)
	}
}

// TestSweepRetriesConcurrentTransactions: one busy id keeps nobody else waiting, and is fenced in the end.
func TestSweepRetriesConcurrentTransactions(t *testing.T) {
	b := newSweepBed(t)
	b.join("me", 1)
	b.open("app.busy.0", 0)
	b.open("app.dead.0", 1)
	busy := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TxnID: "app.busy.0", Err: kerr.ConcurrentTransactions, Count: 4})
	b.expect(b.options(), "app.busy.0", "app.dead.0")
	b.stillOpen()
	if n := busy.Hits(); n != 4 {
		t.Errorf("CONCURRENT_TRANSACTIONS answered %d times, want 4", n)
	}
	if log := b.log.String(); strings.Index(log, "app.dead.0") > strings.Index(log, "app.busy.0") {
		t.Error("the busy id held up the other")
	}
}

// TestSweepAfterConcurrentTransactions: what the coordinator says about a busy id decides what happens next. Only the
// transaction that was examined may be fenced again.
func TestSweepAfterConcurrentTransactions(t *testing.T) {
	start := time.Now().Add(-time.Minute)
	type answer struct {
		state string
		start time.Time
	}
	for _, test := range []struct {
		name    string
		answers []answer // after the first InitProducerID
		fences  int
		swept   bool
	}{
		{"aborted meanwhile", []answer{{"CompleteAbort", start}}, 1, true},
		{"abort under way", []answer{{"PrepareEpochFence", start}, {"PrepareAbort", start}, {"PrepareAbort", start}, {"CompleteAbort", start}}, 1, true},
		{"aborted and empty", []answer{{"Empty", time.UnixMilli(-1)}}, 1, true},
		{"committed by its owner", []answer{{"PrepareCommit", start}}, 1, false},
		{"committed by its owner, done", []answer{{"CompleteCommit", start}}, 1, false},
		{"owner is back with a new one", []answer{{stateOngoing, start.Add(time.Second)}}, 1, false},
		{"still the same", []answer{{stateOngoing, start}, {stateOngoing, start}, {"CompleteAbort", start}}, 3, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newSweepBed(t)
			b.join("me", 1)
			b.open("app.dead.0", 0)
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.ConcurrentTransactions, Count: -1})
			fences := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TxnID: "app.dead.0", Observe: true, Count: -1})
			var sent atomic.Int32
			b.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
				sent.Add(1)
				return nil, nil, false
			})
			b.ControlKey(int16(kmsg.DescribeTransactions), b.describing("app.dead.0", stateOngoing, start))
			for _, a := range test.answers {
				b.ControlKey(int16(kmsg.DescribeTransactions), b.describing("app.dead.0", a.state, a.start))
			}
			var want []string
			if test.swept {
				want = []string{"app.dead.0"}
			}
			b.expect(b.options(), want...)
			if n := int(sent.Load()); n != test.fences {
				t.Errorf("%d InitProducerID requests (%d seen), want %d", n, fences.Hits(), test.fences)
			}
			if b.log.Len() > 0 != test.swept {
				t.Errorf("log: %s", &b.log)
			}
		})
	}
}

func TestSweepEndsWithContext(t *testing.T) {
	b := newSweepBed(t)
	b.join("me", 1)
	b.open("app.wedged.0", 0)
	b.open("app.dead.0", 1)
	wedged := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TxnID: "app.wedged.0", Err: kerr.ConcurrentTransactions, Count: -1})
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	go func() { // ends with the sweep, or with the test
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for wedged.Hits() < 3 && ctx.Err() == nil { // it is looked at in rounds: by then the other one is through
			<-tick.C
		}
		cancel()
	}()
	swept, err := Sweep(ctx, b.adm, b.cl, b.options())
	if len(swept) != 1 || swept[0].ID.Instance != "dead" {
		t.Errorf("swept %+v", swept)
	}
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "app.wedged.0") {
		t.Errorf("error %v, want the context's and the id", err)
	}
}

// TestSweepGoesOnAfterFailures: what one id or one broker refuses does not protect the rest.
func TestSweepGoesOnAfterFailures(t *testing.T) {
	for name, fault := range map[string]struct {
		kfake.Fault
		want []string
	}{
		"fence": {
			kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TxnID: "app.bad.0", Err: kerr.TransactionalIDAuthorizationFailed, Count: -1},
			[]string{"app.dead.0"},
		},
		"describe": {
			kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, TxnID: "app.bad.0", Err: kerr.InvalidTxnState, Count: -1},
			[]string{"app.dead.0"},
		},
		"timeout above the broker's maximum": {
			kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.InvalidTransactionTimeout, Count: -1},
			nil,
		},
		"list": { // kfake lists every id on every broker, so two of three will do
			kfake.Fault{Keys: []kmsg.Key{kmsg.ListTransactions}, Nodes: []int32{1}, TopLevel: true, Err: kerr.InvalidRequest, Count: -1},
			[]string{"app.bad.0", "app.dead.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSweepBed(t)
			b.join("me", 1)
			b.open("app.bad.0", 0)
			b.open("app.dead.0", 1)
			f := b.Fault(fault.Fault)
			got, err := b.sweep(b.options())
			if !errors.Is(err, fault.Err) {
				t.Errorf("error %v, want %v", err, fault.Err)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			if !slices.Equal(got, fault.want) {
				t.Errorf("swept %q, want %q", got, fault.want)
			}
			f.Remove()
			if _, err := b.sweep(b.options()); err != nil {
				t.Errorf("the next sweep: %v", err)
			}
			b.stillOpen()
		})
	}
}

// TestSweepIgnoresExpired: an id that expires between list and describe is nobody's.
func TestSweepIgnoresExpired(t *testing.T) {
	b := newSweepBed(t)
	b.join("me", 1)
	b.open("app.dead.0", 0)
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, TxnID: "app.dead.0", Err: kerr.TransactionalIDNotFound, Count: -1})
	b.expect(b.options())
}

// TestSweepLeavesWhatEndedMeanwhile: between list and describe the owner may commit, and a start that the
// coordinator does not tell is no great age.
func TestSweepLeavesWhatEndedMeanwhile(t *testing.T) {
	for name, answer := range map[string]struct {
		state string
		start time.Time
	}{
		"committing":    {statePrepareCommit, time.Now().Add(-time.Hour)},
		"committed":     {stateCompleteCommit, time.Now().Add(-time.Hour)},
		"idle":          {"Empty", time.UnixMilli(-1)},
		"start unknown": {stateOngoing, time.UnixMilli(-1)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSweepBed(t)
			b.join("me", 1)
			b.open("app.dead.0", 0)
			b.ControlKey(int16(kmsg.DescribeTransactions), b.describing("app.dead.0", answer.state, answer.start))
			fences := b.countFences()
			b.expect(b.options())
			if n := fences.Hits(); n != 0 {
				t.Errorf("%d InitProducerID requests, want none", n)
			}
		})
	}
}

func TestSweepOptionsChecked(t *testing.T) {
	b := newSweepBed(t)
	for name, spoil := range map[string]func(*SweepOptions){
		"prefix":  func(o *SweepOptions) { o.Prefix = "" },
		"group":   func(o *SweepOptions) { o.Group = "" },
		"timeout": func(o *SweepOptions) { o.TxnTimeout = time.Microsecond },
	} {
		o := b.options()
		spoil(&o)
		if _, err := b.sweep(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	o := b.options()
	o.Logger = nil
	b.join("me", 1)
	b.open("app.dead.0", 0)
	b.expect(o, "app.dead.0")
}
