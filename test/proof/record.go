// Package proof keeps the account of what the bridge was put through: the results that tests record, and the map
// from each known fault to the tests that try it. docs/proof.md is made from both.
package proof

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
)

// ResultsVariable names the file that results are appended to, one JSON object per line. Unset, nothing is kept.
const ResultsVariable = "EOSBRIDGE_PROOF_RESULTS"

// PartVariable names the part of make proof that a result belongs to.
const PartVariable = "EOSBRIDGE_PROOF_PART"

// Brokers that a test can run on.
const (
	V44   = "4.4.0" // Apache Kafka, transaction.version 2
	V39   = "3.9.1" // Apache Kafka, without the feature
	Fake  = "kfake" // in-process stand-in
	Model = "model" // TLC
)

// Result is what one test tried and found. Counts that do not apply are left 0.
type Result struct {
	Test   string        `json:"test"`           // Record fills it in
	Part   string        `json:"part,omitempty"` // Record fills it in
	Failed bool          `json:"failed"`         // Record fills it in
	At     time.Time     `json:"at"`             // Record fills it in
	Broker string        `json:"broker"`         // empty: the part as a whole
	Took   time.Duration `json:"took,omitempty"`

	Scenarios int64 `json:"scenarios,omitempty"` // different situations tried
	Rows      int64 `json:"rows,omitempty"`      // rows of a fault matrix
	Kills     int64 `json:"kills,omitempty"`     // processes of the bridge ended by SIGKILL
	Records   int64 `json:"records,omitempty"`   // fed

	Lost       int64 `json:"lost,omitempty"`
	Duplicated int64 `json:"duplicated,omitempty"`
	OutOfOrder int64 `json:"out_of_order,omitempty"`
	Torn       int64 `json:"torn,omitempty"`
	LeftOpen   int64 `json:"left_open,omitempty"`

	Seed uint64 `json:"seed,omitempty"`
	Note string `json:"note,omitempty"` // one line for people, such as a median
}

// Record keeps a result, if somebody collects them.
func Record(t testing.TB, r Result) {
	t.Helper()
	path := os.Getenv(ResultsVariable)
	if path == "" {
		return
	}
	r.Test, r.Part, r.Failed, r.At = t.Name(), os.Getenv(PartVariable), t.Failed(), time.Now().UTC()
	if err := Append(path, r); err != nil {
		t.Fatalf("record result: %v", err)
	}
}

// Append writes one result at the end of a file.
func Append(path string, r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return appendLine(path, line)
}

// appendLine writes a line in one call, so that test processes may share the file.
func appendLine(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}
