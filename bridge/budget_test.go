package bridge

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	token := func() bool {
		select {
		case <-b.freed:
			return true
		default:
			return false
		}
	}
	b.take(60)
	if b.exhausted() {
		t.Error("exhausted at 60 of 100")
	}
	b.take(60) // one poll may overshoot
	if !b.exhausted() {
		t.Error("not exhausted at 120 of 100")
	}
	b.give(20)
	if !b.exhausted() || token() {
		t.Error("at 100 of 100 nothing is free yet")
	}
	b.give(1)
	if b.exhausted() || !token() {
		t.Error("nobody is told that 99 of 100 are used")
	}
	b.give(50)
	if token() {
		t.Error("told without need")
	}
	b.take(100)
	b.give(100)
	b.take(100)
	b.give(100) // a second token finds no room, and is not missed
	if !token() || token() {
		t.Error("there is one token, not two and not none")
	}
	b.give(49)
	if n := b.used.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

func TestBudgetUsedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBudget(1000)
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for i := range int64(1000) {
				b.take(i)
				b.give(i)
			}
		})
	}
	users.Wait()
	if n := b.used.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// stuck holds up what bridges produce until release is called.
func (w *world) stuck() (release func()) {
	gate := make(chan struct{})
	w.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		if r.(*kmsg.ProduceRequest).TransactionID == nil || closed(gate) {
			return nil, nil, false
		}
		w.SleepControl(func() {
			select {
			case <-gate:
			case <-w.t.Context().Done():
			}
		})
		return nil, nil, false
	})
	return func() { close(gate) }
}

// feedBytes writes n records of 10 KB to each partition.
func (w *world) feedBytes(n int, partitions ...int32) {
	w.t.Helper()
	noise := rand.NewChaCha8([32]byte{})
	var records []*kgo.Record
	for range n {
		for _, p := range partitions {
			value := make([]byte, 10_000) // fetches are bounded in compressed bytes: these do not shrink
			_, _ = noise.Read(value)
			copy(value, w.unique("in", p))
			records = append(records, &kgo.Record{Topic: "in", Partition: p, Value: value})
		}
	}
	w.write(records...)
}

// small is a bridge with a small budget, and time for a stuck output.
func small(o *Options) {
	o.Memory = 16 << 20
	o.EpochTimeout, o.TxnTimeout, o.SessionTimeout, o.RebalanceTimeout = 20*time.Second, 50*time.Second, 60*time.Second, 70*time.Second
}

// TestBudgetGrows: who waits for memory is woken when there is more of it.
func TestBudgetGrows(t *testing.T) {
	t.Parallel()
	b := newBudget(100)
	b.take(150)
	b.resize(120)
	<-b.freed // looks again, and finds
	if !b.exhausted() {
		t.Error("150 of 120 is not exhausted")
	}
	b.resize(200)
	<-b.freed
	if b.exhausted() {
		t.Error("150 of 200 is exhausted")
	}
	b.resize(100)
	select {
	case <-b.freed:
		t.Error("less memory woke somebody")
	default:
	}
	b.give(60)
	<-b.freed
}

// TestStuckOutput: while nothing can be written, reading stops within the budget, and goes on by itself later.
func TestStuckOutput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		w.feedBytes(150, 0, 1, 2, 3) // 6 MB
		release := w.stuck()
		b := w.start(w.options(small))
		w.assigned(b, 4)
		var most int64
		w.until("reading has stopped", func() bool {
			before := b.budget.Load().used.Load()
			w.pass(time.Second)
			most = max(most, b.budget.Load().used.Load())
			return before > 0 && b.budget.Load().used.Load() == before
		})
		if limit := budgetBytes(b.opts.Memory, 0, false); most > limit+(3<<20) {
			t.Errorf("%d bytes are held, the budget is %d and a fetch has 1 MiB or one batch", most, limit)
		}
		if got := b.board.snapshot().Memory; got.Used == 0 || got.Budget != budgetBytes(b.opts.Memory, 0, false) {
			t.Errorf("the status shows %+v", got)
		}
		w.pass(10 * time.Second)
		release()
		w.caughtUp("in")
		b.stopped()
		w.exact("out", "in")
		if b.restarts() != 0 {
			t.Errorf("%d restarts", b.restarts())
		}
		if n := b.budget.Load().used.Load(); n != 0 {
			t.Errorf("%d bytes were never given back", n)
		}
	})
}

