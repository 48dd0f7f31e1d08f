package bridge

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// Starts, stops, loads and rights.

// TestStopWithoutBrokers: the brokers are away when the stop comes, before an epoch, within one, or while the process
// waits to start again. It ends by its deadline, and says so where an epoch was not settled.
func TestStopWithoutBrokers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wait  time.Duration // between the loss of the brokers and the stop
		feed  bool
		clean bool
	}{
		{"idle", time.Millisecond, false, true},
		{"within an epoch", time.Millisecond, true, false},
		{"while it tries to start again", 30 * time.Second, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				b := w.start(w.options(longEpochs))
				w.assigned(b, 2)
				w.feed("in", 10, 0)
				w.caughtUp("in")
				if tc.feed {
					w.feed("in", 10, 0, 1)
					w.pass(100 * time.Millisecond)
				}
				w.wire.unplug()
				w.pass(tc.wait)
				began := time.Now()
				b.stop()
				err := b.wait()
				if took := time.Since(began); took > b.opts.StopTimeout+15*time.Second {
					t.Errorf("the stop took %s", took)
				}
				if (err == nil) != tc.clean {
					t.Errorf("ended with %v", err)
				}
				w.wire.plug()
				w.caughtUpBy(w.options())
				w.exact("out", "in")
				w.settled("out")
			})
		})
	}
}

// TestNodesComeAndGo under load: partitions, coordinators and connections go with them, and they come back under
// other addresses.
func TestNodesComeAndGo(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.leadersMove()
		w.topics(3, "in", "out")
		stop := w.feeding("in", 50*time.Millisecond, 0, 1, 2)
		b := w.start(w.options())
		w.assigned(b, 3)
		for i := range 4 {
			node := int32(i%2 + 1)
			if err := w.RemoveNode(node); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Second)
			if _, _, err := w.AddNode(node, 9100+i); err != nil { // back under another address
				t.Fatal(err)
			}
			w.ShufflePartitionLeaders()
			w.pass(2 * time.Second)
			w.caughtUpAt()
		}
		stop()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		w.settled("out")
	}, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
}

// TestOutputDeleted in the middle of an epoch: one of three outputs is gone. Nothing of the epoch is shown in the other
// two, no position moves, and the process ends with the name of what is missing; it comes back with the topic.
func TestOutputDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wire.delay = 5 * time.Millisecond
		topics := []string{"out", "second", "third"}
		w.topics(1, "in", "out", "second", "third")
		s := perRecord(func(r *transform.Record) error {
			if i := r.Offset % 3; i > 0 {
				r.Target = topics[i]
			}
			return nil
		})
		s.targets = topics[1:]
		change := func(o *Options) { o.Chain = scripted(t, s) }
		b := w.start(w.options(change))
		w.feed("in", 9, 0)
		w.caughtUp("in")
		before := w.positions("g")
		if err := w.DeleteTopic("third"); err != nil {
			t.Fatal(err)
		}
		w.feed("in", 9, 0)
		w.pass(30 * time.Second)
		b.fails(txn.StatusConfig, `output topic "third" does not exist`, "--create --topic third --partitions 1")
		if after := w.positions("g"); after != before {
			t.Errorf("positions moved from %s to %s", before, after)
		}
		for _, topic := range topics[:2] {
			if n := w.count(topic); n != 3 {
				t.Errorf("topic %s shows %d records, want 3", topic, n)
			}
		}
		w.topic("third", 1)
		w.anew()
		w.caughtUpBy(w.options(change))
		for i, topic := range topics {
			if n := w.count(topic); n != 6 && i < 2 || n != 3 && i == 2 {
				t.Errorf("topic %s shows %d records", topic, n)
			}
		}
	})
}

