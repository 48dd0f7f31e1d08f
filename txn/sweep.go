package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The states of a transactional id that a sweep tells apart (TransactionState in Kafka's transaction
// coordinator). All others mean that there is nothing to abort.
const (
	stateOngoing           = "Ongoing"
	statePrepareAbort      = "PrepareAbort"
	statePrepareEpochFence = "PrepareEpochFence"
	statePrepareCommit     = "PrepareCommit"
	stateCompleteCommit    = "CompleteCommit"
)

// How often a sweep looks again at an id that the coordinator is busy with.
const (
	sweepFirstWait = 20 * time.Millisecond
	sweepLastWait  = time.Second
)

// SweepOptions says whose transactions are ours and when they count as abandoned.
type SweepOptions struct {
	// Prefix is the pipeline's; ids that ParseID finds foreign to it are never touched.
	Prefix string
	// Self is our own instance. Its ids need neither age nor absence: we hold the name, so a slot of it that we
	// do not use is of an older layout and dead.
	Self string
	// OwnSlots are the transactional ids in use by this process; they are left alone.
	OwnSlots []string
	// Group is the consumer group whose members count as alive, by instance id.
	Group string
	// OlderThan is the age from which another instance's transaction may be swept: 2 × the epoch timeout, which
	// a live owner never reaches. Age is our clock minus the coordinator's.
	OlderThan time.Duration
	// TxnTimeout is the transaction timeout that the fencing request has to name, in whole milliseconds; the
	// next owner of the id replaces it. It must not exceed the broker's transaction.max.timeout.ms.
	TxnTimeout time.Duration
	// Logger gets one line at INFO for every aborted transaction; nil for silence.
	Logger *slog.Logger
}

// Swept is one abandoned transaction that was aborted.
type Swept struct {
	ID  ID
	Age time.Duration
}

// Sweep aborts transactions that dead instances of this pipeline left open. Until its timeout an open transaction
// keeps read_committed readers of its output, and whoever takes over its input partitions, waiting. It is meant to
// run in the background after joining the group.
//
// A transaction of another instance is aborted if its id is one of ours by name (ParseID), it is Ongoing, no
// member of the group carries its instance id, and it is older than OlderThan. Listing comes before membership
// and membership before age: an owner that comes back in between fences its ids before it joins, so what it then
// holds open is young. If the members cannot be learnt, the ids of other instances are left alone and the error
// says so. A mistake would not break exactly-once: it costs a live owner one restart.
//
// Aborting is InitProducerID, as a new owner would send it: it never turns a commit that was decided into an
// abort. While the coordinator answers CONCURRENT_TRANSACTIONS the sweep looks again until ctx ends, and sends
// the request again only for the very transaction that it examined.
//
// The result holds what was aborted, also beside an error: one id's failure does not keep the others from being
// swept. Everything that failed is in the error, and the next sweep will find it again.
func Sweep(ctx context.Context, adm *kadm.Client, cl kmsg.Requestor, o SweepOptions) ([]Swept, error) {
	if o.Prefix == "" || o.Group == "" || o.TxnTimeout < time.Millisecond {
		return nil, fmt.Errorf("sweep: prefix %q, group %q and transaction timeout %v must all be set", o.Prefix, o.Group, o.TxnTimeout)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &sweep{adm: adm, cl: cl, o: o}
	ids := s.abandoned(ctx, s.ongoing(ctx))
	s.abort(ctx, s.examine(ctx, ids))
	slices.SortFunc(s.swept, func(a, b Swept) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
	if s.failed != nil {
		return s.swept, fmt.Errorf("sweep: %w", s.failed)
	}
	return s.swept, nil
}

// sweep is one run of Sweep, on one goroutine.
type sweep struct {
	adm    *kadm.Client
	cl     kmsg.Requestor
	o      SweepOptions
	swept  []Swept
	failed error // everything that went wrong so far, on one line
}

// target is a transaction that is to be aborted. start tells it from a later one of the same id.
type target struct {
	name   string
	start  int64 // ms since 1970, the coordinator's clock
	age    time.Duration
	ending bool // the coordinator has decided on the abort and writes markers
}

func (s *sweep) problem(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if s.failed != nil {
		err = fmt.Errorf("%w; %w", s.failed, err)
	}
	s.failed = err
}

// ongoing lists the ids of our prefix with an open transaction, except those in use by this process.
func (s *sweep) ongoing(ctx context.Context) []ID {
	// A broker that could not be asked leaves its ids to the next sweep; what the others said is good. The state
	// filter is a wish only: brokers before Kafka 3.0, and some of other make, answer with every id they know.
	listed, err := s.adm.ListTransactions(ctx, nil, []string{stateOngoing})
	if err != nil {
		s.problem("list transactions: %w", err)
	}
	var ids []ID
	for _, t := range listed.Sorted() {
		id, ours := ParseID(s.o.Prefix, t.TxnID)
		if ours && t.State == stateOngoing && !slices.Contains(s.o.OwnSlots, t.TxnID) {
			ids = append(ids, id)
		}
	}
	return ids
}

// abandoned drops the ids whose instance is in the group.
func (s *sweep) abandoned(ctx context.Context, ids []ID) []ID {
	own := func(id ID) bool { return id.Instance == s.o.Self }
	if !slices.ContainsFunc(ids, func(id ID) bool { return !own(id) }) {
		return ids
	}
	alive, err := LiveInstances(ctx, s.adm, s.o.Group)
	if err != nil {
		s.problem("transactions of other instances left alone: %w", err)
	}
	return slices.DeleteFunc(ids, func(id ID) bool {
		return !own(id) && (err != nil || !ownerGone(id.Instance, alive))
	})
}

// examine reads state and start of each id and keeps what is open and old enough.
func (s *sweep) examine(ctx context.Context, ids []ID) []target {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	described := s.describe(ctx, names)
	now := time.Now()
	var targets []target
	for _, id := range ids {
		d, ok := described[id.String()]
		if !ok || d.State != stateOngoing {
			continue
		}
		age := ageOf(d.StartTimestamp, now)
		if id.Instance != s.o.Self && !oldEnough(age, s.o.OlderThan) {
			continue
		}
		targets = append(targets, target{name: d.TxnID, start: d.StartTimestamp, age: age})
	}
	return targets
}

// describe gives what the coordinators say about the ids; those that could not be described are missing, and
// noted unless they simply do not exist any more.
func (s *sweep) describe(ctx context.Context, names []string) map[string]kadm.DescribedTransaction {
	if len(names) == 0 {
		return nil // kadm reads an empty list as every id of the cluster
	}
	described, err := s.adm.DescribeTransactions(ctx, names...)
	if err != nil {
		s.problem("describe transactions: %w", err)
	}
	for name, d := range described {
		if d.Err == nil {
			continue
		}
		if !errors.Is(d.Err, kerr.TransactionalIDNotFound) {
			s.problem("describe transactional id %s: %w", name, d.Err)
		}
		delete(described, name)
	}
	return described
}

// abort fences the targets' ids, in rounds, so that one id that stays busy does not hold up the others.
func (s *sweep) abort(ctx context.Context, targets []target) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for wait := sweepFirstWait; ; wait = min(2*wait, sweepLastWait) {
		var busy []target
		for _, t := range targets {
			if t.ending {
				busy = append(busy, t)
				continue
			}
			switch err := s.initProducerID(ctx, t.name); {
			case err == nil:
				s.aborted(t)
			case errors.Is(err, kerr.ConcurrentTransactions):
				busy = append(busy, t)
			default:
				s.problem("fence transactional id %s: %w", t.name, err)
			}
		}
		if len(busy) == 0 {
			return
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			for _, t := range busy {
				s.problem("transactional id %s is still in transition: %w: %w", t.name, kerr.ConcurrentTransactions, context.Cause(ctx))
			}
			return
		case <-timer.C:
		}
		targets = s.again(ctx, busy)
	}
}

// again looks at ids that were busy and keeps those that are not done. The request may be repeated only while the
// same transaction is open: a new one means that the owner is back.
func (s *sweep) again(ctx context.Context, busy []target) []target {
	names := make([]string, len(busy))
	for i, t := range busy {
		names[i] = t.name
	}
	described := s.describe(ctx, names)
	var left []target
	for _, t := range busy {
		d, ok := described[t.name]
		if !ok {
			continue
		}
		switch d.State {
		case stateOngoing:
			if d.StartTimestamp == t.start {
				left = append(left, t)
			}
		case statePrepareAbort, statePrepareEpochFence:
			t.ending = true
			left = append(left, t)
		case statePrepareCommit, stateCompleteCommit:
			// Its owner was quicker: committed.
		default:
			s.aborted(t)
		}
	}
	return left
}

func (s *sweep) aborted(t target) {
	id, _ := ParseID(s.o.Prefix, t.name) // an operator may abort a foreign one: it has no parts
	s.o.Logger.Info("abandoned transaction aborted",
		"txn_id", t.name, "age", t.age.Round(time.Millisecond), "instance", id.Instance)
	s.swept = append(s.swept, Swept{ID: id, Age: t.age})
}

// initProducerID takes the id over as a new owner would (KIP-98): the coordinator aborts what is open under it.
func (s *sweep) initProducerID(ctx context.Context, name string) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &name
	req.TransactionTimeoutMillis = int32(s.o.TxnTimeout.Milliseconds())
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}
