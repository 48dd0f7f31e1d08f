package bridge

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// What happens around an aborted epoch and around a change of members, after faults that other programs have had.

// rewinds is a chain that looks at what it is given: after a restart each partition must begin at its committed
// position, and go on without a gap.
type rewinds struct {
	w     *world
	of    *running // set before the first record
	mu    sync.Mutex
	seen  map[int32]sight
	first int // looks at a first record after a restart
}

type sight struct {
	session int64
	offset  int64
}

func (s *rewinds) look(r *transform.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.of.restarts()
	last, known := s.seen[r.Partition]
	switch {
	case known && last.session == session:
		if r.Offset != last.offset+1 {
			s.w.t.Errorf("partition %d: offset %d follows %d", r.Partition, r.Offset, last.offset)
		}
	default:
		if at := max(s.w.committed("g", "in", r.Partition), 0); at != r.Offset {
			s.w.t.Errorf("partition %d: session %d begins at offset %d, committed is %d", r.Partition, session, r.Offset, at)
		}
		if known {
			s.first++
		}
	}
	s.seen[r.Partition] = sight{session, r.Offset}
	return nil
}

// TestRewindOfEveryPartition: an epoch of five partitions aborts while epochs are waiting in the client's buffer, and
// while leaders move. Every partition is read again from its committed position, not from what the client remembers.
func TestRewindOfEveryPartition(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.leadersMove()
		w.topics(5, "in", "out")
		s := &rewinds{w: w, seen: map[int32]sight{}}
		b, err := New(w.options(func(o *Options) {
			o.Chain, o.EpochMaxRecords, o.RestartMaxDelay, o.RestartLimit = scripted(t, perRecord(s.look)), 100, 100*time.Millisecond, 1000
		}))
		if err != nil {
			t.Fatal(err)
		}
		s.of = w.startBridge(b)
		for i := range 50 {
			key := []kmsg.Key{kmsg.EndTxn, kmsg.TxnOffsetCommit}[i%2]
			before := s.of.restarts()
			w.Fault(kfake.Fault{Keys: []kmsg.Key{key}, TopLevel: key == kmsg.EndTxn, Err: kerr.UnknownServerError})
			w.feed("in", 40, 0, 1, 2, 3, 4)
			w.until("it restarts", func() bool { return s.of.restarts() > before })
			w.pass(time.Duration(i*3) * time.Millisecond) // into the next start
			w.ShufflePartitionLeaders()
			if i%4 == 3 {
				w.caughtUp("in")
			}
		}
		w.caughtUp("in")
		s.of.stopped()
		w.exact("out", "in")
		if s.first < 100 {
			t.Errorf("%d looks at a first record after a restart: too few to tell", s.first)
		}
	}, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
}

// TestFixedTransform: one record of one partition fails. Nothing of its epoch counts, for no partition, and with a
// transform that can handle it everything comes once.
func TestFixedTransform(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(5, "in", "out")
		w.feed("in", 20, 0, 1, 2, 3, 4)
		s := perRecord(func(r *transform.Record) error {
			if r.Partition == 3 && r.Offset == 25 {
				return errors.New("no such currency")
			}
			return nil
		})
		b := w.start(w.options(func(o *Options) { o.Chain = scripted(w.t, s) }))
		w.caughtUp("in")
		before := w.positions("g")
		w.feed("in", 20, 0, 1, 2, 3, 4)
		b.fails(txn.StatusFailure, "partition 3 offset 25")
		if after := w.positions("g"); after != before {
			t.Errorf("positions moved from %s to %s", before, after)
		}
		for p := range int32(5) {
			if n := len(w.read("out")[p]); n != 20 {
				t.Errorf("partition %d: %d records are visible, want 20", p, n)
			}
		}
		w.caughtUpBy(w.options())
		w.exact("out", "in")
	})
}

// TestDeadProcessLeavesNothing: a process dies with one epoch committed and the next one half written. What comes after
// it is of another version; nothing that the dead one wrote of the second epoch is ever shown.
func TestDeadProcessLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		own, onWire := w.ownWire()
		first := w.start(w.options(onWire, longEpochs, func(o *Options) { o.Chain = chain(t, "set_header(version=1)") }))
		w.assigned(first, 2)
		w.feed("in", 10, 0) // the first epoch closes at once
		w.caughtUp("in")
		w.feed("in", 10, 0, 1)
		w.until("the second epoch is half written", func() bool {
			p := w.PartitionInfo("out", 1)
			return p.HighWatermark > p.LastStableOffset
		})
		own.unplug()
		first.stop()
		first.abort()
		w.caughtUpBy(w.options(func(o *Options) { o.Chain = chain(t, "set_header(version=2)") }))
		n := map[string]int{}
		for _, records := range w.read("out") {
			for _, r := range records {
				n[fmt.Sprintf("%s of partition %d", r.Headers[0].Value, r.Partition)]++
			}
		}
		if n["1 of partition 0"] != 10 || n["2 of partition 0"] != 10 || n["1 of partition 1"] != 0 || n["2 of partition 1"] != 10 {
			t.Errorf("visible: %v", n)
		}
		w.settled("out")
	})
}

