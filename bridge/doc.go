// Package bridge is the runtime: who does what, and in which order.
//
//	source ──work, barriers──▶ lanes ──outputs──▶ txn.Participant
//	   ▲                         │ passes
//	   │ gates                   ▼
//	   └────────────────── coordinator ──epochs──▶ committer
//
// Bridge lives as long as the process and starts one session after the other; a session is one incarnation of
// the pipeline, from the fence to the first failure. Inside a session each goroutine has one duty:
//
//   - source (source.go) polls, deals the records of each partition to its lane, and puts barriers in-band;
//   - each lane (lane.go) transforms and produces its partitions in order; at a closed gate it transforms on and
//     holds its outputs; with a piece of work that takes long it is lent hands (crew.go), which have ended before it
//     goes on;
//   - the coordinator (coordinator.go) aligns, queues for the commit, flushes and opens the next gate;
//   - the committer (coordinator.go, commit) commits one epoch after the other: it sends the positions of an aligned epoch
//     beside its flush, waits for the flush, and ends the transaction;
//   - watch (watch.go) looks after open transactions, dangling ids, lag and the end of the input;
//   - the group's callbacks (assignment.go) run in the client's goroutines.
//
// The first error ends the session and is its result. Channels carry everything between the goroutines; what is
// shared besides is atomic or has its mutex beside it.
//
// # The life of an epoch
//
// An epoch is opened by its first record. Its barrier follows after the interval, the record or byte limit, the
// age limit, when the group wants to rebalance, or at the stop. A barrier of n+1 is not sent before the gate of
// n+1 is open, so at most two epochs are between barrier and commit; an epoch whose gate stays closed grows
// instead of standing still, up to its limits.
//
// Rebalances happen between epochs only: the source calls AllowRebalance when no record is in an open epoch,
// which is after a barrier and after every poll that brought nothing.
//
// # Pass-through
//
// A pipeline that changes nothing hands batches on undecoded (raw.go, rawfetch.go, rawanswer.go). The consumer client
// stays the group member: it has the callbacks, the positions and the leaders, and everything it would fetch is paused.
// The fetcher asks for it by requests of its own. The source still polls the client: that is how the group's and the
// metadata's errors come, and a poll that ends, also because it was cut short, blocks rebalances until AllowRebalance.
// Only then is what was fetched taken and dealt. Truncation is found by the broker, which is told the leader epoch of
// the last batch with each fetch (KIP-595).
//
// Of a partition one batch is in each Produce request. So a partition with three deliveries on their way is not
// fetched: what waits gathers at the source's broker, and batches that would be too slow one by one become one.
//
// # One partition on several processors
//
// A partition belongs to one lane, which measures what its records cost. A piece of work that takes long is cut into
// parts, which the lane and the hands of the crew convert side by side; the lane joins the outputs in the order of the
// inputs. Only conversion is done side by side: the lane takes the next work when the whole piece is converted. So a
// barrier, the positions, the order of the outputs, the first record that fails and what memory holds are the same as
// if the lane had been alone, and no other file knows of the crew. How much is dealt at a time (pace.go) is reckoned
// without it, for the hands may be with another lane by then.
//
// Records that cost less than 2 µs are never shared, and while all lanes have such work nobody has hands to lend. Of a
// chain that takes 0.2 s for a record one is dealt at a time, with the default epoch timeout, and one cannot be shared.
//
// # Records that fail
//
// A converter asks the error policy (policy.go) about an input that the chain refuses, or of which an output will be
// refused (rules.go): it ends the bridge, is left out, or becomes a dead letter (letter.go), which is an output like any other from
// there on. What only a broker refuses ends the session; the next one reads the inputs of the refused batch one by one
// (refusal.go), and knows then which of them the policy is for.
//
// # Decisions
//
// The record limit of an epoch is 1,000,000 by default. With 100,000 it closes epochs of 100-byte records every 60
// to 75 ms at full speed, where 100 ms were asked for; measured on Kafka 4.4.0, four rounds each: 0.52 against 0.48
// CPU seconds per million records. Memory is bounded by the budget, not by this limit.
//
// The status page is written by markup.go and not by html/template. That package calls methods by names that are known
// only at run time, so the linker has to keep every exported method of every type that is reachable: the binary grows
// from 24.98 to 30.08 MB, and the image may have 25. The writer is 20 lines; it escapes whatever is not a constant of
// the program, and tests hold it to that with hostile names.
package bridge
