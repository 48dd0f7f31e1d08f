package txn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var calls = []Call{CallInit, CallProduce, CallOffsets, CallEnd, CallPlain, CallFetch, CallGroup}

// anyOther is the verdict on what the table below does not list: before EndTxn nothing can be committed, after it
// only the broker knows.
const anyOther = "A A A X A A A"

// verdicts is the error table of the protocol, one column per call, in the order of calls: A is ErrAborted, X is
// ErrInDoubt, a number is the exit status of an ErrFatal. What the client retries by itself, or we do, stands with
// the class it has once the deadline is over.
var verdicts = []struct {
	why     string
	verdict string
	errs    []error
}{
	{
		"not here, not yet: retried until the deadline", anyOther,
		[]error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions},
	},
	{
		"leader moves and broken disks", anyOther,
		[]error{
			kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.FencedLeaderEpoch,
			kerr.UnknownLeaderEpoch, kerr.KafkaStorageError, kerr.ReplicaNotAvailable,
		},
	},
	{"replication; a replay is a new transaction", anyOther, []error{kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend}},
	{"a plain commit may have been applied", "A A A X X A A", []error{kerr.RequestTimedOut, kerr.UnknownServerError}},
	{"no answer", "A A A X X A A", []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, kgo.ErrClientClosed,
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, os.ErrDeadlineExceeded,
	}},
	{"our own deadline cut the commit short", "A A X X X A A", []error{context.DeadlineExceeded, context.Canceled}},
	{"the broker says so", "A A A A A A A", []error{kerr.TransactionAbortable, kerr.OperationNotAttempted}},
	{
		"fenced, or our own transaction timeout: no code tells the two apart, the ownership test does", "X X X X X X X",
		[]error{kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.FencedInstanceID},
	},
	{"the producer's state is gone", "X X X X X X X", []error{kerr.InvalidProducerIDMapping, kerr.UnknownProducerID}},
	{"never taken for \"already committed\"", "X X X X X X X", []error{kerr.InvalidTxnState, kerr.TransactionCoordinatorFenced}},
	{"records may have gone missing", "A X A X A A A", []error{kerr.OutOfOrderSequenceNumber}},
	{
		"another member may have our partitions", "X X X X X X X",
		[]error{kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch},
	},
	{"rejoin", anyOther, []error{kerr.RebalanceInProgress}},
	{"somebody's transaction is not settled", anyOther, []error{kerr.UnstableOffsetCommit}},
	{
		"an ACL; after EndTxn the outcome comes first", "77 77 77 X 77 77 77",
		[]error{
			kerr.TransactionalIDAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
			kerr.ClusterAuthorizationFailed,
		},
	},
	{"a credential: the runtime knows whether it was ever right", anyOther, []error{kerr.SaslAuthenticationFailed, kerr.IllegalSaslState, kerr.UnsupportedSaslMechanism}},
	{"longer than the broker allows", "78 A A X A A A", []error{kerr.InvalidTransactionTimeout}},
	{"the cluster is too old", "78 78 78 X 78 78 78", []error{kerr.UnsupportedVersion, kerr.UnsupportedForMessageFormat}},
	{
		"one record is refused; bridge names it and stops", anyOther,
		[]error{
			kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.CorruptMessage, kerr.InvalidTimestamp,
			kerr.PolicyViolation,
		},
	},
	{"positions that cannot be stored", anyOther, []error{kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize}},
	{
		"the source is truncated, or another topic of the same name", "A A A X A 1 A",
		[]error{kerr.OffsetOutOfRange, kerr.UnknownTopicID, kerr.InconsistentTopicID},
	},
	{"anything else is no answer either", "A A A X X A A", []error{errors.New("anything else")}},
}

// TestClassify holds Classify to the table, bare and wrapped.
func TestClassify(t *testing.T) {
	for _, v := range verdicts {
		for _, err := range v.errs {
			expectVerdicts(t, v.verdict, v.why, err)
			expectVerdicts(t, v.verdict, v.why, fmt.Errorf("topic out partition 3: %w", err))
		}
	}
}

// TestClassifyIsTotal: every code there is has exactly one class for every call, and what the table does not list
// has the common one.
func TestClassifyIsTotal(t *testing.T) {
	listed := map[error]bool{}
	for _, v := range verdicts {
		for _, err := range v.errs {
			if err.Error() == "" || listed[err] {
				t.Errorf("%v is listed twice", err)
			}
			listed[err] = true
		}
	}
	codes := 0
	for code := int16(-1); code < 1000; code++ {
		err := kerr.ErrorForCode(code)
		if err == nil || code >= 0 && errors.Is(err, kerr.UnknownServerError) {
			continue // success, or a code that does not exist
		}
		codes++
		if !listed[err] {
			expectVerdicts(t, anyOther, "not listed", err)
		}
	}
	if codes < 130 {
		t.Errorf("only %d codes were tried", codes)
	}
}

