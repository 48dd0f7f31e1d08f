package oracle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Every test in this file runs on kfake.

// world is a cluster with the two-partition topics "in" and "out", and a copier
// in place of a bridge, which the test leads step by step.
type world struct {
	brokers []string
	adm     *kadm.Client
	form    Form
	input   *Input
	writer  *kgo.Client // transactional, id "copy.a.0"
	group   *kgo.Client // commits positions for group "g"
}

func newWorld(t *testing.T, more ...kfake.Opt) *world {
	t.Helper()
	cluster, err := kfake.NewCluster(append(more, kfake.NumBrokers(1), kfake.SeedTopics(2, "in", "out"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	w := &world{brokers: cluster.ListenAddrs(), form: NewForm(40, 5), input: NewInput()}
	w.restart(t)
	w.group = w.client(t)
	w.adm = kadm.NewClient(w.group)
	return w
}

func (w *world) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(w.brokers...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// restart gives the copier a new producer, which fences the one before.
func (w *world) restart(t *testing.T) {
	t.Helper()
	w.writer = w.client(t, kgo.TransactionalID("copy.a.0"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if _, _, err := w.writer.ProducerID(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func sources(n int32) []Source {
	var all []Source
	for p := range n {
		all = append(all, Source{Topic: "in", Partition: p})
	}
	return all
}

func (w *world) feed(t *testing.T, feed Feed) {
	t.Helper()
	feed.Brokers = w.brokers
	feeder, err := NewFeeder(feed, w.form, w.input)
	if err != nil {
		t.Fatal(err)
	}
	defer feeder.Close()
	if err := feeder.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// copy writes seq from..to of both sources in one transaction, into out/0, and
// leaves it open.
func (w *world) copy(t *testing.T, from, to int64) {
	t.Helper()
	var all []Origin
	for seq := from; seq < to; seq++ {
		for _, s := range sources(2) {
			all = append(all, Origin{s, seq})
		}
	}
	w.begin(t)
	w.write(t, 0, all...)
}

func (w *world) begin(t *testing.T) {
	t.Helper()
	if err := w.writer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
}

// write puts records into a partition of the output.
func (w *world) write(t *testing.T, partition int32, all ...Origin) {
	t.Helper()
	for _, o := range all {
		r := w.form.Record(o)
		r.Topic, r.Partition = "out", partition
		if err := w.writer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) end(t *testing.T, how kgo.TransactionEndTry) {
	t.Helper()
	if err := w.writer.EndTransaction(t.Context(), how); err != nil {
		t.Fatal(err)
	}
}

// position commits offset for both sources.
func (w *world) position(t *testing.T, offset int64) {
	t.Helper()
	var all kadm.Offsets
	for _, s := range sources(2) {
		all.AddOffset(s.Topic, s.Partition, offset, -1)
	}
	if err := w.adm.CommitAllOffsets(t.Context(), "g", all); err != nil {
		t.Fatal(err)
	}
}

func (w *world) read(t *testing.T, uncommitted bool) (*Reader, *Checker) {
	t.Helper()
	checker := NewChecker(w.form, w.input, nil)
	reader, err := Read(t.Context(), Reading{Brokers: w.brokers, Topics: []string{"out"}, Uncommitted: uncommitted}, checker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	return reader, checker
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatal("did not come true in time")
		}
	}
}

// TestFeederAccountsForEachRecord reads the topic it fed: it is its own output.
func TestFeederAccountsForEachRecord(t *testing.T) {
	for name, feed := range map[string]Feed{
		"plain":         {Total: 2000, Rate: 10_000, Sources: sources(2)},
		"at full speed": {Total: 5000, Sources: sources(2)},
		"transactional": {Total: 600, Rate: 3000, Sources: sources(2), TransactionalID: "feed", Rotten: 3},
		"one partition": {Total: 100, Sources: sources(1)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.feed(t, feed)
			if got := w.input.Acked(); got != feed.Total {
				t.Errorf("acknowledged %d, want %d", got, feed.Total)
			}
			got, err := ReadAll(within(t, 10*time.Second), Reading{Brokers: w.brokers, Topics: []string{"in"}},
				NewChecker(w.form, w.input, Preserve))
			if err != nil {
				t.Fatal(err)
			}
			if v := got.Final(); !v.Exact() || v.In != feed.Total {
				t.Error(v)
			}
		})
	}
}

// TestFeederKeepsThePace: a feed of two hundred at a thousand a second takes
// about two tenths, and not less.
func TestFeederKeepsThePace(t *testing.T) {
	w := newWorld(t)
	start := time.Now()
	w.feed(t, Feed{Total: 200, Rate: 1000, Sources: sources(2)})
	if took := time.Since(start); took < 190*time.Millisecond {
		t.Errorf("took %v", took)
	}
}

// TestFeederEndsWithItsContext: what was handed over by then is still accounted for.
func TestFeederEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	feeder, err := NewFeeder(Feed{Brokers: w.brokers, Rate: 2000, Sources: sources(1)}, w.form, w.input)
	if err != nil {
		t.Fatal(err)
	}
	defer feeder.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- feeder.Run(ctx) }()
	eventually(t, func() bool { return w.input.Count(Source{"in", 0}) >= 20 })
	if err := feeder.AddSource(within(t, 300*time.Millisecond), Source{"in", 2}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("fed a partition that is not there: %v", err)
	}
	if resp, err := w.adm.CreatePartitions(t.Context(), 1, "in"); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	for _, s := range []Source{{"in", 1}, {"in", 2}} {
		if err := feeder.AddSource(within(t, 10*time.Second), s); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { return w.input.Count(Source{"in", 1}) >= 20 && w.input.Count(Source{"in", 2}) >= 20 })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if handed := w.input.Count(Source{"in", 0}) + w.input.Count(Source{"in", 1}) + w.input.Count(Source{"in", 2}); handed != w.input.Acked() {
		t.Errorf("handed over %d, acknowledged %d", handed, w.input.Acked())
	}
}

// TestFeederReportsWhatFailed: an uncertain account is an error.
func TestFeederReportsWhatFailed(t *testing.T) {
	w := newWorld(t)
	feeder, err := NewFeeder(Feed{Brokers: w.brokers, Total: 5, Sources: []Source{{"in", 7}}}, w.form, w.input)
	if err != nil {
		t.Fatal(err)
	}
	defer feeder.Close()
	if err := feeder.Run(t.Context()); err == nil {
		t.Error("fed a partition that does not exist")
	}
}

// TestAbortedTransactionsStayInvisible: with read_committed an aborted copy and
// its repetition are exact; a reader that reads everything is found out, both
// by itself and against the final reader.
func TestAbortedTransactionsStayInvisible(t *testing.T) {
	w := newWorld(t)
	w.feed(t, Feed{Total: 40, Sources: sources(2)})
	committed, duringCommitted := w.read(t, false)
	uncommitted, duringUncommitted := w.read(t, true)

	w.copy(t, 0, 10)
	w.end(t, kgo.TryCommit)
	w.copy(t, 10, 20)
	ctx := within(t, 10*time.Second)
	ends, err := w.adm.ListEndOffsets(ctx, "out")
	if err != nil {
		t.Fatal(err)
	}
	if err := uncommitted.Reach(ctx, ends); err != nil { // it has seen what will be aborted
		t.Fatal(err)
	}
	w.end(t, kgo.TryAbort)
	w.copy(t, 10, 20)
	w.end(t, kgo.TryCommit)

	for _, reader := range []*Reader{committed, uncommitted} {
		if err := reader.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
	}
	final, err := ReadAll(ctx, Reading{Brokers: w.brokers, Topics: []string{"out"}}, duringCommitted)
	if err != nil {
		t.Fatal(err)
	}
	if v := final.Compare(duringCommitted); !v.Exact() {
		t.Errorf("read_committed: %s", v)
	}
	v := final.Compare(duringUncommitted)
	if v.Withdrawn.Count != 20 || v.Duplicated.Count != 20 || v.Exact() {
		t.Errorf("read_uncommitted: want 20 withdrawn and 20 duplicated: %s", v)
	}
}

// TestReaderNamesWhereItIsStuck: an open transaction holds up a reader, and its
// error says where.
func TestReaderNamesWhereItIsStuck(t *testing.T) {
	w := newWorld(t)
	reader, _ := w.read(t, false)
	w.copy(t, 0, 1)
	ctx := within(t, 300*time.Millisecond)
	ends, err := w.adm.ListEndOffsets(ctx, "out")
	if err != nil {
		t.Fatal(err)
	}
	err = reader.Reach(ctx, ends)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "out/0 is read up to 0 of 2") {
		t.Errorf("got %v", err)
	}
}

// TestQuiescentNamesWhatIsLeft leaves one thing after the other unfinished.
func TestQuiescentNamesWhatIsLeft(t *testing.T) {
	w := newWorld(t)
	w.feed(t, Feed{Total: 4, Sources: sources(2)})
	rest := Rest{Prefix: "copy", Outputs: []string{"out"}, Group: "g", Inputs: []string{"in"}}
	expect := func(part string) {
		t.Helper()
		err := restless(t.Context(), w.adm, rest)
		if part == "" && err != nil || part != "" && (!errors.Is(err, ErrRestless) || !strings.Contains(err.Error(), part)) {
			t.Errorf("got %v, want %q", err, part)
		}
	}
	expect("positions of g: GROUP_ID_NOT_FOUND")
	w.position(t, 1)
	expect("g is at 1 of 2 in in/")
	w.copy(t, 0, 2)
	expect("copy.a.0 is Ongoing")
	rest.Prefix = "cop" // another bridge's, whose name begins alike
	expect("out/0: last stable offset 0, high watermark 4")
	w.end(t, kgo.TryCommit)
	rest.Prefix = "copy"
	w.position(t, 2)
	expect("")
	if err := Quiescent(within(t, 10*time.Second), w.adm, rest); err != nil {
		t.Error(err)
	}
	w.feed(t, Feed{Total: 1, Sources: sources(1)})
	if err := Quiescent(within(t, 250*time.Millisecond), w.adm, rest); !errors.Is(err, ErrRestless) {
		t.Errorf("a lag is left, got %v", err)
	}
}

// TestWatchHoldsOutputAgainstPositions moves output and positions apart, in
// each direction.
func TestWatchHoldsOutputAgainstPositions(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*testing.T, *world)
		want string
	}{
		"together": {func(t *testing.T, w *world) { w.position(t, 5) }, ""},
		"output without positions": {
			func(t *testing.T, w *world) { w.position(t, 4) }, "is visible, the position is 4",
		},
		"positions without output": {
			func(t *testing.T, w *world) { w.position(t, 6) }, "in/0/5 is below the position 6 and not visible",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.feed(t, Feed{Total: 20, Sources: sources(2)})
			reader, checker := w.read(t, false)
			watch := NewWatch(w.adm, "g", []string{"out"}, reader)
			ctx := within(t, 10*time.Second)
			sample := func() {
				t.Helper()
				if err := reader.CatchUp(ctx); err != nil {
					t.Fatal(err)
				}
				if err := watch.Sample(ctx); err != nil {
					t.Fatal(err)
				}
			}
			w.position(t, 0)
			sample()
			w.copy(t, 0, 5)
			w.end(t, kgo.TryCommit)
			test.do(t, w)
			sample()
			if err := watch.Err(); test.want == "" && err != nil || test.want != "" && (!errors.Is(err, ErrInvariant) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("want %q, got %v", test.want, err)
			}
			if watch.Samples() != 2 || checker.Out() != 10 {
				t.Errorf("%d samples of %d records", watch.Samples(), checker.Out())
			}
		})
	}
}

// TestWatchExplainsWhatIsMissing: not written, written and aborted, visible later.
func TestWatchExplainsWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	w.feed(t, Feed{Total: 20, Sources: sources(2)})
	reader, _ := w.read(t, false)
	watch := NewWatch(w.adm, "g", []string{"out"}, reader)
	ctx := within(t, 20*time.Second)
	explain := func(want ...string) {
		t.Helper()
		if err := reader.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		got := watch.Explain(ctx, Reading{Brokers: w.brokers, Topics: []string{"out"}})
		for _, want := range want {
			if !strings.Contains(got, want) {
				t.Errorf("explained as %q, want %q", got, want)
			}
		}
		if len(want) == 0 && got != "" {
			t.Errorf("explained as %q", got)
		}
	}
	explain()
	w.position(t, 3)
	if err := watch.Sample(ctx); err != nil {
		t.Fatal(err)
	}
	explain("in/0: 3 missing of 0 to 2 below 3;", "the same reader later: all but 3,", "a new one: all but 3,", "uncommitted records: all but 3,")
	w.copy(t, 0, 2)
	w.end(t, kgo.TryAbort)
	explain("the same reader later: all but 3,", "a new one: all but 3,", "uncommitted records: all but 1,")
	w.copy(t, 0, 3)
	w.end(t, kgo.TryCommit)
	explain("the same reader later: all but 0,", "a new one: all but 0,", "uncommitted records: all but 0,")
}

// TestWatchSeesPositionsGoBack: even where the output would still fit.
func TestWatchSeesPositionsGoBack(t *testing.T) {
	w := newWorld(t)
	reader, _ := w.read(t, false)
	watch := NewWatch(w.adm, "g", []string{"out"}, reader)
	for _, at := range []int64{7, 3} {
		w.position(t, at)
		if err := watch.Sample(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if err := watch.Err(); !errors.Is(err, ErrInvariant) || !strings.Contains(err.Error(), "from 7 to 3") {
		t.Errorf("got %v", err)
	}
}

// TestWatchGivesUpWithItsContext: a position that does not become stable is no sample.
func TestWatchGivesUpWithItsContext(t *testing.T) {
	w := newWorld(t)
	reader, _ := w.read(t, false)
	watch := NewWatch(w.adm, "g", []string{"out"}, reader)
	w.position(t, 0)
	w.copy(t, 0, 1) // open: the reader cannot get past it
	ctx := within(t, 300*time.Millisecond)
	watch.Run(ctx, 50*time.Millisecond)
	if err := watch.Err(); err != nil {
		t.Errorf("nothing is wrong with an open transaction: %v", err)
	}
}
