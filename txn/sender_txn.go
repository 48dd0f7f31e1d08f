package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

// identity implements producer. The client finds the coordinator and asks it again after a lost answer: each request
// of this kind only fences once more.
func (s *sender) identity(ctx context.Context) (int64, int16, error) {
	s.mu.Lock()
	id, epoch, granted := s.producerID, s.producerEpoch, s.granted
	s.mu.Unlock()
	if granted {
		return id, epoch, nil
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	txnID := s.id.String()
	req.TransactionalID, req.TransactionTimeoutMillis = &txnID, int32(s.timeout.Milliseconds())
	req.ProducerID, req.ProducerEpoch = -1, -1
	var resp *kmsg.InitProducerIDResponse
	err := whileConcurrent(ctx, func() (err error) {
		if resp, err = req.RequestWith(ctx, s.cl); err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return -1, -1, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.producerID, s.producerEpoch, s.granted = resp.ProducerID, resp.ProducerEpoch, true
	return s.producerID, s.producerEpoch, nil
}

// begin implements producer: the broker opens the transaction with the first batch.
func (s *sender) begin() error { return nil }

// knows implements producer: a batch is in the transaction when it is acknowledged.
func (s *sender) knows(offsets.TopicPartition) bool { return true }

var errOldEnd = errors.New("the broker has answered EndTxn in a version that names no producer epoch: is transaction.version still 2?")

// end implements producer. The client asks again after a lost answer: to a repeated EndTxn of the same producer epoch
// the broker gives the same answer, and to one that comes late, into the next transaction, that its epoch is over.
func (s *sender) end(ctx context.Context, commit bool) error {
	s.mu.Lock()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = s.id.String(), s.producerID, s.producerEpoch, commit
	open, inTxn := s.open, s.inTxn
	s.mu.Unlock()
	if commit && (open > 0 || !inTxn) {
		return fmt.Errorf("%w: a commit with %d calls unanswered, something sent: %t", kerr.OperationNotAttempted, open, inTxn)
	}
	var resp *kmsg.EndTxnResponse
	err := whileConcurrent(ctx, func() (err error) {
		if resp, err = req.RequestWith(ctx, s.cl); err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return err
	}
	if resp.Version < 5 {
		return errOldEnd
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.producerID, s.producerEpoch, s.inTxn, s.reason = resp.ProducerID, resp.ProducerEpoch, false, nil
	for _, o := range s.outputs {
		o.sequence = 0 // numbers begin anew with each producer epoch
	}
	return nil
}

// whileConcurrent repeats a call while the broker still completes the transaction before.
func whileConcurrent(ctx context.Context, call func() error) error {
	for {
		err := call()
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		timer := time.NewTimer(retryPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w, after %w", context.Cause(ctx), err)
		case <-timer.C:
		}
	}
}
