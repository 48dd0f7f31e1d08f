package offsets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// ErrGroupActive says that a commit without membership was refused because the group has members. Only a member
// may commit there, with its member id and generation.
var ErrGroupActive = errors.New("group has members")

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

// CommitEmptyGroup commits positions for a group without members, by an OffsetCommit that names no member. It is
// meant for the positions of a first start, before anybody joins. If somebody already did, the broker refuses it
// and the error wraps ErrGroupActive: join, and commit as a member.
//
// Every partition's code is looked at. On an error some partitions may have been committed; committing the same
// positions again is harmless as long as the group has no members.
func CommitEmptyGroup(ctx context.Context, adm *kadm.Client, group string, p Positions) error {
	if len(p) == 0 {
		return nil
	}
	answers, err := adm.CommitOffsets(ctx, group, p.toCommit())
	if err != nil {
		return fmt.Errorf("commit start positions of group %q: %w", group, err)
	}
	var refused []error
	answers.EachError(func(o kadm.OffsetResponse) {
		err := fmt.Errorf("%s at offset %d: %w", TopicPartition{o.Topic, o.Partition}, o.At, o.Err)
		if refusedForMembers(o.Err) {
			err = fmt.Errorf("%w: %w", ErrGroupActive, err)
		}
		refused = append(refused, err)
	})
	if err := joinErrors(refused); err != nil {
		return fmt.Errorf("commit start positions of group %q: %w", group, err)
	}
	return nil
}

// refusedForMembers says whether a code is how a group coordinator turns down a commit that names no member
// because there are members (ClassicGroup and ConsumerGroup, validateOffsetCommit). The classic one answers
// UNKNOWN_MEMBER_ID or, during a join, ILLEGAL_GENERATION or REBALANCE_IN_PROGRESS; KIP-848 knows
// STALE_MEMBER_EPOCH too.
func refusedForMembers(err error) bool {
	for _, code := range []error{
		kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.StaleMemberEpoch,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
