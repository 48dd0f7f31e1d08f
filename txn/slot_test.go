package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

// Invariant 4: a record that comes after PreCommit is acknowledged by nobody; the epoch must not be committed.
func TestProduceAfterFlush(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		r := b.open()
		if err := b.precommit(r, 1, "in time"); err != nil {
			t.Fatal(err)
		}
		arrived, release := b.hold(kmsg.Produce)
		done := make(chan struct{})
		b.produce(r, 1, outputs("late"), func(*kgo.Record, error) { close(done) })
		b.await(arrived)
		_, err := r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(1), Credential: outsider()})
		expectBroken(t, err, "app.me.1", "1 of 2")
		release()
		b.await(done)
		if got := b.requests(kmsg.EndTxn); len(got) != 0 {
			t.Errorf("%d EndTxn requests", len(got))
		}
		r.Close()
		b.open()
		b.expectPositions()
		b.expectOutput()
	})
}

// Invariant 4: kgo would commit a transaction of which a record failed. The failed record is named, the epoch is
// never committed, whoever asks for it.
func TestFailedRecord(t *testing.T) {
	for name, c := range map[string]struct {
		records func() []*kgo.Record
		fault   *kfake.Fault
		want    error
		where   string
	}{
		"too large for the client": {
			records: func() []*kgo.Record {
				records := outputs("good 1", "good 2", "bad", "good 3")
				records[2].Value = make([]byte, 2<<20)
				return records
			},
			want: kerr.MessageTooLarge, where: "topic out partition 2",
		},
		"refused by the broker": {
			records: func() []*kgo.Record { return outputs("good 1", "bad", "good 2") },
			fault:   &kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Partitions: []int32{1}, Err: kerr.InvalidRecord},
			want:    kerr.InvalidRecord, where: "topic out partition 1",
		},
		"alone in its piece": {
			records: func() []*kgo.Record { return outputs("bad") },
			fault:   &kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Partitions: []int32{0}, Err: kerr.InvalidRecord},
			want:    kerr.InvalidRecord, where: "topic out partition 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *bed) {
				r := b.open()
				if c.fault != nil {
					b.Fault(*c.fault)
				}
				if err := r.Begin(b.ctx, 1); err != nil {
					t.Fatal(err)
				}
				records := c.records()
				// In several pieces, as lanes do: one is whole, and acknowledged.
				done := make(chan error, 2)
				hand := func(records []*kgo.Record) {
					b.produce(r, 1, records, func(failed *kgo.Record, err error) {
						if (failed == nil) != (err == nil) {
							t.Errorf("done with %v, %v", failed, err)
						}
						done <- err
					})
				}
				hand(records)
				hand([]*kgo.Record{{Topic: "out", Partition: 3, Value: []byte("good 4")}})
				err := r.PreCommit(b.ctx, 1)
				expectClass(t, err, ErrAborted)
				if !errors.Is(err, c.want) || !Refused(err) || !strings.Contains(err.Error(), c.where) {
					t.Errorf("pre-commit: %v, want %v of %s", err, c.want, c.where)
				}
				// With batches what was not on its way yet fails as well.
				if first, second := <-done, <-done; (first == nil) == (second == nil) && (first == nil || !b.batches) {
					t.Errorf("the pieces are done with %v and %v", first, second)
				}
				_, err = r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(1), Credential: outsider()})
				expectBroken(t, err, "epoch 1")
				b.expectCount(kmsg.TxnOffsetCommit, 0)
				b.expectCount(kmsg.EndTxn, 0)
				r.Close()
				b.open()
				b.expectPositions()
				b.expectOutput()
			})
		})
	}
}

// Invariant 4: EndTransaction answers nil without committing when kgo's books have no partition of the transaction,
// which happens for a moment after the first records of a topic. The commit waits until they have.
func TestCommitWaitsForTheBooks(t *testing.T) {
	for name, bed := range map[string]func(*testing.T) *bed{
		"transaction.version 2":      func(t *testing.T) *bed { return newBed(t) },
		"before transaction.version": newOldBed,
	} {
		t.Run(name, func(t *testing.T) {
			b := bed(t)
			r := b.prepared()
			r.slot[1].proof.Store(&offsets.TopicPartition{Topic: "in", Partition: 0}) // never produced to
			ctx, cancel := context.WithCancel(b.ctx)
			cancel()
			err := r.slot[1].end(ctx)
			expectClass(t, err, ErrAborted)
			if !strings.Contains(fmt.Sprint(err), "in-0") {
				t.Errorf("commit: %v", err)
			}
			b.expectCount(kmsg.EndTxn, 0)
			b.expectNothing(r)
		})
	}
}

// Invariant 4, the same with the client's own timing: many clients, each with its first epoch, on a busy machine.
// Without the wait about one in 150 of these commits came to nothing.
func TestFirstEpochs(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		var want []string
		for i := range 30 {
			r := b.open()
			b.mustEpoch(r, Checkpoint{Epoch: 1, Positions: at(int64(i) + 1), Credential: outsider()}, fmt.Sprint(i))
			want = append(want, fmt.Sprint(i))
			r.Close()
		}
		b.expectPositions(30)
		b.expectOutput(want...)
		b.expectCount(kmsg.EndTxn, 30)
	})
}

// Invariant 9: a flush that waits for a broker that is away ends with its deadline.
func TestFlushDeadline(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		r := b.open()
		_, release := b.hold(kmsg.Produce)
		if err := r.Begin(b.ctx, 1); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		b.produce(r, 1, outputs("x"), func(*kgo.Record, error) { close(done) })
		ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
		defer cancel()
		err := r.PreCommit(ctx, 1)
		expectClass(t, err, ErrAborted)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("pre-commit: %v", err)
		}
		release()
		b.await(done)
		_, err = r.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(1), Credential: outsider()})
		expectBroken(t, err, "epoch 1")
		b.expectCount(kmsg.EndTxn, 0)
	})
}

// Concurrent lanes: every record is counted, none is missed.
func TestProduceByManyLanes(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		r := b.open()
		var want []string
		for n := Epoch(1); n <= 6; n++ {
			if err := r.Begin(b.ctx, n); err != nil {
				t.Fatal(err)
			}
			lanes := make(chan struct{})
			for lane := range 4 {
				var values []string
				for i := range 25 {
					values = append(values, fmt.Sprintf("%d/%d/%d", n, lane, i))
				}
				want = append(want, values...)
				go func() { // four answers are awaited below
					for _, v := range values {
						b.produce(r, n, []*kgo.Record{{Topic: "out", Partition: int32(lane), Value: []byte(v)}}, ignore)
					}
					lanes <- struct{}{}
				}()
			}
			for range 4 {
				<-lanes
			}
			if err := r.PreCommit(b.ctx, n); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Commit(b.ctx, Checkpoint{Epoch: n, Positions: at(int64(100 * n)), Credential: outsider()}); err != nil {
				t.Fatal(err)
			}
		}
		b.expectPositions(600)
		b.expectOutput(want...)
	})
}
