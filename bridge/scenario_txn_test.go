package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// The transaction protocol under answers that last: brokers that are short of replicas, coordinators that are away or
// busy, networks that swallow everything.

// defaults are the timeouts as users have them.
func defaults(o *Options) {
	o.EpochTimeout, o.TxnTimeout, o.SessionTimeout, o.RebalanceTimeout = 15*time.Second, 40*time.Second, 45*time.Second, time.Minute
	o.RestartMaxDelay, o.RestartLimit = 30*time.Second, 20
}

// TestTransformBlocksOnce for longer than an epoch may take: that epoch aborts, is read again, and commits.
func TestTransformBlocksOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		var blocked atomic.Bool
		s := perRecord(func(r *transform.Record) error {
			if r.Offset == 15 && blocked.CompareAndSwap(false, true) {
				w.pass(5 * time.Second)
			}
			return nil
		})
		b := w.start(w.options(func(o *Options) { o.Chain = scripted(t, s) }))
		w.feed("in", 10, 0, 1)
		w.caughtUp("in")
		w.feed("in", 10, 0, 1)
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		if b.restarts() != 1 || b.outcomes()[OutcomeAborted] == 0 {
			t.Errorf("%d restarts, outcomes %v", b.restarts(), b.outcomes())
		}
	})
}

// TestConcurrentTransactions: twenty times in each epoch the coordinator is still busy with the one before. That is
// waited for, without a restart and without a word.
func TestConcurrentTransactions(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		t.Run(key.Name(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				b := w.start(w.options(defaults))
				w.assigned(b, 2)
				w.feed("in", 1, 0)
				w.caughtUp("in")
				before := w.book.loud()
				for range 10 {
					busy := w.Fault(kfake.Fault{
						Keys: []kmsg.Key{key}, TopLevel: key == kmsg.EndTxn, Err: kerr.ConcurrentTransactions, Count: 20, When: ofBridges,
					})
					w.feed("in", 10, 0, 1)
					w.caughtUp("in")
					if busy.Hits() != 20 {
						t.Errorf("%d answers that it is busy", busy.Hits())
					}
				}
				if after := w.book.loud(); after-before > 10 {
					t.Errorf("%d lines above debug for 10 epochs", after-before)
				}
				b.stopped()
				w.exact("out", "in")
				if b.restarts() > 0 {
					t.Errorf("%d restarts", b.restarts())
				}
			})
		})
	}
}

// TestBusyAtTakeOver: the coordinator answers CONCURRENT_TRANSACTIONS for a minute to whoever takes over. He waits,
// and says little.
func TestBusyAtTakeOver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.feed("in", 10, 0, 1)
		busy := w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.ConcurrentTransactions, Count: -1})
		b := w.start(w.options(defaults))
		w.pass(time.Minute)
		if n := w.book.loud(); n > 6 {
			t.Errorf("%d lines above debug in a minute", n)
		}
		if n := busy.Hits(); n > 2*60*60 {
			t.Errorf("%d requests in a minute", n)
		}
		busy.Remove()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
	})
}

// TestBrokerEndsTheTransaction: the broker moves the producer epoch on under our hands, as it does when it times out a
// transaction. Its answers are those to a fenced producer; nobody else has our name, so the bridge goes on. (A process
// that finds a newcomer under its name ends with 75 after the same answers: TestNameTaken.)
func TestBrokerEndsTheTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.judgeLeaves()
		stop := w.feeding("in", 10*time.Millisecond, 0, 1)
		registry := prometheus.NewRegistry()
		own, onWire := w.ownWire()
		own.delay = time.Millisecond
		b := w.start(w.options(onWire, func(o *Options) { o.Registerer = registry }))
		w.assigned(b, 2)
		for i := range 10 {
			w.pass(200*time.Millisecond + time.Duration(i)*7*time.Millisecond)
			before := b.restarts()
			for _, id := range []string{"g.a.0", "g.a.1"} {
				req := kmsg.NewPtrInitProducerIDRequest()
				req.TransactionalID, req.TransactionTimeoutMillis = &id, 8000
				if resp, err := req.RequestWith(t.Context(), w.cl); err != nil || resp.ErrorCode != 0 {
					t.Fatal(err, kerr.ErrorForCode(resp.ErrorCode))
				}
			}
			w.until("it starts again", func() bool { return b.restarts() > before })
			w.caughtUpAt()
		}
		stop()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		w.settled("out")
		for name, n := range samples(gather(t, registry)) {
			if strings.HasPrefix(name, "eosbridge_restarts_total") && strings.Contains(name, ClassFenced) && n > 0 {
				t.Errorf("%s = %v", name, n)
			}
		}
		if n := b.restarts(); n > 20 {
			t.Errorf("%d restarts for 10 times", n)
		}
	})
}

