package bridge

import (
	"fmt"

	"github.com/eosbridge/eosbridge/txn"
)

// Barrier ends an epoch in the stream of a lane: what came before it belongs to Epoch, what follows does not.
// Flink's CheckpointBarrier.
type Barrier struct{ Epoch txn.Epoch }

// Aligner decides when every lane has passed a barrier. It is pure: no goroutine, no clock, no Kafka.
//
// Invariants:
//  1. An epoch is aligned exactly once, and only when each of its lanes has passed its barrier or was dropped.
//  2. Epochs start in rising order; starting a newer one gives up an older one that is not aligned yet.
//  3. A barrier of an older epoch is ignored: its epoch was given up.
//  4. A lane that passes the same barrier twice, or one of an epoch that has not started, is a broken
//     invariant of the lanes and an error.
type Aligner struct {
	epoch   txn.Epoch
	waiting map[int]bool // lanes of epoch; true until the lane has passed
	left    int
}

// Start begins the alignment of an epoch over lanes. Without lanes it is aligned at once: an idle lane counts
// as aligned.
func (a *Aligner) Start(epoch txn.Epoch, lanes []int) (aligned bool, err error) {
	if epoch <= a.epoch {
		return false, fmt.Errorf("broken invariant: barrier of epoch %d after epoch %d", epoch, a.epoch)
	}
	a.epoch, a.left, a.waiting = epoch, len(lanes), make(map[int]bool, len(lanes))
	for _, lane := range lanes {
		a.waiting[lane] = true
	}
	if len(a.waiting) != a.left {
		return false, fmt.Errorf("broken invariant: epoch %d names a lane twice: %v", epoch, lanes)
	}
	return a.left == 0, nil
}

// Pass records that a lane has passed a barrier, and reports whether this aligned the epoch.
func (a *Aligner) Pass(lane int, b Barrier) (aligned bool, err error) {
	if b.Epoch < a.epoch {
		return false, nil
	}
	if b.Epoch > a.epoch {
		return false, fmt.Errorf("broken invariant: lane %d passed the barrier of epoch %d before it started (epoch %d is aligning)", lane, b.Epoch, a.epoch)
	}
	waits, known := a.waiting[lane]
	switch {
	case !known:
		return false, fmt.Errorf("broken invariant: lane %d is not part of epoch %d", lane, b.Epoch)
	case !waits:
		return false, fmt.Errorf("broken invariant: lane %d passed the barrier of epoch %d twice", lane, b.Epoch)
	}
	a.waiting[lane] = false
	a.left--
	return a.left == 0, nil
}

// Drop takes a lane out, as when its last partition was revoked, and reports whether this aligned the epoch.
func (a *Aligner) Drop(lane int) (aligned bool) {
	if !a.waiting[lane] {
		return false
	}
	a.waiting[lane] = false
	a.left--
	return a.left == 0
}
