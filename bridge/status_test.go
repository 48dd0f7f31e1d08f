package bridge

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// handClock is a clock that moves only when told.
type handClock struct {
	mu sync.Mutex
	t  time.Time
}

func newHandClock() *handClock {
	return &handClock{t: time.Date(2026, 11, 3, 8, 30, 0, 0, time.UTC)}
}

func (c *handClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *handClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func lagOf(topic string, partition int32, lag int64) offsets.Lag {
	return offsets.Lag{
		TopicPartition: offsets.TopicPartition{Topic: topic, Partition: partition},
		Committed:      100, LastStable: 100 + lag, LogStart: 10, Lag: lag,
	}
}

// sampleBoard shows a bridge in the middle of its work.
func sampleBoard(clock *handClock) *board {
	b := newBoard(Status{
		Version: "v1.2.3", Group: "orders-bridge", Instance: "bridge-0", Delivery: "exactly-once", Lanes: 4,
		OpenTxn: OpenTxn{TimeoutSeconds: 40},
	}, clock.now, func() Memory { return Memory{Budget: 512 << 20, Used: 3 << 20} })
	b.enter(StateJoining)
	clock.pass(2 * time.Second)
	b.failed(fmt.Errorf("%w: commit epoch 40: connection reset", txn.ErrInDoubt))
	b.restarted()
	clock.pass(time.Second)
	b.enter(StateRunning)
	b.assign(map[string][]int32{"orders": {2, 0}, "payments": {1}})
	b.update(func(s *Status) { s.MemberID, s.Generation, s.Epoch = "bridge-0-9c1e", 7, 43 })
	b.committed(42)
	b.lag([]offsets.Lag{
		lagOf("payments", 1, 5), lagOf("orders", 2, 30), lagOf("orders", 0, 0), lagOf("orders", 1, 9000),
	})
	b.openTxn(clock.now())
	clock.pass(10 * time.Second)
	return b
}

func TestClassOf(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{txn.ErrAborted, ClassAborted},
		{fmt.Errorf("%w: epoch 3", txn.ErrAborted), ClassAborted},
		{fmt.Errorf("%w: epoch 3", txn.ErrInDoubt), ClassInDoubt},
		{fmt.Errorf("%w: epoch 3", txn.ErrFenced), ClassFenced},
		{fmt.Errorf("%w: epoch 3", txn.ErrFatal), ClassFatal},
		{errors.Join(txn.ErrAborted, txn.ErrInDoubt), ClassInDoubt},
		{errors.Join(txn.ErrAborted, txn.ErrFatal), ClassFatal},
		{errors.New("of no class"), ClassInDoubt},
	} {
		if got := classOf(tc.err); got != tc.want {
			t.Errorf("classOf(%v) = %q, want %q", tc.err, got, tc.want)
		}
	}
}

func TestBoardStartsRecovering(t *testing.T) {
	clock := newHandClock()
	s := newBoard(Status{Group: "g"}, clock.now, nil).snapshot()
	if s.State != StateRecovering || !s.Since.Equal(clock.now()) || s.Group != "g" {
		t.Fatalf("first picture: %+v", s)
	}
	if s.Assigned == nil || s.Lag.Partitions == nil {
		t.Fatal("an empty assignment or lag would be null in JSON")
	}
	if newBoard(Status{}, nil, nil).snapshot().Since.IsZero() {
		t.Fatal("without a clock of its own the board must take the system's")
	}
}

func TestBoardEnter(t *testing.T) {
	clock := newHandClock()
	b := newBoard(Status{}, clock.now, nil)
	clock.pass(time.Second)
	if b.enter(StateRecovering) {
		t.Error("entering the state we are in was called a change")
	}
	if since := b.snapshot().Since; !since.Equal(clock.now().Add(-time.Second)) {
		t.Errorf("since moved to %v", since)
	}
	if !b.enter(StateRunning) {
		t.Error("a change of state was not reported")
	}
	if since := b.snapshot().Since; !since.Equal(clock.now()) {
		t.Errorf("since = %v, want %v", since, clock.now())
	}
}

