// Package check looks at a cluster before a bridge starts on it, or beside one that runs: can this configuration work
// there, and does what exactly-once rests on hold?
//
// It has two halves. Gathering (gather*.go) asks the brokers and writes down what they say, errors included, in a
// Snapshot. Judging is a table of rules, each a pure function of the snapshot, with a test of its own: what a rule asks
// for stands in its fields, from which docs/check.md is made.
//
// A finding is one of three. PASS: as it should be. WARN: the bridge works, and a guarantee is weaker than it could be, or
// something could not be looked at ("not checked", with the permission that is missing). FAIL: the bridge would not
// start, would stop, or would be wrong.
//
// Nothing is changed, and it ends in bounded time. Two permissions cannot be read, so they are tried with requests that a
// broker refuses for another reason once it has granted them: a heartbeat of a member that no group has, and
// AddOffsetsToTxn of producer id -1, which no transaction has. Coordinators are not looked for while their topics do not
// exist, for that would create them.
package check
