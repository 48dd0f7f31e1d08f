package e2e

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/proof"
)

// TestTransactionVersionUpgrade finalizes transaction.version 2 on a broker that had 1,
// while the bridge runs: kills before and after, and a transaction that is open
// across the moment. The running session keeps to the protocol it began with; the
// next one, in the same process or another, asks and takes the new one. It needs a
// broker of its own, so it is part of the long run only.
func TestTransactionVersionUpgrade(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	c := kafka.Start(t, kafka.Options{Version: kafka.V44, Features: map[string]int16{"transaction.version": 1}})
	r, proxy := behindProxy(t, c, plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_RESTART_MAX_DELAY": "200ms"}})
	spoken := &spoken{}
	proxy.Tap(spoken.note)
	k := newKiller(seeded(t), proxy)
	began := time.Now()
	stopWatch := r.watched(t)
	feed := r.feed(t, 1000)
	for range size(2, 20) {
		k.kill(t, r.start(t, "a"))
	}
	p := r.start(t, "a")
	awaitCommit(t, p, 0)
	spoken.want(t, "before", 1)

	// Positions are in a transaction whose EndTxn waits for the upgrade.
	held := make(chan struct{})
	var once sync.Once
	proxy.Tap(func(p Passing) {
		spoken.note(p)
		if p.Key == kmsg.EndTxn.Int16() && p.Answer == nil {
			once.Do(func() {
				close(held)
				upgrade(t, c)
			})
		}
	})
	select {
	case <-held:
	case <-within(t, patience).Done():
		t.Fatal("no EndTxn came")
	}
	eventually(t, "the upgrade", func() bool { return finalized(t, c) == 2 })
	spoken.forget()
	for range 5 {
		awaitCommit(t, p, p.Log.Len())
	}
	spoken.want(t, "in the session across the upgrade", 1)
	if aborted := p.Log.Count("epoch aborted"); aborted > 0 {
		t.Errorf("the upgrade aborted %d epochs", aborted)
	}

	// A session that has to begin anew asks again.
	proxy.Set(&Rule{Key: kmsg.TxnOffsetCommit, Fault: Refuse, Every: 1, Times: 1})
	await(t, p, 0, "an aborted epoch", Message("epoch aborted"))
	spoken.forget()
	awaitCommit(t, p, p.Log.Len())
	awaitCommit(t, p, p.Log.Len())
	spoken.want(t, "in the next session of the same process", 2)
	kill(t, p)
	spoken.forget()
	for range size(2, 20) {
		k.kill(t, r.start(t, "a"))
	}
	feed.finish(t)
	last := r.start(t, "a")
	awaitRunning(t, last)
	r.settle(t)
	stopWatch()
	spoken.want(t, "in the next process", 2)
	stop(t, last)
	r.exact(t)
	proof.Record(t, proof.Result{
		Broker: c.Version(), Took: time.Since(began), Scenarios: 3, Kills: int64(k.kills) + 1, Records: r.input.Acked(),
		Note: "transaction.version 1 to 2 under load; the running session keeps to version 1, the next takes 2",
	})
}

// upgrade finalizes transaction.version 2.
func upgrade(t *testing.T, c *kafka.Cluster) {
	updated, err := c.Admin(t).UpdateFeatures(t.Context(), false, kadm.FeatureUpdate{
		Feature: "transaction.version", MaxVersionLevel: 2, UpgradeType: 1,
	})
	if err == nil {
		err = updated.Error()
	}
	if err != nil {
		t.Errorf("upgrade: %v", err)
	}
}

func finalized(t *testing.T, c *kafka.Cluster) int16 {
	t.Helper()
	levels, err := c.Features(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	return levels["transaction.version"]
}

// spoken tells by the requests which transaction.version the bridge goes by: below
// 2 it adds the group to the transaction itself, and caps TxnOffsetCommit.
type spoken struct {
	mu      sync.Mutex
	adds    int
	offsets map[int16]int // TxnOffsetCommit, by its version
}

func (s *spoken) note(p Passing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case p.Answer != nil:
	case p.Key == kmsg.AddOffsetsToTxn.Int16():
		s.adds++
	case p.Key == kmsg.TxnOffsetCommit.Int16():
		if s.offsets == nil {
			s.offsets = make(map[int16]int)
		}
		s.offsets[p.Version]++
	}
}

func (s *spoken) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adds, s.offsets = 0, nil
}

// want checks that all since forget went by this version.
func (s *spoken) want(t *testing.T, when string, version int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offsets == nil {
		t.Fatalf("%s: no TxnOffsetCommit was seen", when)
	}
	for v := range s.offsets {
		if (v <= 4) != (version < 2) {
			t.Errorf("%s: TxnOffsetCommit v%d, want the protocol of transaction.version %d", when, v, version)
		}
	}
	if (s.adds > 0) != (version < 2) {
		t.Errorf("%s: %d AddOffsetsToTxn, want the protocol of transaction.version %d", when, s.adds, version)
	}
}
