package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// patience is how long anything may take that has to happen at all. It is no
// measure of the product: the machine may be slow.
const patience = 90 * time.Second

// plan is what differs between the tests' pipelines.
type plan struct {
	in, out  int // partitions
	config   []string
	form     func(*oracle.Form)
	settings map[string]string // environment of every process
	address  string            // bootstrap address for the bridge; empty = the cluster's own
	preserve bool              // partition numbers are kept
	raw      bool              // batches are passed through; else decoded
}

// rig is one pipeline on a shared cluster: topics of its own, a feed, a reader
// that runs from the start, a follower of all transactions, a watch over the
// invariant, and the processes.
type rig struct {
	cluster *kafka.Cluster
	adm     *kadm.Client
	plan    plan
	in, out string
	group   string

	form     oracle.Form
	input    *oracle.Input
	during   *oracle.Checker
	reader   *oracle.Reader
	follower *oracle.Follower
	watch    *oracle.Watch
	gaps     gaps
	judged   oracle.Verdict // the last one that exact has come to

	mu    sync.Mutex
	lives []*life
}

type life struct {
	*Process
	instance string
}

// brokers are the addresses for everything but the bridge.
func (r *rig) brokers() []string { return []string{r.cluster.Bootstrap()} }

func newRig(t *testing.T, c *kafka.Cluster, p plan) *rig {
	t.Helper()
	bridgeBinary(t)
	if *raw && p.settings["BRIDGE_TRANSFORM"] == "" {
		p.preserve, p.raw, p.out = true, true, max(p.in, p.out)
	}
	r := &rig{
		cluster: c, adm: c.Admin(t), plan: p,
		in: c.Topic(t, p.in), out: c.Topic(t, p.out, p.config...),
		form: oracle.NewForm(100, 500), input: oracle.NewInput(),
	}
	// A backlog is the normal case, and nothing may depend on how old a record is.
	r.form.Base = r.form.Base.Add(-time.Hour)
	r.group = r.out + "-group"
	if p.form != nil {
		p.form(&r.form)
	}
	place := oracle.Preserve
	if !p.preserve {
		place = oracle.ByKey(p.out)
	}
	r.during = oracle.NewChecker(r.form, r.input, place)
	follower, err := oracle.Follow(t.Context(),
		oracle.Following{Brokers: r.brokers(), Outputs: []string{r.out}, Group: r.group}, r.during)
	if err != nil {
		t.Fatal(err)
	}
	r.follower = follower
	t.Cleanup(follower.Close)
	reading := r.reading()
	reading.Also = r.gaps.observe
	reader, err := oracle.Read(t.Context(), reading, r.during)
	if err != nil {
		t.Fatal(err)
	}
	r.reader = reader
	t.Cleanup(reader.Close)
	r.watch = oracle.NewWatch(r.adm, r.group, []string{r.out}, reader)
	t.Cleanup(func() { r.cleanUp(t) })
	return r
}

func (r *rig) reading() oracle.Reading {
	return oracle.Reading{Brokers: r.brokers(), Topics: []string{r.out}, Transactions: r.follower.Transactions}
}

// cleanUp ends what still runs and shows the last lives of a failed test.
func (r *rig) cleanUp(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lives {
		_ = l.Kill() // it may have ended long ago
	}
	if t.Failed() {
		for _, l := range r.lives[max(0, len(r.lives)-4):] {
			t.Logf("--- bridge %s, started %s:\n%s", l.instance, l.Started.Format("15:04:05.000"), l.Log.Tail(60))
		}
	}
}

