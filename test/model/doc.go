// Package model checks the two-slot commit protocol with TLC, the model checker of TLA+: Ring.tla is the protocol and
// what Kafka promises, runs.go says which constants are explored and what must come out, README.md how to read it all.
//
// `make model` runs it. Without the checker's jar the tests look at the tables, the traces and the names only.
package model
