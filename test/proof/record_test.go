package proof

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results")
	t.Setenv(ResultsVariable, path)
	Record(t, Result{Broker: Fake, Rows: 3})
	Record(t, Result{Broker: V44, Kills: 2, Seed: 7, Note: "median 5 ms"})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), text)
	}
	var got Result
	if err := json.Unmarshal([]byte(lines[1]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Test != "TestRecord" || got.Failed || got.At.IsZero() || got.Kills != 2 || got.Seed != 7 || got.Note != "median 5 ms" {
		t.Errorf("recorded %+v", got)
	}
}

func TestRecordNothing(t *testing.T) {
	t.Setenv(ResultsVariable, "")
	Record(t, Result{Broker: Fake}) // writes nowhere, and does not fail
}
