package audit

import (
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// deadLetter makes the dead letter of a source record.
func deadLetter(r *kgo.Record, offset int64, group string) *kgo.Record {
	l := to("dlq", 0, r)
	l.Headers = append(append([]kgo.RecordHeader{}, r.Headers...),
		kgo.RecordHeader{Key: letterTopic, Value: []byte(r.Topic)},
		kgo.RecordHeader{Key: letterPartition, Value: []byte(strconv.Itoa(int(r.Partition)))},
		kgo.RecordHeader{Key: letterOffset, Value: strconv.AppendInt(nil, offset, 10)},
		kgo.RecordHeader{Key: "eosbridge.dlq.class", Value: []byte("transform")},
		kgo.RecordHeader{Key: letterGroup, Value: []byte(group)},
	)
	return l
}

// TestDeadLetters: a record is in the output or has a dead letter; both, neither, two or another one are faults.
func TestDeadLetters(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(out, letters map[int64]*kgo.Record)
		more   []*kgo.Record // dead letters
		want   map[Kind]int64
	}{
		"exact":   {},
		"neither": {change: func(out, _ map[int64]*kgo.Record) { delete(out, 7) }, want: map[Kind]int64{Missing: 1}},
		"a letter is lost": {
			change: func(_, letters map[int64]*kgo.Record) { delete(letters, 10) }, want: map[Kind]int64{Missing: 1},
		},
		"altered": {
			change: func(_, letters map[int64]*kgo.Record) { letters[20].Value = []byte("x") }, want: map[Kind]int64{Altered: 1},
		},
		"twice":            {more: []*kgo.Record{deadLetter(odd("in", 0, 31)[30], 30, "g")}, want: map[Kind]int64{Duplicated: 1}},
		"another pipeline": {more: []*kgo.Record{deadLetter(odd("in", 0, 31)[29], 29, "other"), {Topic: "dlq", Value: []byte("no letter")}}},
	} {
		for _, provenance := range []bool{false, true} {
			t.Run(name+", provenance "+strconv.FormatBool(provenance), func(t *testing.T) {
				s := newStand(t, kfake.SeedTopics(1, "in", "out", "dlq"))
				s.o.DLQ, s.o.Provenance, s.o.Identity, s.o.Every = "dlq", provenance, !provenance, true
				records := odd("in", 0, 100)
				s.write(records...)
				out, letters := map[int64]*kgo.Record{}, map[int64]*kgo.Record{}
				for i, r := range records {
					if i%10 == 0 {
						letters[int64(i)] = deadLetter(r, int64(i), "g")
						continue
					}
					out[int64(i)] = to("out", 0, r)
					if provenance {
						marked(out[int64(i)], "in", 0, int64(i), "1/1")
					}
				}
				if tc.change != nil {
					tc.change(out, letters)
				}
				for i := range int64(100) {
					for _, r := range []*kgo.Record{out[i], letters[i]} {
						if r != nil {
							s.write(r)
						}
					}
				}
				for _, r := range tc.more {
					other := *r // the client writes to a record, and the other provenance has the same
					s.write(&other)
				}
				s.commit("in", 0, 100)
				verdict := Pass
				if tc.want != nil {
					verdict = Faulty
				}
				r := s.expect(verdict, tc.want)
				if name == "exact" && (r.Sources[0].DeadLetters != 10 || r.Sources[0].Records != 90 || r.Sources[0].Verified != 100) {
					t.Errorf("%+v", r.Sources[0])
				}
			})
		}
	}
}

// TestDeadLetterAndOutput: a record that is in both is a fault by content and by provenance.
func TestDeadLetterAndOutput(t *testing.T) {
	for provenance, kind := range map[bool]Kind{false: Orphaned, true: Duplicated} {
		t.Run("provenance "+strconv.FormatBool(provenance), func(t *testing.T) {
			s := newStand(t, kfake.SeedTopics(1, "in", "out", "dlq"))
			s.o.DLQ, s.o.Provenance, s.o.Identity = "dlq", provenance, !provenance
			records := odd("in", 0, 20)
			s.write(records...)
			for i, r := range records {
				c := to("out", 0, r)
				if provenance {
					marked(c, "in", 0, int64(i), "1/1")
				}
				s.write(c)
			}
			s.write(deadLetter(records[5], 5, "g"))
			s.commit("in", 0, 20)
			s.expect(Faulty, map[Kind]int64{kind: 1})
		})
	}
}

// TestDeadLettersUnknown: what retention has deleted of the dead letters, or a transaction hides, is not taken for lost.
func TestDeadLettersUnknown(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "in", "out", "dlq"))
	s.o.DLQ = "dlq"
	records := odd("in", 0, 20)
	s.write(records...)
	for i, r := range records {
		if i == 5 || i == 6 {
			s.write(deadLetter(r, int64(i), "g"))
			continue
		}
		s.write(to("out", 0, r))
	}
	s.commit("in", 0, 20)
	s.expect(Pass, nil)
	if err := s.DeleteRecords("dlq", 0, 1); err != nil {
		t.Fatal(err)
	}
	s.expect(CannotTell, nil)
}
