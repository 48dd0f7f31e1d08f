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
// [Watch] holds the sharper invariant at every instant of the run, not only at
// its end: the visible output is the image of the input below the committed
// positions. [Quiescent] looks at what the run leaves behind: open
// transactions, a last stable offset below the high watermark, a lag.
package oracle
