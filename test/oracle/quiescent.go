package oracle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// ErrRestless says that a finished run has left something unfinished.
var ErrRestless = errors.New("not quiescent")

// Rest names what has to have come to rest.
type Rest struct {
	Prefix  string   // of transactional ids
	Outputs []string // topics
	Group   string   // its positions; empty = not looked at
	Inputs  []string // topics that Group reads
}

// Quiescent waits until no transaction whose id begins with the prefix and a dot
// is open or being ended, the last stable offset of every output partition is
// its high watermark, and the group has read its inputs to their last stable
// offset. When ctx ends first, the error (ErrRestless) says what is missing.
func Quiescent(ctx context.Context, adm *kadm.Client, rest Rest) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var last error // the reason before the one that only says that time is over
	for {
		err := restless(ctx, adm, rest)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && last != nil {
			return last
		}
		last = err
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return err
		}
	}
}

// restless looks once and says what has not come to rest; nil if nothing.
func restless(ctx context.Context, adm *kadm.Client, rest Rest) error {
	if err := OpenTransactions(ctx, adm, rest.Prefix); err != nil {
		return err
	}
	if err := stable(ctx, adm, rest.Outputs); err != nil {
		return err
	}
	if rest.Group == "" {
		return nil
	}
	return noLag(ctx, adm, rest.Group, rest.Inputs)
}

// OpenTransactions returns an error that names the transactions under the
// prefix which are ongoing or being ended; nil if there are none.
func OpenTransactions(ctx context.Context, adm *kadm.Client, prefix string) error {
	listed, err := adm.ListTransactions(ctx, nil, nil)
	if err != nil {
		return fmt.Errorf("%w: list transactions: %w", ErrRestless, err)
	}
	var open []string
	for _, t := range listed.Sorted() {
		if !strings.HasPrefix(t.TxnID, prefix+".") {
			continue
		}
		switch t.State {
		case "Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence":
			open = append(open, t.TxnID+" is "+t.State)
		}
	}
	if open != nil {
		return fmt.Errorf("%w: %s", ErrRestless, strings.Join(open, ", "))
	}
	return nil
}

func stable(ctx context.Context, adm *kadm.Client, topics []string) error {
	// The end first: at rest it does not move, and a last stable offset asked for
	// later can only be higher.
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("%w: end offsets: %w", ErrRestless, err)
	}
	stables, err := adm.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = stables.Error()
	}
	if err != nil {
		return fmt.Errorf("%w: last stable offsets: %w", ErrRestless, err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if at, ok := stables.Lookup(end.Topic, end.Partition); !ok || at.Offset < end.Offset {
			err = fmt.Errorf("%w: %s/%d: last stable offset %d, high watermark %d",
				ErrRestless, end.Topic, end.Partition, at.Offset, end.Offset)
		}
	})
	return err
}

func noLag(ctx context.Context, adm *kadm.Client, group string, topics []string) error {
	committed, err := adm.FetchOffsets(ctx, group)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return fmt.Errorf("%w: positions of %s: %w", ErrRestless, group, err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("%w: end of the input: %w", ErrRestless, err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		at, ok := committed.Lookup(end.Topic, end.Partition)
		switch {
		case end.Offset == 0 && !ok:
		case !ok:
			err = fmt.Errorf("%w: %s has no position for %s/%d", ErrRestless, group, end.Topic, end.Partition)
		case at.At < end.Offset:
			err = fmt.Errorf("%w: %s is at %d of %d in %s/%d", ErrRestless, group, at.At, end.Offset, end.Topic, end.Partition)
		}
	})
	return err
}
