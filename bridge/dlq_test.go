package bridge

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// These tests run on kfake, which refuses what a topic's max.message.bytes does not take; what a broker refuses for other
// reasons is played by refuse.

func tpOf(topic string, p int32) offsets.TopicPartition {
	return offsets.TopicPartition{Topic: topic, Partition: p}
}

// onError is a pipeline with an error policy, and with output that can be read on the wire.
func onError(action OnError) func(*Options) {
	return func(o *Options) {
		o.OnError, o.ErrorLimit, o.Version = action, 1000, "test"
		if action == DeadLetter {
			o.DLQ = "dlq"
		}
		o.Producing = []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}
	}
}

// picky refuses values that begin with "bad", panics at those with "panic", and makes two records of the others.
func picky(t *testing.T) *transform.Spec {
	return scripted(t, &script{apply: func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
		switch {
		case bytes.HasPrefix(in.Value, []byte("bad")):
			return append(out, *in), fmt.Errorf("cannot read %q", in.Value)
		case bytes.HasPrefix(in.Value, []byte("panic")):
			panic("no such thing")
		}
		second := *in
		second.Key = []byte("second")
		return append(out, *in, second), nil
	}})
}

// headerOf answers the last header of a name.
func headerOf(r *kgo.Record, name string) string {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// letters answers the dead letters by the offset of their input, and demands that each is its input in all but the
// headers that say why, once.
func (w *world) letters(topic, in string, p int32) map[int64]*kgo.Record {
	w.t.Helper()
	inputs := map[int64]*kgo.Record{}
	for _, r := range w.read(in)[p] {
		inputs[r.Offset] = r
	}
	found := map[int64]*kgo.Record{}
	for _, all := range w.read(topic) {
		for _, r := range all {
			if headerOf(r, headerLetter) != in || headerOf(r, headerLetterPartition) != fmt.Sprint(p) {
				continue
			}
			var offset int64
			_, _ = fmt.Sscan(headerOf(r, headerLetterOffset), &offset)
			if found[offset] != nil {
				w.t.Errorf("two dead letters of offset %d", offset)
			}
			found[offset] = r
			first := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == headerLetter })
			bare := *r
			bare.Headers = r.Headers[:first]
			if in := inputs[offset]; in == nil || text(&bare) != text(in) {
				w.t.Errorf("the dead letter of offset %d is not its input: %s", offset, text(r))
			}
		}
	}
	return found
}

// outputs answers the offsets whose value a partition of the output has, with how often.
func (w *world) outputs(topic, in string, p int32) map[int64]int {
	w.t.Helper()
	offset := map[string]int64{}
	for _, r := range w.read(in)[p] {
		offset[string(r.Value)] = r.Offset
	}
	n := map[int64]int{}
	for _, r := range w.read(topic)[p] {
		n[offset[string(r.Value)]]++
	}
	return n
}

// either demands that each input of a partition is in the output, so many times, or a dead letter, and answers the
// offsets of the dead letters.
func (w *world) either(p int32, times int) []int64 {
	w.t.Helper()
	out, letters := w.outputs("out", "in", p), w.letters("dlq", "in", p)
	var dead []int64
	for _, r := range w.read("in")[p] {
		letter := letters[r.Offset] != nil
		if letter {
			dead = append(dead, r.Offset)
		}
		if n := out[r.Offset]; letter == (n != 0) || !letter && n != times {
			w.t.Errorf("offset %d: %d times in the output, dead letter %t", r.Offset, n, letter)
		}
	}
	return dead
}

