package bridge

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

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

	s = newSupervisor(began, time.Minute, 3)
	if delay, _ := s.after(began.Add(reachTimeout), time.Time{}, away()); delay == 0 {
		t.Fatal("ended before the time was over")
	}
	if delay, err := s.after(began.Add(reachTimeout+1), time.Time{}, away()); delay != 0 || exitCode(err) != txn.StatusUnavailable {
		t.Fatalf("never reached: delay %s, error %v", delay, err)
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
