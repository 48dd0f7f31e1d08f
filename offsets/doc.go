// Package offsets answers one question: where are we?
//
// A position is the next offset to read of a partition. Positions are held in two places only: in the
// consumer group (the truth, written by the commit of an epoch) and in a lane's [Tracker] (what this process
// has taken in since). The package reads the first, keeps the second, and never turns one into the other: after
// any failure the process starts again from what the broker says.
//
// # Rules
//
//  1. Positions never step back. A step back inside one process means that a record was dealt twice or that the
//     log was cut; both end the epoch ([ErrBackwards]). Steps forward over gaps are normal: compaction,
//     aborted records and transaction markers all leave offsets that no consumer sees.
//  2. Positions that decide where to start are read with "require stable" (KIP-447): while an open transaction
//     holds a position back, the broker says UNSTABLE_OFFSET_COMMIT, and [Committed] waits. Reading past it
//     would repeat the records of a transaction that commits a moment later.
//  3. Positions that are only shown (lag) are read without it. A reader of metrics must not wait.
//  4. A start policy applies to topics of which the group knows nothing ([FirstStart]). The positions that it
//     yields have to be committed before the first record is read, for earliest too: a process that dies
//     between its start and its first commit would otherwise resolve "latest" a second time and skip.
//
// # What the broker does not tell
//
// An OffsetFetch for all topics of a group lists the partitions that have a *committed* position. A partition
// whose first position ever is still inside an open transaction is missing from the answer instead of being
// reported unstable (OffsetMetadataManager.fetchAllOffsets, seen on 4.4.0 and 3.9.1), and kadm knows no other form
// of the request. Rule 4 keeps that from doing harm for first starts, and it is the reason why a topic that appears
// later (a regular expression) needs its positions committed before its first epoch as well. A group member asks by
// partition and is told.
package offsets
