package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eosbridge/eosbridge/test/e2e"
	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// partitions of input and output: each node leads one of either.
const partitions = 3

// rate is the load in records per second. More than 1,000 would only show that
// three brokers are too much for two cores.
const rate = 400

// plan is what differs between the pipelines.
type plan struct {
	settings map[string]string // environment of every process
	place    placing           // where the coordinators are; nil = anywhere
	space    *Namespace        // where the processes run; nil = here
}

// rig is one pipeline on a cluster: topics of its own, a feed, a reader that
// runs from the start, a follower of all transactions, a watch over the
// invariant, and the processes.
type rig struct {
	cluster *kafka.Cluster
	adm     *kadm.Client
	plan    plan
	in, out string
	group   string // also the prefix of the transactional ids

	input    *oracle.Input
	during   *oracle.Checker
	reader   *oracle.Reader
	follower *oracle.Follower
	watch    *oracle.Watch

	began     time.Time
	feeder    *oracle.Feeder
	stopFeed  context.CancelFunc
	fed       chan error
	stopWatch context.CancelFunc
	watching  sync.WaitGroup

	mu    sync.Mutex
	lives []*life
}

// life is one process of the bridge.
type life struct {
	*e2e.Process
	instance string
}

// startCluster starts three nodes; they end with the test.
func startCluster(t *testing.T, o kafka.Options) *kafka.Cluster {
	t.Helper()
	o.Nodes = 3
	// On a loaded machine a heartbeat is late now and then, and a broker that is
	// put aside for it is a fault that nobody planned.
	o.Properties = maps.Clone(o.Properties)
	if o.Properties == nil {
		o.Properties = make(map[string]string)
	}
	o.Properties["broker.session.timeout.ms"] = "6000"
	// Small heaps: what is kept is small.
	o.JVM = append(o.JVM, "-Xms64m", "-Xmx320m")
	return kafka.Start(t, o)
}

// newRig starts a pipeline with its feed, its readers and one process, and
// returns when that has committed.
func newRig(t *testing.T, c *kafka.Cluster, p plan) (*rig, *life) {
	t.Helper()
	r := &rig{cluster: c, adm: c.Admin(t), plan: p, input: oracle.NewInput(), began: time.Now()}
	eventually(t, "all replicas in sync", r.inSync)
	r.in, r.out = c.Topic(t, partitions), c.Topic(t, partitions)
	r.group = r.out + "-group"
	if p.place != nil {
		p.place(t, r)
	}
	form := oracle.NewForm(100, 500)
	r.during = oracle.NewChecker(form, r.input, oracle.Preserve)
	eventually(t, "an end of the positions to follow from", func(context.Context) (err error) { // not while its leader is new
		following := oracle.Following{Brokers: r.brokers(), Outputs: []string{r.out}, Group: r.group}
		r.follower, err = oracle.Follow(t.Context(), following, r.during)
		return err
	})
	t.Cleanup(r.follower.Close)
	reader, err := oracle.Read(t.Context(), r.reading(), r.during)
	if err != nil {
		t.Fatal(err)
	}
	r.reader = reader
	t.Cleanup(reader.Close)
	r.watch = oracle.NewWatch(r.adm, r.group, []string{r.out}, reader)
	t.Cleanup(func() { r.cleanUp(t) })
	r.startFeed(t, form)
	r.startWatch(t)
	a := r.start(t, "a")
	r.commits(t, a)
	return r, a
}

// brokers are the addresses for everything but the bridge.
func (r *rig) brokers() []string { return strings.Split(r.cluster.Bootstrap(), ",") }

func (r *rig) reading() oracle.Reading {
	return oracle.Reading{Brokers: r.brokers(), Topics: []string{r.out}, Transactions: r.follower.Transactions}
}