// TestBlackHole at any moment of an epoch: everything is swallowed for twenty seconds, which is longer than the session,
// and what was swallowed arrives at the end.
func TestBlackHole(t *testing.T) {
	protocols(t, func(t *testing.T, w *world, protocol func(*Options)) {
		w.topics(2, "in", "out")
		w.judgeLeaves()
		stop := w.feeding("in", 100*time.Millisecond, 0, 1)
		own, onWire := w.ownWire()
		own.delay = time.Millisecond
		b := w.start(w.options(onWire, protocol))
		w.assigned(b, 2)
		for i := range 8 {
			w.pass(time.Duration(i*7) * time.Millisecond)
			release := own.hold()
			w.pass(20 * time.Second)
			if reasons := b.unready(); reasons == "" {
				t.Error("ready although nothing gets through")
			}
			release()
			w.caughtUpAt()
		}
		stop()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		w.settled("out")
	})
}

// unready answers why the process is not ready; nothing if it is.
func (r *running) unready() string {
	var reasons []string
	for _, check := range r.board.ready(r.opts.EpochTimeout) {
		if check.reason != "" {
			reasons = append(reasons, check.reason)
		}
	}
	return strings.Join(reasons, ", ")
}

// TestBrokerCannotStore: for two minutes no record, or no decision, can be stored (disks full, replicas missing). The
// bridge is not ready meanwhile, shows nothing, loses nothing, and goes on by itself.
func TestBrokerCannotStore(t *testing.T) {
	for _, tc := range []struct {
		key    kmsg.Key
		narrow func(*kfake.Fault)
		err    *kerr.Error
	}{
		{kmsg.Produce, ofTopic("out"), kerr.NotEnoughReplicas},
		{kmsg.Produce, ofTopic("out"), kerr.NotEnoughReplicasAfterAppend},
		{kmsg.Produce, ofTopic("out"), kerr.KafkaStorageError},
		{kmsg.TxnOffsetCommit, func(*kfake.Fault) {}, kerr.CoordinatorNotAvailable},
		{kmsg.EndTxn, func(f *kfake.Fault) { f.TopLevel = true }, kerr.CoordinatorNotAvailable},
		{kmsg.EndTxn, func(f *kfake.Fault) { f.TopLevel = true }, kerr.NotEnoughReplicas},
	} {
		t.Run(tc.key.Name()+" "+tc.err.Message, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				b := w.start(w.options(defaults))
				w.feed("in", 10, 0, 1)
				w.caughtUp("in")
				f := kfake.Fault{Keys: []kmsg.Key{tc.key}, Err: tc.err, Count: -1}
				tc.narrow(&f)
				handle, began := w.Fault(f), time.Now()
				w.feed("in", 10, 0, 1)
				w.until("it is not ready", func() bool { return b.unready() != "" })
				w.pass(b.opts.EpochTimeout) // one failure may be followed by a success: that it is a row shows within this time
				for range 480 {
					w.pass(250 * time.Millisecond)
					if b.unready() == "" {
						t.Fatalf("ready %s after the fault began, although nothing can be committed", time.Since(began))
					}
				}
				if n := w.count("out"); n != 20 {
					t.Errorf("%d records are visible, want the 20 of before", n)
				}
				if handle.Hits() > 10_000 { // a commit that is refused is repeated every 20 ms, until its epoch is given up
					t.Errorf("%d requests in two minutes", handle.Hits())
				}
				handle.Remove()
				w.caughtUp("in")
				w.until("it is ready", func() bool { return b.unready() == "" })
				b.stopped()
				w.exact("out", "in")
				w.settled("out")
			})
		})
	}
}

