package bridge

import (
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// observe counts requests without touching them.
func (w *world) observe(key kmsg.Key, narrow ...func(*kfake.Fault)) *kfake.FaultHandle {
	f := kfake.Fault{Keys: []kmsg.Key{key}, Observe: true, Count: -1}
	for _, n := range narrow {
		n(&f)
	}
	return w.Fault(f)
}

func ofTopic(topic string) func(*kfake.Fault) { return func(f *kfake.Fault) { f.Topic = topic } }

// TestRefusedBeforeARecordIsRead: what the cluster lacks ends the start with the remedy.
func TestRefusedBeforeARecordIsRead(t *testing.T) {
	for _, tc := range []struct {
		name   string
		topics map[string]int32
		change func(*testing.T, *Options)
		words  []string
	}{
		{
			name: "no output topic", topics: map[string]int32{"in": 3},
			words: []string{`output topic "out" does not exist`, "kafka-topics.sh", "--create --topic out --partitions 3"},
		},
		{
			name: "no output topic, by key", topics: map[string]int32{"in": 3},
			change: func(_ *testing.T, o *Options) { o.ByKey = true },
			words:  []string{`output topic "out" does not exist`, "--create --topic out --partitions 1"},
		},
		{
			name: "too few output partitions", topics: map[string]int32{"in": 3, "out": 2},
			words: []string{`output topic "out" has 2 partitions`, `input topic "in" has 3`, "--alter --topic out --partitions 3", "BRIDGE_PARTITIONING=key"},
		},
		{
			name: "one of two outputs", topics: map[string]int32{"in": 1, "in2": 1, "copy-in": 1},
			change: func(_ *testing.T, o *Options) { o.Inputs, o.Output = []string{"in", "in2"}, "copy-{topic}" },
			words:  []string{`output topic "copy-in2" does not exist`},
		},
		{
			name: "no route target", topics: map[string]int32{"in": 1, "out": 1},
			change: func(t *testing.T, o *Options) { o.Chain = chain(t, "route(elsewhere)") },
			words:  []string{`output topic "elsewhere" does not exist`, "--create --topic elsewhere --partitions 1"},
		},
		{
			name: "no input topic", topics: map[string]int32{"out": 1},
			words: []string{`input topic "in" does not exist`, "BRIDGE_INPUT_TOPICS"},
		},
		{
			name: "one of two input topics", topics: map[string]int32{"in": 1, "out": 1},
			change: func(_ *testing.T, o *Options) { o.Inputs = []string{"in", "in2"} },
			words:  []string{`input topic "in2" does not exist`},
		},
		{
			name: "the transaction timeout exceeds the broker's maximum", topics: map[string]int32{"in": 1, "out": 1},
			change: func(_ *testing.T, o *Options) { o.TxnTimeout = time.Hour },
			words:  []string{"transaction.max.timeout.ms"},
		},
		{
			name: "the broker's session timeout is too short", topics: map[string]int32{"in": 1, "out": 1},
			change: func(_ *testing.T, o *Options) { o.Consumer, o.TxnTimeout = true, 45*time.Second },
			words:  []string{"BRIDGE_TXN_TIMEOUT=45s", "group.consumer.session.timeout.ms=45s"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				for name, partitions := range tc.topics {
					w.topic(name, partitions)
				}
				if tc.topics["in"] > 0 {
					w.feed("in", 5, 0)
				}
				fetches := w.observe(kmsg.Fetch)
				b := w.start(w.options(func(o *Options) {
					if tc.change != nil {
						tc.change(t, o)
					}
				}))
				b.fails(txn.StatusConfig, tc.words...)
				if n := fetches.Hits(); n > 0 {
					t.Errorf("%d fetches before the refusal", n)
				}
				if w.restartsLogged() > 0 {
					t.Error("started again although no restart can help")
				}
			})
		})
	}
}

func (w *world) restartsLogged() int { return len(w.book.with("session failed, starting again")) }