func TestSnapshotsAreNeverChanged(t *testing.T) {
	clock := newHandClock()
	b := sampleBoard(clock)
	b.polled(errors.New("first"))
	b.failed(txn.ErrAborted)
	before, again := b.snapshot(), b.snapshot()
	again.own() // a deep copy to compare with

	b.update(func(s *Status) {
		s.Assigned["orders"][0] = 99
		s.Assigned["new"] = []int32{1}
		s.Lag.Partitions[0].Lag = 99
		s.LastError.Err = "changed"
		s.CommitFailing.Err = "changed"
		s.PollFailing.Err = "changed"
	})
	if !reflect.DeepEqual(before, again) {
		t.Fatalf("an update changed a snapshot that was handed out:\n%+v\n%+v", before, again)
	}
	if got := b.snapshot().LastError.Err; got != "changed" {
		t.Fatalf("the update is not visible: %q", got)
	}
}

func TestBoardAssignCopiesAndSorts(t *testing.T) {
	b := newBoard(Status{}, newHandClock().now, nil)
	mine := map[string][]int32{"b": {3, 1, 2}, "a": {0}, "empty": {}}
	b.assign(mine)
	mine["b"][0] = 77
	mine["c"] = []int32{1}
	s := b.snapshot()
	want := map[string][]int32{"a": {0}, "b": {1, 2, 3}}
	if !reflect.DeepEqual(s.Assigned, want) {
		t.Fatalf("assigned = %v, want %v", s.Assigned, want)
	}
	if got := s.assignedPartitions(); got != 4 {
		t.Fatalf("assigned partitions = %d, want 4", got)
	}
	b.assign(nil)
	if s := b.snapshot(); s.Assigned == nil || len(s.Assigned) != 0 {
		t.Fatalf("assigned = %v, want an empty map", s.Assigned)
	}
}

func TestLagCoversOnlyOurPartitions(t *testing.T) {
	b := newBoard(Status{}, newHandClock().now, nil)
	b.assign(map[string][]int32{"t": {0, 10, 2}, "s": {5}})
	b.lag([]offsets.Lag{
		lagOf("t", 10, 1), lagOf("t", 2, 2), lagOf("t", 3, 1000), lagOf("s", 5, 4), lagOf("t", 0, -1), lagOf("x", 0, 9),
	})
	s := b.snapshot()
	var got []string
	for _, l := range s.Lag.Partitions {
		got = append(got, fmt.Sprintf("%s/%d=%d", l.Topic, l.Partition, l.Lag))
	}
	if want := "s/5=4 t/0=-1 t/2=2 t/10=1"; strings.Join(got, " ") != want {
		t.Errorf("lag = %v, want %s", got, want)
	}
	if s.Lag.Total != 7 {
		t.Errorf("total = %d, want 7 (an unknown lag is not negative)", s.Lag.Total)
	}
	if s.Lag.At.IsZero() {
		t.Error("the lag does not say when it was asked")
	}

	// A partition that has left must not be shown with its last lag until the next time it is asked.
	b.assign(map[string][]int32{"t": {2}})
	if s := b.snapshot(); len(s.Lag.Partitions) != 1 || s.Lag.Total != 2 {
		t.Errorf("lag after the partitions left: %+v", s.Lag)
	}

	// What was not asked yet is no part of a sum, and nothing at all is not 0.
	for _, assigned := range []map[string][]int32{{"t": {2, 3}}, {}, {"t": {2}}} {
		b.assign(assigned)
		if s := b.snapshot(); !s.Lag.At.IsZero() {
			t.Errorf("with %v the lag is said to be %d", assigned, s.Lag.Total)
		}
	}
}