// TestStopWithoutACoordinator: the group's coordinator has been away for half a minute when the stop comes. The stop
// has its deadline all the same.
func TestStopWithoutACoordinator(t *testing.T) {
	for _, keys := range [][]kmsg.Key{{kmsg.TxnOffsetCommit}, {kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.FindCoordinator, kmsg.LeaveGroup}} {
		t.Run(fmt.Sprint(len(keys)), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				b := w.start(w.options(defaults))
				w.feed("in", 10, 0, 1)
				w.caughtUp("in")
				for _, key := range keys {
					w.Fault(kfake.Fault{Keys: []kmsg.Key{key}, TopLevel: key == kmsg.EndTxn || key == kmsg.LeaveGroup, Err: kerr.CoordinatorNotAvailable, Count: -1})
				}
				w.feed("in", 10, 0, 1)
				w.pass(30 * time.Second)
				began := time.Now()
				b.stop()
				_ = b.wait() // clean if it waited for its next start, unclean in the middle of an epoch
				if took := time.Since(began); took > b.opts.StopTimeout+20*time.Second {
					t.Errorf("the stop took %s", took)
				}
				if n := w.count("out"); n != 20 {
					t.Errorf("%d records are visible, want the 20 of before", n)
				}
			})
		})
	}
}

// TestAbortRefused: the process ends for a record that it cannot transform, and its last word to the coordinator, the
// abort, is refused again and again. It ends all the same, soon, and leaves the rest to the next start.
func TestAbortRefused(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.TransactionAbortable, kerr.InvalidTxnState, kerr.ConcurrentTransactions} {
		t.Run(err.Message, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				s := perRecord(func(r *transform.Record) error {
					if r.Offset == 15 {
						return errors.New("no such currency")
					}
					return nil
				})
				b := w.start(w.options(longEpochs, func(o *Options) { o.Chain, o.Lanes = scripted(w.t, s), 1 }))
				w.feed("in", 10, 0)
				w.caughtUp("in")
				w.feed("in", 2, 0)
				w.until("a transaction is open", func() bool {
					p := w.PartitionInfo("out", 0)
					return p.HighWatermark > p.LastStableOffset
				})
				refused := w.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: err, Count: -1,
					When: func(r kmsg.Request) bool { return !r.(*kmsg.EndTxnRequest).Commit },
				})
				began := time.Now()
				w.feed("in", 8, 0)
				b.fails(txn.StatusFailure, "offset 15")
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("the end took %s", took)
				}
				if n := refused.Hits(); n == 0 || n > 200 {
					t.Errorf("%d aborts were sent", n)
				}
				refused.Remove()
				w.caughtUpBy(w.options())
				w.exact("out", "in")
				w.settled("out")
			})
		})
	}
}

// TestOlderThanTransactionsWithMembers: brokers before Kafka 2.5 take a commit of positions and check no member
// (KIP-447). They are refused by name, as all before 3.6.
func TestOlderThanTransactionsWithMembers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.feed("in", 5, 0)
		b := w.start(w.options())
		b.fails(txn.StatusConfig, "3.6 is the oldest supported", "upgrade")
		if n := w.count("out"); n != 0 {
			t.Errorf("%d records were copied", n)
		}
	}, kfake.MaxVersions(kversion.V2_4_0()))
}

// TestTransactionalIDs: however many epochs, restarts and processes, an instance has two transactional ids.
func TestTransactionalIDs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		var mu sync.Mutex
		ids := map[string]int{}
		w.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			if id := r.(*kmsg.InitProducerIDRequest).TransactionalID; id != nil {
				mu.Lock()
				defer mu.Unlock()
				ids[*id]++
			}
			return nil, nil, false
		})
		for range 5 {
			b := w.start(w.options(func(o *Options) { o.EpochMaxRecords, o.RestartMaxDelay = 5, 100*time.Millisecond }))
			w.assigned(b, 2)
			for range 4 {
				before := b.restarts()
				w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true})
				w.trickle("in", 0, 25, 2*time.Millisecond)
				w.until("it restarts", func() bool { return b.restarts() > before })
				w.caughtUp("in")
			}
			b.stopped()
		}
		w.exact("out", "in")
		if len(ids) != 2 || ids["g.a.0"] < 25 || ids["g.a.1"] < 25 {
			t.Errorf("transactional ids and how often they were fenced: %v", ids)
		}
	})
}

