package bridge

import (
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

// quietMinute is how many requests of a kind an idle bridge may send in a minute, when all of its partitions are at one
// broker. What is not named it may not send.
func quietMinute() map[kmsg.Key]int {
	return map[kmsg.Key]int{
		kmsg.Fetch:         121, // each is held for half a second
		kmsg.Heartbeat:     21,
		kmsg.Metadata:      16, // of three clients each 30 s, and before each look at the lag
		kmsg.ListOffsets:   21, // three for each look at the lag
		kmsg.OffsetFetch:   7,  // one for each
		kmsg.PushTelemetry: 4,  // of four clients, as often as the broker asks for it (KIP-714)
	}
}

func (f *frames) counts() map[kmsg.Key]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.kinds)
}

// TestIdleAsksLittle: a bridge that has nothing to do hardly asks.
func TestIdleAsksLittle(t *testing.T) {
	for _, passThrough := range []bool{false, true} {
		t.Run(map[bool]string{false: "decoded", true: "passed through"}[passThrough], func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				f := w.frames()
				w.topics(8, "in", "out")
				w.feed("in", 10, 0, 1, 2, 3, 4, 5, 6, 7)
				w.start(w.options(func(o *Options) {
					o.PassThrough = passThrough
					o.EpochTimeout, o.TxnTimeout, o.SessionTimeout, o.RebalanceTimeout = 15*time.Second, 40*time.Second, 45*time.Second, time.Minute
				}))
				w.caughtUp("in")
				w.pass(time.Minute)
				before := f.counts()
				w.pass(time.Minute)
				allowed := quietMinute()
				for key, n := range f.counts() {
					if n -= before[key]; n > allowed[key] {
						t.Errorf("%d requests %s in an idle minute, want at most %d", n, kmsg.NameForKey(int16(key)), allowed[key])
					}
				}
			})
		})
	}
}

// TestFetchBesideABusyOutput: a broker does not hold a request for long while one of its partitions is left out of it, for
// that one cannot be asked for meanwhile.
func TestFetchBesideABusyOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		f := w.fetcher(func() {})
		f.stop()
		w.pass(time.Second)
		busy, quiet := offsets.TopicPartition{Topic: "in"}, offsets.TopicPartition{Topic: "in", Partition: 1}
		for _, tp := range []offsets.TopicPartition{busy, quiet} {
			f.add(tp, offsets.Position{LeaderEpoch: -1})
		}
		waits := func() time.Duration {
			t.Helper()
			all, _ := f.requests(time.Now())
			if len(all) != 1 {
				t.Fatalf("%d requests, want one", len(all))
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			all[0].broker.asked = false
			for _, l := range f.lives {
				l.busy = false
			}
			return time.Duration(all[0].MaxWaitMillis) * time.Millisecond
		}
		if d := waits(); d != f.wait {
			t.Errorf("with all partitions in it a request is held for %s, want %s", d, f.wait)
		}
		f.mu.Lock()
		f.lives[busy].out = deliveriesOut
		f.mu.Unlock()
		if d := waits(); d != waitBeside {
			t.Errorf("with a partition left out it is held for %s, want %s", d, waitBeside)
		}
	})
}
