package bridge

import (
	"errors"
	"time"

	"github.com/eosbridge/eosbridge/txn"
)

const (
	// reachTimeout is how long the brokers may be unreachable before the first commit of the process.
	reachTimeout = time.Minute
	// unreachableDelay bounds the delay while brokers are unreachable, so that their return is noticed soon.
	unreachableDelay = 5 * time.Second
	// shutOutTimeout is how long a process that has committed stands before a broker that refuses its credentials or its
	// certificate: in the middle of a rotation the broker has the new ones, and the files do not yet. Kubernetes takes
	// up to two minutes to bring a Secret into a pod's files.
	shutOutTimeout = 5 * time.Minute
	// newcomerDelay is what a process that took our name gets for joining: it fences before it joins, and only
	// a member shows in the ownership test.
	newcomerDelay = time.Second
	// refusedDelay and refusedLimit are for sessions that end because a broker has refused an output: each knows more than
	// the one before, so there is nothing to wait for. In a row without a commit they are as many as there are partitions
	// with refused records at their positions.
	refusedDelay = time.Millisecond
	refusedLimit = 1000
)

// supervisor decides what follows a failed session. It is pure: time comes in as an argument.
type supervisor struct {
	limit    int
	backoff  *backoff
	began    time.Time
	commit   time.Time // last commit seen
	failures int       // since then, without those of unreachable brokers and refused outputs
	refused  int       // refused outputs since then
	shutOut  time.Time // first refusal of our credentials since then; zero if there was none
}

func newSupervisor(now time.Time, maxDelay time.Duration, limit int) *supervisor {
	return &supervisor{limit: limit, backoff: newBackoff(maxDelay), began: now}
}

// after answers the delay before the next session, or 0 and the error that ends the process. lastCommit is
// zero before the first commit.
func (s *supervisor) after(now, lastCommit time.Time, err error) (time.Duration, error) {
	if errors.Is(err, txn.ErrFatal) || errors.Is(err, txn.ErrFenced) {
		return 0, err
	}
	if !lastCommit.Equal(s.commit) { // later, or earlier by a clock that was set back
		s.commit, s.failures, s.refused, s.shutOut = lastCommit, 0, 0, time.Time{}
		s.backoff.reset()
	}
	if errors.Is(err, errRefused) {
		if s.refused++; s.refused > refusedLimit {
			return 0, txn.Fatalf(txn.StatusFailure, "%d refused outputs without a commit: %w", s.refused, err)
		}
		return refusedDelay, err
	}
	if a := txn.ShutOut(err); a != txn.Admitted {
		return s.notAdmitted(now, a, err)
	}
	limit := s.backoff.most
	if txn.Unreachable(err) || txn.HungUp(err) {
		if lastCommit.IsZero() && now.Sub(s.began) > reachTimeout {
			return 0, txn.Fatalf(txn.StatusUnavailable, "brokers unreachable for %s: %w", reachTimeout, err)
		}
		limit = min(limit, unreachableDelay)
	} else if s.failures++; s.failures > s.limit {
		return 0, txn.Fatalf(txn.StatusFailure, "%d restarts without a commit (BRIDGE_RESTART_LIMIT): %w", s.limit, err)
	}
	delay := s.backoff.next(limit)
	if txn.MaybeFenced(err) {
		delay = max(delay, newcomerDelay)
	}
	return delay, err
}

// notAdmitted decides what follows when a broker and we do not let each other in, for the reason a. Before the first commit
// that ends the process: nothing shows that it was ever right. Later, a broker whose certificate is not right is one that
// is away, and one that refuses ours has some time to change its mind, or we the files.
func (s *supervisor) notAdmitted(now time.Time, a txn.Admission, err error) (time.Duration, error) {
	if s.commit.IsZero() {
		return 0, &txn.FatalError{Status: a.Status(), Err: err}
	}
	if a.Ours() {
		if s.shutOut.IsZero() {
			s.shutOut = now
		}
		if now.Sub(s.shutOut) > shutOutTimeout {
			return 0, txn.Fatalf(txn.StatusDenied, "for %s: %w", shutOutTimeout, err)
		}
	}
	return s.backoff.next(min(s.backoff.most, unreachableDelay)), err
}