// TestDeadLetters: what a transform cannot handle becomes a dead letter, whole and once, and everything else goes on.
func TestDeadLetters(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"exactly-once":   func(*Options) {},
		"by key":         func(o *Options) { o.ByKey = true },
		"at-least-once":  func(o *Options) { o.Delivery = AtLeastOnce },
		"at-most-once":   func(o *Options) { o.Delivery = AtMostOnce },
		"provenance":     func(o *Options) { o.Provenance = true },
		"records of one": func(o *Options) { o.EpochMaxRecords = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(3, "in", "out")
				w.topic("dlq", 2)
				for p := range int32(3) {
					w.feed("in", 5, p)
					w.write(
						&kgo.Record{
							Topic: "in", Partition: p, Key: []byte("k"), Value: fmt.Appendf(nil, "bad %d", p), Timestamp: time.UnixMilli(1_600_000_000_000),
							Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: headerOffset, Value: []byte("of another bridge")}},
						},
						&kgo.Record{Topic: "in", Partition: p, Value: fmt.Appendf(nil, "panic %d", p), Timestamp: time.UnixMilli(1_600_000_000_001)},
					)
					w.feed("in", 5, p)
				}
				registry := prometheus.NewRegistry()
				b := w.caughtUpBy(w.options(onError(DeadLetter), change, func(o *Options) {
					o.Chain, o.Registerer = picky(t), registry
				}))
				for p := range int32(3) {
					letters := w.letters("dlq", "in", p)
					if len(letters) != 2 || letters[5] == nil || letters[6] == nil {
						t.Fatalf("partition %d: %d dead letters", p, len(letters))
					}
					if bad := letters[5]; bad.Partition != p%2 || headerOf(bad, headerLetterClass) != failedTransform || headerOf(bad, headerLetterTransform) != "scripted" ||
						headerOf(bad, headerLetterStage) != "1" || !strings.Contains(headerOf(bad, headerLetterMessage), fmt.Sprintf("cannot read \"bad %d\"", p)) ||
						headerOf(bad, headerLetterGroup) != "g" || headerOf(bad, headerLetterVersion) != "test" || headerOf(bad, headerLetterAttempts) != "1" ||
						headerOf(bad, headerLetterTime) != "1600000000000" {
						t.Errorf("partition %d: %s", p, text(bad))
					}
					if bad := letters[6]; headerOf(bad, headerLetterClass) != failedPanic || strings.Contains(text(bad), "goroutine") {
						t.Errorf("partition %d: %s", p, text(bad))
					}
				}
				if n := w.count("out"); n != 60 {
					t.Errorf("%d outputs, want two of each of 30 inputs", n)
				}
				counted := samples(gather(t, registry))
				if n := counted[`eosbridge_failed_records_total{action="dlq",class="transform"}`]; n != 3 {
					t.Errorf("%v failures counted", n)
				}
				// At-most-once commits, and counts, before it writes.
				if n := counted["eosbridge_dead_letters_total"]; name != "at-most-once" && (n != 6 || b.board.snapshot().FailedRecords.DeadLetters != 6) {
					t.Errorf("%v dead letters counted, status %+v", n, b.board.snapshot().FailedRecords)
				}
				if said := w.book.with("record becomes a dead letter"); len(said) != 1 || !strings.Contains(said[0], "topic=in partition=") {
					t.Errorf("the log bounds failures to one line in %s: %q", tellEvery, said)
				}
			})
		})
	}
}

// TestSkip: what cannot be handled is left out, logged and counted, and its position advances.
func TestSkip(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		for i := range 20 {
			w.write(&kgo.Record{Topic: "in", Value: fmt.Appendf(nil, "bad %d", i)})
			w.feed("in", 1, 0)
		}
		w.write(&kgo.Record{Topic: "in", Value: []byte("bad at the end")})
		registry := prometheus.NewRegistry()
		b := w.caughtUpBy(w.options(onError(Skip), func(o *Options) { o.Chain, o.Registerer = picky(t), registry }))
		if n := w.count("out"); n != 40 {
			t.Errorf("%d outputs, want 40", n)
		}
		if n := samples(gather(t, registry))[`eosbridge_failed_records_total{action="skip",class="transform"}`]; n != 21 || b.board.snapshot().FailedRecords.Skipped != 21 {
			t.Errorf("%v skipped records counted, want 21; status %+v", n, b.board.snapshot().FailedRecords)
		}
		if said := w.book.with("record skipped"); len(said) == 0 || !strings.Contains(said[0], "class=transform") {
			t.Errorf("log: %q", said)
		}
	})
}