// at gives a time stamp of its own to each record: the time of record i is base + i seconds.
func (w *world) feedAt(topic string, p int32, base time.Time, n int) {
	w.t.Helper()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{
			Topic: topic, Partition: p, Value: []byte(w.unique(topic, p)), Timestamp: base.Add(time.Duration(i) * time.Second),
		})
	}
	w.write(records...)
}

// values are those of a partition, in order.
func values(records []*kgo.Record) []string {
	all := []string{}
	for _, r := range records {
		all = append(all, string(r.Value))
	}
	return all
}

// TestStart: where a topic without a position begins.
func TestStart(t *testing.T) {
	base := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name  string
		start string
		skip  [2]int // of 10 records in each of two partitions, whose times are an hour apart
	}{
		{"unset", "", [2]int{0, 0}},
		{"earliest", "earliest", [2]int{0, 0}},
		{"latest", "latest", [2]int{10, 10}},
		{"a time in the middle", base.Add(5 * time.Second).Format(time.RFC3339), [2]int{5, 0}},
		{"a time between records", base.Add(5*time.Second + time.Millisecond).Format(time.RFC3339Nano), [2]int{6, 0}},
		{"a time after all", base.AddDate(1, 0, 0).Format(time.RFC3339), [2]int{10, 10}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				w.feedAt("in", 0, base, 10)
				w.feedAt("in", 1, base.Add(time.Hour), 10)
				start, err := offsets.ParseStart(tc.start)
				if err != nil {
					t.Fatal(err)
				}
				b := w.start(w.options(func(o *Options) { o.Start = start }))
				w.assigned(b, 2)
				// Decided and durable before a record is written.
				for p, skip := range tc.skip {
					if at := w.committed("g", "in", int32(p)); at < int64(skip) {
						t.Errorf("partition %d begins at %d, want %d", p, at, skip)
					}
				}
				w.feedAt("in", 0, base, 10)
				w.feedAt("in", 1, base, 10)
				w.caughtUp("in")
				b.stopped()
				for p, records := range w.read("in") {
					want := values(records)[tc.skip[p]:]
					if got := values(w.read("out")[p]); !slices.Equal(got, want) {
						t.Errorf("partition %d: %d records from %v on, want %d", p, len(got), got[:min(1, len(got))], len(want))
					}
				}
			})
		})
	}
}

// TestStartHasNoSay where the group has a position: also not for a partition of that topic without one.
func TestStartHasNoSay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.feed("in", 10, 0, 1)
		w.commitAt("g", "in", 0, 4)
		w.caughtUpBy(w.options(func(o *Options) { o.Start = offsets.Start{Kind: offsets.StartLatest} }))
		out := w.read("out")
		if len(out[0]) != 6 || len(out[1]) != 10 {
			t.Errorf("%d and %d records, want 6 from the position and 10 from the earliest", len(out[0]), len(out[1]))
		}
	})
}

// TestStartUnsetWithWrittenOutput: positions that have expired look like a first start.
func TestStartUnsetWithWrittenOutput(t *testing.T) {
	for name, tc := range map[string]struct {
		write  string // topic
		change func(*Options)
		refuse bool
	}{
		"written":               {write: "out", refuse: true},
		"empty":                 {},
		"earliest":              {write: "out", change: func(o *Options) { o.Start.Kind = offsets.StartEarliest }},
		"a route target counts": {write: "routed", refuse: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out", "routed")
				w.feed("in", 5, 0)
				if tc.write != "" {
					w.feed(tc.write, 1, 1)
				}
				b := w.start(w.options(func(o *Options) {
					o.Start, o.Chain = offsets.Start{}, chain(t, "route(routed)")
					if tc.change != nil {
						tc.change(o)
					}
				}))
				if tc.refuse {
					b.fails(txn.StatusConfig, `group "g" has no position for topic "in"`, tc.write, "BRIDGE_START=earliest, latest")
					if got := w.positions("g"); got != "none" && got != "" {
						t.Errorf("positions were committed: %s", got)
					}
					return
				}
				w.caughtUp("in")
				b.stopped()
			})
		})
	}
}