func (r *rig) startFeed(t *testing.T, form oracle.Form) {
	t.Helper()
	feed := oracle.Feed{Brokers: r.brokers(), Rate: rate}
	for p := range partitions {
		feed.Sources = append(feed.Sources, oracle.Source{Topic: r.in, Partition: int32(p)})
	}
	feeder, err := oracle.NewFeeder(feed, form, r.input)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.feeder, r.stopFeed, r.fed = feeder, cancel, make(chan error, 1)
	go func() { r.fed <- feeder.Run(ctx) }() // ended by finish or by the test's end
	t.Cleanup(func() {
		cancel()
		feeder.Close()
	})
}

func (r *rig) startWatch(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r.stopWatch = cancel
	r.watching.Go(func() { r.watch.Run(ctx, 300*time.Millisecond) }) // ended by finish or by the test's end
	t.Cleanup(func() { cancel(); r.watching.Wait() })
}

// cleanUp ends what still runs and shows the last lives of a failed test.
func (r *rig) cleanUp(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lives {
		_ = l.Kill() // it may have ended long ago
		if t.Failed() {
			t.Logf("--- bridge %s, started %s:\n%s", l.instance, l.Started.Format("15:04:05.000"), l.Log.Tail(80))
		}
	}
}

// environ is the whole environment of a process of this pipeline. Its times are
// short, so that the faults are longer than some of them.
func (r *rig) environ(instance string) []string {
	all := map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS":  r.cluster.Bootstrap(),
		"BRIDGE_INPUT_TOPICS":      r.in,
		"BRIDGE_OUTPUT_TOPIC":      r.out,
		"BRIDGE_GROUP_ID":          r.group,
		"BRIDGE_INSTANCE_ID":       instance,
		"BRIDGE_PARTITIONING":      "preserve",
		"BRIDGE_EPOCH_INTERVAL":    "100ms",
		"BRIDGE_EPOCH_TIMEOUT":     "5s",
		"BRIDGE_TXN_TIMEOUT":       "15s",
		"BRIDGE_SESSION_TIMEOUT":   "20s",
		"BRIDGE_REBALANCE_TIMEOUT": "25s",
		"BRIDGE_RESTART_MAX_DELAY": "5s",
		"BRIDGE_HTTP_ADDR":         "off",
		"LOG_LEVEL":                "debug",
		"LOG_FORMAT":               "json",
	}
	maps.Copy(all, r.plan.settings)
	var environ []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		environ = append(environ, name+"="+all[name])
	}
	return environ
}

// start starts a process under an instance id.
func (r *rig) start(t *testing.T, instance string) *life {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{binary, "run"}
	if r.plan.space != nil {
		args = r.plan.space.Command(args...)
	}
	p, err := e2e.Launch(args[0], r.environ(instance), args[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	l := &life{p, instance}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives = append(r.lives, l)
	return l
}

// commits waits until the process has committed three more epochs: one may have
// been on its way already.
func (r *rig) commits(t *testing.T, l *life) {
	t.Helper()
	mark := l.Log.Len()
	for range 3 {
		r.await(t, l, mark, "a commit", e2e.Message(e2e.StepCommitted))
		mark = l.Log.Len()
	}
}

// await waits for a line of the process's log, from the mark on.
func (r *rig) await(t *testing.T, l *life, mark int, what string, ok func(e2e.Event) bool) e2e.Event {
	t.Helper()
	e, err := l.Log.Await(within(t, patience), mark, ok)
	if err != nil {
		t.Fatalf("%s of %s: %v; %d records fed, the feed: %v", what, l.instance, err, r.input.Acked(), r.feedError())
	}
	return e
}

// feedError is what ended the feed, nil while it runs.
func (r *rig) feedError() error {
	select {
	case err := <-r.fed:
		r.fed <- err
		return err
	default:
		return nil
	}
}

// stop ends a process with SIGTERM, in order.
func (r *rig) stop(t *testing.T, l *life) {
	t.Helper()
	if err := l.Terminate(); err != nil {
		t.Fatal(err)
	}
	code, err := l.Wait(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 {
		t.Errorf("the bridge %s ended with status %d", l.instance, code)
	}
}