// TestRefusedBeforehand: what an output topic will refuse becomes a dead letter without an abort, and so does an input of
// which one output is refused.
func TestRefusedBeforehand(t *testing.T) {
	large, later := bytes.Repeat([]byte("x"), 3000), time.Now().Add(1000*time.Hour)
	for _, tc := range []struct {
		name, class   string
		config        map[string]string
		record        kgo.Record
		chain         string
		orders, times int
	}{
		{name: "too large", class: failedTooLarge, config: map[string]string{"max.message.bytes": "2000"}, record: kgo.Record{Key: []byte("k"), Value: large}, times: 1},
		{name: "one of two too large", class: failedTooLarge, config: map[string]string{"max.message.bytes": "2000"}, record: kgo.Record{Key: []byte("k"), Value: large}, times: 2},
		{name: "no key", class: failedNoKey, config: map[string]string{"cleanup.policy": "compact"}, record: kgo.Record{Value: []byte("no key")}, times: 1},
		{name: "too late", class: failedTimestamp, config: map[string]string{"message.timestamp.after.max.ms": "3600000"}, record: kgo.Record{Key: []byte("k"), Value: []byte("late"), Timestamp: later}, times: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(1, "in", "dlq")
				if err := w.CreateTopic("out", 1, tc.config); err != nil {
					t.Fatal(err)
				}
				w.feed("in", 3, 0)
				bad := tc.record
				bad.Topic = "in"
				w.write(&bad)
				w.feed("in", 3, 0)
				b := w.caughtUpBy(w.options(onError(DeadLetter), func(o *Options) {
					o.PassThrough = false // whole batches are not looked into: there the broker refuses
					if tc.times == 2 {    // the first output is small
						o.Chain = scripted(t, &script{apply: func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
							small := *in
							small.Value = in.Value[:min(len(in.Value), 8)]
							return append(out, small, *in), nil
						}})
					}
				}))
				if dead := w.letters("dlq", "in", 0); len(dead) != 1 || dead[3] == nil || headerOf(dead[3], headerLetterClass) != tc.class || headerOf(dead[3], headerLetterTarget) != "out" {
					t.Errorf("dead letters %v", dead)
				}
				if n := w.count("out"); n != 6*tc.times {
					t.Errorf("%d outputs, want %d", n, 6*tc.times)
				}
				if b.restarts() != 0 || b.outcomes()[OutcomeAborted] != 0 {
					t.Errorf("it took %d restarts, outcomes %v", b.restarts(), b.outcomes())
				}
			})
		})
	}
}

// refuse makes the cluster refuse batches for a topic in which a text stands. Batches for other partitions in the same
// request are answered as what the client sends again.
func (w *world) refuse(topic, poison string, code *kerr.Error) {
	w.t.Helper()
	id := w.TopicInfo(topic).TopicID
	w.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		req := kreq.(*kmsg.ProduceRequest)
		found := false
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range req.Topics {
			answer := kmsg.NewProduceResponseTopic()
			answer.Topic, answer.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, kerr.NotEnoughReplicas.Code
				if (rt.Topic == topic || rt.TopicID == id) && bytes.Contains(rp.Records, []byte(poison)) {
					p.ErrorCode, found = code.Code, true
				}
				answer.Partitions = append(answer.Partitions, p)
			}
			resp.Topics = append(resp.Topics, answer)
		}
		if !found {
			return nil, nil, false
		}
		return resp, nil, true
	})
}

// TestRefusedByBroker: a broker refuses batches that the checks have let through. The records that it refuses alone become
// dead letters, none of their outputs goes out, and all others do, in their order.
func TestRefusedByBroker(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"identity":      func(*Options) {},
		"pass-through":  passing,
		"at-least-once": func(o *Options) { o.Delivery = AtLeastOnce },
		"by key":        func(o *Options) { o.ByKey = true },
		"exploded": func(o *Options) {
			o.Chain = scripted(t, &script{apply: func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
				first := *in
				first.Headers = append(slices.Clip(in.Headers), transform.Header{Key: "first"})
				if bytes.Contains(in.Value, []byte("POISON")) {
					first.Value = []byte("innocent")
				}
				return append(out, first, *in), nil
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out", "dlq")
				w.refuse("out", "POISON", kerr.InvalidRecord)
				w.feed("in", 20, 0, 1)
				for i := range 3 {
					w.write(&kgo.Record{Topic: "in", Partition: 0, Value: fmt.Appendf(nil, "POISON %d", i)})
					w.feed("in", 4, 0)
				}
				w.feed("in", 20, 1)
				times := 1
				if name == "exploded" {
					times = 2
				}
				b := w.caughtUpBy(w.options(onError(DeadLetter), change))
				letters := w.letters("dlq", "in", 0)
				for _, offset := range []int64{20, 25, 30} {
					if l := letters[offset]; l == nil || headerOf(l, headerLetterClass) != failedRefused || headerOf(l, headerLetterAttempts) != "2" || headerOf(l, headerLetterTarget) != "out" {
						t.Errorf("offset %d: %v", offset, l)
					}
				}
				if name == "by key" { // the outputs are in other partitions
					if n := w.count("out"); n != 72 || len(letters) != 3 {
						t.Errorf("%d outputs and %d dead letters, want 72 and 3", n, len(letters))
					}
				} else if name != "at-least-once" {
					if dead := append(w.either(0, times), w.either(1, times)...); !slices.Equal(dead, []int64{20, 25, 30}) {
						t.Errorf("dead letters of offsets %v", dead)
					}
				}
				if n := b.restarts(); n > 7 {
					t.Errorf("%d restarts for three records", n)
				}
				if n := len(w.read("out")[0]); name == "identity" && n != 32 {
					t.Errorf("%d outputs in partition 0", n)
				}
				if b.isolated() {
					t.Error("records are still read one by one")
				}
			})
		})
	}
}