// TestStartBesideAnother: two instances start for the first time, and one of them writes while the other has seen no
// positions and not yet the output. That is no group whose positions have expired.
func TestStartBesideAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.feed("in", 5, 0, 1)
		written := func() bool {
			return slices.ContainsFunc(w.PartitionInfos("out"), func(p *kfake.PartitionInfo) bool { return p.HighWatermark > 0 })
		}
		unset := func(o *Options) { o.Start = offsets.Start{} }
		var held atomic.Bool
		w.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			ofOutput := slices.ContainsFunc(r.(*kmsg.ListOffsetsRequest).Topics, func(t kmsg.ListOffsetsRequestTopic) bool { return t.Topic == "out" })
			if ofOutput && held.CompareAndSwap(false, true) {
				w.SleepControl(func() { w.until("the other one has written", written) })
			}
			return nil, nil, false
		})
		late := w.start(w.options(instance("late"), unset))
		w.until("the late one looks at the output", held.Load)
		early := w.start(w.options(unset))
		w.assigned(early, 1)
		w.assigned(late, 1)
		w.caughtUp("in")
		late.stopped()
		early.stopped()
		w.exact("out", "in")
	})
}

// TestStartBeforeAnotherHasBegun: the output is written, a topic has no position yet, and another instance may be about to
// begin it. While there is one, the start waits as long as an epoch may take; positions that have expired stay away.
func TestStartBeforeAnotherHasBegun(t *testing.T) {
	for name, begins := range map[string]bool{"begins": true, "does not": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "second", "out")
				w.feed("in", 5, 0, 1)
				w.feed("second", 5, 0, 1)
				first := w.start(w.options())
				w.caughtUp("in")
				b := w.start(w.options(instance("b"), func(o *Options) { o.Inputs, o.Start = []string{"in", "second"}, offsets.Start{} }))
				w.until("it waits", func() bool {
					return len(w.book.with("waiting for positions that another instance may be about to commit")) > 0
				})
				if !begins {
					b.fails(txn.StatusConfig, `group "g" has no position for topic "second"`, "BRIDGE_START=earliest")
					first.stopped()
					if n := w.count("out"); n != 10 {
						t.Errorf("%d records, want the 10 of the first topic", n)
					}
					return
				}
				other := w.start(w.options(instance("c"), func(o *Options) { o.Inputs = []string{"in", "second"} }))
				w.until("all are members", func() bool { return w.isMember("g", "b") && w.isMember("g", "c") })
				w.caughtUp("in", "second")
				for _, r := range []*running{b, other, first} {
					r.stopped()
				}
				if n := w.count("out"); n != 20 {
					t.Errorf("%d records, want 10 of each topic", n)
				}
			})
		})
	}
}

// TestStartInAnActiveGroup: another member is there, so that only a member may commit. The new topic still begins
// where BRIDGE_START says, in all of its partitions, and topics of the other member keep their positions.
func TestStartInAnActiveGroup(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out", "second")
		w.feed("in", 5, 0, 1, 2, 3)
		w.feed("second", 5, 0, 1, 2, 3)
		first := w.start(w.options())
		w.caughtUp("in")
		second := w.start(w.options(instance("b"), func(o *Options) {
			o.Inputs, o.Start = []string{"in", "second"}, offsets.Start{Kind: offsets.StartLatest}
		}))
		// b alone subscribes to "second" and gets all of it.
		w.until("both work", func() bool {
			return first.holds()+second.holds() == 8
		})
		w.until("the new topic has positions", func() bool {
			for p := range int32(4) {
				if w.committed("g", "second", p) < 5 {
					return false
				}
			}
			return true
		})
		w.feed("in", 5, 0, 1, 2, 3)
		w.feed("second", 5, 0, 1, 2, 3)
		w.caughtUp("in", "second")
		second.stopped()
		first.stopped()
		if n := w.count("out"); n != 40+20 {
			t.Errorf("%d records, want 40 of the first topic and 20 of the second", n)
		}
		if n := first.outcomes()[OutcomeAborted] + second.outcomes()[OutcomeAborted]; n != 0 {
			t.Errorf("%d epochs aborted", n)
		}
	})
}

