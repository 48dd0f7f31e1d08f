package txn

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/offsets"
)

// Credential says as which group member an epoch's positions are committed. It is captured at the barrier,
// while a rebalance is still blocked, and never read again, save for the one exception in doc.go, "Invariants" 6.
type Credential struct {
	MemberID   string
	Generation int32 // classic generation or KIP-848 member epoch
	// Lost counts the calls of OnPartitionsLost, Revoked the OnPartitionsRevoked that took something and have
	// returned, both since the process began.
	Lost, Revoked uint64
}

// Checkpoint is an aligned set of barriers: what an epoch commits besides its outputs.
type Checkpoint struct {
	Epoch      Epoch
	Positions  offsets.Positions
	Credential Credential
}

// Steps are the moments of a commit, for logs, metrics and the history; the zero time is a step that was not
// reached or not needed.
type Steps struct {
	OffsetsSent time.Time // TxnOffsetCommit (or the plain commit) was acknowledged
	Committed   time.Time // EndTxn was acknowledged
	Carried     bool      // no output, hence no transaction: the positions ride with the next one
}

// Participant is the sink's side of an epoch: Flink's TwoPhaseCommitSinkFunction with a broker that decides.
//
// Order of calls, for each epoch n in turn: Begin(n), any number of Produce(n), PreCommit(n), Commit(n).
// Begin(n+1) may follow PreCommit(n), before Commit(n); Commit is strictly serial. SendOffsets(n) may come between the
// last Produce(n) and Commit(n), beside PreCommit(n) too, but not before Commit(n-1) has succeeded. Produce may be called
// by several goroutines between Begin and PreCommit; SendOffsets and Commit by the same one, the other methods by one
// goroutine each. After any error nothing may be called but Close.
type Participant interface {
	// Begin makes epoch n ready to produce. It waits until the transactional producer of n is free.
	Begin(ctx context.Context, n Epoch) error
	// Produce hands records, at least one, over to epoch n. It takes ownership of them and calls done once, from another
	// goroutine, when the last of them is acknowledged or failed; failed is the first record that failed.
	// Produce blocks while the producer's buffer is full.
	Produce(ctx context.Context, n Epoch, records []*kgo.Record, done func(failed *kgo.Record, err error))
	// PreCommit returns when every record of epoch n is acknowledged. ctx bounds it.
	PreCommit(ctx context.Context, n Epoch) error
	// SendOffsets sends what Commit would have to send before its decision, if that can be done while outputs are on their
	// way: it saves a round trip. An error means what an error of Commit means. The step may be missing from the answer,
	// for Commit does what is left.
	SendOffsets(ctx context.Context, cp Checkpoint) (Steps, error)
	// Commit makes the outputs of the epoch and its positions true together. ctx bounds it and must not be
	// a context that a signal cancels. Its error is ErrAborted, ErrInDoubt or ErrFatal.
	Commit(ctx context.Context, cp Checkpoint) (Steps, error)
	// Settle commits the positions that epochs without output have left, outside a transaction. It may be called
	// only between Commits, never beside one: then every epoch that they stem from has ended, and those that have
	// not will commit later positions. olderThan 0 settles at once.
	// It reports whether anything was committed.
	Settle(ctx context.Context, olderThan time.Duration) (bool, error)
	// CommitStart commits the positions at which a first start begins, as a member and before any epoch.
	CommitStart(ctx context.Context, p offsets.Positions, cred Credential) error
	// Forget drops carried positions of partitions that leave this member.
	Forget(leaving []offsets.TopicPartition)
	// OpenSince is when the oldest transaction that may be open at the broker got its first record. It has a monotonic
	// reading: a clock that is set makes no transaction older.
	OpenSince() (time.Time, bool)
	// Abort ends a transaction that no failure has touched, so that its outputs do not hold up readers. It is
	// a courtesy: the fence of the next start does the same.
	Abort(ctx context.Context)
	// Close discards every client. Outcomes that were not acknowledged stay unknown until the next fence.
	Close()
}

// BatchParticipant is a Participant that takes batches as they were fetched, in place of records.
type BatchParticipant interface {
	Participant
	// ProduceBatches hands whole batches of one output partition over to epoch n, at least one. They are to be Portable
	// and are changed in place (Reframe); their bytes belong to the epoch until done is called, once, from another
	// goroutine, when all are acknowledged or one has failed. Batches of one partition are appended in the order of the
	// calls. It never blocks: the memory of a batch is the caller's, up to done.
	//
	// The error names topic, partition and the offset in the source of the batch that failed, or of the record in it
	// if the broker has named one. Refused(err) tells whether a replay would fail again.
	ProduceBatches(ctx context.Context, n Epoch, topic string, partition int32, batches []batch.Batch, done func(error))
}
