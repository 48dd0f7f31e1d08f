package txn

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describing answers questions about the transactions of slot 0: the first ones with this state, those after them with
// the truth. It counts them. (kfake has no state between EndTxn and its markers.)
func (b *bed) describing(state string, first int) (asked func() int) {
	const id = group + ".me.0"
	n := 0
	b.ControlKey(int16(kmsg.DescribeTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if !slices.Contains(req.(*kmsg.DescribeTransactionsRequest).TransactionalIDs, id) {
			return nil, nil, false
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if n++; n > first {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		one := kmsg.NewDescribeTransactionsResponseTransactionState()
		one.TransactionalID, one.State = id, state
		resp.TransactionStates = append(resp.TransactionStates, one)
		return resp, nil, true
	})
	return func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return n
	}
}

// quick is a ring whose commits always follow each other quickly, and that has committed so many epochs.
func (b *bed) quick(keepBack time.Duration, epochs Epoch) *Ring {
	b.t.Helper()
	r := b.open()
	r.brisk, r.keepBack = time.Hour, keepBack
	for n := Epoch(1); n <= epochs; n++ {
		b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}, "x")
	}
	return r
}

// A slot that is soon needed again is free when the markers of its transaction are written.
func TestBeginWaitsForMarkers(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		asked := b.describing("PrepareCommit", 3)
		r := b.quick(time.Minute, 3) // the third is on the other slot, and not held up
		if err := r.Begin(b.ctx, 4); err != nil {
			t.Fatal(err)
		}
		if n := asked(); n != 4 {
			t.Errorf("begun after %d questions, the markers are written at the fourth", n)
		}
	})
}

// Not for longer than the broker itself would make it wait.
func TestMarkersAreNotWaitedForLong(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		asked := b.describing("PrepareCommit", 1<<30)
		b.quick(200*time.Millisecond, 6)
		if asked() == 0 {
			t.Error("nothing was asked")
		}
		b.expectPositions(6)
	})
}

// An answer that says nothing holds nothing up.
func TestMarkersThatCannotBeAskedFor(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		asked := b.describing("", 1<<30)
		r := b.quick(time.Minute, 3)
		if err := r.Begin(b.ctx, 4); err != nil || asked() != 1 {
			t.Errorf("begin: %v, after %d questions", err, asked())
		}
	})
}

// Close does not wait for markers.
func TestCloseWhileMarkersAreWaitedFor(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		b.describing("PrepareCommit", 1<<30)
		r := b.quick(time.Hour, 2)
		done := make(chan struct{})
		go func() { // ended by Close
			r.Close()
			close(done)
		}()
		b.await(done)
	})
}

// At ordinary intervals nothing is asked.
func TestMarkersAreThereInTime(t *testing.T) {
	onEach(t, func(t *testing.T, b *bed) {
		asked := b.describing("PrepareCommit", 1<<30)
		r := b.open()
		r.brisk = 0
		for n := Epoch(1); n <= 4; n++ {
			b.mustEpoch(r, Checkpoint{Epoch: n, Positions: at(int64(n)), Credential: outsider()}, "x")
		}
		if n := asked(); n > 0 {
			t.Errorf("asked %d times", n)
		}
	})
}