// TestManyOldIDs: hundreds of ids of instances that are gone. Only those with an open transaction are touched, each once,
// nobody else's are, and the start does not wait for it.
func TestManyOldIDs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const idle, open = 300, 20
		w.topics(1, "in", "out", "elsewhere")
		for i := range idle {
			req := kmsg.NewPtrInitProducerIDRequest()
			id := fmt.Sprintf("g.old%d.0", i)
			req.TransactionalID, req.TransactionTimeoutMillis = &id, 60_000
			if resp, err := req.RequestWith(t.Context(), w.cl); err != nil || resp.ErrorCode != 0 {
				t.Fatal(err, kerr.ErrorForCode(resp.ErrorCode))
			}
		}
		left := func(id, topic string) {
			cl := w.client(kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute))
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("left")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range open {
			left(fmt.Sprintf("g.open%d.1", i), "out")
		}
		left("other.open.0", "elsewhere")
		w.pass(time.Minute)
		var mu sync.Mutex
		fenced := map[string]int{}
		w.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			if id := r.(*kmsg.InitProducerIDRequest).TransactionalID; id != nil {
				mu.Lock()
				defer mu.Unlock()
				fenced[*id]++
			}
			return nil, nil, false
		})
		w.feed("in", 10, 0)
		began := time.Now()
		b := w.start(w.options())
		w.assigned(b, 1)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the start took %s", took)
		}
		w.until("readers see the output", func() bool {
			p := w.PartitionInfo("out", 0)
			return w.behind("g", "in") == 0 && p.LastStableOffset == p.HighWatermark
		})
		b.stopped()
		w.exact("out", "in")
		if w.PartitionInfo("elsewhere", 0).LastStableOffset != 0 {
			t.Error("a stranger's transaction was touched")
		}
		mu.Lock()
		defer mu.Unlock()
		if len(fenced) != open+2 {
			t.Errorf("%d ids were fenced, want the %d that are open and our two", len(fenced), open)
		}
		for id, n := range fenced {
			if n != 1 {
				t.Errorf("%s was fenced %d times", id, n)
			}
		}
	})
}

// TestOneOutputPartitionRefuses while the other one takes: batches that fail and come again keep their order.
func TestOneOutputPartitionRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.leadersMove()
		w.topics(2, "in", "out")
		stop := w.feeding("in", time.Millisecond, 0, 1)
		b := w.start(w.options(func(o *Options) { o.EpochInterval = 20 * time.Millisecond }))
		w.assigned(b, 2)
		for i := range 6 {
			w.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Partitions: []int32{int32(i % 2)}, Err: kerr.NotLeaderForPartition, Count: 5,
			})
			w.ShufflePartitionLeaders()
			w.pass(100 * time.Millisecond)
		}
		stop()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
	}, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
}

// TestOneOfThreeOutputsRefuses for ten seconds: the epoch waits as a whole. Nothing of it is shown in the other two,
// and it goes on soon after.
func TestOneOfThreeOutputsRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		topics := []string{"out", "second", "third"}
		w.topics(1, "in", "out", "second", "third")
		s := perRecord(func(r *transform.Record) error {
			if i := r.Offset % 3; i > 0 {
				r.Target = topics[i]
			}
			return nil
		})
		s.targets = topics[1:]
		b := w.start(w.options(func(o *Options) { o.Chain = scripted(t, s) }))
		w.feed("in", 9, 0)
		w.caughtUp("in")
		refuses := w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "third", Err: kerr.NotEnoughReplicas, Count: -1})
		w.feed("in", 9, 0)
		w.pass(10 * time.Second)
		for _, topic := range topics {
			if n := w.count(topic); n != 3 {
				t.Errorf("topic %s shows %d records, want 3", topic, n)
			}
		}
		refuses.Remove()
		began := time.Now()
		w.caughtUp("in")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("back after %s", took)
		}
		b.stopped()
		var all []string
		for _, topic := range topics {
			all = append(all, values(w.read(topic)[0])...)
		}
		want := values(w.read("in")[0])
		slices.Sort(all)
		slices.Sort(want)
		if !slices.Equal(all, want) {
			t.Errorf("%d records in three topics, want %d", len(all), len(want))
		}
	})
}

// TestNeverACoordinator: transactions never find a coordinator, as on a cluster whose __transaction_state cannot be
// made. The start ends, and its message has the request and the answer.
func TestNeverACoordinator(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.CoordinatorNotAvailable, Count: -1})
		b := w.start(w.options(defaults, func(o *Options) { o.RestartLimit = 1 }))
		w.pass(3 * time.Minute)
		b.fails(txn.StatusFailure, "fence g.a.", "COORDINATOR_NOT_AVAILABLE")
	})
}
