package transform

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file holds every registered transform to the contract of the Transform interface,
// by itself and in a chain. A new transform is covered as soon as it is registered.

// subject is something under contract: made anew by every call of build.
type subject struct {
	name      string
	transform string // whose call it is, if it is a single one
	targets   []string
	build     func() Transform
}

// subjects returns every expression known to be good: the examples of all definitions and
// the chains of the goldens, and of every single call also the bare transform, because a
// chain would cover up that it alters the coordinates.
func subjects(t *testing.T) []subject {
	t.Helper()
	var exprs []string
	for _, d := range Definitions() {
		exprs = append(exprs, exampleOf(d))
	}
	for _, text := range goldenFiles(t) {
		for line := range strings.Lines(text) {
			if expr, isChain := strings.CutPrefix(line, "chain "); isChain {
				exprs = append(exprs, strings.TrimRight(expr, "\n"))
			}
		}
	}
	slices.Sort(exprs)
	var all []subject
	for _, expr := range slices.Compact(exprs) {
		spec, err := ParseWith(expr, outside())
		if err != nil {
			continue // a golden of an error
		}
		all = append(all, subject{"chain " + expr, "", spec.Targets(), func() Transform { return spec.New() }})
		if len(spec.stages) != 1 {
			continue
		}
		st := spec.stages[0]
		all = append(all, subject{"bare " + expr, st.name, spec.Targets(), func() Transform {
			bare, err := st.build(spec.outside)
			if err != nil {
				t.Fatal(err)
			}
			return bare
		}})
	}
	return all
}

// corpus returns the records of all goldens and random ones that use the same headers.
// Every slice has spare capacity with content, as a slice of a decoded batch has.
func corpus(t testing.TB) []Record {
	t.Helper()
	var records []Record
	seen := map[string]bool{}
	names := map[string]bool{"": true}
	values := map[string]bool{"": true}
	for _, text := range goldenFiles(t) {
		for line := range strings.Lines(text) {
			r, err := parseRecord(strings.TrimRight(line, "\n"))
			_, fields, _ := strings.Cut(line, " ")
			if err != nil || seen[fields] {
				continue // not the line of a record, or of one that only came from elsewhere
			}
			seen[fields] = true
			records = append(records, r)
			for _, h := range r.Headers {
				names[h.Key], values[string(h.Value)] = true, true
			}
		}
	}
	random := 200
	if racing {
		random = 10
	}
	records = append(records, randomRecords(sorted(names), sorted(values), random)...)
	for i := range records {
		records[i] = withSpareCapacity(records[i])
	}
	return records
}

// some are all cases without the race detector, and one of n with it: for tests that have one goroutine.
func some[T any](all []T, n int) []T {
	if !racing {
		return all
	}
	var kept []T
	for i := 0; i < len(all); i += n {
		kept = append(kept, all[i])
	}
	return kept
}

func sorted(set map[string]bool) []string {
	var all []string
	for s := range set {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

func randomRecords(names, values []string, count int) []Record {
	rng := rand.New(rand.NewPCG(1, 2))
	someBytes := func() []byte {
		switch rng.IntN(6) {
		case 0:
			return nil
		case 1:
			return []byte{}
		case 2:
			return []byte{0, 0xff, byte(rng.Uint32())}
		default:
			return []byte(fmt.Sprintf("text-%d", rng.IntN(50)))
		}
	}
	records := make([]Record, count)
	for i := range records {
		r := Record{
			Topic: "orders", Partition: rng.Int32N(4), Offset: int64(i),
			Key: someBytes(), Value: someBytes(), Timestamp: time.UnixMilli(rng.Int64N(1e12)),
		}
		for range rng.IntN(7) {
			h := Header{Key: names[rng.IntN(len(names))], Value: someBytes()}
			if rng.IntN(2) == 0 {
				h.Value = []byte(values[rng.IntN(len(values))])
			}
			r.Headers = append(r.Headers, h)
		}
		records[i] = r
	}
	return records
}

func withSpareCapacity(r Record) Record {
	extend := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		return append(slices.Clone(b), "the next record"...)[:len(b)]
	}
	r.Key, r.Value = extend(r.Key), extend(r.Value)
	if r.Headers == nil {
		return r
	}
	headers := append(slices.Clone(r.Headers), Header{"next", []byte("record")}, Header{"next", []byte("record")})
	for i := range headers {
		headers[i].Value = extend(headers[i].Value)
	}
	r.Headers = headers[:len(r.Headers)]
	return r
}

// snapshot copies a record and everything it points at, spare capacity included.
func snapshot(r Record) Record {
	full := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		return append([]byte{}, b[:cap(b)]...)
	}
	r.Key, r.Value = full(r.Key), full(r.Value)
	if r.Headers != nil {
		r.Headers = append([]Header{}, r.Headers[:cap(r.Headers)]...)
		for i := range r.Headers {
			r.Headers[i].Value = full(r.Headers[i].Value)
		}
	}
	return r
}

func snapshots(records []Record) []Record {
	copies := make([]Record, len(records))
	for i := range records {
		copies[i] = snapshot(records[i])
	}
	return copies
}

// applyOne gives what becomes of r, as a copy in text.
func applyOne(t *testing.T, tr Transform, r *Record) []string {
	t.Helper()
	out, err := tr.Apply(r, nil)
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	var lines []string
	for i := range out {
		lines = append(lines, fmt.Sprintf("%s/%d@%d %s", out[i].Topic, out[i].Partition, out[i].Offset, formatResult(&out[i])))
	}
	return lines
}

