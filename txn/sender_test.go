package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/offsets"
)

// arrived is a batch as a broker has got it.
type arrived struct {
	request   int // the place of its request in the journal
	partition int32
	batch     batch.Batch
}

// arrivals lists the batches in all Produce requests.
func (b *bed) arrivals() []arrived {
	var all []arrived
	for i, s := range b.requests(kmsg.Produce) {
		for _, t := range s.Request.(*kmsg.ProduceRequest).Topics {
			for _, p := range t.Partitions {
				all = append(all, arrived{i, p.Partition, p.Records})
			}
		}
	}
	return all
}

// encoded makes one batch of these values, as if it had been fetched at this offset.
func (b *bed) encoded(at byte, values ...string) batch.Batch {
	b.t.Helper()
	e, err := batch.NewEncoder(1 << 20)
	if err != nil {
		b.t.Fatal(err)
	}
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Value: []byte(v), Timestamp: time.UnixMilli(1_700_000_000_000)})
	}
	made := e.Encode(records)
	if len(made) != 1 {
		b.t.Fatalf("%d batches", len(made))
	}
	made[0][7] = at // the base offset's last byte
	return made[0]
}

// handed produces batches to a partition of "out"; the channel has what done was called with.
func (b *bed) handed(r *Ring, n Epoch, partition int32, batches ...batch.Batch) <-chan error {
	done := make(chan error, 2) // room for a second call, which would be one too many
	r.ProduceBatches(b.ctx, n, "out", partition, batches, func(err error) { done <- err })
	return done
}

func (b *bed) begun(r *Ring, n Epoch) {
	b.t.Helper()
	if err := r.Begin(b.ctx, n); err != nil {
		b.t.Fatal(err)
	}
}

// Sequence numbers begin at 0 with each producer epoch and count records; the producer epoch moves with each EndTxn.
func TestSequences(t *testing.T) {
	b := newBatchBed(t)
	r := b.open()
	var want []string
	for n := Epoch(1); n <= 6; n++ {
		b.begun(r, n)
		b.forget()
		values := []string{fmt.Sprint(n, "a"), fmt.Sprint(n, "b"), fmt.Sprint(n, "c")}
		done := b.handed(r, n, 1, b.encoded(9, values[:2]...), b.encoded(11, values[2]))
		want = append(want, values...)
		if err := r.PreCommit(b.ctx, n); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		var sequences []int32
		for _, a := range b.arrivals() {
			sequences = append(sequences, a.batch.BaseSequence())
			if epoch := int16((n - 1) / 2); a.batch.ProducerEpoch() != epoch || !a.batch.Transactional() || a.batch.BaseOffset() != 0 {
				t.Errorf("epoch %d: producer epoch %d, want %d; transactional %t, base offset %d", n, a.batch.ProducerEpoch(), epoch, a.batch.Transactional(), a.batch.BaseOffset())
			}
		}
		if !slices.Equal(sequences, []int32{0, 2}) {
			t.Errorf("epoch %d: sequences %v", n, sequences)
		}
		if _, err := r.Commit(b.ctx, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}); err != nil {
			t.Fatal(err)
		}
	}
	b.expectOutput(want...)
}

func TestFollowing(t *testing.T) {
	for _, c := range []struct {
		from int32
		n    int
		want int32
	}{{0, 5, 5}, {1<<31 - 2, 1, 1<<31 - 1}, {1<<31 - 1, 1, 0}, {1<<31 - 3, 10, 7}} {
		if got := following(c.from, c.n); got != c.want {
			t.Errorf("%d after %d is %d, want %d", c.n, c.from, got, c.want)
		}
	}
}

