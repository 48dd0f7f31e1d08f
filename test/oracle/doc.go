// Package oracle decides whether a bridge between Kafka topics was exact.
//
// A [Feeder] writes records that say of themselves where they come from: source
// topic, source partition and a number that grows by one ([Origin]). Whatever
// the bridge makes of them is read back by a [Reader] with read_committed, once
// while everything is still going on and once at the end, and each record is
// handed to a [Checker]. The checker is pure: it knows what was fed ([Input]),
// renders each record anew from its origin ([Form]) and holds what was read
// against it. Its [Verdict] counts
//
//   - Duplicated: an origin that is visible more than once,
//   - Lost: an origin that was fed, is wanted, and is not visible at the end,
//   - OutOfOrder: within one output partition, an origin behind a later one of
//     the same source partition; or an offset that did not grow,
//   - Altered: key, value, headers or timestamp are not those that were fed,
//   - Foreign: a record nobody fed, or one that the transform had to drop,
//   - Misplaced: in another partition than the key asks for,
//   - Withdrawn, Late: what the two readers disagree about. Withdrawn was read
//     during the run and is not there at the end (an aborted read); Late is there
//     at the end at an offset that the first reader had already passed.
//
// [Follower] reads the same output with read_uncommitted, markers included, and
// the group's positions where the broker keeps them, and holds one account of all
// [Transactions], each of them known by its producer id and producer epoch:
//
//   - Torn: committed in one partition, and aborted or never ended in another; or
//     more was written after it had been ended. The positions are such a part, too,
//   - AbortedRead: a read_committed reader was shown a record of a transaction that
//     was aborted or has not ended; or the bridge's log says that the transaction
//     was aborted, and it is committed,
//   - LeftOpen: never ended, although everything has come to rest,
//   - Apart: the output of a transaction is not the image of the input between the
//     positions before it and its own,
//   - Backward: a position below the one before,
//   - Belied: the bridge's log says committed, the broker aborted.
//
// [Watch] asks from outside, again and again during the run, whether the visible
// output is the image of the input below the committed positions, and whether
// these go back. [Quiescent] looks at what the run leaves behind: open
// transactions, a last stable offset below the high watermark, a lag.
//
// What exactly-once means is put into statements (a) to (h) in this package's
// tests. Each is tried with seeded faults that have to be found.
package oracle
