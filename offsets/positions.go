package offsets

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// ErrBackwards says that a partition's position would step back. The error that wraps it names the partition
// and both offsets.
var ErrBackwards = errors.New("position steps back")

// TopicPartition names one partition of one topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String gives Kafka's usual spelling, topic-partition.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.FormatInt(int64(tp.Partition), 10)
}

// Compare orders by topic, then by partition number.
func (tp TopicPartition) Compare(other TopicPartition) int {
	return cmp.Or(cmp.Compare(tp.Topic, other.Topic), cmp.Compare(tp.Partition, other.Partition))
}

// Position is where reading of a partition goes on.
type Position struct {
	// Offset is the next offset to read: one past the last record that was taken in.
	Offset int64
	// LeaderEpoch is the leader epoch of that last record, -1 if it is not known. It is committed beside the
	// offset, so that the consumer that resumes there can tell a truncated log from a whole one (KIP-320).
	LeaderEpoch int32
}

// step says whether a position may follow another: forward or in place, never back, never before the log. From
// the zero Position any offset of a log can be reached.
func step(tp TopicPartition, from, to Position) error {
	if to.Offset < 0 || to.Offset < from.Offset {
		return fmt.Errorf("%w: %s from offset %d (leader epoch %d) to %d (leader epoch %d)",
			ErrBackwards, tp, from.Offset, from.LeaderEpoch, to.Offset, to.LeaderEpoch)
	}
	return nil
}

// Positions holds at most one position per partition.
type Positions map[TopicPartition]Position

// Merge takes over every position of newer. It is all or nothing: if one partition would step back, p is left
// as it was and the error wraps ErrBackwards. A position in place is no step back. p must not be nil unless
// newer is empty.
func (p Positions) Merge(newer Positions) error {
	var failed []TopicPartition
	for tp, to := range newer {
		if step(tp, p[tp], to) != nil {
			failed = append(failed, tp)
		}
	}
	if len(failed) > 0 {
		first := slices.MinFunc(failed, TopicPartition.Compare)
		return step(first, p[first], newer[first])
	}
	maps.Copy(p, newer)
	return nil
}

// Clone gives a copy that shares nothing with p. It is never nil.
func (p Positions) Clone() Positions {
	c := make(Positions, len(p))
	maps.Copy(c, p)
	return c
}

// Drop removes partitions; those that p does not hold are ignored.
func (p Positions) Drop(tps ...TopicPartition) {
	for _, tp := range tps {
		delete(p, tp)
	}
}

// Sorted lists the partitions by topic, then by number.
func (p Positions) Sorted() []TopicPartition {
	return slices.SortedFunc(maps.Keys(p), TopicPartition.Compare)
}

// topics gives the set of topics of which p holds at least one partition.
func (p Positions) topics() map[string]bool {
	set := make(map[string]bool)
	for tp := range p {
		set[tp.Topic] = true
	}
	return set
}
