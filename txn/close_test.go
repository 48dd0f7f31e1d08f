package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// counted counts the calls of done callbacks.
type counted struct {
	mu    sync.Mutex
	calls map[string]int
	errs  []error
	all   sync.WaitGroup
}

func (c *counted) done(name string) func(*kgo.Record, error) {
	c.all.Add(1)
	return func(failed *kgo.Record, err error) {
		defer c.all.Done() // panics at a call too many
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.calls == nil {
			c.calls = map[string]int{}
		}
		c.calls[name]++
		if c.errs = append(c.errs, err); (failed == nil) != (err == nil) {
			c.errs = append(c.errs, fmt.Errorf("%s: done with %v, %w", name, failed, err))
		}
	}
}

// expect wants every name to have been called once, with these errors.
func (c *counted) expect(t *testing.T, names int, want error) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) != names {
		t.Errorf("%d done callbacks were called, want %d", len(c.calls), names)
	}
	for name, n := range c.calls {
		if n != 1 {
			t.Errorf("%s was called %d times", name, n)
		}
	}
	for _, err := range c.errs {
		if !errors.Is(err, want) {
			t.Errorf("done with %v, want %v", err, want)
		}
	}
}

// Close returns while records are outstanding: at the broker, in the client, in a call of Produce that waits for room.
// Each piece of them is done, once.
func TestCloseWithRecordsOutstanding(t *testing.T) {
	for name, open := range map[string]func(b *bed, o Options) Participant{
		"ring": func(b *bed, o Options) Participant {
			r, err := Open(b.ctx, o)
			if err != nil {
				b.t.Fatal(err)
			}
			return r
		},
		"plain": func(b *bed, o Options) Participant {
			p, err := OpenPlain(o)
			if err != nil {
				b.t.Fatal(err)
			}
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			o := b.options()
			client := o.Client
			o.Client = func(opts ...kgo.Opt) (*kgo.Client, error) {
				return client(append(opts, kgo.MaxBufferedRecords(10))...)
			}
			p := open(b, o)
			arrived, release := b.hold(kmsg.Produce)
			if err := p.Begin(b.ctx, 1); err != nil {
				t.Fatal(err)
			}
			var c counted
			p.Produce(b.ctx, 1, outputs("first"), c.done("first"))
			b.await(arrived)
			for i := range 9 {
				name := fmt.Sprint("buffered ", i)
				p.Produce(b.ctx, 1, outputs(name), c.done(name))
			}
			full := make(chan struct{})
			go func() { // ends with Close
				p.Produce(b.ctx, 1, outputs("no", "room"), c.done("no room"))
				close(full)
			}()
			p.Close()
			b.await(full)
			done := make(chan struct{})
			go func() { // ends with the last callback
				c.all.Wait()
				close(done)
			}()
			b.await(done)
			c.expect(t, 11, kgo.ErrClientClosed)
			release()

			p.Close() // once more does nothing
			late := make(chan error, 1)
			p.Produce(b.ctx, 1, outputs("late", "too late"), func(_ *kgo.Record, err error) { late <- err })
			if err := <-late; !errors.Is(err, kgo.ErrClientClosed) {
				t.Errorf("done with %v after Close", err)
			}
		})
	}
}

// A piece is done once, when its last record is, with the first record that failed.
func TestDoneOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		r := b.open()
		b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Partitions: []int32{2, 3}, Err: kerr.InvalidRecord, Count: -1})
		if err := r.Begin(b.ctx, 1); err != nil {
			t.Fatal(err)
		}
		records := outputs("a", "b", "c", "d", "e", "f", "g", "h")
		var mu sync.Mutex
		calls := 0
		var failed *kgo.Record
		b.produce(r, 1, records, func(f *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			calls, failed = calls+1, f
			if !errors.Is(err, kerr.InvalidRecord) {
				t.Errorf("done with %v", err)
			}
		})
		expectClass(t, r.PreCommit(b.ctx, 1), ErrAborted)
		mu.Lock()
		defer mu.Unlock()
		if calls != 1 || !slices.Contains([]*kgo.Record{records[2], records[3]}, failed) {
			t.Errorf("done %d times, with %+v", calls, failed)
		}
	})
}