// TestStuckOutputAndAJoiner: a member that joins meanwhile waits for the epoch to end or fail, not longer.
func TestStuckOutputAndAJoiner(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		w.feedBytes(150, 0, 1, 2, 3)
		release := w.stuck()
		a := w.start(w.options(small))
		w.assigned(a, 4)
		w.pass(5 * time.Second)
		began := time.Now()
		b := w.start(w.options(small, instance("b")))
		w.until("the second member has partitions", func() bool { return b.holds() > 0 })
		if took := time.Since(began); took > a.opts.EpochTimeout+5*time.Second {
			t.Errorf("the second member waited for %s", took)
		}
		release()
		w.caughtUp("in")
		a.stopped()
		b.stopped()
		w.exact("out", "in")
	})
}

// TestBudgetOfFiltered: what has no output gives its memory back.
func TestBudgetOfFiltered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(2, "in", "out")
		w.feedBytes(300, 0, 1)
		b := w.start(w.options(small, func(o *Options) { o.Chain = chain(t, "filter_header(never=)") }))
		w.caughtUp("in")
		if n := b.budget.Load().used.Load(); n != 0 {
			t.Errorf("%d bytes are held of records that are gone", n)
		}
		b.stopped()
	})
}

// TestMemoryShares: the parts add up to less than the whole, for any limit worth having.
func TestMemoryShares(t *testing.T) {
	t.Parallel()
	for _, memory := range []int64{32 << 20, 256 << 20, 512 << 20, 4 << 30, 64 << 30} {
		s := &session{Bridge: &Bridge{opts: Options{Memory: memory}}}
		cl, err := kgo.NewClient(s.fetchLimits()...)
		if err != nil {
			t.Fatalf("%d MiB: %v", memory>>20, err)
		}
		fetch := int64(cl.OptValue(kgo.FetchMaxBytes).(int32))
		fetches := int64(cl.OptValue(kgo.MaxConcurrentFetches).(int))
		cl.Close()
		if n := fetch - fetchSlack; n > 16<<20 || n < 1<<20 {
			t.Errorf("%d MiB: a fetch of %d bytes", memory>>20, fetch)
		}
		near, far, raw := budgetBytes(memory, 0, false), budgetBytes(memory, time.Second, false), budgetBytes(memory, 0, true)
		if near > far || raw > far || near < 1<<20 || raw < 1<<20 {
			t.Errorf("%d MiB: budgets of %d, far away %d, raw %d bytes", memory>>20, near, far, raw)
		}
		if sum := far + fetch*fetches + 2*max(memory/produceShare, 8<<20); sum > memory {
			t.Errorf("%d MiB: %d MiB are promised", memory>>20, sum>>20)
		}
	}
}

// TestFetchHoldsWholeBatches: what the broker cuts off at the end of a response is sent twice. As many full batches
// fit as there are MiB in a fetch, of Kafka's largest default size and of the sizes at which producers stop.
func TestFetchHoldsWholeBatches(t *testing.T) {
	t.Parallel()
	for _, memory := range []int64{32 << 20, 64 << 20, 128 << 20, 256 << 20, 512 << 20, 4 << 30} {
		fetch := int64(fetchBytes(memory, 0))
		for _, batch := range []int64{1_000_000, 1_000_012, 1 << 20, 1_048_588} {
			if whole := fetch / batch; whole < fetch>>20 {
				t.Errorf("%d MiB: a fetch of %d bytes holds %d batches of %d bytes", memory>>20, fetch, whole, batch)
			}
		}
	}
}

// TestFetchesFromAfarAreLarger, but never than a share of the memory, and of whole MiB.
func TestFetchesFromAfarAreLarger(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tc := range []struct {
		memory int64
		away   time.Duration
		want   int32 // MiB
	}{
		{512 << 20, 0, 4},
		{512 << 20, ms, 4},
		{512 << 20, 5 * ms, 4},
		{512 << 20, 8 * ms, 6},
		{512 << 20, 20 * ms, 8},
		{128 << 20, 20 * ms, 4},
		{1 << 30, 20 * ms, 15},
		{4 << 30, 20 * ms, 16},
		{4 << 30, time.Minute, 16},
	} {
		if got := fetchBytes(tc.memory, tc.away) - fetchSlack; got != tc.want<<20 {
			t.Errorf("%d MiB, %s away: %d bytes, want %d MiB", tc.memory>>20, tc.away, got, tc.want)
		}
	}
}