// TestOutputMadeAnew while the bridge runs: with as many partitions it goes on, and all that is fed from then on is in
// the new topic; with fewer it ends by name.
func TestOutputMadeAnew(t *testing.T) {
	for _, partitions := range []int32{2, 1} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.wire.delay = 5 * time.Millisecond
				w.topics(2, "in", "out")
				b := w.start(w.options())
				w.feed("in", 10, 0, 1)
				w.caughtUp("in")
				before := w.positions("g")
				if err := w.DeleteTopic("out"); err != nil {
					t.Fatal(err)
				}
				w.topic("out", partitions)
				w.anew()
				w.feed("in", 10, 0, 1)
				if partitions < 2 {
					w.pass(time.Minute)
					b.fails(txn.StatusConfig, `output topic "out" has 1 partitions`)
					if after := w.positions("g"); after != before {
						t.Errorf("positions moved from %s to %s", before, after)
					}
					if n := w.count("out"); n != 0 {
						t.Errorf("%d records of an epoch that has no place are shown", n)
					}
					return
				}
				w.caughtUp("in")
				b.stopped()
				want, got := map[int32][]string{}, map[int32][]string{}
				for p, records := range w.read("in") {
					want[p] = texts(records)[10:]
				}
				for p, records := range w.read("out") {
					got[p] = texts(records)
				}
				w.same(got, want)
			})
		})
	}
}

// TestManyOutputsOfOneRecord: one input becomes 100,000 outputs, in order, all within its epoch, between records that
// become one and none.
func TestManyOutputsOfOneRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const many = 100_000
		w.topics(1, "in", "out")
		w.feed("in", 3, 0)
		s := &script{apply: func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
			for i := range []int{1, many, 0}[in.Offset] {
				r := *in
				r.Key, r.Value = nil, fmt.Append(nil, in.Offset, " ", i)
				out = append(out, r)
			}
			return out, nil
		}}
		w.caughtUpBy(w.options(defaults, func(o *Options) { o.Chain = scripted(w.t, s) }))
		out := w.read("out")[0]
		if len(out) != 1+many {
			t.Fatalf("%d records, want %d", len(out), 1+many)
		}
		for i, r := range out[1:] {
			if want := fmt.Sprint(1, " ", i); string(r.Value) != want {
				t.Fatalf("output %d is %q, want %q", i, r.Value, want)
			}
		}
	})
}

// TestOneSlowPartition: the transform takes its time for one partition. Epochs end all the same, within their time-out,
// and the other partitions move on at their own pace.
func TestOneSlowPartition(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		s := perRecord(func(r *transform.Record) error {
			if r.Partition == 0 {
				w.pass(400 * time.Millisecond)
			}
			return nil
		})
		b := w.start(w.options(func(o *Options) { o.Chain, o.Lanes = scripted(t, s), 4 }))
		w.assigned(b, 4)
		for range 20 {
			w.feed("in", 1, 0)
			w.feed("in", 20, 1, 2, 3)
			w.pass(500 * time.Millisecond)
		}
		for _, p := range []int32{1, 2, 3} {
			if at := w.committed("g", "in", p); at < 300 {
				t.Errorf("partition %d is at %d of 400", p, at)
			}
		}
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		if b.restarts() > 0 {
			t.Errorf("%d restarts", b.restarts())
		}
	})
}

// TestTransformSlowerThanTheInput: what one fetch brings takes longer than an epoch may. The first epoch aborts; then the
// bridge reads no more at a time than it can transform in time, goes on, and stays within its budget.
func TestTransformSlowerThanTheInput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		w.feedBytes(100, 0, 1, 2, 3)
		s := perRecord(func(*transform.Record) error {
			w.pass(time.Second)
			return nil
		})
		b := w.start(w.options(small, func(o *Options) { o.Chain, o.Lanes = scripted(t, s), 2 }))
		w.assigned(b, 4)
		limit := budgetBytes(b.opts.Memory, 0, false) + 3<<20
		for began := time.Now(); w.behind("g", "in") > 0; w.pass(5 * time.Second) {
			if used := b.budget.Load().used.Load(); used > limit {
				t.Fatalf("%d bytes are held, the budget is %d and a fetch has 1 MiB or one batch", used, limit)
			}
			if time.Since(began) > 10*time.Minute {
				t.Fatalf("%d records are left after %s", w.behind("g", "in"), time.Since(began))
			}
		}
		b.stopped()
		w.exact("out", "in")
		if b.restarts() > 1 {
			t.Errorf("%d restarts", b.restarts())
		}
	})
}

