package txn

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Epoch numbers the checkpoint epochs of one process, from 1. Kafka's own epochs are always named in full:
// leader epoch, producer epoch, member epoch.
type Epoch int64

// The classes of failure. Every error that ends an epoch wraps exactly one of them, and nothing else decides
// what happens next.
var (
	// ErrAborted says that the epoch is certainly not committed.
	ErrAborted = errors.New("epoch aborted")
	// ErrInDoubt says that only the broker knows whether the epoch was committed. It takes the same path as
	// ErrAborted: discard every client, fence both ids, join anew, ask the broker for the positions.
	ErrInDoubt = errors.New("epoch in doubt")
	// ErrFenced says that a newer live process owns our name; this one ends (exit status 75).
	ErrFenced = errors.New("fenced by a live owner")
	// ErrFatal says that no restart can help; an operator has to act.
	ErrFatal = errors.New("fatal")
)

// Exit statuses that a FatalError asks for (sysexits.h).
const (
	StatusFailure     = 1  // a record that fails each time, a truncated source
	StatusUnavailable = 69 // brokers unreachable in time
	StatusBroken      = 70 // a broken invariant of ours
	StatusDenied      = 77 // authentication or authorization
	StatusConfig      = 78 // configuration that the cluster refuses
)

// FatalError is an ErrFatal together with the exit status of the process.
type FatalError struct {
	Status int
	Err    error
}

// Fatalf builds a FatalError with the message of fmt.Errorf.
func Fatalf(status int, format string, args ...any) error {
	return &FatalError{Status: status, Err: fmt.Errorf(format, args...)}
}

func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap makes a FatalError match both ErrFatal and its cause.
func (e *FatalError) Unwrap() []error { return []error{ErrFatal, e.Err} }

// ExitCode is the exit status of the process.
func (e *FatalError) ExitCode() int { return e.Status }

// Call names the request whose failure is classified.
type Call int

// The calls of the protocol, in its order.
const (
	CallInit    Call = iota // InitProducerID: fencing
	CallProduce             // Produce, and the flush that waits for it
	CallOffsets             // AddOffsetsToTxn, TxnOffsetCommit
	CallEnd                 // EndTxn
	CallPlain               // OffsetCommit outside a transaction
	CallFetch               // Fetch
	CallGroup               // JoinGroup, Heartbeat, ConsumerGroupHeartbeat, OffsetFetch
)

func (c Call) String() string {
	return [...]string{"init producer id", "produce", "txn offset commit", "end txn", "offset commit", "fetch", "group"}[c]
}

// denied holds the codes that an ACL or a credential mends, never a restart.
func denied() []error {
	return []error{
		kerr.TransactionalIDAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.IllegalSaslState,
		kerr.UnsupportedSaslMechanism,
	}
}

// refused holds the codes by which a broker refuses one record for good: the same record fails again.
func refused() []error {
	return []error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp,
		kerr.PolicyViolation, kerr.CorruptMessage,
	}
}

// truncated holds the codes by which a fetch learns that its position means nothing any more.
func truncated() []error {
	return []error{kerr.OffsetOutOfRange, kerr.UnknownTopicID, kerr.InconsistentTopicID}
}

func is(err error, targets []error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// Refused reports whether a broker refused a record in a way that a replay would only repeat.
func Refused(err error) bool { return is(err, refused()) }

// Denied reports whether access was denied.
func Denied(err error) bool { return is(err, denied()) }

// Unreachable reports whether err says that no broker answered at all, as while a cluster is down: such a
// failure never counts against the limit of restarts.
func Unreachable(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns)
}

// Classify wraps the failure of a call in its class. A class that err already carries is kept. The mapping
// is the error table of the protocol: see doc.go, "Errors".
func Classify(call Call, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrFatal), errors.Is(err, ErrFenced), errors.Is(err, ErrAborted), errors.Is(err, ErrInDoubt):
		return err
	case call == CallEnd:
		// Even a denied EndTxn comes after a prepared epoch: learn its outcome first. The next start meets
		// the same denial at InitProducerID and ends there.
		if errors.Is(err, kerr.TransactionAbortable) || errors.Is(err, kerr.OperationNotAttempted) {
			return fmt.Errorf("%w: %s: %w", ErrAborted, call, err)
		}
		return fmt.Errorf("%w: %s: %w", ErrInDoubt, call, err)
	case AdmissionOf(err) != Admitted:
		// Whether a restart helps depends on whether we have been let in before: the runtime knows.
		return &notAdmitted{call, err}
	case Denied(err):
		return &FatalError{Status: StatusDenied, Err: fmt.Errorf("%s: access denied: %w", call, err)}
	case errors.Is(err, kerr.UnsupportedVersion), errors.Is(err, kerr.UnsupportedForMessageFormat):
		return &FatalError{Status: StatusConfig, Err: fmt.Errorf("%s: the cluster does not support it: %w", call, err)}
	case call == CallInit && errors.Is(err, kerr.InvalidTransactionTimeout):
		return &FatalError{Status: StatusConfig, Err: fmt.Errorf("%s: the transaction timeout exceeds the broker's transaction.max.timeout.ms: %w", call, err)}
	case call == CallFetch && is(err, truncated()):
		return &FatalError{Status: StatusFailure, Err: fmt.Errorf("%s: what the position points at is gone: %w", call, err)}
	case inDoubt(call, err):
		return fmt.Errorf("%w: %s: %w", ErrInDoubt, call, err)
	default:
		return fmt.Errorf("%w: %s: %w", ErrAborted, call, err)
	}
}

// doubtful holds the codes by which another process, or the broker's own timeout, may have ended our transaction
// or our membership: what became of the epoch is for the broker to say.
func doubtful() []error {
	return []error{
		kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.UnknownProducerID,
		kerr.InvalidTxnState, kerr.TransactionCoordinatorFenced, kerr.IllegalGeneration, kerr.UnknownMemberID,
		kerr.FencedMemberEpoch, kerr.StaleMemberEpoch, kerr.FencedInstanceID,
	}
}

// inDoubt holds for those codes, and for what a request may have done although it failed. Until EndTxn is sent
// nothing of a transaction can be true, so a lost answer before it leaves no doubt; a plain commit has nothing
// behind it that could undo it.
func inDoubt(call Call, err error) bool {
	switch {
	case is(err, doubtful()):
		return true
	case call == CallProduce:
		return errors.Is(err, kerr.OutOfOrderSequenceNumber)
	case call == CallOffsets:
		return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	case call == CallPlain:
		var answer *kerr.Error
		return !errors.As(err, &answer) || errors.Is(err, kerr.UnknownServerError) || errors.Is(err, kerr.RequestTimedOut)
	default:
		return false
	}
}

// MaybeFenced reports whether err may come from a newcomer that fenced us: the ownership test must then wait
// until the newcomer has joined, for it fences before it joins.
func MaybeFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) ||
		errors.Is(err, kerr.InvalidTxnState)
}
