package txn

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestJudge: what a transaction is and whether it may be aborted follows from state, name, owner and age alone.
func TestJudge(t *testing.T) {
	member := &Member{ID: "m", ClientID: "c", Host: "/10.0.0.1"}
	ours := sight{state: stateOngoing, ours: true, instance: "a", group: "app", age: time.Minute, olderThan: 30 * time.Second}
	with := func(change func(*sight)) sight {
		s := ours
		change(&s)
		return s
	}
	for _, row := range []struct {
		name string
		s    sight
		kind Kind
		safe bool
		why  string
	}{
		{"dead", ours, KindDead, true, "nobody in the group app is called a"},
		{"just old enough", with(func(s *sight) { s.age = s.olderThan }), KindDead, true, ""},
		{"live", with(func(s *sight) { s.owner = member }), KindLive, false, "is in the group app"},
		{"live, however old", with(func(s *sight) { s.owner, s.age = member, time.Hour }), KindLive, false, "is in the group app"},
		{"young", with(func(s *sight) { s.age = s.olderThan - 1 }), KindUnknown, false, "30s old"},
		{"no start", with(func(s *sight) { s.age, s.olderThan = -1, -time.Hour }), KindUnknown, false, ""},
		{"members not visible", with(func(s *sight) { s.blind = errors.New("denied") }), KindUnknown, false, "denied"},
		{"foreign", with(func(s *sight) { s.ours = false }), KindForeign, false, "prefix"},
		{"foreign and blind", with(func(s *sight) { s.ours, s.blind = false, errors.New("denied") }), KindForeign, false, "prefix"},
		{"aborting", with(func(s *sight) { s.state = statePrepareAbort }), KindEnding, false, "decided"},
		{"fencing", with(func(s *sight) { s.state = statePrepareEpochFence }), KindEnding, false, "decided"},
		{"committing", with(func(s *sight) { s.state = statePrepareCommit }), KindEnding, false, "decided"},
		{"committed", with(func(s *sight) { s.state = stateCompleteCommit }), KindIdle, false, "nothing is open"},
		{"empty", with(func(s *sight) { s.state = "Empty" }), KindIdle, false, "nothing is open"},
		{"foreign, empty", with(func(s *sight) { s.state, s.ours = "Empty", false }), KindForeign, false, "nothing is open"},
	} {
		if j := row.s.judge(); j.kind != row.kind || j.safe != row.safe || !strings.Contains(j.because, row.why) {
			t.Errorf("%s: %+v, want %s, safe %v, %q", row.name, j, row.kind, row.safe, row.why)
		}
	}
}

// TestJudgeStray: only a transaction that is old, still there, and certainly of no coordinator hangs.
func TestJudgeStray(t *testing.T) {
	hangs := stray{complete: true, quiet: time.Hour, limit: 15 * time.Minute, still: true}
	with := func(change func(*stray)) stray {
		s := hangs
		change(&s)
		return s
	}
	for _, row := range []struct {
		name string
		s    stray
		kind Kind
		why  string
	}{
		{"no id", hangs, KindHanging, "no transactional id"},
		{"not listed", with(func(s *stray) { s.name, s.state = "app.a.0", "Empty" }), KindHanging, "the coordinator of app.a.0 (Empty) does not list"},
		{"not listed, and other ids may be hidden", with(func(s *stray) { s.name, s.complete = "app.a.0", false }), KindHanging, ""},
		{"no id, and some may be hidden", with(func(s *stray) { s.complete = false }), KindUnknown, "may not see all"},
		{"young", with(func(s *stray) { s.quiet = s.limit }), KindUnknown, "15m"},
		{"gone", with(func(s *stray) { s.still = false }), KindEnding, ""},
	} {
		j := row.s.judge()
		if j.kind != row.kind || j.safe != (row.kind == KindHanging) || !strings.Contains(j.because, row.why) {
			t.Errorf("%s: %+v, want %s, %q", row.name, j, row.kind, row.why)
		}
	}
}
