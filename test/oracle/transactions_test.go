package oracle

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tape is what a read_uncommitted reader sees of output and positions, made by
// hand. Records of in/0 are written to out/0, those of in/1 to out/1.
type tape struct {
	x    *Transactions
	form Form
	next map[Source]int64
}

// Where a tape's group "g" has its positions.
var kept = Source{Topic: positionsTopic, Partition: 3}

func out(p int32) Source { return Source{Topic: "out", Partition: p} }

// newTape has n records in each of in/0 and in/1, at the offsets 0 to n-1.
func newTape(n int) *tape {
	y := &tape{form: NewForm(32, 4), next: make(map[Source]int64)}
	input := NewInput()
	for range n {
		for _, s := range sources(2) {
			o := input.Hand(s)
			input.Ack(o, o.Seq)
		}
	}
	y.x = NewTransactions(NewChecker(y.form, input, nil), "g")
	return y
}

// add puts a record at the end of a partition.
func (y *tape) add(part Source, p Producer, attrs kgo.RecordAttrsOpts, r *kgo.Record) *kgo.Record {
	r.Topic, r.Partition, r.Offset = part.Topic, part.Partition, y.next[part]
	r.ProducerID, r.ProducerEpoch, r.Attrs = p.ID, p.Epoch, kgo.NewRecordAttrs(attrs)
	y.next[part]++
	y.x.Observe(r)
	return r
}

// write adds the records [from, to) of one input partition.
func (y *tape) write(p Producer, partition int32, from, to int64) (all []*kgo.Record) {
	for seq := from; seq < to; seq++ {
		r := y.form.Record(Origin{Source{"in", partition}, seq})
		all = append(all, y.add(out(partition), p, kgo.RecordAttrsOpts{Transactional: true}, r))
	}
	return all
}

// position adds positions of the input partitions; -1 deletes them.
func (y *tape) position(p Producer, at int64, partitions ...int32) {
	for _, partition := range partitions {
		key := kmsg.OffsetCommitKey{Version: 1, Group: "g", Topic: "in", Partition: partition}
		r := &kgo.Record{Key: key.AppendTo(nil)}
		if at >= 0 {
			value := kmsg.OffsetCommitValue{Version: 3, Offset: at}
			r.Value = value.AppendTo(nil)
		}
		y.add(kept, p, kgo.RecordAttrsOpts{Transactional: p.ID > 0}, r)
	}
}

// end adds markers with the epoch that follows.
func (y *tape) end(p Producer, commit bool, parts ...Source) {
	key := kmsg.ControlRecordKey{Type: kmsg.ControlRecordKeyTypeAbort}
	if commit {
		key.Type = kmsg.ControlRecordKeyTypeCommit
	}
	for _, part := range parts {
		y.add(part, Producer{p.ID, p.Epoch + 1}, kgo.RecordAttrsOpts{Transactional: true, Control: true},
			&kgo.Record{Key: key.AppendTo(nil), Value: []byte{0, 0, 0, 0, 0, 0}})
	}
}

// whole adds a transaction over [from, to) of both partitions, with its end.
func (y *tape) whole(p Producer, from, to int64, commit bool) (all []*kgo.Record) {
	all = append(y.write(p, 0, from, to), y.write(p, 1, from, to)...)
	y.position(p, to, 0, 1)
	y.end(p, commit, out(0), out(1), kept)
	return all
}

// verdict is the account's part of a verdict, after a check.
func (y *tape) verdict() (v Verdict) {
	y.x.judge(y.x.mark())
	y.x.Into(&v)
	return v
}