// TestPace: what may be dealt at a time follows the time that records take, down at once and up in steps.
func TestPace(t *testing.T) {
	t.Parallel()
	var p pace
	for _, step := range []struct {
		n       int
		d       time.Duration
		records int
	}{
		{0, 0, pollRecords},
		{10, 49 * time.Millisecond, pollRecords},       // too short to tell
		{100, 10 * time.Second, 15_000 / 4 / 10 / 100}, // 100 ms each
		{1, 5 * time.Second, 1},                        // never none
		{1, 0, 1},                                      // 2.5 s
		{1000, time.Millisecond, 1},                    // 1.25 s
		{0, time.Minute, 1},                            // the first record does not return
		{1_000_000, 100 * time.Millisecond, 1},         // 30 s
	} {
		p.took(step.n, step.d)
		if got := p.records(15 * time.Second); got != step.records {
			t.Errorf("after %d records in %s: %d at a time, want %d", step.n, step.d, got, step.records)
		}
	}
	for range 40 {
		p.took(1000, time.Millisecond)
	}
	if got := p.records(15 * time.Second); got != pollRecords {
		t.Errorf("a chain that is quick again: %d at a time", got)
	}
}

// TestRevokedDuringAlignment: partitions go to another member while a barrier is on its way through slow lanes. The
// epoch ends, or it is given up; nobody waits for a lane that has nothing any more.
func TestRevokedDuringAlignment(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(6, "in", "out")
		s := perRecord(func(*transform.Record) error {
			w.pass(3 * time.Millisecond)
			return nil
		})
		slow := func(o *Options) { o.Chain, o.Lanes, o.EpochInterval = scripted(t, s), 6, 20*time.Millisecond }
		stop := w.feeding("in", 20*time.Millisecond, 0, 1, 2, 3, 4, 5)
		a := w.start(w.options(slow))
		w.assigned(a, 6)
		for i := range 10 {
			b := w.start(w.options(slow, instance(fmt.Sprintf("b%d", i))))
			w.until("both share", func() bool { return a.holds() == 3 && b.holds() == 3 })
			w.pass(time.Duration(i) * time.Millisecond)
			b.stopped()
			w.assigned(a, 6)
			if n := b.restarts(); n > 0 {
				t.Errorf("the other one restarted %d times", n)
			}
		}
		stop()
		w.caughtUp("in")
		a.stopped()
		w.exact("out", "in")
		if n := abortedEpochs(a); n > 0 || a.restarts() > 0 {
			t.Errorf("%d epochs aborted, %d restarts", n, a.restarts())
		}
	})
}

// TestManyPartitions: goroutines and memory grow with lanes and brokers, not with partitions.
func TestManyPartitions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const topics, partitions = 30, 20
		var names []string
		for i := range topics {
			names = append(names, fmt.Sprintf("in-%d", i))
			w.topic(names[i], partitions)
		}
		w.topic("out", partitions)
		var all []int32
		for p := range int32(partitions) {
			all = append(all, p)
		}
		for _, name := range names {
			w.feed(name, 1, all...)
		}
		before := runtime.NumGoroutine()
		began := time.Now()
		b := w.start(w.options(defaults, func(o *Options) { o.Inputs = names }))
		w.assigned(b, topics*partitions)
		w.caughtUp(names...)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%d partitions took %s", topics*partitions, took)
		}
		if n := runtime.NumGoroutine() - before; n > 400 { // other tests run beside this one
			t.Errorf("%d more goroutines for %d partitions", n, topics*partitions)
		}
		b.stopped()
		w.exact("out", names...)
	})
}