// expectVerdicts wants one class per call, and the cause still to be found beneath it.
func expectVerdicts(t *testing.T, verdict, why string, err error) {
	t.Helper()
	want := strings.Fields(verdict)
	for i, call := range calls {
		got := Classify(call, err)
		if !errors.Is(got, err) {
			t.Errorf("%s: %q hides its cause %q", call, got, err)
		}
		if v := verdictOf(got); v != want[i] {
			t.Errorf("%s: %v is %s, want %s: %s", call, err, v, want[i], why)
		}
	}
}

// verdictOf writes the class of an error as the table does.
func verdictOf(err error) string {
	var fatal *FatalError
	switch got := classes(err); {
	case len(got) != 1:
		return fmt.Sprint(got)
	case errors.Is(got[0], ErrAborted):
		return "A"
	case errors.Is(got[0], ErrInDoubt):
		return "X"
	case errors.As(err, &fatal):
		return fmt.Sprint(fatal.ExitCode())
	default:
		return got[0].Error()
	}
}

// TestClassifyKeepsAClass: whoever was nearest to the failure decides.
func TestClassifyKeepsAClass(t *testing.T) {
	for _, class := range []error{ErrAborted, ErrInDoubt, ErrFenced, ErrFatal, Fatalf(StatusBroken, "broken")} {
		for _, call := range calls {
			err := fmt.Errorf("%w: epoch 3: %w", class, kerr.ProducerFenced)
			if got := Classify(call, err); got != err { //nolint:errorlint // the very same error is wanted
				t.Errorf("%s: %v becomes %v", call, err, got)
			}
		}
	}
	for _, call := range calls {
		if err := Classify(call, nil); err != nil {
			t.Errorf("%s: no error becomes %v", call, err)
		}
		if call.String() == "" {
			t.Errorf("call %d has no name", call)
		}
	}
}

// TestEndTxnIsNeverFatal: whatever EndTxn answers, the outcome is learnt first; a denial meets us again at the fence.
func TestEndTxnIsNeverFatal(t *testing.T) {
	for code := int16(-1); code < 1000; code++ {
		if err := kerr.ErrorForCode(code); err != nil && errors.Is(Classify(CallEnd, err), ErrFatal) {
			t.Errorf("end txn: %v is fatal", err)
		}
	}
}

func TestFatalError(t *testing.T) {
	err := Fatalf(StatusDenied, "fence: %w", kerr.TransactionalIDAuthorizationFailed)
	if !errors.Is(err, ErrFatal) || !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Errorf("%v does not match its class and its cause", err)
	}
	if strings.HasPrefix(err.Error(), "fatal") || !strings.HasPrefix(err.Error(), "fence: ") {
		t.Errorf("message %q", err)
	}
}

// TestKinds: the questions that bridge asks beside the class.
func TestKinds(t *testing.T) {
	wrap := func(err error) error { return Classify(CallProduce, fmt.Errorf("topic out partition 3: %w", err)) }
	dial := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		err                                   error
		refused, denied, unreachable, fencing bool
	}{
		{err: kerr.MessageTooLarge, refused: true},
		{err: kerr.InvalidTimestamp, refused: true},
		{err: kerr.NotEnoughReplicas},
		{err: kerr.TopicAuthorizationFailed, denied: true},
		{err: kerr.SaslAuthenticationFailed, denied: true},
		{err: dial, unreachable: true},
		{err: &net.DNSError{Err: "no such host", Name: "kafka"}, unreachable: true},
		{err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}},
		{err: io.EOF},
		{err: &kgo.ErrFirstReadEOF{}}, // there is a broker, and it may be of any version
		{err: kerr.ProducerFenced, fencing: true},
		{err: kerr.InvalidProducerEpoch, fencing: true},
		{err: kerr.InvalidTxnState, fencing: true},
		{err: kerr.UnknownMemberID},
	} {
		err := wrap(c.err)
		if Refused(err) != c.refused || Denied(err) != c.denied || Unreachable(err) != c.unreachable || MaybeFenced(err) != c.fencing {
			t.Errorf("%v: refused %t, denied %t, unreachable %t, maybe fenced %t", c.err, Refused(err), Denied(err), Unreachable(err), MaybeFenced(err))
		}
	}
}
