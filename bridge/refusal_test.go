package bridge

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
)

// TestRefusals: what is remembered of refused records, and for how long.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var r refusals
	tp := tpOf("in", 1)
	if _, ok := r.verdict(tp, 5); ok || len(r.hint()) != 0 {
		t.Fatal("something is known of nothing")
	}
	r.suspect(tp, span{10, 20})
	r.suspect(tp, span{30, 40}) // behind it
	r.suspect(tpOf("in", 2), span{5, 5})
	if got := r.hint(); len(got) != 2 || got[tp] != (span{10, 20}) {
		t.Errorf("hint %v", got)
	}
	if err := r.condemn(tpOf("in", 2), 5, failure{class: failedRefused}); err != nil {
		t.Fatal(err)
	}
	if got := r.hint(); len(got) != 1 {
		t.Errorf("the only suspect has its verdict: hint %v", got)
	}
	if f, ok := r.verdict(tpOf("in", 2), 5); !ok || f.class != failedRefused {
		t.Errorf("verdict %v %t", f, ok)
	}
	r.committed(offsets.Positions{tp: {Offset: 20}, tpOf("in", 2): {Offset: 5}}, true)
	if _, ok := r.verdict(tpOf("in", 2), 5); !ok || len(r.hint()) != 1 {
		t.Error("forgotten at the position, not behind it")
	}
	r.committed(offsets.Positions{tp: {Offset: 21}, tpOf("in", 2): {Offset: 6}}, false)
	if _, ok := r.verdict(tpOf("in", 2), 5); ok || len(r.hint()) != 0 || r.known.Load() != 0 {
		t.Error("remembered behind the position")
	}
	r.limit = 2
	var last error
	for i := range int64(4) {
		last = r.condemn(tp, 100+i, failure{class: failedRefused, err: errors.New("test")})
		if (last != nil) != (i >= 2) {
			t.Errorf("condemned %d: %v", i+1, last)
		}
	}
}

// TestRefusedSpan: which inputs a refused batch may have had.
func TestRefusedSpan(t *testing.T) {
	t.Parallel()
	record := func(offset int64) *kgo.Record { return &kgo.Record{Value: make([]byte, 100), Offset: offset} }
	p := &piece{
		records: []*kgo.Record{record(0), record(1), record(-1), record(-1), record(7), record(-1), record(-1)},
		source:  []int64{10, 11, 12, 12, 13, 14, 15},
	}
	if got := p.refusedSpan(1000); got != (span{12, 15}) {
		t.Errorf("span %v", got)
	}
	if got := p.refusedSpan(batchHeader + 300); got != (span{12, 14}) {
		t.Errorf("span of a batch of three %v", got)
	}
	if got := p.refusedSpan(10); got != (span{12, 12}) {
		t.Errorf("span of a batch of one %v", got)
	}
}