// TestPartitionsAdded: a partition that appears later starts at its earliest record, whatever BRIDGE_START says.
func TestPartitionsAdded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topic("in", 1)
		w.topic("out", 3)
		w.feed("in", 10, 0)
		b := w.start(w.options(func(o *Options) { o.Start = offsets.Start{Kind: offsets.StartLatest} }))
		w.assigned(b, 1)
		w.addPartitions("in", 3)
		w.feed("in", 10, 0, 1, 2) // before the bridge can know
		w.assigned(b, 3)
		w.caughtUp("in")
		b.stopped()
		out := w.read("out")
		for p := range int32(3) {
			if len(out[p]) != 10 {
				t.Errorf("partition %d: %d records, want 10", p, len(out[p]))
			}
		}
		if b.restarts() != 0 {
			t.Errorf("%d restarts", b.restarts())
		}
	})
}

func (w *world) addPartitions(topic string, set int) {
	w.t.Helper()
	resp, err := w.adm.UpdatePartitions(w.t.Context(), set, topic)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.anew()
}

// TestPartitionsAddedWithoutOutput: nothing of a partition is read that has no place to go.
func TestPartitionsAddedWithoutOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		b := w.start(w.options())
		w.assigned(b, 1)
		w.addPartitions("in", 2)
		w.feed("in", 10, 0, 1)
		b.fails(txn.StatusConfig, `output topic "out" has 1 partitions`, `input topic "in" has 2`, "--alter --topic out --partitions 2")
		if n := len(w.read("out")[0]); n > 10 {
			t.Errorf("%d records in the one output partition", n)
		}
	})
}

// TestPattern: a regular expression takes in what matches, also what appears later, and never what we write, what
// we route to, nor what the brokers keep for themselves.
func TestPattern(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "orders", "copy-orders", "routed", "__internal", "copy-of-old-times")
		w.feed("orders", 10, 0, 1)
		w.feed("__internal", 10, 0, 1)
		w.feed("copy-of-old-times", 10, 0, 1) // an output whose input is gone
		var never []*kfake.FaultHandle
		for _, topic := range []string{"copy-orders", "routed", "__internal", "copy-of-old-times", "copy-refunds"} {
			never = append(never, w.observe(kmsg.Fetch, ofTopic(topic)))
		}
		b := w.start(w.options(func(o *Options) {
			o.Inputs, o.Pattern, o.Output = nil, regexp.MustCompile(`^(?:.*)$`), "copy-{topic}"
			o.Chain = chain(t, "route(routed)")
		}))
		w.assigned(b, 2)
		w.topics(2, "copy-refunds", "refunds")
		w.feed("refunds", 10, 0, 1)
		w.assigned(b, 4)
		w.caughtUp("orders", "refunds")
		w.pass(time.Minute) // time for what must not happen
		b.stopped()
		for _, f := range never {
			if f.Hits() > 0 {
				t.Error("a topic was read that must not be")
			}
		}
		w.exact("routed", "orders", "refunds")
		if b.restarts() != 0 {
			t.Errorf("%d restarts", b.restarts())
		}
	})
}

// TestPatternWithoutMatch waits for a topic to appear.
func TestPatternWithoutMatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "other", "out")
		b := w.start(w.options(func(o *Options) {
			o.Inputs, o.Pattern, o.Start = nil, regexp.MustCompile(`^(?:in.*)$`), offsets.Start{}
		}))
		w.until("it waits", func() bool { return b.board.snapshot().State == StateJoining })
		w.pass(time.Minute)
		w.topic("in-1", 1)
		w.feed("in-1", 10, 0)
		w.assigned(b, 1)
		w.caughtUp("in-1")
		b.stopped()
		w.exact("out", "in-1")
	})
}