// environ is the whole environment of a process of this pipeline.
func (r *rig) environ(instance string, more map[string]string) []string {
	address := r.plan.address
	if address == "" {
		address = r.cluster.Bootstrap()
	}
	partitioning := "key"
	if r.plan.preserve {
		partitioning = "preserve"
	}
	passThrough := "off"
	if r.plan.raw {
		passThrough = "auto"
	}
	all := map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": address,
		"BRIDGE_INPUT_TOPICS":     r.in,
		"BRIDGE_OUTPUT_TOPIC":     r.out,
		"BRIDGE_GROUP_ID":         r.group,
		"BRIDGE_INSTANCE_ID":      instance,
		"BRIDGE_PARTITIONING":     partitioning,
		"BRIDGE_PASS_THROUGH":     passThrough,
		"BRIDGE_EPOCH_INTERVAL":   "100ms",
		"BRIDGE_HTTP_ADDR":        "off",
		"LOG_LEVEL":               "debug",
		"LOG_FORMAT":              "json",
	}
	maps.Copy(all, r.plan.settings)
	maps.Copy(all, more)
	var environ []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		environ = append(environ, name+"="+all[name])
	}
	return environ
}

// start starts a process under an instance id.
func (r *rig) start(t *testing.T, instance string, args ...string) *Process {
	t.Helper()
	return r.startWith(t, instance, nil, args...)
}

