// Package e2e runs the bridge's binary against real Apache Kafka, and does to
// it what production does: kills it, stops it and lets it go on, loses the
// answers of its brokers, moves its partitions, takes its name away. What comes
// out is judged by package oracle.
//
// Every test runs on Apache Kafka 4.4.0, whose transaction.version is 2 (TV2),
// and on 3.9.1, which has no such feature (TV1); the name of the subtest says
// on which, and the few that concern one of them say so.
//
// The default run is a small version of each proof. The full size (Kafka's own
// bar of 100,000 records and 20 kills, all rows, all rounds) is
//
//	go test ./test/e2e -timeout 40m -args -long
//
// or E2E_LONG=1; -soak 1h is the length of TestSoak (make soak). Whatever is
// random follows from a seed that is printed; E2E_SEED=<seed> replays it.
// EOSBRIDGE_BIN names a binary to test in place of one that is built from this
// module.
package e2e
