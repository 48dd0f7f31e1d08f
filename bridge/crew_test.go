package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/transform"
)

// hands makes n converters of one chain; the first is the lane's own.
func hands(t *testing.T, s *script, n int) []*converter {
	t.Helper()
	spec, all := scripted(t, s), []*converter{}
	for range n {
		all = append(all, &converter{chain: spec.New(), target: func(in string) string { return in + ".out" }, log: slog.New(slog.DiscardHandler)})
	}
	return all
}

// input makes n records of partition 3, from offset 100 on.
func input(n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: "in", Partition: 3, Offset: 100 + int64(i), Value: fmt.Append(nil, i)}
	}
	return records
}

// peak counts who is somewhere at the same time.
type peak struct{ now, most atomic.Int64 }

// enter answers what is called at the end.
func (p *peak) enter() func() {
	now := p.now.Add(1)
	for {
		if most := p.most.Load(); now <= most || p.most.CompareAndSwap(most, now) {
			return func() { p.now.Add(-1) }
		}
	}
}

var tpOfInput = offsets.TopicPartition{Topic: "in", Partition: 3}

// fate decides by its value what becomes of a record: the letter, and how many outputs.
func fate(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
	switch in.Value[0] {
	case 'e':
		return out, fmt.Errorf("refused %s", in.Value)
	case 'p':
		panic(fmt.Sprintf("no %s", in.Value))
	}
	for i := range int(in.Value[0] - '0') {
		r := *in
		if i > 0 {
			r.Value = fmt.Appendf(nil, "%s#%d", in.Value, i)
		}
		out = append(out, r)
	}
	return out, nil
}

// fates makes records for fate. Runs of the same letter make parts that only drop or only grow.
func fates(rng *rand.Rand, n int) []*kgo.Record {
	letters := []string{"0123", "1", "01", "0", "9", "0129", "1111111e", "11111111111111p", "010101010101ep"}[rng.IntN(9)]
	records := input(n)
	letter := letters[0]
	for i, r := range records {
		if rng.IntN(4) == 0 {
			letter = letters[rng.IntN(len(letters))]
		}
		if (letter == 'e' || letter == 'p') && rng.IntN(max(n/3, 1)) > 0 {
			letter = letters[0]
		}
		r.Value = fmt.Appendf(nil, "%c %d", letter, i)
		if rng.IntN(20) == 0 {
			r.Attrs = kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Control: true})
		}
	}
	return records
}

// became is all that a piece has become, as text.
func became(outputs []*kgo.Record, source []int64, err error) []string {
	if err != nil {
		return []string{err.Error()}
	}
	all := []string{}
	for i, r := range outputs {
		all = append(all, fmt.Sprint(source[i], " ", r.Topic, " ", r.Partition, " ", text(r)))
	}
	return all
}

// TestSharedAsAlone: what several converters make of a piece is what one makes of it, whatever the records become and
// however the piece is cut, the record that fails included.
func TestSharedAsAlone(t *testing.T) {
	t.Parallel()
	all := hands(t, &script{apply: fate}, 6)
	seeds := uint64(2000)
	if raced {
		seeds /= 10
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 0))
		n := 1 + rng.IntN(60)
		size, help := 1+rng.IntN(n), rng.IntN(len(all))
		cut := rand.New(rand.NewPCG(seed, 1))
		alone, source, done, err := all[0].batch(t.Context(), tpOfInput, fates(cut, n))
		want := became(alone, source, err)
		cut = rand.New(rand.NewPCG(seed, 1))
		shared, source, doneShared, _, err := share(t.Context(), all[0], all[1:1+help], tpOfInput, fates(cut, n), size)
		got := became(shared, source, err)
		if !slices.Equal(got, want) || err == nil && doneShared != done {
			t.Fatalf("seed %d, %d records, %d at a time by %d:\n got  %d %q\n want %d %q", seed, n, size, 1+help, doneShared, got, done, want)
		}
	}
}

// TestFirstErrorOfAPiece: of several records that fail, the first one is reported, also if a later one has failed long
// before, and what comes after a failure is not begun any more.
func TestFirstErrorOfAPiece(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("refused") },
		"panic": func() error { panic("refused") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen atomic.Int64
				all := hands(t, perRecord(func(r *transform.Record) error {
					seen.Add(1)
					switch r.Offset {
					case 105, 115:
						<-time.After(time.Second)
						return fail()
					case 125:
						return fail()
					}
					return nil
				}), 3)
				_, _, _, _, err := share(t.Context(), all[0], all[1:], tpOfInput, input(1000), 10)
				if err == nil || !strings.Contains(err.Error(), "topic in partition 3 offset 105:") {
					t.Errorf("the error is %v", err)
				}
				var panicked *transform.PanicError
				if errors.As(err, &panicked) != (name == "panic") {
					t.Errorf("%T: %v", err, err)
				}
				if seen.Load() > 30 {
					t.Errorf("%d records were transformed", seen.Load())
				}
			})
		})
	}
}

// TestSharedEndsWithTheSession: nobody goes on with a piece of a session that has ended.
func TestSharedEndsWithTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, end := context.WithCancelCause(t.Context())
		all := hands(t, perRecord(func(*transform.Record) error {
			<-time.After(time.Second)
			return nil
		}), 4)
		time.AfterFunc(10*time.Second+time.Millisecond, func() { end(why) })
		began := time.Now()
		_, _, done, _, err := share(ctx, all[0], all[1:], tpOfInput, input(1000), 7)
		if !errors.Is(err, why) || done != 44 || time.Since(began) != 11*time.Second {
			t.Errorf("%d records in %s: %v", done, time.Since(began), err)
		}
	})
}

