package bridge

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/eosbridge/eosbridge/txn"
)

// ways are the ways to run a bridge that all have to be exact.
func ways() map[string]func(*Options) {
	return map[string]func(*Options){
		"as it comes":   func(*Options) {},
		"KIP-848":       func(o *Options) { o.Consumer = true },
		"one lane":      func(o *Options) { o.Lanes = 1 },
		"many lanes":    func(o *Options) { o.Lanes = 16 },
		"no interval":   func(o *Options) { o.EpochInterval = 0 },
		"small epochs":  func(o *Options) { o.EpochMaxRecords = 1 },
		"at-least-once": func(o *Options) { o.Delivery = AtLeastOnce },
		"at-most-once":  func(o *Options) { o.Delivery = AtMostOnce },
		"little memory": func(o *Options) { o.Memory = 1 << 20 },
	}
}

func TestCopy(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(4, "in", "out")
				w.feed("in", 200, 0, 1, 2, 3)
				b := w.start(w.options(way))
				w.caughtUp("in")
				w.trickle("in", 0, 20, 3*time.Millisecond)
				w.feed("in", 200, 0, 1, 2, 3)
				w.caughtUp("in")
				b.stopped()
				w.exact("out", "in")
				if n := b.outcomes(); n[OutcomeAborted] > 0 || n[OutcomeCommitted] < 2 {
					t.Errorf("outcomes %v", n)
				}
				// Again, from where it stopped.
				w.feed("in", 50, 0, 1, 2, 3)
				w.caughtUpBy(w.options(way))
				w.exact("out", "in")
			}, quickHeartbeats())
		})
	}
}

// TestCopyInRealTime holds the bubble against real time and TCP.
func TestCopyInRealTime(t *testing.T) {
	inRealTime(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		w.feed("in", 1000, 0, 1, 2, 3)
		b := w.start(w.options())
		w.caughtUp("in")
		w.feed("in", 1000, 0, 1, 2, 3)
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
	})
}

// TestOlderClusters: below transaction.version 2 producers are made anew with each epoch; before 3.6 there is no
// start.
func TestOlderClusters(t *testing.T) {
	for _, tc := range []struct {
		name     string
		versions *kversion.Versions
		refused  bool
	}{
		{"3.9", kversion.V3_9_0(), false},
		{"3.6", kversion.V3_6_0(), false},
		{"3.5", kversion.V3_5_0(), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				w.feed("in", 100, 0, 1)
				adds, fences := w.observe(kmsg.AddOffsetsToTxn), w.observe(kmsg.InitProducerID)
				b := w.start(w.options(func(o *Options) { o.EpochInterval = 100 * time.Millisecond }))
				if tc.refused {
					b.fails(txn.StatusConfig, "3.6 is the oldest supported", "upgrade")
					return
				}
				w.caughtUp("in")
				before := fences.Hits()
				w.trickle("in", 0, 100, 100*time.Millisecond)
				w.caughtUp("in")
				b.stopped()
				w.exact("out", "in")
				if adds.Hits() == 0 || fences.Hits() < before+5 {
					t.Errorf("%d AddOffsetsToTxn, %d InitProducerID for %d epochs", adds.Hits(), fences.Hits(), len(b.epochs()))
				}
				for _, e := range b.epochs()[2:] {
					if e.Trigger == TriggerInterval && e.RecordsIn < 8 {
						t.Errorf("epoch %d has %d records: the interval is 1 s here, at 100 ms per record", e.Epoch, e.RecordsIn)
					}
				}
				if n := len(w.book.with("transaction.version is below 2: each epoch makes a producer anew; upgrade the cluster's feature for short epochs")); n != 1 {
					t.Errorf("%d warnings", n)
				}
			}, kfake.MaxVersions(tc.versions))
		})
	}
}

// TestKills: the process dies at any point of an epoch, again and again; connections break, nothing is tidied up.
func TestKills(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(3, "in", "out")
		stop := w.feeding("in", 10*time.Millisecond, 0, 1, 2)
		for i := range 30 {
			own, onWire := w.ownWire()
			own.delay = time.Millisecond // each step of the protocol takes its time
			b := w.start(w.options(onWire, func(o *Options) { o.EpochInterval = 10 * time.Millisecond }))
			began := time.Now()
			w.assigned(b, 3)
			w.until("it commits", func() bool { return b.board.snapshot().LastCommitted.Epoch > 0 })
			// The fence ends what the dead one has left; the transaction timeout would be 8 s.
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("start %d took %s to its first commit", i, took)
			}
			w.pass(time.Duration(i*3) * time.Millisecond)
			own.unplug()
			b.stop()
			b.abort() // the corpse is cleared away; it reaches no broker
		}
		stop()
		w.caughtUpBy(w.options())
		w.exact("out", "in")
		w.settled("out")
	})
}