// Abort releases the readers of an epoch that was not to be, without waiting for the next fence.
func TestAbort(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(b *bed, r *Ring) error
		aborts  int
	}{
		{"nothing has begun", func(*bed, *Ring) error { return nil }, 0},
		{"no output", func(b *bed, r *Ring) error { return b.precommit(r, 1) }, 0},
		{"open", func(b *bed, r *Ring) error {
			if err := r.Begin(b.ctx, 1); err != nil {
				return err
			}
			acked := make(chan struct{})
			b.produce(r, 1, outputs("1"), func(*kgo.Record, error) { close(acked) })
			b.await(acked)
			return nil
		}, 1},
		{"both flushed", func(b *bed, r *Ring) error {
			return errors.Join(b.precommit(r, 1, "1"), b.precommit(r, 2, "2"))
		}, 2},
		{"a record failed", func(b *bed, r *Ring) error {
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "out", Partitions: []int32{1}, Err: kerr.InvalidRecord})
			if err := b.precommit(r, 1, "good", "bad"); !errors.Is(err, kerr.InvalidRecord) {
				return fmt.Errorf("pre-commit: %w", err)
			}
			return nil
		}, 1},
		{"the positions were refused", func(b *bed, r *Ring) error {
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Group: group, Err: kerr.UnknownMemberID})
			if err := b.precommit(r, 1, "1"); err != nil {
				return err
			}
			if err := b.commit(r, outsider()); !errors.Is(err, kerr.UnknownMemberID) {
				return fmt.Errorf("commit: %w", err)
			}
			return nil
		}, 1},
		{"committed", func(b *bed, r *Ring) error {
			_, err := b.epoch(r, Checkpoint{Epoch: 1, Credential: outsider()}, "1")
			return errors.Join(err, b.awaitReady(r))
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *bed) {
				r := b.open()
				if err := c.prepare(b, r); err != nil {
					t.Fatal(err)
				}
				b.forget()
				r.Abort(b.ctx)
				for _, s := range b.requests(kmsg.EndTxn) {
					if s.Request.(*kmsg.EndTxnRequest).Commit {
						t.Error("Abort has committed")
					}
				}
				b.expectCount(kmsg.EndTxn, c.aborts)
				b.expectReleased()
				b.expectPositions()
				if c.name != "committed" {
					b.expectOutput()
				}
			})
		})
	}
}

// Invariant 5: an EndTxn without an answer is the broker's to decide; Abort does not touch it.
func TestAbortLeavesDoubt(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		r := b.prepared()
		b.wire.lose(kmsg.EndTxn, cutAfter, always)
		expectClass(t, b.commit(r, outsider()), ErrInDoubt)
		b.wire.mend()
		b.forget()
		r.Abort(b.ctx)
		b.expectLines()
		r.Close()
		r.Abort(b.ctx) // and a closed one has nothing to abort
		b.expectLines()
		b.expectPositions(10, 20)
		b.expectOutput("epoch 1")
	})
}

// Abort is a courtesy: it ends with its context, whatever the broker does.
func TestAbortDeadline(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.EndTxn} {
		t.Run(key.Name(), func(t *testing.T) {
			onEach(t, func(t *testing.T, b *bed) {
				r := b.open()
				if err := r.Begin(b.ctx, 1); err != nil {
					t.Fatal(err)
				}
				if key == kmsg.EndTxn {
					b.produce(r, 1, outputs("1"), ignore)
					if err := r.PreCommit(b.ctx, 1); err != nil {
						t.Fatal(err)
					}
				}
				_, release := b.hold(key)
				if key == kmsg.Produce {
					b.produce(r, 1, outputs("1"), ignore)
				}
				ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
				defer cancel()
				began := time.Now()
				r.Abort(ctx)
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("took %s", took)
				}
				release()
				b.expectNothing(r)
			})
		})
	}
}
