package copies

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/bench/figures"
)

// runSession copies exactly-once with what the client library brings along: one
// transaction after the other, and nothing is read while one ends. It is what
// the bridge's two slots are compared with.
func runSession(ctx context.Context, o options) (Report, error) {
	opts, err := o.client()
	if err != nil {
		return Report{}, err
	}
	s, err := kgo.NewGroupTransactSession(append(opts, kgo.TransactionalID(o.group+"."+o.instance))...)
	if err != nil {
		return Report{}, err
	}
	defer s.Close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	c := sessionCopy{session: s, options: o, fail: fail}
	for ctx.Err() == nil {
		if err := c.transaction(ctx); err != nil {
			return Report{}, err
		}
	}
	if err := context.Cause(ctx); errors.Is(err, errFailed) {
		return Report{}, err
	}
	return c.report(), nil
}

// sessionCopy is the state of one run of session.
type sessionCopy struct {
	session *kgo.GroupTransactSession
	options options
	fail    context.CancelCauseFunc

	began    []time.Time
	ending   []float64 // milliseconds of each End
	finished time.Time
	aborted  int
}

// transaction copies for one interval and commits.
func (c *sessionCopy) transaction(ctx context.Context) error {
	fetches := c.session.PollRecords(ctx, pollRecords)
	if err := fetchFailure(fetches); err != nil {
		return err
	}
	if fetches.Empty() {
		return nil
	}
	if err := c.session.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	began := time.Now()
	deadline := began.Add(c.options.interval)
	polling, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	producing := context.WithoutCancel(ctx)
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			c.fail(fmt.Errorf("%w: %w", errFailed, err))
		}
	}
	for {
		fetches.EachRecord(func(r *kgo.Record) {
			r.Topic = c.options.out
			c.session.Produce(producing, r, promise)
		})
		if polling.Err() != nil {
			break
		}
		fetches = c.session.PollRecords(polling, pollRecords)
		if err := fetchFailure(fetches); err != nil {
			return err
		}
	}
	end := time.Now()
	committed, err := c.session.End(producing, kgo.TryCommit)
	if err != nil {
		return fmt.Errorf("end: %w", err)
	}
	c.finished = time.Now()
	if !committed {
		c.aborted++
		return nil
	}
	c.began = append(c.began, began)
	c.ending = append(c.ending, milliseconds(c.finished.Sub(end)))
	return nil
}

// report sums up. Nothing is read or produced while a transaction ends, so that time is the stall.
func (c *sessionCopy) report() Report {
	r := Report{
		Committed: len(c.began), Aborted: c.aborted, Interval: figures.Quantile(intervals(c.began), 0.5),
		Commit: figures.Quantile(c.ending, 0.5), Commit99: figures.Quantile(c.ending, 0.99),
	}
	if len(c.began) == 0 {
		return r
	}
	var total float64
	for _, ms := range c.ending {
		total += ms
	}
	r.StallShare = total / milliseconds(c.finished.Sub(c.began[0]))
	return r
}

// intervals are the milliseconds from each moment to the next.
func intervals(at []time.Time) []float64 {
	var list []float64
	for i := 1; i < len(at); i++ {
		list = append(list, milliseconds(at[i].Sub(at[i-1])))
	}
	return list
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
