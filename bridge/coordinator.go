package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
	"github.com/eosbridge/eosbridge/txn"
)

// coordinate leads each epoch from its barrier to the committer, one after the other, and opens the gates.
//
// Exactly-once: the gate of n+1 opens when n is flushed (the outputs of n precede those of n+1 in every
// partition) and the slot of n+1 is free, which is when n-1 has ended. Until then lanes transform on and hold
// their outputs; no barrier follows meanwhile, so the running epoch is stretched rather than stopped.
//
// At-least-once: the gate of n+1 opens with the barrier of n; nothing waits for anything but the commit. An epoch of one
// input, see isolation, is led as with exactly-once.
// At-most-once: the gate of n opens when the positions of n are committed.
//
// It ends when the source has sent its last barrier, or with the session; the session waits for it.
func (s *session) coordinate(first *epoch) error {
	defer close(s.commits)
	if err := s.begin(s.ctx, first); err != nil {
		return err
	}
	for {
		var e *epoch
		select {
		case <-s.ctx.Done():
			return nil
		case next, ok := <-s.barriers:
			if !ok {
				return nil
			}
			e = next
		}
		deadline, cancel := s.deadline(e)
		err := s.lead(deadline, e)
		cancel()
		if err != nil {
			if !e.claimed.Swap(true) { // else it is being committed, and something else has failed
				s.ended(e, txn.Steps{}, err)
			}
			return err
		}
	}
}

// begin opens the first gates.
func (s *session) begin(ctx context.Context, first *epoch) error {
	close(first.closable)
	if s.opts.Delivery == AtMostOnce {
		return nil
	}
	return s.openGate(ctx, first)
}

// allow lets a barrier follow; the source may be waiting for that.
func (s *session) allow(e *epoch) {
	close(e.closable)
	s.wake.now()
}

func (s *session) openGate(ctx context.Context, e *epoch) error {
	if err := s.sink.Begin(ctx, e.n); err != nil {
		return err
	}
	close(e.gate)
	crashpoint.At("epoch: gate opened")
	return nil
}

// deadline bounds an epoch from its barrier on. It is not the context of a signal, for a cancelled EndTxn
// leaves its outcome unknown; a failing session cancels only what has not begun to commit.
func (s *session) deadline(e *epoch) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(s.ctx, e.triggered.Add(s.opts.EpochTimeout),
		fmt.Errorf("%w: epoch %d exceeded the epoch timeout of %s", txn.ErrAborted, e.n, s.opts.EpochTimeout))
}

func (s *session) lead(ctx context.Context, e *epoch) error {
	switch s.opts.Delivery {
	case AtLeastOnce:
		return s.leadAtLeastOnce(ctx, e)
	case AtMostOnce:
		return s.leadAtMostOnce(ctx, e)
	case ExactlyOnce:
		return s.leadExactlyOnce(ctx, e)
	default:
		return txn.Fatalf(txn.StatusConfig, "unknown delivery guarantee %q", s.opts.Delivery)
	}
}

func (s *session) leadExactlyOnce(ctx context.Context, e *epoch) error {
	if err := s.align(ctx, e); err != nil {
		return err
	}
	if err := s.queue(ctx, e); err != nil { // its positions may go out beside the flush
		return err
	}
	if err := s.flush(ctx, e); err != nil {
		return err
	}
	if err := s.openGate(s.ctx, e.next); err != nil {
		return err
	}
	s.allow(e.next)
	return nil
}

func (s *session) leadAtLeastOnce(ctx context.Context, e *epoch) error {
	if e.alone { // no output of the next epoch may be in its batches
		return s.leadExactlyOnce(ctx, e)
	}
	if err := s.openGate(ctx, e.next); err != nil {
		return err
	}
	if err := s.align(ctx, e); err != nil {
		return err
	}
	s.allow(e.next)
	if err := s.flush(ctx, e); err != nil {
		return err
	}
	return s.queue(ctx, e)
}

