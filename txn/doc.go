// Package txn decides when an epoch becomes true. It holds the two-phase contract between the pipeline and Kafka
// (Participant), its exactly-once implementation over two transactional producers (Ring), recovery, and the
// naming of transactional ids.
//
// # The protocol
//
// Epoch n runs on slot n mod 2. While n is being committed, n+1 is already transformed, and produced on the
// other slot as soon as n is flushed:
//
//	lanes ── aligned ─┬─▶ Flush(slot n) ───────────────────┬──▶ n+1 may produce (other slot)
//	                  └─▶ committer, serial:               ▼
//	                      EndTxn(n-1) ▶ TxnOffsetCommit(n) ▶ EndTxn(n) ▶ slot free
//
// TxnOffsetCommit(n) waits for the answer to EndTxn(n-1) and not for the flush of n, EndTxn(n) for both.
//
// The outputs and the positions of their inputs are in one transaction, so the answer of EndTxn is the one
// decision point, and the broker is the one that remembers it.
//
// # Invariants
//
// Each is held by tests that fail without it. The numbers are used in comments and tests.
//
//  1. Epoch n+1 produces to the cluster only after n is flushed: order per output partition.
//  2. One serial committer: TxnOffsetCommit(n), EndTxn(n), TxnOffsetCommit(n+1). The first may go out while outputs of n
//     are on their way, but not before n-1 is acknowledged as committed. Of two committed offset
//     records the later *record* wins, whatever the order of the EndTxns, and a late copy of
//     TxnOffsetCommit(n) stays valid until n's marker is in the positions' partition, which may be a moment
//     after EndTxn's answer. So it is sent by Broker.Request, which never sends again what may have left; an
//     answered 14, 15, 16 or 51 may be sent once more, a missing answer fails the epoch. Every partition's code
//     counts.
//  3. EndTxn is serial: n+1 only after n was acknowledged as committed.
//  4. n commits only if every promise of n succeeded and TxnOffsetCommit(n) succeeded, in whatever order. The client would commit
//     without the failed records, and answer nil without committing when none succeeded; the broker accepts
//     EndTxn(commit) after a refused TxnOffsetCommit. Nor does the client always know of a success in time: see
//     records.knows.
//  5. A failed or unknown outcome of n ends every later epoch: all clients are discarded, both ids fenced, a new
//     member id joined, and the positions come from the broker (require-stable). Never from memory, and never
//     "fenced, so it must have been committed".
//  6. Member id and generation are captured at the barrier, while a rebalance is blocked. One exception: an
//     *answered* ILLEGAL_GENERATION or STALE_MEMBER_EPOCH is repeated once with the pair of the moment, if since
//     the barrier the member id is the same, nothing was lost, and no revocation that took something has
//     returned. The pair is read before these are tested.
//  7. The barrier is the only point at which the group may rebalance; a revocation returns when every epoch
//     behind a barrier has ended.
//  8. An epoch without output opens no transaction. Its positions are carried into the next one, or committed
//     plainly: by the committer, with the credential of their barrier, in one attempt, before anything later.
//     Carried positions of partitions that leave are dropped before the revocation returns.
//  9. EndTxn has a context of its own with a deadline; no signal cancels it.
//  10. Own ids are fenced before joining and before the first poll. Ids are <prefix>.<instance>.<slot>, parsed
//     from the right; everything else is foreign. Ids of dead instances are swept in the background.
//  11. The newest starter owns a name; the other one ends. Whose it is tells a LeaveGroup with our last member id.
//  12. Longest open age + 2 × epoch timeout < transaction timeout < session timeout <= rebalance timeout.
//  13. Positions: no reset by the client; transaction markers move positions; truncation stops the bridge; start
//     positions are committed before the first epoch, by a member and for its own partitions. Without a member the
//     commit would be good at any later time at which the group is empty, and take back what others have committed.
//  14. Below transaction.version 2: AddOffsetsToTxn first, TxnOffsetCommit at most v4, and a slot's client is
//     made anew after every EndTxn, since a late copy of EndTxn or TxnOffsetCommit could still reach the next
//     transaction of its producer epoch (KAFKA-17754).
//  15. The bridge creates no topics.
//  16. Memory has one budget, from the poll to the acknowledgement.
//  17. Whole batches are produced with requests of our own (sender), at transaction.version 2 or later. Sequence
//     numbers begin at 0 with each producer epoch, which the answer to EndTxn names. A partition has one batch on its
//     way; without an answer it is sent again as it was, and every other failure ends the epoch. A batch's checksum
//     is its first producer's.
//  18. With dead letters (package bridge) an input has either all of its outputs or one dead letter, in the epoch that
//     advances its position. A dead letter follows from the input and the configuration, so a replay writes the same. What a
//     broker refuses is singled out in memory, which decides how inputs are grouped, never where to go on.
//
// Some guards overlap on purpose. The captured generation and the require-stable fetch carry the safety; the
// fence adds speed (no wait for the transaction timeout) and a second line; the drain saves aborted epochs.
//
// # Crash table
//
// What the broker holds when the process dies at a point, and what the next start does. The start is the same
// each time: fence both ids, join, read stable positions, go on.
//
//	died after                     the broker holds                    the next start
//	-----------------------------  ----------------------------------  ------------------------------------------
//	poll, before any produce       nothing of n                        reads from the positions before n
//	some produces of n             transaction n open, no positions    fence aborts n; reads n again
//	flush of n (n+1 producing)     n open, n+1 may be open             fence aborts both; reads from n
//	TxnOffsetCommit(n) sent,       n open with pending positions and   fence aborts n; the fetch waits for that
//	n not flushed                  some of its outputs
//	TxnOffsetCommit(n) sent        n open with pending positions       fence aborts n; the fetch waits for that
//	EndTxn(n) sent, not answered   n open, or decided                  fence aborts or lets the decision finish;
//	                                                                   the positions tell which
//	EndTxn(n) answered             n committed                         reads from the positions after n
//
// Package internal/crashpoint has a name for each of these points and for those between them and during a start;
// test/e2e dies at every one.
//
// # Errors
//
// Three classes and the fatal one decide everything (errors.go). ErrAborted and ErrInDoubt take the same path, a
// restart by invariant 5: that an outcome seems known saves nothing worth a second path. Only the ownership
// test yields ErrFenced, because PRODUCER_FENCED and INVALID_PRODUCER_EPOCH also follow from the broker's own
// transaction timeout.
//
// # Decisions
//
// Two ids, not one and not three. With one id the lanes stand still for flush, offsets and EndTxn (24 to 29 % of
// the time with 10 ms per answer and 100 ms epochs); a third id gains nothing while EndTxn takes less than an
// epoch.
//
// TxnOffsetCommit goes out beside the flush. With every answer 10 ms late and epochs of 100 ms a commit takes 24 ms from the
// aligned epoch on instead of 34 (kfake in virtual time: bridge, TestCommitSavesARoundTrip). Its order and that of the outputs
// do not matter: the transaction begins with whichever comes first, and if one of them fails it is aborted with the other.
// Not where it would be answered CONCURRENT_TRANSACTIONS, or make the broker answer that to outputs, which costs 20 ms and
// more: the transaction coordinator adds one thing at a time. So it waits until each output partition of the epoch has
// acknowledged something (places), and for the flush where only the client knows the partitions
// (BRIDGE_PARTITIONING=key) or where AddOffsetsToTxn comes first (below transaction.version 2). It waits for the end of
// the epoch before, too, so epochs that follow each other faster than they are committed gain nothing.
//
// With epochs of a few milliseconds an id comes into use again before the markers of its last transaction are all written,
// now and then. The broker would then answer the first records only after add.partitions.to.txn.retry.backoff.ms, 20 ms, with
// the whole epoch waiting. So a slot whose commits are less than 40 ms apart is kept back until DescribeTransactions says that
// its transaction is complete. Kafka 4.4.0, epochs of 5 ms, 2,000 records/s: 1.6 % of the epochs took 22 to 27 ms to flush
// (not so with the broker's back-off set to 3 ms); now 99.9 % take less than 14. Side by side, medians of five rounds, the
// latency's p99 fell from 32.5 to 23.9 ms, and to 22.4 with outputs in one request (bridge, lingerFor).
//
// kgo's GroupTransactSession is not used: after an EndTxn whose answer was lost it rewinds from memory and
// repeats the epoch.
//
// A classic group is not left at the start, although a consumer group (KIP-848) is. The classic coordinator gives
// a static name to its newest holder at once, while an emptied group waits group.initial.rebalance.delay.ms
// before it assigns anything. Measured on Kafka 4.4.0 with that delay at its default of 3 s, kill -9 to the
// first committed epoch of the restarted process: 0.04 to 0.08 s without leaving, 3.05 to 3.06 s with.
package txn
