package mutants

// inspectRules breaks what keeps an operator's abort from harming the living: rule 10, whose an id is.
func inspectRules() []Mutant {
	return []Mutant{
		{
			Name: "inspect-unseen-is-absent", Rule: 10, Why: "a transactional id that may not be seen is taken for none",
			Edits:   []Edit{{"txn/judge.go", `s.name == "" && !s.complete`, `false`}},
			Package: "./txn", Tests: []string{"TestJudgeStray"},
		},
		{
			Name: "inspect-young-hangs", Rule: 10, Why: "a transaction hangs before the longest timeout has passed",
			Edits:   []Edit{{"txn/judge.go", `case s.quiet <= s.limit:`, `case s.quiet < 0:`}},
			Package: "./txn", Tests: []string{"TestJudgeStray", "TestInspectHanging"},
		},
		{
			Name: "inspect-live-is-dead", Rule: 10, Why: "a transaction of a member of the group is safe to abort",
			Edits:   []Edit{{"txn/judge.go", `case s.owner != nil:`, `case s.owner != nil && s.age < 0:`}},
			Package: "./txn", Tests: []string{"TestJudge", "TestInspect"},
		},
		{
			Name: "inspect-blind-is-dead", Rule: 10, Why: "members that are not visible are taken for gone",
			Edits:   []Edit{{"txn/judge.go", `case s.blind != nil:`, `case s.blind != nil && s.age < 0:`}},
			Package: "./txn", Tests: []string{"TestJudge", "TestInspectNotVisible"},
		},
		{
			Name: "abort-unproven", Rule: 10, Why: "force ends what is not proven to hang",
			Edits:   []Edit{{"txn/abort.go", `case t.Name != t.ID && t.Kind != KindHanging:`, `case false:`}},
			Package: "./txn", Tests: []string{"TestAbortHanging"},
		},
		{
			Name: "abort-another", Rule: 10, Why: "the transaction that is aborted need not be the one that was shown",
			Edits:   []Edit{{"txn/abort.go", `left := s.again(ctx, []target{shown})`, `left := []target{shown}`}},
			Package: "./txn", Tests: []string{"TestAbortShown"},
		},
		{
			Name: "abort-another-epoch", Rule: 10, Why: "a marker is written for the epoch that was not shown",
			Edits:   []Edit{{"txn/abort.go", ` || again.ProducerEpoch != t.ProducerEpoch`, ``}},
			Package: "./txn", Tests: []string{"TestAbortHanging"},
		},
		{
			Name: "abort-old-coordinator", Rule: 10, Why: "a marker has not the coordinator epoch that the partition has seen",
			Edits:   []Edit{{"txn/abort.go", `max(0, p.coordinatorEpoch)`, `min(0, p.coordinatorEpoch)`}},
			Package: "./txn", Tests: []string{"TestAbortHanging"},
		},
	}
}