// TestPartSize: what is quick is not cut, and no part is small.
func TestPartSize(t *testing.T) {
	t.Parallel()
	four := &crew{lanes: 4}
	for _, test := range []struct {
		crew *crew
		n    int
		each time.Duration
		size int
	}{
		{four, 10_000, 0, 10_000},
		{four, 10_000, quickRecord - 1, 10_000},
		{four, 10_000, quickRecord, 625},
		{four, 500, quickRecord, 50}, // 100 µs
		{four, 50, quickRecord, 50},
		{four, 100, time.Millisecond, 7},
		{four, 3, time.Millisecond, 1},
		{four, 1, time.Hour, 1},
		{&crew{lanes: 1}, 100, time.Second, 100},
		{nil, 100, time.Second, 100},
	} {
		if got := test.crew.partSize(test.n, test.each); got != test.size {
			t.Errorf("%d records of %s: %d at a time, want %d", test.n, test.each, got, test.size)
		}
	}
}

// TestCrewIsShared: there are as many hands as lanes, less one, and fewer while several lanes have much to do.
func TestCrewIsShared(t *testing.T) {
	t.Parallel()
	c := newCrew(4, func() converter { return converter{} })
	called := func(n, want int) []*converter {
		t.Helper()
		hands := c.call(n)
		if len(hands) != want {
			t.Fatalf("%d hands, want %d", len(hands), want)
		}
		return hands
	}
	first := called(100, 3)
	second := called(100, 0)
	c.dismiss(first)
	first = called(100, 2) // the second lane is still busy
	c.dismiss(second)
	second = called(1, 0)
	c.dismiss(first)
	c.dismiss(second)
	first = called(1, 1)
	second = called(5, 1)
	third := called(1, 0)
	c.dismiss(third)
	c.dismiss(second)
	c.dismiss(first)
	if len(c.rest) != 3 || c.busy != 0 {
		t.Errorf("%d hands at rest, %d busy", len(c.rest), c.busy)
	}
	if different := map[*converter]bool{c.rest[0]: true, c.rest[1]: true, c.rest[2]: true}; len(different) != 3 {
		t.Error("a hand was given back twice")
	}
}

// TestHandsAreCalled: a lane learns from its first piece whether the next ones are worth to be shared.
func TestHandsAreCalled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		each time.Duration
		want []int64 // who converts a piece at the same time, by piece
	}{
		{quickRecord / 2, []int64{1, 1, 1}},
		{time.Millisecond, []int64{1, 3, 3}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var at peak
			spec := scripted(t, perRecord(func(*transform.Record) error {
				defer at.enter()()
				<-time.After(test.each)
				return nil
			}))
			another := func() converter {
				return converter{chain: spec.New(), target: func(string) string { return "out" }}
			}
			sink := &swallowing{}
			l := &lane{
				convert: another(), crew: newCrew(3, another), pace: &pace{}, sink: sink, budget: newBudget(1 << 30),
				failed: func(error) {}, tracker: offsets.NewTracker(),
			}
			e := newEpoch(1)
			close(e.gate)
			for i, want := range test.want {
				at.most.Store(0)
				records := input(300)
				for _, r := range records {
					r.Offset += int64(i) * 300
				}
				if err := l.handle(t.Context(), work{epoch: e, tp: tpOfInput, records: records}); err != nil {
					t.Fatal(err)
				}
				if got := at.most.Load(); got != want {
					t.Errorf("%s for a record: piece %d was converted by %d, want %d", test.each, i, got, want)
				}
			}
			if sink.records != 900 {
				t.Errorf("%d outputs", sink.records)
			}
			if each := time.Duration(l.pace.perRecord.Load()); test.each > quickRecord && each != test.each {
				t.Errorf("the pace is %s for a record, want %s: what hands save is not counted on", each, test.each)
			}
		})
	}
}

// TestOneHotPartition: the transform is slow and all records are in one partition. All lanes work on it, epochs end in
// between, and the output is exact and in order although records take more or less time.
func TestOneHotPartition(t *testing.T) {
	const each, n = 5 * time.Millisecond, 1000
	for _, delivery := range []Delivery{ExactlyOnce, AtLeastOnce, AtMostOnce} {
		t.Run(string(delivery), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				var at peak
				s := perRecord(func(r *transform.Record) error {
					defer at.enter()()
					w.pass(each/5 + each*2/5*time.Duration(r.Offset*7%5)) // on average, each
					return nil
				})
				b := w.start(w.options(func(o *Options) { o.Delivery, o.Chain, o.EpochMaxRecords = delivery, scripted(t, s), 50 }))
				w.assigned(b, 2)
				w.feed("in", 40, 1) // so much the bridge has to learn
				w.caughtUp("in")
				w.feed("in", n, 1)
				began := time.Now()
				w.caughtUp("in")
				took := time.Since(began)
				if at.most.Load() != 2 || took > n*each*7/10 {
					t.Errorf("%d records in %s, by %d at a time", n, took, at.most.Load())
				}
				b.stopped()
				w.exact("out", "in")
				epochs := b.epochs()
				if b.restarts() > 0 || len(epochs) < n/200 {
					t.Errorf("%d restarts, %d epochs", b.restarts(), len(epochs))
				}
				for _, e := range epochs {
					if e.Outcome != OutcomeCommitted {
						t.Errorf("epoch %d: %s", e.Epoch, e.Outcome)
					}
				}
			})
		})
	}
}
