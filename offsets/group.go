package offsets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// How often Committed asks again while positions are held back by a transaction. The first wait is about the
// time in which a coordinator finishes one; the last bounds how late we notice.
const (
	unstableFirstWait = 50 * time.Millisecond
	unstableLastWait  = time.Second
)

// Committed gives the positions that the group has committed, for all topics. It asks with "require stable"
// (KIP-447) and waits as long as an open transaction holds a position back, until ctx ends; the error then
// names the partitions and wraps both the context's error and UNSTABLE_OFFSET_COMMIT. A transaction that
// nobody ends is aborted by its coordinator after its timeout and up to 10 s (the coordinator's sweep).
//
// A group that does not exist has no positions and is no error. A partition whose first position ever is
// pending is missing from the result (see the package comment).
func Committed(ctx context.Context, adm *kadm.Client, group string) (Positions, error) {
	wait := unstableFirstWait
	timer := time.NewTimer(wait)
	defer timer.Stop()

	var heldBack error
	for {
		fetched, err := adm.FetchOffsets(kadm.RequireStable(ctx), group)
		switch {
		case errors.Is(err, kerr.GroupIDNotFound):
			return Positions{}, nil
		case err != nil && heldBack != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("positions of group %q: %w: %w", group, heldBack, context.Cause(ctx))
		case err != nil:
			return nil, fmt.Errorf("positions of group %q: %w", group, err)
		}
		var positions Positions
		positions, heldBack, err = readFetched(fetched)
		if err != nil {
			return nil, fmt.Errorf("positions of group %q: %w", group, err)
		}
		if heldBack == nil {
			return positions, nil
		}

		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("positions of group %q: %w: %w", group, heldBack, context.Cause(ctx))
		case <-timer.C:
			wait = min(2*wait, unstableLastWait)
		}
	}
}

// seen gives the positions that the group has committed so far, whatever open transactions may do to them.
func seen(ctx context.Context, adm *kadm.Client, group string) (Positions, error) {
	fetched, err := adm.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return Positions{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("positions of group %q: %w", group, err)
	}
	positions, _, err := readFetched(fetched)
	if err != nil {
		return nil, fmt.Errorf("positions of group %q: %w", group, err)
	}
	return positions, nil
}

// readFetched sorts an OffsetFetch answer into positions, partitions that may become readable by waiting
// (heldBack: in practice UNSTABLE_OFFSET_COMMIT, and UNKNOWN_TOPIC_ID while a deleted topic's positions are
// being removed) and a refusal. Every partition carries its own code; one bad partition makes all of it
// unusable, for a missing position reads as "start anew".
func readFetched(fetched kadm.OffsetResponses) (positions Positions, heldBack, refused error) {
	positions = make(Positions)
	byCode := make(map[error][]string)
	for _, o := range fetched.Sorted() {
		switch {
		case o.Err != nil:
			byCode[o.Err] = append(byCode[o.Err], fetchedName(o))
		case o.At >= 0:
			positions[TopicPartition{o.Topic, o.Partition}] = Position{Offset: o.At, LeaderEpoch: o.LeaderEpoch}
		}
	}
	var retriable, final []error
	for code, names := range byCode {
		err := fmt.Errorf("%s: %w", listSome(names), code)
		if kerr.IsRetriable(code) {
			retriable = append(retriable, err)
		} else {
			final = append(final, err)
		}
	}
	return positions, joinErrors(retriable), joinErrors(final)
}

// fetchedName names a partition even if its topic is known by id only.
func fetchedName(o kadm.OffsetResponse) string {
	topic := o.Topic
	if topic == "" {
		topic = "topic id " + o.TopicID.String()
	}
	return TopicPartition{topic, o.Partition}.String()
}