// TestStopsUnderLoad: a hundred stops at any moment of an epoch. Each ends with 0, leaves the group, so that the next
// one is there at once, and leaves nothing open.
func TestStopsUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.wire.delay = time.Millisecond
		w.topics(2, "in", "out")
		stop := w.feeding("in", 20*time.Millisecond, 0, 1)
		leaves := w.observe(kmsg.LeaveGroup)
		for i := range 100 {
			b := w.start(w.options(func(o *Options) { o.EpochInterval = 20 * time.Millisecond }))
			began := time.Now()
			w.assigned(b, 2)
			if took := time.Since(began); took > time.Second {
				t.Errorf("start %d took %s", i, took)
			}
			w.pass(time.Duration(i) * 1300 * time.Microsecond)
			b.stopped()
			if w.isMember("g", "a") {
				t.Errorf("still a member after stop %d", i)
			}
		}
		stop()
		w.caughtUpBy(w.options())
		w.exact("out", "in")
		w.settled("out")
		if n := leaves.Hits(); n < 100 {
			t.Errorf("%d requests to leave", n)
		}
	})
}

// TestStopDuringARebalance in which the group's coordinator does not answer any more: the stop has its deadline all the
// same.
func TestStopDuringARebalance(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.SyncGroup, kmsg.JoinGroup, kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat} {
		t.Run(key.Name(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(4, "in", "out")
				w.feed("in", 10, 0, 1, 2, 3)
				protocol := func(o *Options) { o.Consumer = key == kmsg.ConsumerGroupHeartbeat }
				a := w.start(w.options(protocol))
				w.caughtUp("in")
				held := w.slowly(key, 2, time.Hour)
				b := w.start(w.options(protocol, instance("b")))
				w.until("the coordinator is silent", func() bool { return held.Load() > 0 })
				w.pass(3 * time.Second)
				for _, m := range []*running{a, b} {
					began := time.Now()
					m.stop()
					err := m.wait()
					if took := time.Since(began); took > m.opts.StopTimeout+15*time.Second {
						t.Errorf("the stop of %s took %s: %v", m.opts.Instance, took, err)
					}
				}
			})
		})
	}
}

// rights are what a bridge needs, and nothing more.
func rights() map[string]kfake.ACL {
	topic, group, id := kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup, kmsg.ACLResourceTypeTransactionalId
	literal, prefixed := kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed
	return map[string]kfake.ACL{
		"read the input":                 {Resource: topic, Name: "in", Pattern: literal, Operation: kmsg.ACLOperationRead, Allow: true},
		"write the output":               {Resource: topic, Name: "out", Pattern: literal, Operation: kmsg.ACLOperationWrite, Allow: true},
		"read the group":                 {Resource: group, Name: "g", Pattern: literal, Operation: kmsg.ACLOperationRead, Allow: true},
		"write the transactional prefix": {Resource: id, Name: "g.", Pattern: prefixed, Operation: kmsg.ACLOperationWrite, Allow: true},
	}
}

// asUser runs a test whose bridges log in as a user with rights, and whose own clients may everything.
func asUser(t *testing.T, rights map[string]kfake.ACL, test func(t *testing.T, w *world)) {
	var acls []kfake.ACL
	for _, acl := range rights {
		acls = append(acls, acl)
	}
	inBubble(t, func(t *testing.T, w *world) {
		login := func(name string) kgo.Opt { return kgo.SASL(plain.Auth{User: name, Pass: "secret"}.AsMechanism()) }
		w.own, w.bridges = append(w.own, login("admin")), append(w.bridges, login("bridge"))
		w.anew()
		test(t, w)
	}, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "secret"), kfake.User("PLAIN", "bridge", "secret", acls...))
}

