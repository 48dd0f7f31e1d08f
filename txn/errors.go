package txn

import "errors"

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
