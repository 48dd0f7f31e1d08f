package bridge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestClockSetBack: commits after the wall clock was set back are commits: they end a row of failures.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	s := newSupervisor(now, time.Minute, 3)
	if delay, err := s.after(now, now, aborted()); delay == 0 {
		t.Fatal(err)
	}
	now = now.Add(-time.Hour)
	for i := range 30 {
		if i%3 == 0 {
			now = now.Add(time.Second)
		}
		if delay, err := s.after(now, now, aborted()); delay == 0 {
			t.Fatalf("failure %d: %v, though every third follows a commit", i, err)
		}
	}
}

// TestDurationsAreMonotonic: no duration of the runtime or of the protocol is reckoned from a number of seconds since
// 1970, which moves when the clock is set. (A Go time keeps a monotonic reading as long as it stays a time.Time.) The
// clock of a running process cannot be set in a test, so the source is looked at.
func TestDurationsAreMonotonic(t *testing.T) {
	t.Parallel()
	wall := map[string]bool{"Unix": true, "UnixNano": true, "UnixMilli": true, "UnixMicro": true, "Truncate": true}
	allowed := map[string]bool{
		"letter.go":             true, // writes a record's own time, as Kafka counts it
		"rules.go":              true, // compares a record's own time with Kafka's word for none
		"judge.go":              true, // compares with the broker's clock, as its text says, and only decides whether a dead one's transaction waits
		"inspect_partitions.go": true, // compares with the time of a record in the log, for a report
		"metrics.go":            true, // shows a time of day, as Prometheus counts it
	}
	for _, pattern := range []string{"*.go", "../txn/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || allowed[filepath.Base(file)] {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && wall[sel.Sel.Name] {
					t.Errorf("%s uses %s: keep the time.Time", file, sel.Sel.Name)
				}
				return true
			})
		}
	}
}

// TestPauseAfterACommit: the pause counts from the end of the last commit, by the monotonic clock.
func TestPauseAfterACommit(t *testing.T) {
	t.Parallel()
	s := &source{session: &session{Bridge: &Bridge{opts: Options{EpochMinPause: time.Hour}}}, lastBarrier: time.Now().Add(-time.Minute)}
	if d := s.dueIn(); d > 0 {
		t.Errorf("before the first commit the epoch waits %s", d)
	}
	end := time.Now()
	s.lastEnd.Store(&end)
	if d := s.dueIn(); d < 59*time.Minute || d > time.Hour {
		t.Errorf("the epoch waits %s, want an hour", d)
	}
	if !strings.Contains(s.lastEnd.Load().String(), " m=") {
		t.Error("the end of the commit has lost its monotonic reading")
	}
}
