package bridge

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// witness reads the output as read_committed from its first record on, all the time, and compares each record with
// the one that must come next: nothing twice, nothing left out, nothing moved, nothing changed.
type witness struct {
	mu     sync.Mutex
	fed    map[int32]int64    // records of the input
	want   map[int32][]string // texts, in order
	after  map[int32][]int64  // position of the input behind each of them
	seen   map[int32]int
	broken string // the first difference
}

func newWitness() *witness {
	return &witness{fed: map[int32]int64{}, want: map[int32][]string{}, after: map[int32][]int64{}, seen: map[int32]int{}}
}

// witness reads a topic until the test ends.
func (w *world) witness(topic string) *witness {
	w.t.Helper()
	s, from := newWitness(), map[int32]kgo.Offset{}
	for _, p := range w.PartitionInfos(topic) {
		from[p.Partition] = kgo.NewOffset().At(0)
	}
	cl := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	go func() { // ends with the client
		for {
			fetches := cl.PollFetches(w.t.Context())
			if fetches.IsClientClosed() || w.t.Context().Err() != nil {
				return
			}
			fetches.EachRecord(s.see)
		}
	}()
	return s
}

// expect notes a record that is about to be written to the input.
func (s *witness) expect(r *kgo.Record, kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fed[r.Partition]++
	if kept {
		s.want[r.Partition] = append(s.want[r.Partition], text(r))
		s.after[r.Partition] = append(s.after[r.Partition], s.fed[r.Partition])
	}
}

func (s *witness) see(r *kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, got := s.seen[r.Partition], text(r)
	s.seen[r.Partition]++
	switch want := s.want[r.Partition]; {
	case s.broken != "", n < len(want) && want[n] == got:
	case slices.Contains(want[:min(n, len(want))], got):
		s.broken = fmt.Sprintf("partition %d: %s came twice, again after %d records", r.Partition, got, n)
	case n >= len(want):
		s.broken = fmt.Sprintf("partition %d: %s is one too many after %d", r.Partition, got, n)
	default:
		s.broken = fmt.Sprintf("partition %d: record %d is %s, want %s", r.Partition, n, got, want[n])
	}
}

// whole waits until all of the input is visible and committed, and answers what is not.
func (s *witness) whole(w *world) []string {
	return s.await(w, func(p int32) string {
		return s.difference(p, len(s.want[p]), w.committed("g", "in", p), s.fed[p])
	})
}

// asCommitted waits until what is visible is what the positions say, and answers what differs.
func (s *witness) asCommitted(w *world) []string {
	return s.await(w, func(p int32) string {
		committed := w.committed("g", "in", p)
		n, _ := slices.BinarySearch(s.after[p], committed+1)
		return s.difference(p, n, committed, committed)
	})
}

// difference compares a partition.
func (s *witness) difference(p int32, want int, committed, wantCommitted int64) string {
	if s.seen[p] == want && committed == wantCommitted {
		return ""
	}
	return fmt.Sprintf("partition %d: %d records are visible, want %d; position %d, want %d", p, s.seen[p], want, committed, wantCommitted)
}

func (s *witness) await(w *world, difference func(p int32) string) []string {
	look := func() (all []string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.broken != "" {
			return []string{s.broken}
		}
		for p := range s.fed {
			if d := difference(p); d != "" {
				all = append(all, d)
			}
		}
		return all
	}
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		if len(look()) == 0 {
			return nil
		}
		w.pass(50 * time.Millisecond)
	}
	return look()
}

// TestWitness: each kind of fault in what is read is seen, at once.
func TestWitness(t *testing.T) {
	t.Parallel()
	record := func(n int) *kgo.Record { return &kgo.Record{Key: fmt.Append(nil, n), Value: []byte("v")} }
	for name, tc := range map[string]struct {
		read   []int
		broken string
	}{
		"exact":       {[]int{0, 1, 2, 3}, ""},
		"so far":      {[]int{0, 1}, ""},
		"twice":       {[]int{0, 1, 1}, "came twice"},
		"twice later": {[]int{0, 1, 2, 0}, "came twice"},
		"all twice":   {[]int{0, 1, 2, 3, 3}, "came twice"},
		"left out":    {[]int{0, 2}, "record 1 is"},
		"swapped":     {[]int{1, 0}, "record 0 is"},
		"foreign":     {[]int{0, 1, 2, 3, 4}, "one too many"},
		"changed":     {[]int{0, 7}, "record 1 is"},
	} {
		s := newWitness()
		for n := range 4 {
			s.expect(record(n), true)
		}
		for _, n := range tc.read {
			s.see(record(n))
		}
		if (s.broken == "") != (tc.broken == "") || !strings.Contains(s.broken, tc.broken) {
			t.Errorf("%s: %q, want %q", name, s.broken, tc.broken)
		}
	}
	s := newWitness()
	for n := range 4 {
		s.expect(record(n), n%2 == 0)
	}
	s.see(record(0))
	for _, tc := range []struct {
		want                     int
		committed, wantCommitted int64
		ok                       bool
	}{{1, 2, 2, true}, {2, 2, 2, false}, {1, 1, 2, false}} {
		if d := s.difference(0, tc.want, tc.committed, tc.wantCommitted); (d == "") != tc.ok {
			t.Errorf("%+v: %q", tc, d)
		}
	}
}