// TestZombies: the process is paused at any point of an epoch, a successor with its name takes over, and the
// process wakes up with requests on its lips.
func TestZombies(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(3, "in", "out")
		w.judgeLeaves()
		stop := w.feeding("in", 20*time.Millisecond, 0, 1, 2)
		begin := func() (*running, *wire) {
			own, onWire := w.ownWire()
			own.delay = time.Millisecond
			return w.start(w.options(onWire, func(o *Options) { o.EpochInterval = 10 * time.Millisecond })), own
		}
		b, own := begin()
		w.assigned(b, 3)
		for i := range 15 {
			w.pass(time.Duration(i*3) * time.Millisecond)
			release := own.hold()
			w.pass(time.Duration(i*2) * time.Millisecond)
			zombie := b
			b, own = begin()
			w.pass(time.Duration(i*5) * time.Millisecond)
			release()
			if err := zombie.wait(); !errors.Is(err, txn.ErrFenced) {
				t.Errorf("zombie %d ended with %v", i, err)
			}
			w.assigned(b, 3)
		}
		stop()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		w.settled("out")
	})
}

// TestLeadersMove while records flow: nothing is aborted for it.
func TestLeadersMove(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.leadersMove()
		w.topics(3, "in", "out")
		stop := w.feeding("in", 10*time.Millisecond, 0, 1, 2)
		b := w.start(w.options())
		w.assigned(b, 3)
		for range 10 {
			w.ShufflePartitionLeaders()
			w.pass(200 * time.Millisecond)
		}
		stop()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		if b.restarts() > 0 {
			t.Errorf("%d restarts", b.restarts())
		}
	}, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
}

// TestCoordinatorsMove: positions find their new coordinator.
func TestCoordinatorsMove(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(3, "in", "out")
		stop := w.feeding("in", 50*time.Millisecond, 0, 1, 2)
		b := w.start(w.options())
		w.assigned(b, 3)
		for range 10 {
			w.RehashCoordinators()
			w.pass(2 * time.Second)
		}
		stop()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		if b.restarts() > 10 {
			t.Errorf("%d restarts", b.restarts())
		}
	}, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
}

// TestMetricsOfARun: the counters tell what happened.
func TestMetricsOfARun(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.feed("in", 100, 0, 1)
		registry := prometheus.NewRegistry()
		b := w.start(w.options(func(o *Options) {
			o.Registerer, o.Chain = registry, chain(t, "filter_header(none=) | set_header(a=b)")
		}))
		w.caughtUp("in")
		w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}})
		w.feed("in", 10, 0)
		w.caughtUp("in")
		b.stopped()
		got := samples(gather(t, registry))
		for name, want := range map[string]float64{
			`eosbridge_records_total{direction="out"}`:   0,
			`eosbridge_restarts_total{class="in doubt"}`: 1,
		} {
			if got[name] != want {
				t.Errorf("%s = %v, want %v", name, got[name], want)
			}
		}
		if n := got[`eosbridge_records_total{direction="in"}`]; n < 210 {
			t.Errorf("%v records in, want 210 and those that came again", n)
		}
	})
}

// TestNewRefuses options that make no bridge.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	w := &world{t: t, book: &logbook{}}
	for name, spoil := range map[string]func(*Options){
		"lanes":  func(o *Options) { o.Lanes = 0 },
		"memory": func(o *Options) { o.Memory = 0 },
		"log":    func(o *Options) { o.Log = nil },
		"chain":  func(o *Options) { o.Chain = nil },
	} {
		if _, err := New(w.options(spoil)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(w.options()); err != nil {
		t.Error(err)
	}
}

// TestRunRefuses what can be told before any broker is asked.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	w := &world{t: t, book: &logbook{}}
	for name, spoil := range map[string]func(*Options){
		"client":  func(o *Options) { o.Client = []kgo.Opt{kgo.DialTLS(), kgo.Dialer((&net.Dialer{}).DialContext)} },
		"address": func(o *Options) { o.HTTPAddr = taken.Addr().String() },
		"pprof":   func(o *Options) { o.HTTPAddr, o.PprofAddr = "127.0.0.1:0", taken.Addr().String() },
	} {
		b, err := New(w.options(spoil))
		if err != nil {
			t.Fatal(err)
		}
		var fatal *txn.FatalError
		if err := b.Run(t.Context(), t.Context()); !errors.As(err, &fatal) || fatal.ExitCode() != txn.StatusConfig {
			t.Errorf("%s: %v", name, err)
		}
	}
}
