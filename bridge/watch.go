package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// watch looks after what no record drives: the age of open transactions, dangling ids of others, lag, topics
// that are made anew, and the end of a run --until-end. Nothing waits for it, and it ends with ctx.
func (s *session) watch(ctx context.Context) {
	every := ageSoon
	age := time.NewTicker(every)
	defer age.Stop()
	slow := time.NewTicker(10 * time.Second)
	defer slow.Stop()
	var end <-chan time.Time
	if s.targets != nil {
		t := time.NewTicker(250 * time.Millisecond)
		defer t.Stop()
		end = t.C
	}
	swept := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-age.C:
			s.watchAge()
			if s.sweepDue(&swept) {
				s.sweep(ctx)
			}
			if pause := s.agePause(swept); pause != every {
				every = pause
				age.Reset(every)
			}
		case <-end:
			s.watchEnd(ctx)
		case <-slow.C:
			s.watchTopics(ctx)
		}
	}
}

// The time between two looks at ages. Nothing ages while nothing is open, and then the longer one only has to notice in
// time that this has changed: see agePause.
const (
	ageSoon  = 200 * time.Millisecond
	ageLater = 2 * time.Second
)

// agePause is the time until the next look. What is noticed late by it is well within what watchAge leaves of the epoch
// timeout.
func (s *session) agePause(swept bool) time.Duration {
	_, open := s.sink.OpenSince()
	if open || s.gained.Load() != nil || !swept && s.opts.Delivery == ExactlyOnce {
		return ageSoon
	}
	return min(max(s.opts.EpochTimeout/8, ageSoon), ageLater)
}

// watchAge fails what gets too old without an epoch that would: a lane that hangs with a full queue holds up the
// source, which then sends no barrier. A transaction fails before the broker's timeout ends it.
func (s *session) watchAge() {
	since, open := s.sink.OpenSince()
	if !open {
		since = time.Time{}
	}
	s.board.openTxn(since)
	limit := s.opts.TxnTimeout - s.opts.EpochTimeout/2
	switch {
	case open && time.Since(since) > limit:
		s.fail(fmt.Errorf("%w: a transaction is open for more than %s, close to BRIDGE_TXN_TIMEOUT=%s: a lane or the broker hangs",
			txn.ErrAborted, limit, s.opts.TxnTimeout))
	case s.board.sinceProgress() > limit && s.board.snapshot().State == StateRunning:
		s.fail(fmt.Errorf("%w: a lane has taken nothing for more than %s", txn.ErrAborted, limit))
	}
}

// sweepDue holds once after we joined, and when gained partitions wait for stable positions for over 2 s.
func (s *session) sweepDue(swept *bool) bool {
	if s.opts.Delivery != ExactlyOnce || s.board.snapshot().State != StateRunning {
		return false
	}
	if !*swept {
		*swept = true
		return true
	}
	at, now := s.gained.Load(), time.Now()
	return at != nil && now.Sub(*at) > 2*time.Second && s.gained.CompareAndSwap(at, &now)
}

func (s *session) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.EpochTimeout)
	defer cancel()
	_, err := txn.Sweep(ctx, s.admin, s.client, txn.SweepOptions{
		Prefix: s.opts.Prefix, Self: s.opts.Instance, Group: s.opts.Group,
		OwnSlots:  []string{txn.ID{Prefix: s.opts.Prefix, Instance: s.opts.Instance, Slot: 0}.String(), txn.ID{Prefix: s.opts.Prefix, Instance: s.opts.Instance, Slot: 1}.String()},
		OlderThan: 2 * s.opts.EpochTimeout, TxnTimeout: s.opts.TxnTimeout, Logger: s.log,
	})
	if err != nil && ctx.Err() == nil {
		s.log.Debug("sweep of dangling transactions failed", "err", err)
	}
}

// watchTopics reads the lag and looks whether an input topic was made anew.
func (s *session) watchTopics(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.EpochTimeout)
	defer cancel()
	names := slices.Sorted(maps.Keys(s.assigned.partitions()))
	if len(names) == 0 {
		return
	}
	topics, err := s.admin.ListTopics(ctx, names...)
	if s.ctx.Err() == nil {
		s.board.looked(err)
	}
	if err != nil {
		s.log.Debug("input topics not looked at", "err", err)
		return
	}
	for name, d := range topics {
		if errors.Is(d.Err, kerr.UnknownTopicOrPartition) && s.opts.Pattern == nil {
			if s.missing++; s.missing > 1 { // once may be a broker that starts
				s.fail(txn.Fatalf(txn.StatusFailure, "input topic %s was deleted while it was read (BRIDGE_INPUT_TOPICS): take it off the list, or create it, then start again", name))
			}
			return
		}
	}
	s.missing = 0
	if err := s.sameTopics(topics); err != nil {
		s.fail(err)
		return
	}
	lags, err := offsets.Lags(ctx, s.admin, s.opts.Group, names)
	if err != nil {
		s.log.Debug("lag not read", "err", err)
		return
	}
	s.board.lag(lags)
}

// watchEnd ends a run --until-end when the group has committed everything that was there at the start.
func (s *session) watchEnd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.EpochTimeout)
	defer cancel()
	topics := map[string]bool{}
	for tp := range s.targets {
		topics[tp.Topic] = true
	}
	lags, err := offsets.Lags(ctx, s.admin, s.opts.Group, slices.Sorted(maps.Keys(topics)))
	if err != nil {
		s.log.Debug("positions not read", "err", err)
		return
	}
	for _, l := range lags {
		if end := s.targets[l.TopicPartition]; l.Committed < end.Offset && end.Offset > l.LogStart {
			return
		}
	}
	s.log.Info("the end of the input is committed")
	s.end()
}