// isolated says whether something is still singled out.
func (r *running) isolated() bool {
	r.refusals.mu.Lock()
	defer r.refusals.mu.Unlock()
	return len(r.refusals.suspects) > 0 || r.refusals.known.Load() > 0
}

// TestRefusedAndKilled: what is known of a refused record dies with the process, and the next one finds it out again.
func TestRefusedAndKilled(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out", "dlq")
		w.refuse("out", "POISON", kerr.PolicyViolation)
		w.feed("in", 20, 0)
		w.write(&kgo.Record{Topic: "in", Value: []byte("POISON")})
		w.feed("in", 20, 0)
		w.wire.delay = 5 * time.Millisecond // so that a session takes longer than a look at it
		for range 2 {
			b := w.start(w.options(onError(DeadLetter)))
			w.until("a restart", func() bool { return b.restarts() >= 1 })
			b.stop()
			b.abort()
			_ = b.wait()
		}
		w.caughtUpBy(w.options(onError(DeadLetter)))
		if dead := w.either(0, 1); !slices.Equal(dead, []int64{20}) {
			t.Errorf("dead letters of offsets %v", dead)
		}
	})
}

// TestRefusedAndSkipped: with the policy skip what a broker refuses is left out.
func TestRefusedAndSkipped(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out")
		w.refuse("out", "POISON", kerr.InvalidTimestamp)
		w.feed("in", 20, 0)
		w.write(&kgo.Record{Topic: "in", Value: []byte("POISON")})
		w.feed("in", 20, 0)
		b := w.caughtUpBy(w.options(onError(Skip)))
		if out := w.outputs("out", "in", 0); len(out) != 40 || out[20] != 0 || w.count("out") != 40 {
			t.Errorf("outputs of %d inputs", len(out))
		}
		if b.board.snapshot().FailedRecords.Skipped == 0 {
			t.Error("not counted")
		}
	})
}

// TestRefusedDeadLetter: a dead letter that its topic does not take is the end, and moves no position.
func TestRefusedDeadLetter(t *testing.T) {
	for name, limit := range map[string]string{"by the lane": "1024", "by the broker": "1000000"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(1, "in", "out")
				if err := w.CreateTopic("dlq", 1, map[string]string{"max.message.bytes": limit}); err != nil {
					t.Fatal(err)
				}
				w.refuse("dlq", "bad", kerr.InvalidRecord)
				w.feed("in", 5, 0)
				b := w.start(w.options(onError(DeadLetter), func(o *Options) { o.Chain = picky(t) }))
				w.caughtUp("in")
				w.write(&kgo.Record{Topic: "in", Value: append([]byte("bad "), make([]byte, 2000)...)})
				b.fails(txn.StatusFailure, "topic dlq (BRIDGE_DLQ_TOPIC) refuses the dead letter of topic in partition 0 offset 5", "max.message.bytes")
				if at := w.committed("g", "in", 0); at != 5 {
					t.Errorf("position %d", at)
				}
				w.gone("g")
				w.settled("dlq")
			})
		})
	}
}

