package txn

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTransitions reads the whole table: every state with every event is listed, or an error that names both and
// asks for exit status 70.
func TestTransitions(t *testing.T) {
	var listed strings.Builder
	for s := StateReady; s <= StateFailed; s++ {
		for e := EventBegin; e <= EventFail; e++ {
			to, err := next(s, e)
			want, ok := transitions[s][e]
			if !ok {
				if to != StateFailed {
					t.Errorf("%s after an illegal %s is %s, want failed", s, e, to)
				}
				expectBroken(t, err, fmt.Sprintf("%q", s), fmt.Sprintf("%q", e))
				continue
			}
			if err != nil || to != want {
				t.Errorf("%s --%s--> %s, %v, want %s", s, e, to, err, want)
			}
			fmt.Fprintf(&listed, "%-9s --%s--> %s\n", s, e, to)
		}
	}
	golden(t, "transitions.txt", listed.String())
}

// TestTransitionsReach: what the table names exists, every state is reached, and failure is final.
func TestTransitionsReach(t *testing.T) {
	named := map[string]bool{}
	for s := StateReady; s <= StateFailed; s++ {
		named[s.String()] = true
	}
	for e := EventBegin; e <= EventFail; e++ {
		named[e.String()] = true
	}
	if len(named) != int(StateFailed)+1+int(EventFail)+1 {
		t.Fatal("a state or an event has no name of its own")
	}
	reached := map[State]bool{StateReady: true}
	for s, events := range transitions {
		if _, ok := events[EventFail]; !ok {
			t.Errorf("%s cannot fail", s)
		}
		for e, to := range events {
			reached[to] = true
			if s == StateFailed && to != StateFailed || e == EventFail && to != StateFailed {
				t.Errorf("%s --%s--> %s: failure is not final", s, e, to)
			}
		}
	}
	for s := StateReady; s <= StateFailed; s++ {
		if !reached[s] {
			t.Errorf("%s is never reached", s)
		}
	}
}

// golden compares with a file of testdata; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test ./txn -update writes it anew. Got:\n%s", path, got)
	}
}