// A partition has one batch on its way, whatever waits; others do not wait for it.
func TestOneBatchOnItsWay(t *testing.T) {
	b := newBatchBed(t, kfake.NumBrokers(1))
	r := b.open()
	b.begun(r, 1)
	came, release := b.hold(kmsg.Produce)
	first := b.handed(r, 1, 0, b.encoded(0, "0a"), b.encoded(1, "0b"))
	b.await(came)
	second := b.handed(r, 1, 0, b.encoded(2, "0c"))
	other := b.handed(r, 1, 1, b.encoded(0, "1a"))
	s := r.slot[1].out.(*sender)
	s.mu.Lock()
	waiting := len(s.outputs[offsets.TopicPartition{Topic: "out"}].queue)
	s.mu.Unlock()
	if waiting != 3 {
		t.Errorf("%d batches of partition 0 wait for the answer to the first of them", waiting)
	}
	release()
	for _, done := range []<-chan error{first, second, other} {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	requests := map[int32][]int{}
	for _, a := range b.arrivals() {
		requests[a.partition] = append(requests[a.partition], a.request)
	}
	if got := requests[0]; len(got) != 3 || slices.Compact(slices.Clone(got))[len(got)-1] != got[2] || got[0] == got[1] || got[1] == got[2] {
		t.Errorf("the batches of partition 0 came in the requests %v, want three", got)
	}
}

// What waits for a broker shares its next request, up to the bound.
func TestBatchesShareARequest(t *testing.T) {
	for name, c := range map[string]struct {
		size int // of each batch
		want int // requests for four partitions that wait
	}{
		"small": {10, 1},
		"large": {requestBytes/2 + 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			d := &destination{}
			for p := range int32(4) {
				d.ready = append(d.ready, &output{partition: p, queue: []*parcel{{batch: make(batch.Batch, c.size)}}})
			}
			var got []int32
			requests := 0
			for len(d.ready) > 0 {
				taken := d.take()
				if requests++; len(taken) == 0 {
					t.Fatal("nothing is taken")
				}
				for _, p := range taken {
					if got = append(got, p.to.partition); !p.to.sending {
						t.Error("not marked as on its way")
					}
				}
			}
			if requests != c.want || !slices.Equal(got, []int32{0, 1, 2, 3}) {
				t.Errorf("%d requests, want %d, with the partitions %v", requests, c.want, got)
			}
		})
	}
}

// A batch that may have arrived is sent again byte for byte, and appended once.
func TestRepetition(t *testing.T) {
	for name, disturb := range map[string]func(b *bed) func() int{
		"lost":                   func(b *bed) func() int { return b.wire.lose(kmsg.Produce, cutBefore, 2).Hits },
		"answer lost":            func(b *bed) func() int { return b.wire.lose(kmsg.Produce, cutAfter, 2).Hits },
		"not leader":             func(b *bed) func() int { return b.refused(kerr.NotLeaderForPartition) },
		"unknown topic":          func(b *bed) func() int { return b.refused(kerr.UnknownTopicOrPartition) },
		"unknown topic id":       func(b *bed) func() int { return b.refused(kerr.UnknownTopicID) },
		"few replicas":           func(b *bed) func() int { return b.refused(kerr.NotEnoughReplicas) },
		"storage":                func(b *bed) func() int { return b.refused(kerr.KafkaStorageError) },
		"concurrent transaction": func(b *bed) func() int { return b.refused(kerr.ConcurrentTransactions) },
		"appended, timed out":    func(b *bed) func() int { return b.answered(kerr.RequestTimedOut) },
		"appended, few replicas": func(b *bed) func() int { return b.answered(kerr.NotEnoughReplicasAfterAppend) },
		"not answered":           func(b *bed) func() int { return b.refused(nil) },
		"appended, not answered": func(b *bed) func() int {
			return b.wire.change(kmsg.Produce, 2, func(_ string, resp kmsg.Response) { resp.(*kmsg.ProduceResponse).Topics = nil }).Hits
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBatchBed(t)
			r := b.open()
			b.begun(r, 1)
			hits := disturb(b)
			done := b.handed(r, 1, 2, b.encoded(5, "a", "b"), b.encoded(7, "c"))
			if err := r.PreCommit(b.ctx, 1); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if got := hits(); got != 2 {
				t.Errorf("disturbed %d times, want 2", got)
			}
			if _, err := r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(8), Credential: outsider()}); err != nil {
				t.Fatal(err)
			}
			b.expectOutput("a", "b", "c")
			seen := map[int32]batch.Batch{}
			for _, a := range b.arrivals() {
				if before := seen[a.batch.BaseSequence()]; before != nil && !bytes.Equal(before, a.batch) {
					t.Errorf("sequence %d came as two batches", a.batch.BaseSequence())
				}
				seen[a.batch.BaseSequence()] = a.batch
			}
		})
	}
}

