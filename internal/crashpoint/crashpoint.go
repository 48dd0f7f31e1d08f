// Package crashpoint names the moments of the protocol at which a crash differs from a crash a moment earlier, and
// lets a build that is made for it die at any of them.
//
//	go build -tags crashpoints -o bridge . && EOSBRIDGE_CRASH_AT='commit: EndTxn written:3' ./bridge
//
// dies by SIGKILL, from its own hand, when it has written its third EndTxn and has no answer yet. A signal from
// outside comes too late to hit such a moment: on loopback a step takes less time than the signal.
//
// The calls of At and Step in the other rooms are the points; Points lists them. Without the build tag both are
// empty functions that the compiler removes with their arguments, so the binary that is shipped has none of this:
// no name, no variable, no branch (held by TestCrashPointsAreNotShipped in test/e2e).
//
// A new step of the protocol gets a call and a line in Points; TestPointsAreCalls here, TestEveryTransitionIsAPoint
// in txn and TestCrashPlan in test/e2e tell what is missing. Which life of the bridge reaches a point is in
// test/e2e: each point there is really died at, twice more on the way back, and what comes out is exact.
package crashpoint

// Variable is the environment variable that names the point and, behind a colon, which arrival there is the last:
// "commit: EndTxn ready:2". Only the build with the tag reads it.
const Variable = "EOSBRIDGE_CRASH_AT"

// Points lists every point, in the order in which a life of the bridge comes by.
func Points() []string {
	return []string{
		// From the start to the first poll.
		"recovery: before the fence",
		"recovery: one id fenced", // the second arrival is that of the other id; below transaction.version 2 renewals follow
		"recovery: both fenced",
		"recovery: name taken", // KIP-848 only: the name's last holder was made to leave
		"recovery: joined",
		"recovery: partitions assigned",
		"recovery: offsets fetched",
		"recovery: start resolved", // of partitions without a position
		"recovery: start committed",

		// Between begin and commit.
		"epoch: gate opened",
		"epoch: records handed over",
		"epoch: records acknowledged",
		"epoch: barrier injected",
		"epoch: aligned",

		// Before and after each transition of a slot's state; see Step.
		"slot: ready begin, before", "slot: ready begin, after",
		"slot: ready fail, before", "slot: ready fail, after",
		"slot: open flush, before", "slot: open flush, after",
		"slot: open offsets, before", "slot: open offsets, after", // from transaction.version 2 on, as what is positioned
		"slot: open fail, before", "slot: open fail, after",
		"slot: positioned flush, before", "slot: positioned flush, after",
		"slot: positioned fail, before", "slot: positioned fail, after",
		"slot: flushed carry, before", "slot: flushed carry, after",
		"slot: flushed offsets, before", "slot: flushed offsets, after",
		"slot: flushed fail, before", "slot: flushed fail, after",
		"slot: prepared end, before", "slot: prepared end, after",
		"slot: prepared fail, before", "slot: prepared fail, after",
		"slot: committed renew, before", "slot: committed renew, after",
		"slot: committed fail, before", "slot: committed fail, after",
		"slot: failed fail, before", "slot: failed fail, after",

		// The requests that make an epoch true: not yet written, written but not answered, answered.
		"commit: AddOffsetsToTxn ready", "commit: AddOffsetsToTxn written", "commit: AddOffsetsToTxn answered", // below transaction.version 2
		"commit: TxnOffsetCommit ready", "commit: TxnOffsetCommit written", "commit: TxnOffsetCommit answered",
		"commit: EndTxn ready", "commit: EndTxn written", "commit: EndTxn answered",
		"commit: bookkeeping done",
		"commit: client closed", "commit: client renewed", // below transaction.version 2

		// Positions of epochs without output.
		"settle: OffsetCommit ready", "settle: OffsetCommit written", "settle: OffsetCommit answered",

		// After SIGTERM.
		"stop: last barrier",
		"stop: last commit",
		"stop: before the leave",
		"stop: left",
	}
}

// Unreached are points of transitions that the table of a slot allows and nothing takes: what is in these states
// has nothing left that can fail. They are in the table so that a failure is final wherever it comes from.
func Unreached() []string {
	return []string{
		"slot: ready fail, before", "slot: ready fail, after",
		"slot: committed fail, before", "slot: committed fail, after",
		"slot: failed fail, before", "slot: failed fail, after",
	}
}