// TestRecoveryRefused: while a dead process's ids are fenced, the coordinator answers what looks like "that was decided
// long ago". It decides nothing: the positions are asked for, and the log names the error.
func TestRecoveryRefused(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.ProducerFenced, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping, kerr.InvalidProducerEpoch} {
		t.Run(err.Message, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				own, onWire := w.ownWire()
				first := w.start(w.options(onWire, longEpochs))
				w.assigned(first, 2)
				w.feed("in", 10, 0)
				w.caughtUp("in")
				w.feed("in", 10, 0, 1)
				w.until("an epoch is half written", func() bool { return w.PartitionInfo("out", 1).HighWatermark > 0 })
				own.unplug()
				first.stop()
				first.abort()
				fault := w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: err, Count: 3})
				w.caughtUpBy(w.options())
				w.exact("out", "in")
				w.settled("out")
				if fault.Hits() < 3 {
					t.Errorf("the answer came %d times", fault.Hits())
				}
				if !strings.Contains(w.book.String(), err.Message) {
					t.Errorf("%s is not in the log", err.Message)
				}
			})
		})
	}
}

// TestSlowOffsetFetch: partitions move on while a member still asks for their positions. None is read by two at once:
// along each output partition the reader changes no more often than the group did.
func TestSlowOffsetFetch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(6, "in", "out")
		stop := w.feeding("in", 20*time.Millisecond, 0, 1, 2, 3, 4, 5)
		named := func(name string) func(*Options) {
			return func(o *Options) { o.Instance, o.Chain = name, chain(t, "set_header(by="+name+")") }
		}
		a := w.start(w.options(named("a")))
		w.assigned(a, 6)
		w.slowly(kmsg.OffsetFetch, 1<<40, 2*time.Second)
		members := []*running{a}
		for _, name := range []string{"b", "c"} {
			members = append(members, w.start(w.options(named(name))))
			w.pass(300 * time.Millisecond) // the next one joins while this one asks
		}
		w.until("three share", func() bool { return members[0].holds() == 2 && members[1].holds() == 2 && members[2].holds() == 2 })
		w.pass(3 * time.Second)
		stop()
		w.caughtUp("in")
		for _, m := range members {
			m.stopped()
		}
		got := map[int32][]string{}
		for p, records := range w.read("out") {
			changes, by := 0, ""
			for _, r := range records {
				if name := string(r.Headers[0].Value); name != by {
					changes, by = changes+1, name
				}
				r.Headers = nil
				got[p] = append(got[p], text(r))
			}
			if changes > 3 {
				t.Errorf("partition %d: the reader changed %d times", p, changes)
			}
		}
		want := map[int32][]string{}
		for p, records := range w.read("in") {
			want[p] = texts(records)
		}
		w.same(got, want)
	})
}

// TestEveryCommitHasItsMember: no request that moves positions goes without the member and its generation, the only
// thing that keeps a member's late commit out once its partitions are another's (KIP-447).
func TestEveryCommitHasItsMember(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		var mu sync.Mutex
		seen, newest := 0, map[string]int32{}
		check := func(name, member string, instance *string, generation int32) {
			mu.Lock()
			defer mu.Unlock()
			seen++
			if member == "" || generation < 0 || instance == nil {
				t.Errorf("%s of member %q, generation %d", name, member, generation)
			}
			if generation < newest[member] {
				t.Errorf("%s of member %q goes back from generation %d to %d", name, member, newest[member], generation)
			}
			newest[member] = max(newest[member], generation)
		}
		w.ControlKey(int16(kmsg.TxnOffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			req := r.(*kmsg.TxnOffsetCommitRequest)
			check("TxnOffsetCommit", req.MemberID, req.InstanceID, req.Generation)
			return nil, nil, false
		})
		stop := w.feeding("in", 10*time.Millisecond, 0, 1, 2, 3)
		a := w.start(w.options(func(o *Options) { o.EpochInterval = 20 * time.Millisecond }))
		w.assigned(a, 4)
		w.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			req := r.(*kmsg.OffsetCommitRequest)
			check("OffsetCommit", req.MemberID, req.InstanceID, req.Generation)
			return nil, nil, false
		})
		for i := range 25 {
			b := w.start(w.options(instance(fmt.Sprintf("b%d", i))))
			w.until("both share", func() bool { return a.holds() == 2 && b.holds() == 2 })
			b.stopped()
			w.assigned(a, 4)
		}
		stop()
		w.caughtUp("in")
		a.stopped()
		w.exact("out", "in")
		generations := int32(0)
		for _, g := range newest {
			generations = max(generations, g)
		}
		if generations < 50 || seen < 50 {
			t.Errorf("%d commits in %d generations: too few to tell", seen, generations)
		}
	})
}

