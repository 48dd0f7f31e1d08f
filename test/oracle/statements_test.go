package oracle

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// statements are what exactly-once means here. Each has to be tried with faults
// that the judge must find (TestStatements).
var statements = map[string]string{
	"a": "each input below the position has its outputs exactly once",
	"b": "nothing is visible of an input at or above the position",
	"c": "order is kept from input partition to output partition",
	"d": "of one transaction all outputs are visible, or none",
	"e": "nothing of an aborted transaction is ever shown",
	"f": "positions never go back",
	"g": "at rest no transaction is open and the last stable offset is the high watermark",
	"h": "the reader that ran meanwhile had what the final reader has",
}

// seeded is a fault of one statement, with the judge that has to find it.
type seeded struct {
	statement string
	on        string // "kfake", or "pure": without a broker
	name      string
	// judge builds a sound world, or a broken one, and asks the judge.
	judge func(t *testing.T, broken bool) error
	want  string // in the error of the broken one
}

// TestStatements seeds faults against each statement: every one is found, its
// sound twin is not, and no statement is without a fault.
func TestStatements(t *testing.T) {
	var tried []string
	for _, s := range slices.Concat(readerFaults(), watchFaults(), transactionFaults()) {
		tried = append(tried, s.statement)
		t.Run(s.statement+" "+s.on+" "+s.name, func(t *testing.T) {
			t.Parallel()
			if err := s.judge(t, false); err != nil {
				t.Errorf("the sound one: %v", err)
			}
			if err := s.judge(t, true); err == nil || !strings.Contains(err.Error(), s.want) {
				t.Errorf("found %v, want %q", err, s.want)
			}
		})
	}
	for letter, text := range statements {
		if !slices.Contains(tried, letter) {
			t.Errorf("(%s) %s: no fault is seeded", letter, text)
		}
	}
	for _, letter := range tried {
		if statements[letter] == "" {
			t.Errorf("there is no statement %q", letter)
		}
	}
}

func notExact(v Verdict) error {
	if v.Exact() {
		return nil
	}
	return errors.New(v.String())
}

// copied runs a copier over ten records of each source in two transactions, and
// answers the verdict of both readers and the account.
func copied(t *testing.T, first, second func(*testing.T, *world)) error {
	t.Helper()
	w := newWorld(t)
	w.feed(t, Feed{Total: 20, Sources: sources(2)})
	f, r := w.follow(t, false)
	for _, write := range []func(*testing.T, *world){first, second} {
		w.begin(t)
		write(t, w)
		w.end(t, kgo.TryCommit)
	}
	ctx := within(t, 10*time.Second)
	if err := r.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	final, err := ReadAll(ctx, Reading{Brokers: w.brokers, Topics: []string{"out"}, Transactions: f.Transactions}, r.checker)
	if err != nil {
		t.Fatal(err)
	}
	v := final.Compare(r.checker)
	account := account(t, f)
	v.Torn, v.AbortedRead = account.Torn, account.AbortedRead
	return notExact(v)
}

// span is the copy of [from, to) of both sources, each into its own partition.
func spanned(from, to int64) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		for seq := from; seq < to; seq++ {
			for _, s := range sources(2) {
				w.write(t, s.Partition, Origin{s, seq})
			}
		}
	}
}

// seq is one record of in/0.
func seq(n int64) Origin { return Origin{Source{"in", 0}, n} }

