package bridge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/txn"
)

// outcome is what became of a row.
type outcome struct {
	steps    int      // times that its step was made
	hits     int      // requests that were refused
	sessions []string // classes of the sessions that failed
	aborted  int      // epochs
	status   int      // exit status; -1: the bridge runs on
	err      error    // why it has ended
	broken   []string // what is not exact
}

// judge compares what became of a row with the action that is expected, or with several of which one must fit.
func (o outcome) judge(actions string) (faults []string) {
	for action := range strings.SplitSeq(actions, "|") {
		these := o.judgeAs(action)
		if len(these) == 0 {
			return nil
		}
		faults = append(faults, these...)
	}
	return faults
}

func (o outcome) judgeAs(action string) (faults []string) {
	faults = append(faults, o.broken...)
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if o.hits == 0 {
		fault("the request was never sent")
	}
	if len(o.sessions) > o.hits {
		fault("%d sessions failed, and only %d requests", len(o.sessions), o.hits)
	}
	switch action {
	case "R":
		if len(o.sessions) > 0 || o.aborted > 0 {
			fault("want no failure, but sessions %q and %d epochs failed", o.sessions, o.aborted)
		}
	case "A", "X":
		class := map[string]string{"A": ClassAborted, "X": ClassInDoubt}[action]
		if len(o.sessions) == 0 || slices.ContainsFunc(o.sessions, func(s string) bool { return s != class }) {
			fault("want failed sessions of class %q, got %q", class, o.sessions)
		}
	}
	ends := action != "R" && action != "A" && action != "X"
	switch {
	case !ends && o.status >= 0:
		fault("want %s, but it ended with status %d: %v", action, o.status, o.err)
	case ends && fmt.Sprint(o.status) != action:
		fault("want the end with status %s, got %d: %v; sessions %q", action, o.status, o.err, o.sessions)
	case ends && len(o.sessions) > 0 && action != "75": // the ownership test is a part of starting again
		fault("it started again %q before it ended", o.sessions)
	}
	return faults
}

// TestMatrixJudge: each way in which a row can go wrong is noticed.
func TestMatrixJudge(t *testing.T) {
	t.Parallel()
	denied := txn.Fatalf(txn.StatusDenied, "test")
	for _, tc := range []struct {
		action string
		got    outcome
		fault  string // empty: fine
	}{
		{"R", outcome{hits: 1, status: -1}, ""},
		{"R", outcome{status: -1}, "never sent"},
		{"R", outcome{hits: 1, status: -1, aborted: 1}, "want no failure"},
		{"R", outcome{hits: 1, status: -1, sessions: []string{ClassAborted}}, "want no failure"},
		{"R", outcome{hits: 1, status: 77, err: denied}, "ended with status 77"},
		{"R", outcome{hits: 1, status: 0}, "ended with status 0"},
		{"R", outcome{hits: 1, status: -1, broken: []string{"a record came twice"}}, "came twice"},
		{"A", outcome{hits: 1, status: -1, aborted: 1, sessions: []string{ClassAborted}}, ""},
		{"A", outcome{hits: 3, status: -1, sessions: []string{ClassAborted, ClassAborted}}, ""},
		{"A", outcome{hits: 1, status: -1}, `class "aborted"`},
		{"A", outcome{hits: 1, status: -1, sessions: []string{ClassInDoubt}}, `class "aborted"`},
		{"A", outcome{hits: 2, status: -1, sessions: []string{ClassAborted, ClassInDoubt}}, `class "aborted"`},
		{"A", outcome{hits: 1, status: -1, sessions: []string{ClassAborted, ClassAborted}}, "2 sessions failed"},
		{"A", outcome{hits: 1, status: 1, sessions: []string{ClassAborted}}, "ended with status 1"},
		{"X", outcome{hits: 1, status: -1, sessions: []string{ClassInDoubt}}, ""},
		{"X", outcome{hits: 1, status: -1, sessions: []string{ClassAborted}}, `class "in doubt"`},
		{"R|X", outcome{hits: 1, status: -1}, ""},
		{"R|X", outcome{hits: 1, status: -1, sessions: []string{ClassInDoubt}}, ""},
		{"R|X", outcome{hits: 1, status: -1, sessions: []string{ClassAborted}}, `class "in doubt"`},
		{"77", outcome{hits: 1, status: 77, err: denied}, ""},
		{"77", outcome{hits: 1, status: -1}, "want the end with status 77"},
		{"77", outcome{hits: 1, status: 1}, "want the end with status 77"},
		{"77", outcome{hits: 1, status: 77, sessions: []string{ClassAborted}}, "started again"},
		{"75", outcome{hits: 1, status: 75}, ""},
		{"75", outcome{hits: 1, status: 75, sessions: []string{ClassAborted}}, ""},
		{"75", outcome{hits: 1, status: 75, broken: []string{"lost"}}, "lost"},
	} {
		faults := strings.Join(tc.got.judge(tc.action), "; ")
		if (faults == "") != (tc.fault == "") || !strings.Contains(faults, tc.fault) {
			t.Errorf("%s with %+v: %q, want %q", tc.action, tc.got, faults, tc.fault)
		}
	}
}