// TestPatternNewTopicWithoutOutput: the topic is named, and nothing of it is lost on the way.
func TestPatternNewTopicWithoutOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in-1", "copy-in-1")
		b := w.start(w.options(func(o *Options) {
			o.Inputs, o.Pattern, o.Output = nil, regexp.MustCompile(`^(?:in.*)$`), "copy-{topic}"
		}))
		w.assigned(b, 1)
		w.topic("in-2", 1)
		w.feed("in-2", 10, 0)
		b.fails(txn.StatusConfig, `output topic "copy-in-2" does not exist`, "--create --topic copy-in-2 --partitions 1")
		w.topic("copy-in-2", 1)
		b = w.start(w.options(func(o *Options) {
			o.Inputs, o.Pattern, o.Output = nil, regexp.MustCompile(`^(?:in.*)$`), "copy-{topic}"
		}))
		w.caughtUp("in-1", "in-2")
		b.stopped()
		w.exact("copy-in-2", "in-2")
	})
}

// TestSeveralInputs go to one output, or each to its own.
func TestSeveralInputs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(3, "a", "b", "c", "out", "a.copy", "b.copy", "c.copy")
		inputs := []string{"a", "b", "c"}
		for _, in := range inputs {
			w.feed(in, 100, 0, 1, 2)
		}
		w.caughtUpBy(w.options(func(o *Options) { o.Inputs = inputs }))
		w.exact("out", inputs...)
		second := w.start(w.options(func(o *Options) { o.Inputs, o.Group, o.Prefix, o.Output = inputs, "h", "h", "{topic}.copy" }))
		w.until("the second group has caught up", func() bool { return w.behind("h", inputs...) == 0 })
		second.stopped()
		for _, in := range inputs {
			w.exact(in+".copy", in)
		}
	})
}

// TestBatchLimit: the client's limit for a topic is ordinary, and the topic's once a record needs that.
func TestBatchLimit(t *testing.T) {
	t.Parallel()
	s := &session{Bridge: &Bridge{}}
	if n := s.batchLimit("any"); n != 1_048_588 {
		t.Errorf("before anything is known: %d", n)
	}
	s.rules.Store(&map[string]topicRules{
		"small": topicRulesOf(config("max.message.bytes", "10"), 0), "large": topicRulesOf(config("max.message.bytes", "5242880"), 0),
		"huge": topicRulesOf(config("max.message.bytes", "1073741824"), 0),
	})
	for topic, want := range map[string]int32{"small": 1024, "large": 5 << 20, "huge": 64 << 20, "other": ordinaryBatch} {
		if n := s.topicLimit(topic); n != want {
			t.Errorf("topic %s takes %d, want %d", topic, n, want)
		}
		if n := s.batchLimit(topic); n != min(want, ordinaryBatch) {
			t.Errorf("topic %s: %d, want %d", topic, n, min(want, ordinaryBatch))
		}
	}
	if s.enlarge("small") || s.enlarge("other") || !s.enlarge("large") || s.enlarge("large") {
		t.Error("batches are enlarged for a topic that takes no larger ones, or twice, or not at all")
	}
	if n := s.requestBytes(); n < 5<<20 {
		t.Errorf("a request holds %d bytes, less than a large batch", n)
	}
	if n := s.batchLimit("large"); n != 5<<20 {
		t.Errorf("with large records: %d", n)
	}
	lossy := &session{Bridge: &Bridge{opts: Options{Delivery: AtMostOnce}}}
	lossy.rules.Store(s.rules.Load())
	if n := lossy.batchLimit("large"); n != 5<<20 {
		t.Errorf("at-most-once would lose an epoch to the first large record: %d", n)
	}
}

// TestDenied: what an ACL forbids ends the start with status 77 and names it.
func TestDenied(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"transactional id": {Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.TransactionalIDAuthorizationFailed, TopLevel: true},
		"group":            {Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, TopLevel: true},
		"input":            {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed},
		"output":           {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(1, "in", "out")
				w.feed("in", 5, 0)
				fault.Count = -1
				w.Fault(fault)
				b := w.start(w.options())
				b.fails(txn.StatusDenied)
				if b.restarts() != 0 {
					t.Errorf("%d restarts", b.restarts())
				}
			})
		})
	}
}