func readerFaults() []seeded {
	// faulty copies all, and where it is broken does something else at the end.
	faulty := func(wrong func(*testing.T, *world)) func(*testing.T, bool) error {
		return func(t *testing.T, broken bool) error {
			if !broken {
				return copied(t, spanned(0, 5), spanned(5, 10))
			}
			return copied(t, spanned(0, 5), wrong)
		}
	}
	return []seeded{
		{"a", "kfake", "a record twice", faulty(func(t *testing.T, w *world) {
			spanned(5, 10)(t, w)
			w.write(t, 0, seq(9))
		}), "duplicated: out/0@11: in/0/9 again"},
		{"a", "kfake", "an epoch repeated", faulty(func(t *testing.T, w *world) {
			spanned(0, 10)(t, w)
		}), "duplicated 10"},
		{"a", "kfake", "a record lost", faulty(func(t *testing.T, w *world) {
			w.write(t, 0, seq(5), seq(6), seq(8), seq(9))
			w.write(t, 1, Origin{Source{"in", 1}, 5}, Origin{Source{"in", 1}, 6}, Origin{Source{"in", 1}, 7},
				Origin{Source{"in", 1}, 8}, Origin{Source{"in", 1}, 9})
		}), "lost: in/0/7"},
		{"c", "kfake", "two records swapped", faulty(func(t *testing.T, w *world) {
			w.write(t, 0, seq(5), seq(7), seq(6))
			spanned(8, 10)(t, w)
		}), "out of order: out/0@8: in/0/6 behind 7"},
		{"e", "kfake", "a reader that does not wait for the end", func(t *testing.T, broken bool) error {
			return abortedUnder(t, broken, func(f *Follower, r *Reader) error { return notExact(account(t, f)) })
		}, "aborted read 4"},
		{"h", "kfake", "records read and withdrawn", func(t *testing.T, broken bool) error {
			return abortedUnder(t, broken, func(f *Follower, r *Reader) error {
				final, err := ReadAll(within(t, 10*time.Second), Reading{
					Brokers: r.client.OptValue(kgo.SeedBrokers).([]string), Topics: []string{"out"},
				}, r.checker)
				if err != nil {
					t.Fatal(err)
				}
				v := final.Compare(r.checker)
				if v.Withdrawn.Count+v.Late.Count == 0 {
					return nil
				}
				return errors.New(v.String())
			})
		}, "withdrawn 4"},
		{"h", "pure", "records that come late, where the reader had passed", func(t *testing.T, broken bool) error {
			s := newScript(NewForm(32, 4), 3)
			first := []int{0, 1, 2, 3, 4, 5}
			if broken {
				first = []int{0, 1, 4, 5}
			}
			v := s.read(0, 1, 2, 3, 4, 5).Compare(s.read(first...))
			return notExact(v)
		}, "late 2"},
	}
}

