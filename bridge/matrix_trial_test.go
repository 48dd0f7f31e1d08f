package bridge

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
)

// lasts is how long a fault lasts at most that does not go away by itself: longer than the epoch timeout, but not so
// long that a classic session of the group or the start's patience ends before the client has asked once more.
func (p *phase) lasts() time.Duration {
	if p.consumer {
		return 7 * time.Second // longer than the interval of heartbeats
	}
	return 3500 * time.Millisecond
}

// trial is a world in which rows of one phase are tried, one after the other.
type trial struct {
	*world
	phase *phase
	seen  *witness
	b     *running // the last bridge
	book  *logbook // its own
}

// inTrial gives test a trial of a phase.
func inTrial(t *testing.T, p *phase, test func(t *testing.T, tr *trial)) {
	t.Helper()
	inTrialOf(t, p, func(*world) {}, test)
}

// inTrialOf lets prepare change the world before a bridge runs in it.
func inTrialOf(t *testing.T, p *phase, prepare func(w *world), test func(t *testing.T, tr *trial)) {
	t.Helper()
	var opts []kfake.Opt
	if p.below2 {
		opts = append(opts, kfake.MaxVersions(kversion.V3_7_0()))
	}
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		prepare(w)
		w.wire.delay = time.Millisecond // what a client repeats without a pause takes time all the same
		tr := &trial{world: w, phase: p, seen: w.witness("out")}
		tr.feed(kept) // the test's clients know the topics from here on
		tr.up()
		test(t, tr)
	}, opts...)
}

// Keys of records that the transform keeps, and drops.
const (
	kept    = "kept"
	dropped = "dropped"
)

// feed writes a record to each partition.
func (tr *trial) feed(key string) {
	tr.t.Helper()
	var records []*kgo.Record
	for p := range int32(2) {
		r := &kgo.Record{Topic: "in", Partition: p, Key: []byte(key), Value: []byte(tr.unique("in", p)), Timestamp: time.Now().Truncate(time.Millisecond)}
		tr.seen.expect(r, key == kept)
		records = append(records, r)
	}
	tr.write(records...)
}

func (tr *trial) start() {
	if tr.phase.consumer && tr.GroupInfo("g") != nil {
		tr.leave()
	}
	book := &logbook{}
	tr.book = book
	tr.b = tr.world.start(tr.options(func(o *Options) {
		o.Chain = keep(tr.t, func(r *transform.Record) bool { return string(r.Key) == kept })
		o.Consumer, o.IntervalChosen, o.RestartLimit, o.Start, o.Log = tr.phase.consumer, true, 100, offsets.Start{}, slog.New(book)
	}))
	tr.t.Cleanup(func() {
		if tr.t.Failed() {
			tr.t.Logf("log of a bridge:\n%s", book)
		}
	})
}

// up runs a bridge, if none does, until it has committed everything.
func (tr *trial) up() {
	tr.t.Helper()
	if tr.b == nil || closed(tr.b.ended) {
		tr.start()
	}
	tr.assigned(tr.b, 2)
	tr.caughtUp("in")
}

// leave takes members out of a KIP-848 group: kfake does not let them go by LeaveGroup; Kafka does.
func (tr *trial) leave() {
	tr.t.Helper()
	for _, m := range tr.GroupInfo("g").Members {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.InstanceID, req.MemberEpoch = "g", m.MemberID, m.InstanceID, -1
		if _, err := req.RequestWith(tr.t.Context(), tr.cl); err != nil {
			tr.t.Fatal(err)
		}
	}
}

// row tries one code.
func (tr *trial) row(code *kerr.Error, often bool) outcome {
	starts := tr.phase.when == starting
	if !starts {
		tr.up()
	} else if !closed(tr.b.ended) {
		tr.b.stopped()
	}
	count := 1
	if often {
		count = 300 // a client may ask again at once
	}
	h := tr.Fault(tr.phase.fault(code, count))
	if starts {
		tr.start()
	}
	sessions, epochs := tr.failures(), tr.aborts()
	tr.provoke()
	tr.follow(h, often, len(sessions))
	h.Remove()
	tr.pass(50 * time.Millisecond) // the last answer is on its way
	tr.feed(kept)
	got := outcome{status: -1}
	got.broken = tr.settle()
	if closed(tr.b.ended) {
		got.status, got.err = exitCodeOf(tr.b.err), tr.b.err
	}
	got.hits, got.sessions, got.aborted = h.Hits(), tr.failures()[len(sessions):], tr.aborts()-epochs
	if tr.phase.when == restarting && len(got.sessions) > 0 {
		got.sessions, got.aborted = got.sessions[1:], got.aborted-1 // those that provoke has ended
	}
	got.broken = append(got.broken, tr.differences()...)
	if often && tr.phase.lost && !tr.phase.consumer {
		tr.pass(6 * time.Second) // what the client still waits with must not fall into the next row
	}
	return got
}

// provoke lets the bridge send the request of the phase.
func (tr *trial) provoke() {
	switch tr.phase.when {
	case atWork, starting, carrying:
	case restarting:
		tr.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownServerError})
	case rejoining:
		tr.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress, TopLevel: true})
	}
	for range 2 {
		tr.feed(tr.key())
		tr.pass(20 * time.Millisecond)
	}
}

func (tr *trial) key() string {
	if tr.phase.when == carrying {
		return dropped
	}
	return kept
}

// follow waits until the fault was met; often, until three sessions have failed or enough time has gone by since.
func (tr *trial) follow(h *kfake.FaultHandle, often bool, sessions int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline, met := time.Now().Add(10*time.Second), false
	for i := 1; time.Now().Before(deadline) && !closed(tr.b.ended); i++ {
		if !met && h.Hits() > 0 {
			deadline, met = time.Now().Add(tr.phase.lasts()), true
		}
		if met && (!often || len(tr.failures()) >= sessions+3) {
			return
		}
		if often && i%50 == 0 {
			tr.feed(tr.key())
		}
		<-tick.C
	}
}

// failures answers the classes of the sessions of this bridge that failed, in order.
func (tr *trial) failures() (classes []string) {
	for _, line := range tr.book.with("session failed, starting again") {
		_, line, _ = strings.Cut(line, "class=")
		class, _, _ := strings.Cut(line, " err=")
		classes = append(classes, class)
	}
	return classes
}

func (tr *trial) aborts() int { return len(tr.book.with("epoch aborted")) }

// settle waits until everything is committed, or the bridge has ended.
func (tr *trial) settle() []string {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if closed(tr.b.ended) || tr.behind("g", "in") == 0 && tr.b.board.snapshot().State == StateRunning {
			return nil
		}
		<-tick.C
	}
	return []string{fmt.Sprintf("%d offsets are not committed after %s", tr.behind("g", "in"), patience)}
}

// differences compares what is visible with the input: while a bridge runs all of it, after its end what the
// positions say, and all of it after the next start.
func (tr *trial) differences() []string {
	var all []string
	if closed(tr.b.ended) {
		all = tr.seen.asCommitted(tr.world)
		tr.up()
	}
	all = append(all, tr.seen.whole(tr.world)...)
	for _, p := range tr.PartitionInfos("out") {
		if p.LastStableOffset != p.HighWatermark {
			all = append(all, fmt.Sprintf("a transaction is open at offset %d of %d", p.LastStableOffset, p.HighWatermark))
		}
	}
	return all
}
