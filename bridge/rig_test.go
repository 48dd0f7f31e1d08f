package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/link"
	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/test/proof"
	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// Most tests of the whole bridge run against kfake (in process; not Apache Kafka) in a testing/synctest bubble,
// over a network of pipes. Time in the bubble stands still while anything can run: no deadline fires because the
// machine is busy, an hour of the bridge takes seconds, and a goroutine that outlives Run fails the test.

// world is a cluster and what a test needs around it.
type world struct {
	*kfake.Cluster
	t       *testing.T
	wire    *wire     // between the bridges and the brokers
	bridges []kgo.Opt // of the clients of bridges
	link    *link.Dialer
	own     []kgo.Opt // of the test's clients
	cl      *kgo.Client
	adm     *kadm.Client
	book    *logbook
	fed     atomic.Int64 // records
}

// inBubble gives test a world of its own, where time is fake. Topics are made by the test.
func inBubble(t *testing.T, test func(t *testing.T, w *world), opts ...kfake.Opt) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { <-time.After(time.Minute) }) // the last cleanup: what has been closed ends by itself
		virtual := &kfake.VirtualNetwork{}
		w := newWorld(t, time.Minute, virtual.DialContext, append([]kfake.Opt{kfake.Ports(9092), kfake.ListenFn(virtual.Listen)}, opts...)...)
		test(t, w)
	})
}

// leadersMove is called by tests in which leaders move: a request of a bridge then takes time. kgo asks again at once for a
// partition of which the answer names another leader (KIP-951), until its metadata has followed; without a delay the clock
// of the bubble would never move on to that, and memory fill up with what each round leaves.
func (w *world) leadersMove() { w.wire.delay = time.Millisecond }

// inRealTime gives test a world over TCP: for what a bubble cannot hold, and as a check on the bubble.
func inRealTime(t *testing.T, test func(t *testing.T, w *world), opts ...kfake.Opt) {
	t.Helper()
	t.Parallel()
	test(t, newWorld(t, 0, (&net.Dialer{}).DialContext, append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...))
}

func newWorld(t *testing.T, grace time.Duration, dial func(context.Context, string, string) (net.Conn, error), opts ...kfake.Opt) *world {
	t.Helper()
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Cleanup(func() { // kfake must have finished with slept controls: they wake up with the test's context
		if grace > 0 {
			<-time.After(grace)
		}
	})
	w := &world{Cluster: c, t: t, wire: &wire{dial: dial, open: map[*wired]bool{}}, book: &logbook{}}
	unharmed := &wire{dial: dial, open: map[*wired]bool{}} // no test cuts it
	w.own = []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(unharmed.DialContext), kgo.MetadataMinAge(20 * time.Millisecond)}
	w.link = newLink(w.wire)
	w.bridges = []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(w.link.Dial)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the bridges:\n%s", w.book)
		}
	})
	w.anew()
	t.Cleanup(func() { proof.Record(t, proof.Result{Broker: proof.Fake, Scenarios: 1, Records: w.fed.Load()}) })
	return w
}

// anew makes the test's clients, which then know the topics as they are now. Partitions are chosen by hand.
func (w *world) anew() {
	w.t.Helper()
	w.cl = w.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	w.adm = kadm.NewClient(w.cl)
}

func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, w.own...), opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// options are those of a bridge from topic "in" to topic "out" with short timeouts that keep the laws of
// config: longest open age + 2 × epoch timeout <= transaction timeout < session timeout <= rebalance timeout.
func (w *world) options(changes ...func(*Options)) Options {
	o := Options{
		Group: "g", Instance: "a", Prefix: "g", Inputs: []string{"in"}, Output: "out", Chain: chain(w.t, ""),
		Delivery: ExactlyOnce, Start: offsets.Start{Kind: offsets.StartEarliest},
		EpochInterval: 50 * time.Millisecond, EpochTimeout: 3 * time.Second, EpochMaxRecords: 100_000, EpochMaxBytes: 64 << 20,
		TxnTimeout: 8 * time.Second, SessionTimeout: 10 * time.Second, RebalanceTimeout: 12 * time.Second,
		LeaveOnStop: true, StopTimeout: 5 * time.Second,
		Lanes: 2, Memory: 256 << 20, RestartMaxDelay: time.Second, RestartLimit: 10,
		Client: w.bridges, Link: w.link, Log: slog.New(w.book),
		PassThrough: *passThrough,
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func instance(name string) func(*Options) { return func(o *Options) { o.Instance = name } }

func chain(t *testing.T, expression string) *transform.Spec {
	t.Helper()
	spec, err := transform.Parse(expression)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// running is a bridge that runs.
type running struct {
	*Bridge
	t     *testing.T
	stop  context.CancelFunc // the first signal
	abort context.CancelFunc // the second
	ended chan struct{}
	err   error // after ended
}

// start runs a bridge until the test stops it, at the latest when it ends.
func (w *world) start(o Options) *running {
	w.t.Helper()
	b, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.startBridge(b)
}

// startBridge is start for a bridge that the test has made.
func (w *world) startBridge(b *Bridge) *running {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	abortCtx, abort := context.WithCancel(context.WithoutCancel(w.t.Context()))
	r := &running{Bridge: b, t: w.t, stop: stop, abort: abort, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = b.Run(ctx, abortCtx)
	}()
	w.t.Cleanup(func() { // runs before the cluster closes
		stop()
		abort()
		<-r.ended
	})
	return r
}

// wait waits until Run has returned by itself.
func (r *running) wait() error {
	r.t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(patience):
		r.t.Fatalf("the bridge still runs after %s", patience)
		return nil
	}
}

// stopped stops the bridge in order and demands that this is clean.
func (r *running) stopped() {
	r.t.Helper()
	r.stop()
	if err := r.wait(); err != nil {
		r.t.Fatalf("stop: %v", err)
	}
}

// fails waits for the end and demands an exit status and words in the message.
func (r *running) fails(status int, words ...string) error {
	r.t.Helper()
	err := r.wait()
	var fatal *txn.FatalError
	if !errors.As(err, &fatal) || fatal.ExitCode() != status {
		r.t.Fatalf("ended with %v, want exit status %d", err, status)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			r.t.Errorf("%q is missing in the message: %v", word, err)
		}
	}
	return err
}

// epochs are the summaries of epochs that ended, the last 100, oldest first.
func (r *running) epochs() []EpochSummary {
	all := r.history.latest()
	slices.Reverse(all)
	return all
}

// outcomes counts the epochs by outcome.
func (r *running) outcomes() map[string]int {
	n := map[string]int{}
	for _, e := range r.epochs() {
		n[e.Outcome]++
	}
	return n
}

// holds answers how many partitions are assigned.
func (r *running) holds() int {
	s := r.board.snapshot()
	return s.assignedPartitions()
}

func (r *running) restarts() int64 { return r.board.snapshot().Restarts.Total }

// patience is how long a test waits for something that must happen; fake time in a bubble.
const patience = time.Minute

// until polls a condition.
func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			w.t.Fatalf("after %s still not: %s", patience, what)
		}
	}
}

// pass lets d go by, or what is left of the test.
func (w *world) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.t.Context().Done():
	}
}

// assigned waits until the bridge is a member with the number of partitions.
func (w *world) assigned(r *running, partitions int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%s runs with %d partitions", r.opts.Instance, partitions), func() bool {
		return r.board.snapshot().State == StateRunning && r.holds() == partitions
	})
}