func TestOpenTransactionAge(t *testing.T) {
	clock := newHandClock()
	b := newBoard(Status{OpenTxn: OpenTxn{TimeoutSeconds: 40}}, clock.now, nil)
	if o := b.snapshot().OpenTxn; o.AgeSeconds != 0 || o.Share != 0 {
		t.Fatalf("no transaction is open: %+v", o)
	}
	b.openTxn(clock.now())
	clock.pass(10 * time.Second)
	if o := b.snapshot().OpenTxn; o.AgeSeconds != 10 || o.Share != 0.25 {
		t.Fatalf("after 10 s of 40: %+v", o)
	}
	picture := b.current.Load()
	b.openTxn(b.snapshot().OpenTxn.Since)
	if b.current.Load() != picture {
		t.Error("saying the same again made a new picture")
	}
	clock.pass(-time.Minute)
	if o := b.snapshot().OpenTxn; o.AgeSeconds != 0 {
		t.Fatalf("a clock set back made the age negative: %+v", o)
	}
	b.openTxn(time.Time{})
	if o := b.snapshot().OpenTxn; o.AgeSeconds != 0 || o.Share != 0 || o.TimeoutSeconds != 40 {
		t.Fatalf("after its end: %+v", o)
	}
	without := newBoard(Status{}, clock.now, nil)
	without.openTxn(clock.now())
	clock.pass(time.Second)
	if o := without.snapshot().OpenTxn; o.AgeSeconds != 1 || o.Share != 0 {
		t.Fatalf("without a timeout: %+v", o)
	}
}

func TestRowsOfFailures(t *testing.T) {
	clock := newHandClock()
	b := newBoard(Status{}, clock.now, nil)
	b.failed(nil)
	if s := b.snapshot(); s.LastError != nil || s.CommitFailing != nil {
		t.Fatalf("no error is not a failure: %+v", s)
	}
	first := clock.now()
	b.failed(fmt.Errorf("%w: one", txn.ErrAborted))
	b.restarted()
	clock.pass(time.Second)
	b.failed(fmt.Errorf("%w: two", txn.ErrInDoubt))
	b.restarted()
	s := b.snapshot()
	if k := s.CommitFailing; k == nil || !k.Since.Equal(first) || !k.Last.Equal(clock.now()) || k.Err != "epoch in doubt: two" {
		t.Errorf("row of failures: %+v", k)
	}
	if e := s.LastError; e == nil || e.Class != ClassInDoubt || !e.At.Equal(clock.now()) {
		t.Errorf("last error: %+v", e)
	}
	if s.Restarts != (Restarts{Consecutive: 2, Total: 2}) {
		t.Errorf("restarts: %+v", s.Restarts)
	}
	b.committed(9)
	b.restarted()
	s = b.snapshot()
	if s.CommitFailing != nil || s.LastError == nil {
		t.Errorf("a commit ends the row and keeps the last error: %+v", s)
	}
	if s.LastCommitted != (LastCommitted{Epoch: 9, At: clock.now()}) {
		t.Errorf("last committed: %+v", s.LastCommitted)
	}
	if s.Restarts != (Restarts{Consecutive: 1, Total: 3}) {
		t.Errorf("restarts: %+v", s.Restarts)
	}
}

func TestPolled(t *testing.T) {
	clock := newHandClock()
	b := newBoard(Status{}, clock.now, nil)
	picture := b.current.Load()
	b.polled(nil)
	if b.current.Load() != picture {
		t.Error("a poll without trouble must cost nothing")
	}
	first := clock.now()
	b.polled(errors.New("one"))
	clock.pass(time.Second)
	b.polled(errors.New("two"))
	if k := b.snapshot().PollFailing; k == nil || !k.Since.Equal(first) || !k.Last.Equal(clock.now()) || k.Err != "two" {
		t.Errorf("row of failed polls: %+v", k)
	}
	b.polled(nil)
	if k := b.snapshot().PollFailing; k != nil {
		t.Errorf("a poll that succeeds ends the row: %+v", k)
	}
}

func lines(checks []healthCheck) string {
	out := make([]string, 0, len(checks))
	for _, c := range checks {
		out = append(out, c.String())
	}
	return strings.Join(out, "\n")
}