// TestTransactionsFindEachFault seeds one kind of fault at a time, without a
// broker: exactly that kind is found.
func TestTransactionsFindEachFault(t *testing.T) {
	a, b, c := Producer{1, 0}, Producer{2, 7}, Producer{1, 1}
	plain := Producer{-1, -1}
	for name, test := range map[string]struct {
		do   func(*tape)
		want Verdict
	}{
		"whole ones, aborted ones, repeated": {func(y *tape) {
			y.position(plain, 0, 0, 1)
			y.whole(a, 0, 5, true)
			y.whole(b, 5, 9, false)
			y.whole(c, 5, 9, true)
		}, Verdict{Committed: 2, Aborted: 1}},
		"two that overlap in time": {func(y *tape) {
			y.write(a, 0, 0, 5)
			y.position(a, 5, 0)
			y.write(b, 0, 5, 7)
			y.end(a, true, kept)
			y.position(b, 7, 0)
			y.end(b, true, out(0), kept)
			y.end(a, true, out(0))
		}, Verdict{Committed: 2}},
		"a marker where nothing was written, and a repeated one": {func(y *tape) {
			y.end(a, false, out(0))
			y.whole(b, 0, 5, true)
			y.end(b, true, out(0))
		}, Verdict{Committed: 1}},
		"an epoch without output": {func(y *tape) {
			y.whole(a, 0, 5, true)
			y.position(plain, 5, 0, 1)
		}, Verdict{Committed: 1}},
		"begun at a position that was given": {func(y *tape) {
			y.position(plain, 3, 0, 1)
			y.whole(a, 3, 5, true)
		}, Verdict{Committed: 1}},
		"positions deleted and begun anew": {func(y *tape) {
			y.whole(a, 0, 5, true)
			y.position(plain, -1, 0, 1)
			y.position(plain, 2, 0, 1)
			y.whole(b, 2, 4, true)
		}, Verdict{Committed: 2}},
		"another group's positions": {func(y *tape) {
			y.whole(a, 0, 5, true)
			key := kmsg.OffsetCommitKey{Version: 1, Group: "other", Topic: "in", Partition: 0}
			y.add(kept, plain, kgo.RecordAttrsOpts{}, &kgo.Record{Key: key.AppendTo(nil), Value: make([]byte, 40)})
			y.add(kept, plain, kgo.RecordAttrsOpts{}, &kgo.Record{Key: []byte{0, 2, 0, 1, 'g'}, Value: make([]byte, 40)})
		}, Verdict{Committed: 1}},

		"committed here, aborted there": {func(y *tape) {
			y.write(a, 0, 0, 5)
			y.write(a, 1, 0, 5)
			y.position(a, 5, 0, 1)
			y.end(a, true, out(0), kept)
			y.end(a, false, out(1))
		}, Verdict{Committed: 1, Torn: Finding{Count: 1}}},
		"output committed, positions aborted": {func(y *tape) {
			y.write(a, 0, 0, 5)
			y.position(a, 5, 0)
			y.end(a, false, kept)
			y.end(a, true, out(0))
		}, Verdict{Aborted: 1, Torn: Finding{Count: 1}}},
		"ended in the middle": { // a late copy of EndTxn
			func(y *tape) {
				y.write(a, 0, 0, 3)
				y.end(a, true, out(0))
				y.write(a, 0, 3, 5)
				y.position(a, 5, 0)
				y.end(a, true, out(0), kept)
			}, Verdict{Committed: 1, Torn: Finding{Count: 1}},
		},
		"the next one begins before the end": {func(y *tape) {
			y.write(a, 0, 0, 5)
			y.position(a, 5, 0)
			y.end(a, true, kept)
			y.write(c, 0, 5, 6)
			y.position(c, 6, 0)
			y.end(c, true, kept, out(0))
		}, Verdict{Committed: 2, Torn: Finding{Count: 1}}},
		"never ended in one partition": {func(y *tape) {
			y.write(a, 0, 0, 5)
			y.write(a, 1, 0, 5)
			y.position(a, 5, 0, 1)
			y.end(a, true, out(0), kept)
			y.verdict()
			y.x.rest()
		}, Verdict{Committed: 1, Torn: Finding{Count: 1}}},
		"never ended": {func(y *tape) {
			y.write(a, 0, 0, 5)
			y.write(a, 1, 0, 5)
			y.x.rest()
		}, Verdict{LeftOpen: Finding{Count: 2}}},

		"shown, then aborted": {func(y *tape) {
			all := y.write(a, 0, 0, 2)
			y.x.Show(all[0])
			y.x.Show(all[1])
			y.end(a, false, out(0))
		}, Verdict{Aborted: 1, AbortedRead: Finding{Count: 2}}},
		"aborted, then shown": {func(y *tape) {
			for _, r := range y.whole(a, 0, 2, false) {
				y.x.Show(r)
			}
		}, Verdict{Aborted: 1, AbortedRead: Finding{Count: 4}}},
		"shown and still open": {func(y *tape) {
			y.x.Show(y.write(a, 0, 0, 1)[0])
		}, Verdict{AbortedRead: Finding{Count: 1}}},
		"shown before this reader sees it": {func(y *tape) {
			early := y.form.Record(Origin{Source{"in", 0}, 0})
			early.Topic, early.ProducerID, early.Attrs = "out", 1, kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true})
			y.x.Show(early)
			y.whole(a, 0, 1, true)
		}, Verdict{Committed: 1}},
		"logged as aborted, and committed": {func(y *tape) {
			y.whole(a, 0, 5, true)
			y.whole(b, 5, 9, false)
			y.x.Tell(a, false, "epoch 1")
			y.x.Tell(b, false, "epoch 2")
		}, Verdict{Committed: 1, Aborted: 1, AbortedRead: Finding{Count: 1}}},
		"logged as committed, and aborted": {func(y *tape) {
			y.whole(a, 0, 5, true)
			y.whole(b, 5, 9, false)
			y.x.Tell(a, true, "epoch 1")
			y.x.Tell(b, true, "epoch 2")
		}, Verdict{Committed: 1, Aborted: 1, Belied: Finding{Count: 1}}},

		"an output missing": {func(y *tape) {
			y.write(a, 0, 0, 4)
			y.position(a, 5, 0)
			y.end(a, true, out(0), kept)
		}, Verdict{Committed: 1, Apart: Finding{Count: 1}}},
		"an output beyond the position": {func(y *tape) {
			y.write(a, 0, 0, 6)
			y.position(a, 5, 0)
			y.end(a, true, out(0), kept)
		}, Verdict{Committed: 1, Apart: Finding{Count: 1}}},
		"as many, but others": {func(y *tape) {
			y.write(a, 0, 1, 6)
			y.position(a, 5, 0)
			y.end(a, true, out(0), kept)
		}, Verdict{Committed: 1, Apart: Finding{Count: 1}}},
		"output without positions": {func(y *tape) {
			y.write(a, 0, 0, 5)
			y.end(a, true, out(0))
		}, Verdict{Committed: 1, Apart: Finding{Count: 1}}},
		"output without the position of its partition": {func(y *tape) {
			y.write(a, 0, 0, 5)
			y.write(a, 1, 0, 5)
			y.position(a, 5, 0)
			y.end(a, true, out(0), out(1), kept)
		}, Verdict{Committed: 1, Apart: Finding{Count: 1}}},
		"a plain commit over wanted records": {func(y *tape) {
			y.whole(a, 0, 5, true)
			y.position(plain, 7, 1)
		}, Verdict{Committed: 1, Apart: Finding{Count: 1}}},
		"a record after its transaction was judged": {func(y *tape) {
			y.write(a, 0, 0, 5)
			y.position(a, 5, 0)
			y.end(a, true, kept)
			y.verdict()
			y.write(a, 0, 5, 6)
			y.end(a, true, out(0))
		}, Verdict{Committed: 1, Apart: Finding{Count: 1}}},
		"positions going back": {func(y *tape) {
			y.whole(a, 0, 5, true)
			y.position(plain, 4, 0)
		}, Verdict{Committed: 1, Backward: Finding{Count: 1}}},
		"a late copy of older positions": {func(y *tape) {
			y.write(a, 0, 0, 5)
			y.position(a, 5, 0)
			y.write(b, 0, 5, 9)
			y.position(b, 9, 0)
			y.position(a, 5, 0)
			y.end(a, true, out(0), kept)
			y.end(b, true, out(0), kept)
		}, Verdict{Committed: 2, Backward: Finding{Count: 1}, Apart: Finding{Count: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			y := newTape(10)
			test.do(y)
			got := y.verdict()
			sameCounts(t, got, test.want)
			if got.Committed != test.want.Committed || got.Aborted != test.want.Aborted {
				t.Errorf("committed %d, aborted %d; want %d, %d", got.Committed, got.Aborted, test.want.Committed, test.want.Aborted)
			}
		})
	}
}

