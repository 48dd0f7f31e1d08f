// Package audit compares what a bridge has read with what it has written, and decides whether each record arrived
// exactly once, whole and in order.
//
// It shares no code with the bridge: it has its own hash, its own partitioner, its own reading of the provenance
// headers and its own fetch loop, so that a mistake in one of them shows instead of cancelling out.
//
// # What is compared
//
// The group's committed positions are read first, then the ends of the target partitions, then it waits until every
// transaction with records below those ends is decided, and last come the ends of the source. Whatever the positions
// promise lies therefore below the ends of the target, and whatever lies there came from below the ends of the
// source: both hold while the bridge runs. Records of the source at or beyond the committed positions may have an
// output and need not: they are not audited yet.
//
// # Two ways
//
//   - By content (merge.go), for pipelines that change nothing: each target partition has to be a merge of the source
//     partitions that go there. Each record is compared by a 64-bit hash of its key, value and headers, and by its time.
//     A record that says in its headers where it comes from is compared with exactly that one.
//   - By origin (origins.go), for all other pipelines: the provenance headers say which input an output belongs to, and
//     how many outputs that input has. One bit per source offset remembers what was seen.
//
// What cannot be decided is counted and told with its reason, never as a pass: see [Undecided].
//
// # Memory
//
// Records are hashed as they are fetched and not kept. A partition that is read holds up to four chunks of
// hashes and one fetch answer; a merge holds back at most [Limits].Held hashes while it waits for a slower source
// partition; by origin there is one bit per source offset besides.
package audit