func TestLive(t *testing.T) {
	clock := newHandClock()
	b := newBoard(Status{}, clock.now, nil)
	const silence = 30 * time.Second
	step := func(name, want string) {
		t.Helper()
		if got := lines(b.live(silence)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	step("just made", "[+]loop ok")
	clock.pass(silence)
	step("at the limit", "[+]loop ok")
	clock.pass(time.Second)
	step("never progressed", "[-]loop failed: no progress for 31s, allowed are 30s")
	b.progress()
	step("progressed", "[+]loop ok")
	if d := b.sinceProgress(); d != 0 {
		t.Errorf("since progress = %v", d)
	}
	// Kafka may be away for as long as it likes.
	b.failed(txn.ErrInDoubt)
	b.polled(errors.New("no broker"))
	clock.pass(silence)
	b.progress()
	step("brokers away", "[+]loop ok")
	for range 20 {
		clock.pass(10 * time.Second)
		b.failed(txn.ErrInDoubt)
		b.restarted()
	}
	step("brokers away, nothing but restarts", "[+]loop ok")
	clock.pass(silence)
	b.enter(StateJoining)
	clock.pass(silence)
	step("joining", "[+]loop ok")
	// What other goroutines report must not hide a loop that hangs.
	clock.pass(time.Second)
	b.committed(1)
	b.openTxn(clock.now())
	b.lag(nil)
	b.failed(txn.ErrAborted)
	b.assign(nil)
	step("only others are alive", "[-]loop failed: no progress for 31s, allowed are 30s")
}

func TestReady(t *testing.T) {
	const tolerance = 15 * time.Second
	const fine = "[+]state ok\n[+]commit ok\n[+]poll ok"
	broken := fmt.Errorf("%w: commit epoch 4: timed out", txn.ErrInDoubt)
	for _, tc := range []struct {
		name string
		play func(b *board, c *handClock)
		want string
	}{
		{
			"at the start", func(_ *board, c *handClock) { c.pass(1240 * time.Millisecond) },
			"[-]state failed: recovering for 1.2s\n[+]commit ok\n[+]poll ok",
		},
		{
			"joining", func(b *board, _ *handClock) { b.enter(StateJoining) },
			"[-]state failed: joining for 0s\n[+]commit ok\n[+]poll ok",
		},
		{"running", func(b *board, _ *handClock) {
			b.enter(StateRunning)
			b.assign(map[string][]int32{"t": {0}})
		}, fine},
		{"running, positions are on their way", func(b *board, c *handClock) {
			b.enter(StateRunning)
			b.waits()
			c.pass(tolerance)
		}, fine},
		{"running, but without positions", func(b *board, c *handClock) {
			b.enter(StateRunning)
			b.waits()
			c.pass(tolerance)
			b.waits() // more partitions do not make it newer
			c.pass(time.Second)
		}, "[+]state ok\n[+]commit ok\n[-]poll failed: waiting for the group's positions for 16s: a transaction holds them back, or its coordinator does not answer"},
		{"an idle input on a broken line", func(b *board, c *handClock) {
			b.enter(StateRunning)
			b.looked(errors.New("i/o timeout"))
			c.pass(tolerance)
			b.looked(errors.New("i/o timeout"))
			c.pass(time.Second)
		}, "[+]state ok\n[+]commit ok\n[-]poll failed: the brokers do not answer, for 16s: i/o timeout"},
		{"the brokers answer again", func(b *board, c *handClock) {
			b.enter(StateRunning)
			b.looked(errors.New("i/o timeout"))
			c.pass(time.Minute)
			b.looked(nil)
		}, fine},
		{"without positions or answers, and now standing by", func(b *board, c *handClock) {
			b.enter(StateRunning)
			b.assign(map[string][]int32{"t": {0}})
			b.waits()
			b.looked(errors.New("i/o timeout"))
			c.pass(time.Minute)
			b.assign(map[string][]int32{})
		}, fine},
		{"positions have come", func(b *board, c *handClock) {
			b.enter(StateRunning)
			b.waits()
			c.pass(time.Minute)
			b.positioned()
		}, fine},
		{"standing by with nothing assigned", func(b *board, _ *handClock) { b.enter(StateRunning) }, fine},
		{
			"stopping", func(b *board, _ *handClock) { b.enter(StateRunning); b.enter(StateStopping) },
			"[-]state failed: stopping for 0s\n[+]commit ok\n[+]poll ok",
		},
		{"recovering says why", func(b *board, c *handClock) {
			b.enter(StateRunning)
			b.failed(broken)
			b.enter(StateRecovering)
			c.pass(2 * time.Second)
		}, "[-]state failed: recovering for 2s, last error: epoch in doubt: commit epoch 4: timed out\n[+]commit ok\n[+]poll ok"},
		{
			"stopped does not repeat an old error", func(b *board, _ *handClock) { b.failed(broken); b.enter(StateStopped) },
			"[-]state failed: stopped for 0s\n[+]commit ok\n[+]poll ok",
		},
		{"one failure, running again at once", func(b *board, c *handClock) {
			b.failed(broken)
			b.enter(StateRunning)
			c.pass(tolerance)
		}, fine},
		{"failing for longer than the tolerance", func(b *board, c *handClock) {
			b.failed(broken)
			c.pass(20 * time.Second)
			b.failed(broken)
			c.pass(4 * time.Second)
			b.enter(StateRunning)
			c.pass(tolerance)
		}, "[+]state ok\n[-]commit failed: no commit for 39s: epoch in doubt: commit epoch 4: timed out\n[+]poll ok"},
		{"failing, then a commit", func(b *board, c *handClock) {
			b.failed(broken)
			c.pass(20 * time.Second)
			b.failed(broken)
			b.enter(StateRunning)
			b.committed(5)
		}, fine},
		{"failing, then nothing to commit", func(b *board, c *handClock) {
			b.failed(broken)
			c.pass(20 * time.Second)
			b.failed(broken)
			c.pass(4 * time.Second)
			b.enter(StateRunning)
			c.pass(2*tolerance + time.Nanosecond)
		}, fine},
		{"failing epoch after epoch without leaving the state", func(b *board, c *handClock) {
			b.enter(StateRunning)
			b.failed(broken)
			c.pass(20 * time.Second)
			b.failed(broken)
			c.pass(10 * time.Second)
		}, "[+]state ok\n[-]commit failed: no commit for 30s: epoch in doubt: commit epoch 4: timed out\n[+]poll ok"},
		{"polls failing for a moment", func(b *board, c *handClock) {
			b.enter(StateRunning)
			b.polled(errors.New("not authorized"))
			c.pass(tolerance)
		}, fine},
		{"polls failing for long", func(b *board, c *handClock) {
			b.enter(StateRunning)
			b.polled(errors.New("not authorized"))
			c.pass(16 * time.Second)
		}, "[+]state ok\n[+]commit ok\n[-]poll failed: failing for 16s: not authorized"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clock := newHandClock()
			b := newBoard(Status{}, clock.now, nil)
			tc.play(b, clock)
			if got := lines(b.ready(tolerance)); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// Many writers and readers at once: no update is lost, and a reader never sees half of one.
func TestBoardUpdatedAndReadAtOnce(t *testing.T) {
	const writers, updates = 4, 200
	b := newBoard(Status{}, nil, func() Memory { return Memory{Used: 1} })
	done := make(chan struct{})
	var readers, writing sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				s := b.snapshot()
				if s.Restarts.Total != int64(s.Restarts.Consecutive) || len(s.Assigned["t"]) != int(s.Generation) {
					t.Errorf("torn picture: %+v", s)
					return
				}
				b.ready(time.Second)
				b.live(time.Second)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range writers {
		writing.Go(func() {
			for i := range updates {
				b.restarted()
				b.progress()
				b.polled(errors.New("x"))
				b.polled(nil)
				b.update(func(s *Status) {
					s.Generation = int32(i % 3)
					s.Assigned["t"] = make([]int32, i%3)
				})
			}
		})
	}
	writing.Wait()
	close(done)
	readers.Wait()
	if got := b.snapshot().Restarts.Total; got != writers*updates {
		t.Fatalf("%d of %d updates are left", got, writers*updates)
	}
}