// TestRights: the four rights are enough, each one is needed, and a missing one ends the start with status 77 and the
// broker's name for it, before anything is copied.
func TestRights(t *testing.T) {
	t.Run("all", func(t *testing.T) {
		asUser(t, rights(), func(t *testing.T, w *world) {
			w.topics(2, "in", "out")
			w.feed("in", 10, 0, 1)
			w.caughtUpBy(w.options())
			w.exact("out", "in")
		})
	})
	for missing, words := range map[string][]string{
		"read the input":                 {"TOPIC_AUTHORIZATION_FAILED", "in"},
		"write the output":               {"TOPIC_AUTHORIZATION_FAILED", "out"},
		"read the group":                 {"GROUP_AUTHORIZATION_FAILED"},
		"write the transactional prefix": {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "g.a."},
	} {
		t.Run("without the right to "+missing, func(t *testing.T) {
			left := rights()
			delete(left, missing)
			asUser(t, left, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				w.feed("in", 10, 0, 1)
				b := w.start(w.options())
				b.fails(txn.StatusDenied, words...)
				if n := w.count("out"); n != 0 {
					t.Errorf("%d records were copied", n)
				}
				if b.restarts() != 0 {
					t.Errorf("%d restarts", b.restarts())
				}
			})
		})
	}
}

// TestRightTakenAway while the bridge runs: it ends with status 77 and shows nothing of what was under way; given back,
// the next start goes on.
func TestRightTakenAway(t *testing.T) {
	for name, acl := range rights() {
		t.Run(name, func(t *testing.T) {
			asUser(t, rights(), func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				w.feed("in", 10, 0, 1)
				b := w.start(w.options())
				w.caughtUp("in")
				w.grant(acl, false)
				end := make(chan struct{})
				go func() {
					defer close(end)
					for !closed(b.ended) && w.t.Context().Err() == nil {
						w.feed("in", 1, 0, 1)
						w.pass(200 * time.Millisecond)
					}
				}()
				b.fails(txn.StatusDenied, "AUTHORIZATION_FAILED")
				<-end
				w.grant(acl, true)
				w.caughtUpBy(w.options())
				w.exact("out", "in")
				w.settled("out")
			})
		})
	}
}

// grant gives the user a right, or takes it.
func (w *world) grant(acl kfake.ACL, allow bool) {
	w.t.Helper()
	principal, host := "User:bridge", "*"
	if allow {
		req := kmsg.NewPtrCreateACLsRequest()
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = acl.Resource, acl.Name, acl.Pattern
		c.Principal, c.Host, c.Operation, c.PermissionType = principal, host, acl.Operation, kmsg.ACLPermissionTypeAllow
		req.Creations = append(req.Creations, c)
		resp, err := req.RequestWith(w.t.Context(), w.cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.Results[0].ErrorCode)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return
	}
	req := kmsg.NewPtrDeleteACLsRequest()
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourceName, f.ResourcePatternType = acl.Resource, &acl.Name, acl.Pattern
	f.Principal, f.Operation, f.PermissionType = &principal, acl.Operation, kmsg.ACLPermissionTypeAllow
	req.Filters = append(req.Filters, f)
	resp, err := req.RequestWith(w.t.Context(), w.cl)
	if err == nil && len(resp.Results[0].MatchingACLs) != 1 {
		err = errors.New("no such right")
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestSessionsOfCredentials: the brokers ask for the credentials again every two seconds, in the middle of epochs that
// take five.
func TestSessionsOfCredentials(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		login := func(name string) kgo.Opt { return kgo.SASL(plain.Auth{User: name, Pass: "secret"}.AsMechanism()) }
		w.own, w.bridges = append(w.own, login("admin")), append(w.bridges, login("admin"))
		w.anew()
		w.topics(2, "in", "out")
		var logins atomic.Int64
		w.ControlKey(int16(kmsg.SASLAuthenticate), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			logins.Add(1)
			return nil, nil, false
		})
		stop := w.feeding("in", 500*time.Millisecond, 0, 1)
		b := w.start(w.options(defaults, func(o *Options) { o.EpochInterval = 5 * time.Second }))
		w.assigned(b, 2)
		before := logins.Load()
		w.pass(30 * time.Second)
		stop()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		if n := logins.Load() - before; n < 10 {
			t.Errorf("%d logins in half a minute", n)
		}
		if b.restarts() > 0 {
			t.Errorf("%d restarts", b.restarts())
		}
	}, kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "secret"),
		kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "2000"}))
}
