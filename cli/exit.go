package cli

import (
	"errors"
	"fmt"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/txn"
)

// Exit statuses, after sysexits(3) where it has a word for it. Service managers act on them: 64, 77 and 78 do not
// go away by a restart, and after 75 another live process does the work.
const (
	exitOK          = 0
	exitFailure     = 1  // it failed while running, or it found what it was asked to look for
	exitUndecided   = 2  // an audit found no fault, and could not tell everything
	exitUsage       = 64 // EX_USAGE: the command line is wrong
	exitUnavailable = 69 // EX_UNAVAILABLE: the brokers could not be reached in time
	exitSoftware    = 70 // EX_SOFTWARE: an invariant is broken
	exitFenced      = 75 // EX_TEMPFAIL: a live process owns our name
	exitDenied      = 77 // EX_NOPERM: the cluster denies what is needed
	exitConfig      = 78 // EX_CONFIG: the configuration cannot work
)

// exitError is an error that decides the exit status.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// ExitCode returns the exit status.
func (e *exitError) ExitCode() int { return e.code }

// usageErrorf returns the error of a wrong command line.
func usageErrorf(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// quietError is an error whose text was printed already, for instance at the end of a report.
type quietError interface {
	error
	Quiet() bool
}

// exitCode returns the exit status for the error of a command. An error that names a status itself wins over what
// it wraps.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	// exec.ExitError has such a method too: only our own statuses pass, not those of some child process.
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		switch code := coded.ExitCode(); code {
		case exitFailure, exitUndecided, exitUsage, exitUnavailable, exitSoftware, exitFenced, exitDenied, exitConfig:
			return code
		}
	}
	var problems *config.Problems
	switch {
	case errors.As(err, &problems):
		return exitConfig
	case errors.Is(err, txn.ErrFenced):
		return exitFenced
	}
	return exitFailure
}
