package bridge

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/txn"
)

func aborted() error { return fmt.Errorf("%w: test", txn.ErrAborted) }

func away() error {
	return fmt.Errorf("%w: %w", txn.ErrAborted, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
}

func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return -1
}

func TestSupervisorEndsAtOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, err := range map[string]error{
		"fatal":  txn.Fatalf(txn.StatusConfig, "test"),
		"fenced": fmt.Errorf("%w: test", txn.ErrFenced),
	} {
		if delay, got := newSupervisor(now, time.Minute, 5).after(now, now, err); delay != 0 || !errors.Is(got, err) {
			t.Errorf("%s: delay %s, error %v", name, delay, got)
		}
	}
}

func TestSupervisorLimit(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSupervisor(now, time.Second, 3)
	for i := range 3 {
		if delay, _ := s.after(now, time.Time{}, aborted()); delay == 0 {
			t.Fatalf("restart %d refused", i+1)
		}
	}
	delay, err := s.after(now, time.Time{}, aborted())
	if delay != 0 || exitCode(err) != txn.StatusFailure || !errors.Is(err, txn.ErrAborted) {
		t.Fatalf("the fourth restart in a row: delay %s, error %v", delay, err)
	}
}

func TestSupervisorCommitResets(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSupervisor(now, time.Minute, 3)
	for i := range 30 {
		if i%3 == 0 {
			now = now.Add(time.Second)
		}
		delay, err := s.after(now, now, aborted())
		if delay == 0 {
			t.Fatalf("failure %d: %v, though every third follows a commit", i, err)
		}
		if i%3 == 0 && delay > 100*time.Millisecond {
			t.Fatalf("delay of %s right after a commit", delay)
		}
	}
}

// TestSupervisorUnreachable: brokers that are away never count against the limit, are tried at least every 5 s,
// and end the process only before its first commit.
func TestSupervisorUnreachable(t *testing.T) {
	began := time.Unix(1000, 0)
	s := newSupervisor(began, time.Minute, 3)
	now := began
	for range 200 {
		delay, err := s.after(now, began, away())
		if delay == 0 || delay > unreachableDelay {
			t.Fatalf("delay %s, error %v", delay, err)
		}
		now = now.Add(delay)
	}
	if delay, err := s.after(now, began, aborted()); delay == 0 {
		t.Fatalf("the outage counted: %v", err)
	}

	hungUp := txn.Classify(txn.CallInit, &kgo.ErrFirstReadEOF{})
	for range 10 {
		if delay, err := s.after(now, began, hungUp); delay == 0 || delay > unreachableDelay {
			t.Fatalf("hung up: delay %s, error %v", delay, err)
		}
	}

	s = newSupervisor(began, time.Minute, 3)
	if delay, _ := s.after(began.Add(reachTimeout), time.Time{}, away()); delay == 0 {
		t.Fatal("ended before the time was over")
	}
	if delay, err := s.after(began.Add(reachTimeout+1), time.Time{}, away()); delay != 0 || exitCode(err) != txn.StatusUnavailable {
		t.Fatalf("never reached: delay %s, error %v", delay, err)
	}
}

// TestSupervisorNotAdmitted: who is not let in at first ends with the status that says whose fault it is; who has committed
// stands before the door for a while, and before a broker with a wrong certificate for as long as it takes. It never counts
// against the limit of restarts.
func TestSupervisorNotAdmitted(t *testing.T) {
	began := time.Unix(1000, 0)
	handshake := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, row := range []struct {
		err    error
		status int
		ours   bool
	}{
		{kerr.SaslAuthenticationFailed, txn.StatusDenied, true},
		{kerr.UnsupportedSaslMechanism, txn.StatusDenied, true},
		{handshake(&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}), txn.StatusDenied, true},
		{handshake(x509.UnknownAuthorityError{}), txn.StatusConfig, false},
		{handshake(tls.RecordHeaderError{}), txn.StatusConfig, false},
		{handshake(x509.CertificateInvalidError{Reason: x509.Expired}), txn.StatusUnavailable, false},
	} {
		err := txn.Classify(txn.CallInit, row.err)
		if delay, got := newSupervisor(began, time.Minute, 3).after(began, time.Time{}, err); delay != 0 || exitCode(got) != row.status || !errors.Is(got, txn.ErrFatal) {
			t.Errorf("%v before the first commit: delay %s, %v, want status %d", row.err, delay, got, row.status)
		}
		s := newSupervisor(began, time.Minute, 3)
		for now := began; now.Before(began.Add(shutOutTimeout)); now = now.Add(time.Second) {
			if delay, got := s.after(now, began, err); delay == 0 || delay > unreachableDelay || errors.Is(got, txn.ErrFatal) {
				t.Fatalf("%v after %s: delay %s, %v", row.err, now.Sub(began), delay, got)
			}
		}
		later := began.Add(shutOutTimeout + time.Second)
		if delay, got := s.after(later, began, err); (delay == 0) != row.ours || row.ours && exitCode(got) != txn.StatusDenied {
			t.Errorf("%v after %s: delay %s, %v", row.err, shutOutTimeout, delay, got)
		}
		if delay, _ := s.after(later, later, err); delay == 0 {
			t.Errorf("%v: a commit in between is forgotten", row.err)
		}
	}
}

// TestSupervisorElsewhere: a certificate that fails anywhere else, such as at a schema registry, is no broker's.
func TestSupervisorElsewhere(t *testing.T) {
	now := time.Unix(1000, 0)
	err := fmt.Errorf("%w: ask the registry: %w", txn.ErrAborted, x509.UnknownAuthorityError{})
	if delay, got := newSupervisor(now, time.Minute, 3).after(now, time.Time{}, err); delay == 0 {
		t.Errorf("ended: %v", got)
	}
}

// TestSupervisorNewcomer: after an answer that may come from a newcomer it gets a second to join.
func TestSupervisorNewcomer(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, code := range []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch} {
		delay, _ := newSupervisor(now, time.Minute, 5).after(now, now, fmt.Errorf("%w: %w", txn.ErrInDoubt, code))
		if delay < newcomerDelay {
			t.Errorf("%v: delay %s", code, delay)
		}
	}
}

func TestBackoff(t *testing.T) {
	b := newBackoff(time.Second)
	want := 100 * time.Millisecond
	for range 10 {
		if d := b.next(time.Hour); d < want/2 || d > want {
			t.Fatalf("delay %s, want %s to %s", d, want/2, want)
		}
		want = min(2*want, time.Second)
	}
	if d := b.next(10 * time.Millisecond); d > 10*time.Millisecond {
		t.Fatalf("delay %s above its limit", d)
	}
	b.reset()
	if d := b.next(time.Hour); d > 100*time.Millisecond {
		t.Fatalf("delay %s after reset", d)
	}
}