// abortedUnder lets a transaction be read and then be aborted; the broken reader
// reads what is not committed.
func abortedUnder(t *testing.T, broken bool, judge func(*Follower, *Reader) error) error {
	t.Helper()
	w := newWorld(t)
	w.feed(t, Feed{Total: 4, Sources: sources(2)})
	f, r := w.follow(t, broken)
	w.copy(t, 0, 2)
	if broken {
		ends, err := w.adm.ListEndOffsets(t.Context(), "out")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Reach(within(t, 10*time.Second), ends); err != nil {
			t.Fatal(err)
		}
	}
	w.end(t, kgo.TryAbort)
	if err := r.CatchUp(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	return judge(f, r)
}

// sampled moves positions and output, and samples in between.
func sampled(t *testing.T, moves ...func(*testing.T, *world)) error {
	t.Helper()
	w := newWorld(t)
	w.feed(t, Feed{Total: 20, Sources: sources(2)})
	reader, _ := w.read(t, false)
	watch := NewWatch(w.adm, "g", []string{"out"}, reader)
	ctx := within(t, 10*time.Second)
	for _, move := range moves {
		move(t, w)
		if err := reader.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		if err := watch.Sample(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return watch.Err()
}

func watchFaults() []seeded {
	// together commits five records of each source, and positions of at.
	together := func(at int64) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			w.copy(t, 0, 5)
			w.end(t, kgo.TryCommit)
			w.position(t, at)
		}
	}
	position := func(at int64) func(*testing.T, *world) {
		return func(t *testing.T, w *world) { w.position(t, at) }
	}
	either := func(broken bool, wrong, right int64) int64 {
		if broken {
			return wrong
		}
		return right
	}
	return []seeded{
		{"a", "kfake", "visible behind the positions", func(t *testing.T, broken bool) error {
			return sampled(t, position(0), together(either(broken, 6, 5)))
		}, "in/0/5 is below the position 6 and not visible"},
		{"b", "kfake", "visible ahead of the positions", func(t *testing.T, broken bool) error {
			return sampled(t, position(0), together(either(broken, 4, 5)))
		}, "is visible, the position is 4"},
		{"f", "kfake", "positions go back between samples", func(t *testing.T, broken bool) error {
			return sampled(t, together(5), position(either(broken, 3, 5)))
		}, "from 5 to 3"},
	}
}

// taped plays a tape of three transactions of which the middle one may be broken.
func taped(middle func(*tape, Producer)) func(*testing.T, bool) error {
	return func(_ *testing.T, broken bool) error {
		y := newTape(9)
		p := Producer{1, 1}
		y.whole(Producer{1, 0}, 0, 3, true)
		if broken {
			middle(y, p)
		} else {
			y.whole(p, 3, 6, true)
		}
		y.whole(Producer{1, 2}, 6, 9, true)
		v := y.verdict()
		y.x.rest()
		y.x.Into(&v)
		return notExact(v)
	}
}

func transactionFaults() []seeded {
	all := []Source{out(0), out(1), kept}
	return []seeded{
		{"a", "pure", "an output missing in its transaction", taped(func(y *tape, p Producer) {
			y.write(p, 0, 3, 5)
			y.write(p, 1, 3, 6)
			y.position(p, 6, 0, 1)
			y.end(p, true, all...)
		}), "apart: in/0: positions go over [3, 6) with 3 records that are wanted, the output has 2, 3 to 4"},
		{"a", "pure", "positions committed without their outputs", taped(func(y *tape, p Producer) {
			y.position(Producer{-1, -1}, 6, 0, 1)
		}), "the output has 0"},
		{"b", "pure", "an output beyond the positions of its transaction", taped(func(y *tape, p Producer) {
			y.write(p, 0, 3, 7)
			y.write(p, 1, 3, 6)
			y.position(p, 6, 0, 1)
			y.end(p, true, all...)
		}), "the output has 4, 3 to 6"},
		{"b", "pure", "output committed without positions", taped(func(y *tape, p Producer) {
			y.write(p, 0, 3, 6)
			y.write(p, 1, 3, 6)
			y.end(p, true, out(0), out(1))
		}), "is committed without positions"},
		{"d", "kfake", "committed in one partition, aborted in the other", func(t *testing.T, broken bool) error {
			return torn(t, func(w *world, f *Follower) {
				if broken {
					w.tear(t, 0, true)
					account(t, f) // it has read that, and reads the other marker next
				}
				w.end(t, kgo.TryAbort)
			})
		}, "torn: out/1@2: "},
		{"d", "pure", "ended in the middle by a late request", taped(func(y *tape, p Producer) {
			y.write(p, 0, 3, 5)
			y.end(p, true, out(0))
			y.write(p, 0, 5, 6)
			y.write(p, 1, 3, 6)
			y.position(p, 6, 0, 1)
			y.end(p, true, all...)
		}), "goes on after it was ended there"},
		{"d", "pure", "never ended in one partition", taped(func(y *tape, p Producer) {
			y.write(p, 0, 3, 6)
			y.write(p, 1, 3, 6)
			y.position(p, 6, 0, 1)
			y.end(p, true, out(0), kept)
		}), "torn: "},
		{"d", "pure", "positions aborted, output committed", taped(func(y *tape, p Producer) {
			y.write(p, 0, 3, 6)
			y.write(p, 1, 3, 6)
			y.position(p, 6, 0, 1)
			y.end(p, true, out(0), out(1))
			y.end(p, false, kept)
		}), "torn: " + kept.String()},
		{"e", "pure", "shown before it is aborted", taped(func(y *tape, p Producer) {
			for _, r := range y.write(p, 0, 3, 6) {
				y.x.Show(r)
			}
			y.end(p, false, out(0))
			y.whole(Producer{2, 0}, 3, 6, true)
		}), "aborted read 3"},
		{"e", "pure", "logged as aborted, and committed", taped(func(y *tape, p Producer) {
			y.whole(p, 3, 6, true)
			y.x.Tell(p, false, "epoch 2")
		}), "aborted read: epoch 2 of 1@1, which is committed"},
		{"f", "pure", "positions go back and forth between samples", taped(func(y *tape, p Producer) {
			y.whole(p, 3, 6, true)
			y.position(Producer{-1, -1}, 5, 0)
			y.position(Producer{-1, -1}, 6, 0)
		}), "backward: in/0: from 6 to 5"},
		{"g", "kfake", "a transaction left open", func(t *testing.T, broken bool) error {
			return left(t, broken, "copy")
		}, "copy.a.0 is Ongoing"},
		{"g", "kfake", "the last stable offset below the high watermark", func(t *testing.T, broken bool) error {
			return left(t, broken, "another")
		}, "out/0: last stable offset 0, high watermark 2"},
		{"g", "kfake", "no marker in the log", func(t *testing.T, broken bool) error {
			return torn(t, func(w *world, _ *Follower) {
				if !broken {
					w.end(t, kgo.TryAbort)
				}
			})
		}, "left open 2"},
	}
}

// torn writes into both partitions, lets the transaction end, and asks the account.
func torn(t *testing.T, end func(*world, *Follower)) error {
	t.Helper()
	w := newWorld(t)
	w.feed(t, Feed{Total: 4, Sources: sources(2)})
	f, _ := w.follow(t, false)
	w.begin(t)
	spanned(0, 2)(t, w)
	end(w, f)
	v := account(t, f)
	if broken := v.Torn.Count + v.LeftOpen.Count; broken == 0 {
		return nil
	}
	return errors.New(v.String())
}

// left looks for rest while a transaction may still be open.
func left(t *testing.T, broken bool, prefix string) error {
	t.Helper()
	w := newWorld(t)
	w.copy(t, 0, 1)
	if !broken {
		w.end(t, kgo.TryCommit)
	}
	return restless(t.Context(), w.adm, Rest{Prefix: prefix, Outputs: []string{"out"}})
}