// TestTransactionsWaitForTheFeed: positions are not judged before the feed knows
// where its records lie, and at rest that is not passed over in silence.
func TestTransactionsWaitForTheFeed(t *testing.T) {
	y := newTape(4)
	late := y.x.checker.input.Hand(Source{"in", 0})
	y.write(Producer{1, 0}, 0, 0, 5)
	y.position(Producer{1, 0}, 5, 0)
	y.end(Producer{1, 0}, true, out(0), kept)
	if v := y.verdict(); v.Apart.Count != 0 {
		t.Errorf("judged too early: %s", v)
	}
	y.x.rest()
	if v := y.verdict(); v.Apart.Count != 1 || !strings.Contains(v.String(), "could not be judged") {
		t.Errorf("passed over: %s", v)
	}
	y.x.checker.input.Ack(late, 4)
	y.x.judge(y.x.mark())
	y.x.rest()
	if v := y.verdict(); v.Apart.Count != 0 {
		t.Errorf("right in the end: %s", v)
	}
}

// TestTransactionsStaySmall: of those that have ended one byte is left for each
// partition.
func TestTransactionsStaySmall(t *testing.T) {
	y := newTape(1000)
	for i := range int16(500) {
		from := 2 * int64(i)
		y.whole(Producer{1, 2 * i}, from, from+2, false)
		y.whole(Producer{1, 2*i + 1}, from, from+2, true)
		y.verdict()
	}
	if v := y.verdict(); v.Committed != 500 || v.Aborted != 500 {
		t.Error(v)
	}
	x := y.x
	if n := len(x.open) + len(x.unsure) + len(x.balance.contents) + len(x.balance.queue); n != 0 {
		t.Errorf("%d things are kept of what has ended", n)
	}
	if len(x.places) != 3 || len(*x.places[place{out(0), 1}]) != 1000 {
		t.Errorf("kept %d places", len(x.places))
	}
}

// TestPartitionOfGroup holds it against Java: the hash of a group's name, its
// absolute value, and 0 for the one number that has none.
func TestPartitionOfGroup(t *testing.T) {
	for name, hash := range map[string]int32{
		"": 0, "g": 103, "bridge-group": 1506616123, "console-consumer": -648006740, "polygenelubricants": 0, // Integer.MIN_VALUE
	} {
		if got, want := partitionOfGroup(name, 50), max(hash, -hash)%50; got != want {
			t.Errorf("%q is in partition %d, want %d", name, got, want)
		}
	}
}