// refused makes the broker refuse two batches before it appends them, without a code: say nothing about them.
func (b *bed) refused(code *kerr.Error) func() int {
	var hits atomic.Int32
	b.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		produce, ok := req.(*kmsg.ProduceRequest)
		if !ok || hits.Load() == 2 {
			return nil, nil, false
		}
		hits.Add(1)
		resp := produce.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range produce.Topics {
			if code == nil {
				break
			}
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, code.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	return func() int { return int(hits.Load()) }
}

// answered lets the broker append and changes the code of its answer, twice.
func (b *bed) answered(code *kerr.Error) func() int {
	return answer(kmsg.Produce, 2, code)(b, nil)
}

// A leader that has moved is found.
func TestLeaderMoves(t *testing.T) {
	b := newBatchBed(t)
	r := b.open()
	var want []string
	for n := Epoch(1); n <= 4; n++ {
		leader := (b.LeaderFor("out", 0) + 1) % 3
		if err := b.MoveTopicPartition("out", 0, leader); err != nil {
			t.Fatal(err)
		}
		v := fmt.Sprint(n)
		b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}, v)
		want = append(want, v)
		all := b.requests(kmsg.Produce)
		if got := all[len(all)-1].node; got != leader {
			t.Errorf("epoch %d was appended by broker %d, want %d", n, got, leader)
		}
	}
	b.expectOutput(want...)
}

// DUPLICATE_SEQUENCE_NUMBER says "appended before": good if we may have, else somebody has our name.
func TestDuplicateSequence(t *testing.T) {
	t.Run("of a repetition", func(t *testing.T) {
		b := newBatchBed(t)
		r := b.open()
		b.begun(r, 1)
		lost := b.wire.lose(kmsg.Produce, cutAfter, 1)
		duplicate := b.wire.change(kmsg.Produce, 1, func(_ string, resp kmsg.Response) {
			resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode = kerr.DuplicateSequenceNumber.Code
		})
		done := b.handed(r, 1, 0, b.encoded(0, "a"))
		if err := r.PreCommit(b.ctx, 1); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || lost.Hits() != 1 || duplicate.Hits() != 1 {
			t.Errorf("done with %v, %d and %d hits", err, lost.Hits(), duplicate.Hits())
		}
		if _, err := r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(1), Credential: outsider()}); err != nil {
			t.Fatal(err)
		}
		b.expectOutput("a")
	})
	t.Run("of the first time", func(t *testing.T) {
		b := newBatchBed(t)
		r := b.open()
		b.begun(r, 1)
		answer(kmsg.Produce, 1, kerr.DuplicateSequenceNumber)(b, nil)
		done := b.handed(r, 1, 0, b.encoded(0, "a"))
		expectClass(t, r.PreCommit(b.ctx, 1), ErrAborted)
		if err := <-done; !errors.Is(err, kerr.DuplicateSequenceNumber) {
			t.Errorf("done with %v", err)
		}
	})
}

