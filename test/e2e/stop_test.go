package e2e

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// TestStop ends the bridge with SIGTERM: idle, in the middle of an epoch, and
// before it has read anything.
func TestStop(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		t.Run("idle", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c, plan{in: 2, out: 3})
			r.feedNow(t, 100)
			p := r.start(t, "a")
			r.settle(t)
			stopped(t, p)
			r.exact(t)
			r.record(t, "")
		})
		t.Run("nothing read", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c, plan{in: 2, out: 3})
			p := r.start(t, "a")
			awaitRunning(t, p)
			stopped(t, p)
			r.exact(t)
			r.record(t, "")
		})
		t.Run("mid-epoch", func(t *testing.T) {
			t.Parallel()
			// The epoch would go on for five seconds: the stop commits it early.
			r := newRig(t, c, plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_EPOCH_INTERVAL": "5s"}})
			feed := r.feed(t, 1000)
			p := r.start(t, "a")
			awaitCommit(t, p, 0)
			pause(t, time.Second)
			before := r.position(t, 0)
			stopped(t, p)
			// EndTxn is answered before the markers are written: the position moves a moment later.
			eventually(t, "the open epoch in the positions", func() bool { return r.position(t, 0) > before })
			// Output and positions agree, and nothing is left open.
			rest := r.rest()
			rest.Group = ""
			if err := oracle.Quiescent(within(t, patience), r.adm, rest); err != nil {
				t.Error(err)
			}
			if err := r.watch.Sample(within(t, patience)); err != nil {
				t.Fatal(err)
			}
			feed.finish(t)
			p = r.start(t, "a")
			awaitRunning(t, p)
			r.exact(t)
			r.record(t, "")
			stopped(t, p)
		})
	})
}

// stopped ends the process with SIGTERM and reports how long that took; the
// deadline of 20 s (BRIDGE_STOP_TIMEOUT) has not passed.
func stopped(t *testing.T, p *Process) {
	t.Helper()
	since := time.Now()
	stop(t, p)
	took := time.Since(since)
	if took > 20*time.Second {
		t.Errorf("the stop took %v", took)
	}
	t.Logf("stopped in %v", took.Round(time.Millisecond))
}

// TestStopWithoutBroker asks a process to stop while no commit is answered. The
// stop has its deadline, and a second signal makes it shorter; what was open is
// repeated by whoever comes next.
func TestStopWithoutBroker(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for name, test := range map[string]struct {
			timeout string
			signals int
		}{
			"deadline":      {"3s", 1},
			"second signal": {"60s", 2},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				proxy, err := StartProxy(c.Bootstrap())
				if err != nil {
					t.Fatal(err)
				}
				defer proxy.Close()
				r := newRig(t, c, plan{in: 2, out: 3, address: proxy.Addr(), settings: map[string]string{"BRIDGE_STOP_TIMEOUT": test.timeout}})
				feed := r.feed(t, 500)
				p := r.start(t, "a")
				awaitCommit(t, p, 0)
				proxy.Set(&Rule{Key: kmsg.EndTxn, Fault: Swallow, Every: 1, Times: 1 << 30})
				eventually(t, "a lost answer", func() bool { return proxy.Hits() > 0 })
				mark := p.Log.Len()
				since := time.Now()
				for i := range test.signals {
					if err := p.Terminate(); err != nil {
						t.Fatal(err)
					}
					if i == 0 {
						await(t, p, mark, "stopping", State("stopping"))
					}
				}
				code, err := p.Wait(within(t, patience))
				if err != nil {
					t.Fatal(err)
				}
				took := time.Since(since).Round(time.Millisecond)
				t.Logf("ended with status %d after %v", code, took)
				if took > 10*time.Second {
					t.Errorf("the stop took %v, far more than its deadline:\n%s", took, p.Log.Tail(12))
				}
				proxy.Set(nil)
				feed.finish(t)
				p = r.start(t, "a")
				awaitRunning(t, p)
				r.exact(t)
				r.record(t, "")
				stop(t, p)
			})
		}
	})
}

// TestUntilEnd bridges what is there and ends by itself with 0, even while more
// is being fed.
func TestUntilEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := newRig(t, c, plan{in: 2, out: 3})
		exits(t, r.start(t, "a", "--until-end"), 0) // of an empty input
		r.feedNow(t, 5000)
		exits(t, r.start(t, "a", "--until-end"), 0)
		r.exact(t)

		feed := r.feed(t, 500)
		eventually(t, "a feed", func() bool { return r.input.Acked() > 5500 })
		exits(t, r.start(t, "a", "--until-end"), 0)
		for partition := range int32(2) {
			if at := r.position(t, partition); at < 2750 {
				t.Errorf("position %d of partition %d, want 2750 or later", at, partition)
			}
		}
		feed.finish(t)
		exits(t, r.start(t, "a", "--until-end"), 0)
		r.exact(t)
		r.record(t, "")
	})
}
