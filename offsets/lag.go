package offsets

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Lag is how far a group is behind in one partition. All numbers are offsets or differences of offsets, so they
// count transaction markers and compacted records too.
type Lag struct {
	TopicPartition
	// Committed is the group's position, -1 if it has none.
	Committed int64
	// LastStable is the last stable offset: where a read_committed reader has to stop for now. Measured to the
	// end of the log instead, a group behind an open transaction of somebody else would look slow.
	LastStable int64
	// End is the high watermark, never before LastStable: what lies between the two belongs to open transactions, or
	// is behind them.
	End int64
	// LogStart is the first offset that the log still holds.
	LogStart int64
	// Lag is what is left to read up to LastStable, never negative; without a position, or with one that
	// retention has overtaken, it counts from LogStart.
	Lag int64
}

// String says everything; without it the embedded TopicPartition would speak for the whole.
func (l Lag) String() string {
	return fmt.Sprintf("%s: lag %d (committed %d, last stable %d, end %d, log start %d)", l.TopicPartition, l.Lag, l.Committed, l.LastStable, l.End, l.LogStart)
}

// Lags gives the lag of the group in every partition of the topics, ordered by topic and partition. Positions are
// read without "require stable": it shows what is committed and never waits for a transaction. The numbers of one
// partition are read one after another, so under load they may be off by what happened in between.
func Lags(ctx context.Context, adm *kadm.Client, group string, topics []string) ([]Lag, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	// Positions first: what is read later can only be further on, so an idle group never shows a false lag of 0.
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("lag of group %q, positions: %w", group, err)
	}
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err := checkListed(starts, err, topics); err != nil {
		return nil, fmt.Errorf("lag of group %q, log starts: %w", group, err)
	}
	stable, err := adm.ListCommittedOffsets(ctx, topics...)
	if err := checkListed(stable, err, topics); err != nil {
		return nil, fmt.Errorf("lag of group %q, last stable offsets: %w", group, err)
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err := checkListed(ends, err, topics); err != nil {
		return nil, fmt.Errorf("lag of group %q, log ends: %w", group, err)
	}

	var (
		lags    []Lag
		refused []error
	)
	stable.Each(func(end kadm.ListedOffset) {
		lag := Lag{
			TopicPartition: TopicPartition{end.Topic, end.Partition},
			Committed:      -1,
			LastStable:     end.Offset,
			End:            end.Offset,
		}
		if high, ok := ends.Lookup(end.Topic, end.Partition); ok {
			lag.End = max(lag.End, high.Offset)
		}
		if o, ok := committed.Lookup(end.Topic, end.Partition); ok && o.Err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", lag.TopicPartition, o.Err))
		} else if ok {
			lag.Committed = o.At
		}
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok {
			lag.LogStart = start.Offset
		}
		lag.Lag = max(0, lag.LastStable-max(lag.Committed, lag.LogStart))
		lags = append(lags, lag)
	})
	if err := joinErrors(refused); err != nil {
		return nil, fmt.Errorf("lag of group %q, positions: %w", group, err)
	}
	slices.SortFunc(lags, func(a, b Lag) int { return a.Compare(b.TopicPartition) })
	return lags, nil
}