// startWith is start with settings of this process only.
func (r *rig) startWith(t *testing.T, instance string, settings map[string]string, args ...string) *Process {
	t.Helper()
	p, err := Launch(bridgeBinary(t), r.environ(instance, settings), append([]string{"run"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives = append(r.lives, &life{p, instance})
	return p
}

// await waits for a line of the process's log.
func await(t *testing.T, p *Process, mark int, what string, ok func(Event) bool) Event {
	t.Helper()
	e, err := p.Log.Await(within(t, patience), mark, ok)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return e
}

// awaitCommit waits for an epoch committed after the mark.
func awaitCommit(t *testing.T, p *Process, mark int) Event {
	t.Helper()
	return await(t, p, mark, "a commit", Message(StepCommitted))
}

// awaitRunning waits until the process has joined the group.
func awaitRunning(t *testing.T, p *Process) {
	t.Helper()
	await(t, p, 0, "running", State("running"))
}

// awaitAssigned waits until the process has partitions.
func awaitAssigned(t *testing.T, p *Process) {
	t.Helper()
	await(t, p, 0, "an assignment", Message("partitions assigned"))
}

// kill ends the process with SIGKILL; it must not have ended before.
func kill(t *testing.T, p *Process) {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

// exits waits for the process to end with this status.
func exits(t *testing.T, p *Process, want int) {
	t.Helper()
	code, err := p.Wait(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	if code != want {
		t.Fatalf("the bridge ended with status %d, want %d", code, want)
	}
}

// stop ends the process with SIGTERM, which must succeed.
func stop(t *testing.T, p *Process) {
	t.Helper()
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	exits(t, p, 0)
}

// feeding is a feed that goes on until it is stopped.
type feeding struct {
	*oracle.Feeder
	cancel context.CancelFunc
	done   chan error
}

// sources are the partitions of the input topic.
func (r *rig) sources() []oracle.Source {
	var all []oracle.Source
	for p := range r.plan.in {
		all = append(all, oracle.Source{Topic: r.in, Partition: int32(p)})
	}
	return all
}

// feed starts a feed of so many records per second over all partitions.
func (r *rig) feed(t *testing.T, rate int) *feeding {
	t.Helper()
	return r.feedAs(t, oracle.Feed{Rate: rate})
}

func (r *rig) feedAs(t *testing.T, feed oracle.Feed) *feeding {
	t.Helper()
	feed.Brokers = r.brokers()
	if feed.Sources == nil {
		feed.Sources = r.sources()
	}
	feeder, err := oracle.NewFeeder(feed, r.form, r.input)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &feeding{Feeder: feeder, cancel: cancel, done: make(chan error, 1)}
	go func() { f.done <- feeder.Run(ctx) }() // ended by finish, or by the test's end
	t.Cleanup(func() {
		cancel()
		feeder.Close()
	})
	return f
}

// finish ends the feed: every record of it is in the input.
func (f *feeding) finish(t *testing.T) {
	t.Helper()
	f.cancel()
	f.wait(t)
}

// wait waits for a feed with a total.
func (f *feeding) wait(t *testing.T) {
	t.Helper()
	if err := <-f.done; err != nil {
		t.Fatal(err)
	}
}

// feedNow feeds n records at once and returns when they are in the input.
func (r *rig) feedNow(t *testing.T, n int64) {
	t.Helper()
	r.feedAs(t, oracle.Feed{Total: n}).wait(t)
}

// watched samples the invariant until the test stops it.
func (r *rig) watched(t *testing.T) (stopWatch func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.watch.Run(ctx, 250*time.Millisecond) }) // ended by the returned function or by the test's end
	t.Cleanup(func() { cancel(); wg.Wait() })
	return func() { cancel(); wg.Wait() }
}

// rest is what has to have come to rest when all is bridged.
func (r *rig) rest() oracle.Rest {
	return oracle.Rest{Prefix: r.group, Outputs: []string{r.out}, Group: r.group, Inputs: []string{r.in}}
}

// settle waits until the running processes have bridged everything.
func (r *rig) settle(t *testing.T) {
	t.Helper()
	ctx := within(t, patience)
	if err := oracle.Quiescent(ctx, r.adm, r.rest()); err != nil {
		t.Fatal(err)
	}
	if err := r.reader.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
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

// exact settles, and asks for an exact verdict and an unbroken invariant.
func (r *rig) exact(t *testing.T) {
	t.Helper()
	r.settle(t)
	if err := r.follower.Rest(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	v := r.verdict(t)
	r.judged = v
	if !v.Exact() {
		t.Errorf("not exact: %s", v)
	}
	r.invariant(t)
	t.Logf("%s; invariant held in %d samples", v, r.watch.Samples())
}

// invariant says what the watch has found, and what became of it since.
func (r *rig) invariant(t *testing.T) {
	t.Helper()
	if err := r.watch.Err(); err != nil {
		t.Errorf("%v\n%s", err, r.watch.Explain(within(t, patience), r.reading()))
	}
}

// position is the group's committed offset of a partition; -1 if it has none.
func (r *rig) position(t *testing.T, partition int32) int64 {
	t.Helper()
	all, err := r.adm.FetchOffsets(within(t, patience), r.group)
	if err != nil {
		return -1 // the group is not there yet
	}
	at, ok := all.Lookup(r.in, partition)
	if !ok || at.Err != nil {
		return -1
	}
	return at.At
}

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := within(t, patience)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatal(what, "did not come true in time")
		}
	}
}

// gaps measures, for each input partition, the longest time between two of its
// records becoming visible.
type gaps struct {
	mu      sync.Mutex
	since   time.Time
	last    map[oracle.Source]time.Time
	longest time.Duration
}

func (g *gaps) observe(r *kgo.Record) {
	o, err := oracle.OriginOf(r)
	if err != nil {
		return // the checker says so
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	before := g.since
	if at := g.last[o.Source]; at.After(before) {
		before = at
	}
	if g.last == nil {
		g.last = make(map[oracle.Source]time.Time)
	}
	if !before.IsZero() {
		g.longest = max(g.longest, now.Sub(before))
	}
	g.last[o.Source] = now
}

// begin forgets what was before now.
func (g *gaps) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since, g.longest = time.Now(), 0
}

// end is the longest gap since begin, a present one included.
func (g *gaps) end() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	longest := g.longest
	for _, at := range g.last {
		longest = max(longest, time.Since(at))
	}
	return longest
}

// median and maximum of durations, for a report.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(all))
	return fmt.Sprintf("median %v, max %v of %d", sorted[len(sorted)/2].Round(time.Millisecond),
		sorted[len(sorted)-1].Round(time.Millisecond), len(sorted))
}