// TestWaitsForStablePositions: a stranger's open transaction is about to move a position of ours. Whoever is going to
// read from a position asks for a stable one, so the bridge waits, and begins where the transaction has put it.
func TestWaitsForStablePositions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out", "elsewhere")
		w.feed("in", 20, 0)
		w.commitAt("g", "in", 0, 5)
		asks := map[bool]*kfake.FaultHandle{}
		for _, stable := range []bool{true, false} {
			asks[stable] = w.observe(kmsg.OffsetFetch, func(f *kfake.Fault) {
				f.When = func(r kmsg.Request) bool { return r.(*kmsg.OffsetFetchRequest).RequireStable == stable }
			})
		}
		stranger := w.client(kgo.TransactionalID("stranger"), kgo.TransactionTimeout(10*time.Minute))
		if err := stranger.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := stranger.ProduceSync(t.Context(), &kgo.Record{Topic: "elsewhere", Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.moveInTransaction(stranger, "stranger", "g", 12)
		b := w.start(w.options())
		w.pass(5 * time.Second)
		if n := w.count("out"); n != 0 {
			t.Errorf("%d records were copied from a position that is not decided", n)
		}
		if err := stranger.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		w.caughtUp("in")
		b.stopped()
		if out := w.read("out")[0]; len(out) != 8 {
			t.Errorf("%d records, want the 8 from offset 12 on", len(out))
		}
		// One request looks whether the topic has any position at all, before we join: it may be of a moment ago.
		if asks[true].Hits() == 0 || asks[false].Hits() > 1 {
			t.Errorf("%d requests for stable positions, %d for others", asks[true].Hits(), asks[false].Hits())
		}
	})
}

// moveInTransaction puts a position of partition 0 of topic "in" into a client's open transaction.
func (w *world) moveInTransaction(cl *kgo.Client, id, group string, offset int64) {
	w.t.Helper()
	pid, epoch, err := cl.ProducerID(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = id, group, pid, epoch, -1
	topic, partition := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	topic.Topic, topic.TopicID, partition.Offset = "in", w.TopicInfo("in").TopicID, offset
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(w.t.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestRollingRestart: three members keep their place while each is replaced in turn (BRIDGE_LEAVE_ON_STOP=false).
// Nobody else takes over meanwhile, and every partition moves on.
func TestRollingRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(6, "in", "out")
		stop := w.feeding("in", 20*time.Millisecond, 0, 1, 2, 3, 4, 5)
		member := func(name string) *running {
			return w.start(w.options(instance(name), func(o *Options) { o.LeaveOnStop = false }))
		}
		names := []string{"a", "b", "c"}
		members := map[string]*running{}
		for _, name := range names {
			members[name] = member(name)
		}
		shared := func() bool {
			for _, m := range members {
				if m.holds() != 2 || m.board.snapshot().State != StateRunning {
					return false
				}
			}
			return true
		}
		w.until("three share", shared)
		for range 2 {
			for _, name := range names {
				members[name].stopped()
				w.pass(100 * time.Millisecond)
				members[name] = member(name)
				began := time.Now()
				w.until("three share", shared)
				w.caughtUpAt()
				if took := time.Since(began); took > members[name].opts.SessionTimeout {
					t.Errorf("%s was back after %s", name, took)
				}
			}
		}
		stop()
		w.caughtUp("in")
		for _, m := range members {
			m.stopped()
		}
		w.exact("out", "in")
	})
}

// caughtUpAt waits until everything that is in topic "in" now is committed.
func (w *world) caughtUpAt() {
	w.t.Helper()
	ends := map[int32]int64{}
	for _, p := range w.PartitionInfos("in") {
		ends[p.Partition] = p.LastStableOffset
	}
	w.until("what is there is committed", func() bool {
		for p, end := range ends {
			if w.committed("g", "in", p) < end {
				return false
			}
		}
		return true
	})
}

// TestScaleOutAndIn: one member, three, one, again and again. Each of twelve partitions is read on after each change.
func TestScaleOutAndIn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		all := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
		w.topics(12, "in", "out")
		a := w.start(w.options())
		w.assigned(a, 12)
		for i := range 5 {
			more := []*running{w.start(w.options(instance(fmt.Sprintf("b%d", i)))), w.start(w.options(instance(fmt.Sprintf("c%d", i))))}
			w.until("three share", func() bool { return a.holds() == 4 && more[0].holds() == 4 && more[1].holds() == 4 })
			w.feed("in", 3, all...)
			w.caughtUp("in")
			for _, m := range more {
				m.stopped()
			}
			w.until("one has all", func() bool { return a.holds() == 12 })
			w.feed("in", 3, all...)
			w.caughtUp("in")
		}
		a.stopped()
		w.exact("out", "in")
		if a.restarts() > 0 {
			t.Errorf("%d restarts", a.restarts())
		}
	})
}
