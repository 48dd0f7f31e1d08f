package offsets

// Tracker holds the positions of one lane between two barriers. It belongs to the lane's goroutine and is not
// safe for use by another.
//
// Advance is called for every record, so it costs one map lookup and allocates only when it sees a partition
// for the first time.
type Tracker struct {
	parts   map[TopicPartition]*tracked
	changed []*tracked // in the order of their first change since the last Cut
}

// tracked is one partition's entry. dirty says that the entry is listed in changed.
type tracked struct {
	tp    TopicPartition
	at    Position
	dirty bool
}

// NewTracker gives a tracker that knows no partition.
func NewTracker() *Tracker {
	return &Tracker{parts: make(map[TopicPartition]*tracked)}
}

// Advance says that everything of the partition below to.Offset was taken in. The first position of a partition
// may be any offset from 0 on; later ones may repeat or leave gaps but not step back (ErrBackwards, and the
// tracker stays as it was). A repeated position is no change.
func (t *Tracker) Advance(tp TopicPartition, to Position) error {
	part, known := t.parts[tp]
	if !known {
		if err := step(tp, Position{}, to); err != nil {
			return err
		}
		part = &tracked{tp: tp}
		t.parts[tp] = part
	} else if err := step(tp, part.at, to); err != nil {
		return err
	} else if part.at == to {
		return nil
	}
	part.at = to
	if !part.dirty {
		part.dirty = true
		t.changed = append(t.changed, part)
	}
	return nil
}

// Cut gives the partitions that changed since the last Cut, each with its newest position, or nil if none did.
// The caller owns the result. The tracker goes on knowing the positions.
func (t *Tracker) Cut() Positions {
	var cut Positions
	for _, part := range t.changed {
		// An entry that was forgotten after its change is no longer dirty.
		if !part.dirty {
			continue
		}
		if cut == nil {
			cut = make(Positions, len(t.changed))
		}
		cut[part.tp] = part.at
		part.dirty = false
	}
	clear(t.changed)
	t.changed = t.changed[:0]
	return cut
}

// Forget drops a partition with all that was not cut yet: it was revoked or lost. If it comes back, it may start
// at any offset, for another member may have committed less than we had read.
func (t *Tracker) Forget(tp TopicPartition) {
	if part, known := t.parts[tp]; known {
		part.dirty = false
		delete(t.parts, tp)
	}
}