// A batch that is refused is named by its place in the source; what waits behind it is never sent.
func TestRefusedBatch(t *testing.T) {
	for name, c := range map[string]struct {
		code    *kerr.Error
		records []kmsg.ProduceResponseTopicPartitionErrorRecord
		refused bool
		says    []string
	}{
		"too large":      {code: kerr.MessageTooLarge, refused: true, says: []string{"topic out partition 3", "source offset 40", "2 records"}},
		"corrupt":        {code: kerr.CorruptMessage, refused: true, says: []string{"source offset 40"}},
		"timestamp":      {code: kerr.InvalidTimestamp, refused: true, says: []string{"source offset 40"}},
		"a named record": {code: kerr.InvalidRecord, records: []kmsg.ProduceResponseTopicPartitionErrorRecord{{RelativeOffset: 1, ErrorMessage: new("no key")}}, refused: true, says: []string{"source offset 41", "no key"}},
		"access":         {code: kerr.TopicAuthorizationFailed, says: []string{"source offset 40"}},
		"state":          {code: kerr.InvalidTxnState, says: []string{"source offset 40"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBatchBed(t)
			r := b.open()
			b.begun(r, 1)
			b.wire.change(kmsg.Produce, 1, func(_ string, resp kmsg.Response) {
				p := &resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
				p.ErrorCode, p.ErrorRecords = c.code.Code, c.records
			})
			done := b.handed(r, 1, 3, b.encoded(40, "a", "b"), b.encoded(42, "c"))
			err := r.PreCommit(b.ctx, 1)
			if !errors.Is(err, c.code) || Refused(err) != c.refused {
				t.Errorf("pre-commit: %v", err)
			}
			for _, words := range c.says {
				if !strings.Contains(fmt.Sprint(err), words) {
					t.Errorf("%v does not say %q", err, words)
				}
			}
			if err := <-done; !errors.Is(err, c.code) {
				t.Errorf("done with %v", err)
			}
			if len(done) > 0 {
				t.Error("done twice")
			}
			b.expectCount(kmsg.Produce, 1)
			if err := <-b.handed(r, 1, 0, b.encoded(0, "late")); !errors.Is(err, c.code) {
				t.Errorf("afterwards done with %v", err)
			}
			b.expectCount(kmsg.Produce, 1)
		})
	}
}

// A batch that was damaged before it came to us is refused by the broker: our new header has not made it a good one.
func TestDamagedBatch(t *testing.T) {
	b := newBatchBed(t)
	r := b.open()
	b.begun(r, 1)
	damaged := b.encoded(40, "a", "b")
	damaged[len(damaged)-3] ^= 4
	b.handed(r, 1, 3, damaged)
	if err := r.PreCommit(b.ctx, 1); !errors.Is(err, kerr.CorruptMessage) || !strings.Contains(err.Error(), "source offset 40") {
		t.Errorf("pre-commit: %v", err)
	}
}

// A topic that is gone is looked for until the deadline, whose error has the reason.
func TestTopicIsGone(t *testing.T) {
	b := newBatchBed(t)
	r := b.open()
	b.begun(r, 1)
	r.ProduceBatches(b.ctx, 1, "nowhere", 0, []batch.Batch{b.encoded(0, "a")}, func(error) {})
	ctx, cancel := context.WithTimeout(b.ctx, 200*time.Millisecond)
	defer cancel()
	err := r.PreCommit(ctx, 1)
	expectClass(t, err, ErrAborted)
	if !errors.Is(err, kerr.UnknownTopicOrPartition) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("pre-commit: %v", err)
	}
}