// refused reports whether a record was refused, which is within the contract. A panic is not.
func refused(t *testing.T, err error) bool {
	t.Helper()
	if _, panicked := errors.AsType[*PanicError](err); panicked {
		t.Fatal(err)
	}
	return err != nil
}

// outcome is what became of a record.
type outcome struct {
	records []Record
	fault   string
}

func outcomeOf(t *testing.T, tr Transform, r *Record) outcome {
	t.Helper()
	out, err := tr.Apply(r, nil)
	if refused(t, err) {
		return outcome{fault: err.Error()}
	}
	return outcome{records: out}
}

func (o outcome) String() string {
	if o.fault != "" {
		return "error: " + o.fault
	}
	var lines []string
	for i := range o.records {
		lines = append(lines, formatResult(&o.records[i]))
	}
	return strings.Join(lines, "\n")
}

func (o outcome) same(other outcome) bool {
	return o.fault == other.fault && slices.EqualFunc(o.records, other.records, sameRecord)
}

func TestContractDeterministic(t *testing.T) {
	records := some(corpus(t), 16)
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			first := make([]outcome, len(records))
			tr := s.build()
			for i := range records {
				first[i] = outcomeOf(t, tr, &records[i])
			}
			check := func(run string, tr Transform, i int) {
				t.Helper()
				if again := outcomeOf(t, tr, &records[i]); !again.same(first[i]) {
					t.Fatalf("%s: record %d became\n%+v and before\n%+v", run, i, again, first[i])
				}
			}
			fresh := s.build()
			for i := range records {
				check("another instance", fresh, i)
			}
			for i := range records {
				check("the first instance again", tr, i)
			}
			shuffled := s.build()
			for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(len(records)) {
				check("in another order", shuffled, i)
			}
			// The epochs of a replay end elsewhere, and each may begin on a new instance.
			for from := 0; from < len(records); {
				to := min(from+1+from%53, len(records))
				replayed := s.build()
				for i := from; i < to; i++ {
					check("cut into other epochs", replayed, i)
				}
				from = to
			}
		})
	}
}

// TestContractAccepts: a transform that refuses every record would pass the other tests.
func TestContractAccepts(t *testing.T) {
	records := corpus(t)
	accepts := map[string]bool{}
	for _, s := range subjects(t) {
		tr := s.build()
		accepts[s.transform] = accepts[s.transform] || slices.ContainsFunc(records, func(r Record) bool {
			_, err := tr.Apply(&r, nil)
			return err == nil && r.Value != nil
		})
	}
	for _, d := range Definitions() {
		if !accepts[d.Name] {
			t.Errorf("%s refuses every record of the goldens that has a value", d.Name)
		}
	}
}

func TestContractLeavesInputAlone(t *testing.T) {
	records := some(corpus(t), 16)
	before := snapshots(records)
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			tr := s.build()
			var out []Record
			for i := range records {
				out, _ = tr.Apply(&records[i], out[:0])
			}
			for i := range records {
				if after := snapshot(records[i]); !reflect.DeepEqual(after, before[i]) {
					t.Fatalf("record %d was altered:\n now %+v\n was %+v", i, after, before[i])
				}
			}
		})
	}
}

// TestContractResultsLast covers internal memory that is used again, results that hang on
// the caller's input variable, and results that share spare capacity with each other.
func TestContractResultsLast(t *testing.T) {
	records := some(corpus(t), 16)
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			tr := s.build()
			var kept, copies []Record
			var in Record
			for i := range records {
				in = records[i]
				out, err := tr.Apply(&in, nil)
				in = Record{}
				if refused(t, err) {
					continue
				}
				for _, r := range out {
					kept = append(kept, r)
					copies = append(copies, lengthOnly(r))
				}
			}
			for i := range kept {
				if now := lengthOnly(kept[i]); !reflect.DeepEqual(now, copies[i]) {
					t.Fatalf("result %d was overwritten:\n now %+v\n was %+v", i, now, copies[i])
				}
			}
		})
	}
}

// lengthOnly is a snapshot without the spare capacity, which is nobody's promise.
func lengthOnly(r Record) Record {
	r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = bytes.Clone(r.Headers[i].Value)
	}
	return r
}

func TestContractAppends(t *testing.T) {
	records := some(corpus(t), 16)
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			tr := s.build()
			var all []Record
			var want []string
			for i := range records {
				before := len(all)
				longer, err := tr.Apply(&records[i], all)
				if refused(t, err) {
					continue
				}
				all = longer
				if len(all) < before {
					t.Fatalf("record %d shortened the results from %d to %d", i, before, len(all))
				}
				for j := before; j < len(all); j++ {
					want = append(want, formatResult(&all[j]))
				}
			}
			for j := range all {
				if got := formatResult(&all[j]); got != want[j] {
					t.Fatalf("result %d changed to\n%s from\n%s", j, got, want[j])
				}
			}
		})
	}
}

func TestContractCoordinatesAndTargets(t *testing.T) {
	records := some(corpus(t), 16)
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			tr := s.build()
			for i := range records {
				in := &records[i]
				out, err := tr.Apply(in, nil)
				if refused(t, err) {
					continue
				}
				for _, r := range out {
					if r.Topic != in.Topic || r.Partition != in.Partition || r.Offset != in.Offset {
						t.Fatalf("%s/%d@%d came out as %s/%d@%d", in.Topic, in.Partition, in.Offset, r.Topic, r.Partition, r.Offset)
					}
					if r.Target != "" && !slices.Contains(s.targets, r.Target) {
						t.Fatalf("target %q is not among the announced %q", r.Target, s.targets)
					}
				}
			}
		})
	}
}
