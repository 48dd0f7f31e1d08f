package bridge

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
)

// ignored is for lanes whose idle time is not looked at.
func ignored() idling {
	return idling{stalled: func(time.Duration) {}, held: func(time.Duration) {}}
}

func TestStandstillSplit(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, tc := range []struct {
		name          string
		outputs       bool
		dealt         int
		stalled, held time.Duration
	}{
		{"input was there all the time", true, 5, 10 * time.Millisecond, 0},
		{"input came meanwhile", true, 13, 7 * time.Millisecond, 3 * time.Millisecond},
		{"input came later", true, 25, 0, 10 * time.Millisecond},
		{"nothing waited", false, 25, 0, 0},
		{"only input waited", false, 13, 7 * time.Millisecond, 0},
	} {
		stalled, held := standstill{from: at(10), to: at(20), outputs: tc.outputs}.split(at(tc.dealt))
		if stalled != tc.stalled || held != tc.held {
			t.Errorf("%s: stalled %s, held %s, want %s and %s", tc.name, stalled, held, tc.stalled, tc.held)
		}
	}
}

// TestStalledAndHeld: outputs at a gate are held, input behind a barrier at a closed gate is a stall, and a lane that has
// nothing to do is neither.
func TestStalledAndHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stalled, held time.Duration
		passes := make(chan pass, 4)
		l := &lane{
			in: make(chan work, laneDepth), gone: make(chan struct{}), passes: passes, tracker: offsets.NewTracker(), sink: &order{},
			idling:  idling{stalled: func(d time.Duration) { stalled += d }, held: func(d time.Duration) { held += d }},
			convert: converter{target: func(in string) string { return in }}, budget: newBudget(1 << 20),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = l.run(ctx)
		}()
		defer func() { cancel(); <-ended }()
		input := func(e *epoch, offset int64) {
			l.in <- work{epoch: e, tp: offsets.TopicPartition{Topic: "in"}, records: []*kgo.Record{{Offset: offset}}, dealt: time.Now()}
		}
		expect := func(when string, wantStalled, wantHeld time.Duration) {
			t.Helper()
			synctest.Wait()
			if stalled != wantStalled || held != wantHeld {
				t.Errorf("%s: stalled %s, held %s, want %s and %s", when, stalled, held, wantStalled, wantHeld)
			}
			stalled, held = 0, 0
		}
		pass := func(d time.Duration) { synctest.Wait(); <-time.After(d) }

		first, second, third := newEpoch(1), newEpoch(2), newEpoch(3)
		pass(time.Second)
		expect("nothing to do", 0, 0)
		input(first, 0)
		pass(20 * time.Millisecond)
		input(first, 1) // transformed at once
		pass(10 * time.Millisecond)
		if !l.idle.Load() {
			t.Error("a lane with outputs at a gate passes for one that works")
		}
		close(first.gate)
		expect("outputs at the gate", 0, 30*time.Millisecond)

		input(second, 2)
		l.in <- work{epoch: second, barrier: true}
		pass(5 * time.Millisecond)
		input(third, 3)
		pass(7 * time.Millisecond)
		if !l.idle.Load() {
			t.Error("a lane at a barrier passes for one that works")
		}
		close(second.gate)
		close(third.gate)
		expect("input behind a barrier", 7*time.Millisecond, 5*time.Millisecond)
		if n := len(passes); n != 1 {
			t.Errorf("%d barriers were passed", n)
		}
	})
}

// value reads a counter.
func value(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// TestStallOfASlowCoordinator: with every answer 10 ms late, and records coming all the time, lanes transform on: what
// waits are outputs. (kfake)
func TestStallOfASlowCoordinator(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wire.delay = 10 * time.Millisecond
		w.topics(2, "in", "out")
		b := w.start(w.options(func(o *Options) { o.EpochInterval = 100 * time.Millisecond }))
		w.assigned(b, 2)
		began := time.Now()
		for range 100 {
			w.feed("in", 1, 0, 1)
			w.pass(10 * time.Millisecond)
		}
		w.caughtUp("in")
		passed := time.Since(began)
		b.stopped()
		w.exact("out", "in")
		stalled, held := value(t, b.metrics.stall), value(t, b.metrics.held)
		if held == 0 {
			t.Error("no outputs waited for a flush that takes 10 ms")
		}
		if share := stalled / passed.Seconds() / 2; share > 0.01 {
			t.Errorf("lanes stood still for %.1f %% of the time", 100*share)
		}
	})
}

// TestStarvingLanes: while the source waits for a limit, with records to read, a lane that has nothing to do is stalled,
// whether or not it has outputs at a gate; one that works is not, and one with input of its own says so itself.
func TestStarvingLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := newMetrics(nil, newBoard(Status{}, nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		var lanes []*lane
		for range 4 {
			lanes = append(lanes, &lane{in: make(chan work, 1)})
		}
		s := &source{session: &session{Bridge: &Bridge{metrics: m}, lanes: lanes}, undealt: 1}
		for _, l := range lanes[1:] {
			l.idle.Store(true)
		}
		lanes[1].in <- work{}
		ended := s.starving()
		<-time.After(time.Second)
		lanes[2].idle.Store(false)
		ended()
		if got := value(t, m.stall); got != 1 {
			t.Errorf("%v s, want the one of the one lane that was idle", got)
		}
		for _, l := range lanes {
			l.idle.Store(false)
		}
		ended = s.starving()
		<-time.After(time.Second)
		ended()
		if got := value(t, m.stall); got != 1 {
			t.Errorf("%v s, although all lanes work", got-1)
		}
	})
}