// A topic that was made anew does not get the second half of a transaction.
func TestTopicIsMadeAnew(t *testing.T) {
	b := newBatchBed(t)
	r := b.open()
	b.begun(r, 1)
	if err := <-b.handed(r, 1, 0, b.encoded(0, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.adm.DeleteTopics(b.ctx, "out"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.adm.CreateTopics(b.ctx, 4, 1, nil, "out"); err != nil {
		t.Fatal(err)
	}
	if err := <-b.handed(r, 1, 0, b.encoded(1, "b")); !errors.Is(err, errRecreated) {
		t.Errorf("done with %v", err)
	}
	expectClass(t, r.PreCommit(b.ctx, 1), ErrAborted)
}

// After its last epoch a producer id is replaced by the answer to EndTxn.
func TestNewProducerID(t *testing.T) {
	b := newBatchBed(t)
	r := b.open()
	b.wire.change(kmsg.EndTxn, 1, func(_ string, resp kmsg.Response) {
		end := resp.(*kmsg.EndTxnResponse)
		end.ProducerID, end.ProducerEpoch = 77, 0
	})
	for n := Epoch(1); n <= 2; n++ {
		b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}, "x")
	}
	b.begun(r, 3)
	b.forget()
	err := <-b.handed(r, 3, 0, b.encoded(0, "y"))
	if got := b.arrivals(); len(got) != 1 || got[0].batch.ProducerID() != 77 || got[0].batch.ProducerEpoch() != 0 {
		t.Errorf("%d batches with the new id, done with %v", len(got), err)
	}
}

// Without a new producer epoch in the answer to EndTxn the next transaction would not be told from this one.
func TestOldEndTxn(t *testing.T) {
	b := newBatchBed(t)
	o := b.options()
	client := o.Client
	v := below2()
	v.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 6)
	o.Client = func(opts ...kgo.Opt) (*kgo.Client, error) { return client(append(opts, kgo.MaxVersions(v))...) }
	r, err := Open(b.ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	_, err = b.epoch(r, Checkpoint{Epoch: 1, Positions: at(1), Credential: outsider()}, "x")
	expectClass(t, err, ErrInDoubt)
	if !errors.Is(err, errOldEnd) {
		t.Errorf("commit: %v", err)
	}
}

// Each kind of ring takes its own: kgo's producer beside ours would ask for a producer id, and fence us.
func TestKindsOfRing(t *testing.T) {
	t.Run("records on a ring of batches", func(t *testing.T) {
		b := newBatchBed(t)
		r := b.open()
		b.begun(r, 1)
		b.forget()
		done := make(chan error, 1)
		r.Produce(b.ctx, 1, outputs("x"), func(_ *kgo.Record, err error) { done <- err })
		expectBroken(t, <-done, "epoch 1")
		expectBroken(t, r.PreCommit(b.ctx, 1), "epoch 1")
		b.expectLines()
	})
	t.Run("batches on a ring of records", func(t *testing.T) {
		b := newBed(t)
		r := b.open()
		b.begun(r, 1)
		expectBroken(t, <-b.handed(r, 1, 0, b.encoded(0, "x")), "epoch 1")
	})
	t.Run("batches below transaction.version 2", func(t *testing.T) {
		b := newOldBed(t)
		o := b.options()
		o.Batches = true
		_, err := Open(b.ctx, o)
		expectBroken(t, err, "transaction.version 0")
		b.expectCount(kmsg.InitProducerID, 0)
	})
}

// Close ends what is on its way, what waits, and the search for a leader.
func TestCloseWithBatchesOutstanding(t *testing.T) {
	b := newBatchBed(t)
	before := goleak.IgnoreCurrent()
	r := b.open()
	b.begun(r, 1)
	came, release := b.hold(kmsg.Produce)
	all := []<-chan error{b.handed(r, 1, 0, b.encoded(0, "a")), b.handed(r, 1, 0, b.encoded(1, "b"), b.encoded(2, "c"))}
	b.await(came)
	lost := make(chan error, 2)
	r.ProduceBatches(b.ctx, 1, "nowhere", 0, []batch.Batch{b.encoded(0, "d")}, func(err error) { lost <- err })
	r.Close()
	release()
	for i, done := range append(all, lost) {
		if err := <-done; !errors.Is(err, kgo.ErrClientClosed) {
			t.Errorf("%d: done with %v", i, err)
		}
		if len(done) > 0 {
			t.Errorf("%d: done twice", i)
		}
	}
	r.Close() // once more does nothing
	if err := <-b.handed(r, 1, 0, b.encoded(3, "late")); !errors.Is(err, kgo.ErrClientClosed) {
		t.Errorf("done with %v after Close", err)
	}
	goleak.VerifyNone(t, before)
}

// A commit is not sent while a call is unanswered, nor without anything sent, even if the slot's counts say otherwise.
func TestSenderRefusesToCommit(t *testing.T) {
	b := newBatchBed(t)
	r := b.open()
	s := r.slot[1].out.(*sender)
	b.forget()
	if err := s.end(b.ctx, true); !errors.Is(err, kerr.OperationNotAttempted) {
		t.Errorf("nothing sent: %v", err)
	}
	came, release := b.hold(kmsg.Produce)
	b.begun(r, 1)
	done := b.handed(r, 1, 0, b.encoded(0, "a"))
	b.await(came)
	if err := s.end(b.ctx, true); !errors.Is(err, kerr.OperationNotAttempted) {
		t.Errorf("unanswered: %v", err)
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.expectCount(kmsg.EndTxn, 0)
}