// TestErrorLimit: a row of failures ends the bridge; one that is interrupted does not.
func TestErrorLimit(t *testing.T) {
	for name, run := range map[string]struct {
		good int // after so many bad ones
		ends bool
	}{"a row": {0, true}, "no row": {10, false}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(1, "in", "out", "dlq")
				for i := range 40 {
					if run.good > 0 && i%run.good == 0 {
						w.feed("in", 1, 0)
					}
					w.write(&kgo.Record{Topic: "in", Value: fmt.Appendf(nil, "bad %d", i)})
				}
				b := w.start(w.options(onError(DeadLetter), func(o *Options) { o.Chain, o.ErrorLimit = picky(t), 10 }))
				if !run.ends {
					w.caughtUp("in")
					b.stopped()
					return
				}
				b.fails(txn.StatusFailure, "11 records in a row have failed (BRIDGE_ERROR_LIMIT=10)", "topic in partition 0 offset ", "cannot read")
			})
		})
	}
}

// TestErrorLimitOfRefusals: a broker that refuses everything ends the bridge as well.
func TestErrorLimitOfRefusals(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out", "dlq")
		w.refuse("out", "in/0/", kerr.InvalidRecord)
		w.feed("in", 40, 0)
		b := w.start(w.options(onError(DeadLetter), func(o *Options) { o.ErrorLimit = 5 }))
		b.fails(txn.StatusFailure, "6 records in a row were refused (BRIDGE_ERROR_LIMIT=5)", "offset 5")
	})
}

// TestDeadLettersAgain: an epoch that aborts and comes again has the same dead letters, byte for byte.
func TestDeadLettersAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(1, "in", "out", "dlq")
		for i := range 30 {
			w.write(&kgo.Record{Topic: "in", Value: fmt.Appendf(nil, "bad %d", i), Key: []byte("k")})
			w.feed("in", 1, 0)
		}
		var mu sync.Mutex
		var sent [][]byte
		id := w.TopicInfo("dlq").TopicID
		w.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			mu.Lock()
			defer mu.Unlock()
			for _, rt := range kreq.(*kmsg.ProduceRequest).Topics {
				if rt.Topic != "dlq" && rt.TopicID != id {
					continue
				}
				for _, rp := range rt.Partitions {
					sent = append(sent, bytes.Clone(rp.Records[header:])) // behind the producer's name
				}
			}
			return nil, nil, false
		})
		w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownServerError, Count: 1})
		b := w.caughtUpBy(w.options(onError(DeadLetter), func(o *Options) { o.Chain, o.Lanes = picky(t), 1 }))
		mu.Lock()
		defer mu.Unlock()
		if b.restarts() != 1 || len(sent) != 2 || !bytes.Equal(sent[0], sent[1]) {
			t.Errorf("%d restarts, %d batches of dead letters, or they differ", b.restarts(), len(sent))
		}
		if n := w.count("dlq"); n != 30 {
			t.Errorf("%d dead letters", n)
		}
	})
}

// TestDeadLetterTopic: what is wrong with the topic for dead letters ends the start with the remedy.
func TestDeadLetterTopic(t *testing.T) {
	for name, tc := range map[string]struct {
		config map[string]string // nil: the topic is not made
		says   string
	}{
		"missing":   {nil, "--create --topic dlq --partitions 3"},
		"compacted": {map[string]string{"cleanup.policy": "compact"}, "cleanup.policy=delete"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(3, "in", "out")
				if tc.config != nil {
					if err := w.CreateTopic("dlq", 1, tc.config); err != nil {
						t.Fatal(err)
					}
				}
				w.start(w.options(onError(DeadLetter))).fails(txn.StatusConfig, "BRIDGE_DLQ_TOPIC", tc.says)
			})
		})
	}
	for name, change := range map[string]func(*Options){
		"none":     func(o *Options) { o.DLQ = "" },
		"an input": func(o *Options) { o.Inputs = []string{"x", "dlq"} },
		"a target": func(o *Options) { o.Chain = chain(t, "route(dlq)") },
	} {
		t.Run(name, func(t *testing.T) {
			o := (&world{t: t, book: &logbook{}}).options(onError(DeadLetter), change)
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), "BRIDGE_DLQ_TOPIC") {
				t.Errorf("New: %v", err)
			}
		})
	}
}