// TestFetchesFollowTheDistance: the first answers tell how far away the broker is, passed through or not. (kfake)
func TestFetchesFollowTheDistance(t *testing.T) {
	for _, raw := range []bool{true, false} {
		for late, want := range map[time.Duration]int32{0: 4 << 20, 20 * time.Millisecond: 8 << 20} {
			t.Run(fmt.Sprintf("passed through %v, %s", raw, late), func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					w.topics(2, "in", "out")
					w.wire.late = late
					var asked atomic.Int32
					w.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
						w.KeepControl()
						if f := r.(*kmsg.FetchRequest); f.MaxBytes > 1 { // else it ends a fetch session
							asked.Store(f.MaxBytes)
						}
						return nil, nil, false
					})
					b := w.start(w.options(func(o *Options) { o.Memory, o.PassThrough = 512<<20, raw }))
					w.assigned(b, 2)
					w.feed("in", 10, 0, 1)
					w.caughtUp("in")
					b.stopped()
					if got := asked.Load(); got != want+fetchSlack {
						t.Errorf("%d bytes are asked for, want %d", got, want+fetchSlack)
					}
				})
			})
		}
	}
}

// TestSmallMemorySmallRequests: where memory is scarce a request holds one batch, and a batch fits in.
func TestSmallMemorySmallRequests(t *testing.T) {
	t.Parallel()
	for memory, want := range map[int64]int32{32 << 20: ordinaryBatch + fetchSlack, 128 << 20: ordinaryBatch + fetchSlack, 192 << 20: 100 << 20, 4 << 30: 100 << 20} {
		s := &session{Bridge: &Bridge{opts: Options{Memory: memory}}}
		if got := s.requestBytes(); got != want {
			t.Errorf("%d MiB: a request holds %d bytes, want %d", memory>>20, got, want)
		}
		s.opts.Delivery = AtMostOnce // its batches are as large as the topics allow
		if got := s.requestBytes(); got != 100<<20 {
			t.Errorf("%d MiB, at-most-once: %d bytes", memory>>20, got)
		}
	}
}

// TestPartitionsShareAFetch: a full batch of each fits in, and a lone partition has all of it.
func TestPartitionsShareAFetch(t *testing.T) {
	t.Parallel()
	const fetch, whole = 8*mebibyte + fetchSlack, mebibyte + fetchSlack
	for partitions, want := range map[int]int32{0: 4*mebibyte + fetchSlack, 1: 4*mebibyte + fetchSlack, 4: fetch / 4, 8: whole, 1000: whole} {
		if got := partitionBytes(fetch, partitions); got != want {
			t.Errorf("%d partitions: %d bytes each, want %d", partitions, got, want)
		}
	}
	if got := partitionBytes(whole, 1); got != whole {
		t.Errorf("more than the fetch: %d", got)
	}
}

// TestFetchesAreShared among the partitions that the group has given. (kfake)
func TestFetchesAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		b := w.start(w.options(func(o *Options) { o.Memory = 512 << 20 }))
		asked := map[int32]int32{}
		w.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.KeepControl()
			for _, topic := range r.(*kmsg.FetchRequest).Topics {
				for _, p := range topic.Partitions {
					asked[p.Partition] = p.PartitionMaxBytes
				}
			}
			return nil, nil, false
		})
		w.feed("in", 1, 0, 1, 2, 3)
		w.assigned(b, 4)
		w.caughtUp("in")
		w.feed("in", 1, 0, 1, 2, 3)
		w.caughtUp("in")
		b.stopped()
		if want := partitionBytes(fetchBytes(512<<20, 0), 4); asked[0] != want {
			t.Errorf("%d bytes of a partition are asked for, want %d", asked[0], want)
		}
	})
}

func TestLinger(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]time.Duration{
		0: 0, 2 * time.Millisecond: 2 * time.Millisecond, 20 * time.Millisecond: 5 * time.Millisecond, 100 * time.Millisecond: 5 * time.Millisecond, time.Hour: 5 * time.Millisecond,
	} {
		if got := lingerFor(interval); got != want {
			t.Errorf("interval %s: linger %s, want %s", interval, got, want)
		}
	}
}