func (s *session) leadAtMostOnce(ctx context.Context, e *epoch) error {
	if err := s.align(ctx, e); err != nil {
		return err
	}
	if err := s.flushLast(ctx, e.n-1); err != nil {
		return err
	}
	if err := s.queue(ctx, e); err != nil {
		return err
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.openGate(ctx, e); err != nil {
		return err
	}
	s.allow(e.next)
	return nil
}

// flushLast waits for the outputs of an at-most-once epoch, whose positions are committed already: what fails
// here is lost, as promised, but memory stays bounded.
func (s *session) flushLast(ctx context.Context, n txn.Epoch) error {
	if n == s.begun {
		return nil // nothing was begun before the session's first epoch
	}
	return s.sink.PreCommit(ctx, n)
}

// align waits until every lane of the epoch has passed its barrier, and gathers their positions.
func (s *session) align(ctx context.Context, e *epoch) error {
	lanes := make([]int, 0, len(e.lanes))
	for lane := range e.lanes {
		lanes = append(lanes, lane)
	}
	aligned, err := s.aligner.Start(e.n, lanes)
	for err == nil && !aligned {
		select {
		case p := <-s.passes:
			if aligned, err = s.aligner.Pass(p.lane, p.barrier); err == nil {
				err = e.positions.Merge(p.positions)
			}
		case <-ctx.Done():
			return fmt.Errorf("align: %w", context.Cause(ctx))
		}
	}
	if err != nil {
		return &txn.FatalError{Status: txn.StatusBroken, Err: err}
	}
	crashpoint.At("epoch: aligned")
	e.aligned = time.Now()
	s.log.Debug("epoch aligned", "epoch", e.n, "elapsed", e.aligned.Sub(e.triggered))
	return nil
}

func (s *session) flush(ctx context.Context, e *epoch) error {
	defer close(e.flushing)
	if e.flushErr = s.overdue(ctx, e, s.sink.PreCommit(ctx, e.n)); e.flushErr != nil {
		return e.flushErr
	}
	e.flushed = time.Now()
	s.log.Debug("epoch flushed", "epoch", e.n, "elapsed", e.flushed.Sub(e.triggered))
	return nil
}

func (s *session) queue(ctx context.Context, e *epoch) error {
	select {
	case s.commits <- e:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// commit is the one serial committer: TxnOffsetCommit(n), the end of the flush of n, EndTxn(n), then n+1. It also settles
// positions that no transaction carries. It ends when the coordinator has queued its last epoch, or with a failure.
func (s *session) commit() error {
	idle := time.NewTicker(settleAfter / 2)
	defer idle.Stop()
	var carried time.Time // the last time that an epoch was
	for {
		select {
		case <-s.ctx.Done():
			return nil
		case <-idle.C:
			if err := s.settle(settleAfter); err != nil {
				return err
			}
			if time.Since(carried) > 2*settleAfter { // nothing is left: an idle process has no clock that ticks for it
				idle.Stop()
			}
		case e, ok := <-s.commits:
			if !ok {
				if s.ctx.Err() != nil {
					return nil
				}
				err := s.settle(0)
				crashpoint.At("stop: last commit")
				return err
			}
			if e.claimed.Swap(true) {
				return nil // the coordinator has failed and given it up
			}
			if err := s.prepare(e); err != nil {
				return err
			}
			if err := s.commitEpoch(e); err != nil {
				return err
			}
			if s.carried.Load() == int64(e.n) {
				if time.Since(carried) > settleAfter { // it may have stopped
					idle.Reset(settleAfter / 2)
				}
				carried = time.Now()
			}
		}
	}
}

// prepare sends the positions of an epoch, which may be while its outputs are on their way, and waits for the flush. The
// epoch before has ended, for the committer is serial. Of two failures the first one says how the epoch ended.
func (s *session) prepare(e *epoch) error {
	if s.opts.Delivery == AtMostOnce { // it has no outputs yet
		return nil
	}
	ctx, cancel := s.committing(e)
	defer cancel()
	// A failing session takes the flush with it. Positions alone are good for nothing, so nobody waits for them.
	stop := context.AfterFunc(s.ctx, func() {
		if !closed(e.flushing) || e.flushErr != nil {
			cancel()
		}
	})
	defer stop()
	steps, err := s.sink.SendOffsets(ctx, e.checkpoint())
	err = s.overdue(ctx, e, err)
	if err == nil || closed(e.flushing) && e.flushErr != nil {
		<-e.flushing
		err = e.flushErr
	} else {
		s.fail(err) // which ends the flush
		<-e.flushing
	}
	if err != nil {
		s.ended(e, steps, err)
	}
	return err
}

// committing bounds a commit. It outlives a failing session: cutting it off would only make its outcome unknown. That
// happens only when a stop may take no longer.
func (s *session) committing(e *epoch) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(s.late, e.triggered.Add(s.opts.EpochTimeout),
		fmt.Errorf("%w: commit of epoch %d exceeded the epoch timeout of %s", txn.ErrInDoubt, e.n, s.opts.EpochTimeout))
}

// overdue says of an error that comes from an epoch's deadline which one that is: "context deadline exceeded" names no
// setting.
func (s *session) overdue(ctx context.Context, e *epoch, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: epoch %d has taken longer than BRIDGE_EPOCH_TIMEOUT (%s)", err, e.n, s.opts.EpochTimeout)
	}
	return err
}

func (s *session) commitEpoch(e *epoch) error {
	ctx, cancel := s.committing(e)
	defer cancel()
	steps, err := s.sink.Commit(ctx, e.checkpoint())
	err = s.overdue(ctx, e, err)
	s.ended(e, steps, err)
	if err != nil {
		return err
	}
	if !steps.Carried {
		s.refusals.committed(e.positions, e.recordsOut.Load() > e.lettersOut.Load())
	}
	now := time.Now()
	s.lastEnd.Store(&now)
	close(e.done)
	s.flight.end()
	return nil
}

// settle commits carried positions outside a transaction. Every epoch they stem from has ended, for the
// committer is serial.
func (s *session) settle(olderThan time.Duration) error {
	ctx, cancel := context.WithTimeout(s.late, s.opts.EpochTimeout)
	defer cancel()
	committed, err := s.sink.Settle(ctx, olderThan)
	if committed {
		s.board.committed(txn.Epoch(s.carried.Load()))
	}
	return err
}

// ended records what became of an epoch.
func (s *session) ended(e *epoch, steps txn.Steps, err error) {
	summary := e.summary(steps, err)
	s.history.add(summary)
	s.metrics.epoch(summary)
	if s.opts.Ended != nil {
		s.opts.Ended(summary)
	}
	if err != nil {
		s.log.Warn("epoch aborted", "epoch", e.n, "class", summary.Class, "err", err)
		return
	}
	s.board.letters.Add(summary.DeadLetters)
	s.board.written.Add(summary.RecordsOut)
	if steps.Carried {
		s.carried.Store(int64(e.n))
	} else {
		s.board.committed(e.n)
	}
	s.log.Debug("epoch committed", "epoch", e.n, "outcome", summary.Outcome, "trigger", e.trigger,
		"records_in", summary.RecordsIn, "records_out", summary.RecordsOut, "elapsed", summary.Committed)
}
