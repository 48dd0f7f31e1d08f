package mutants

// passThroughRules breaks what pass-through adds on the source's side: whose batches are dealt, which are left out, and
// which are decoded.
func passThroughRules() []Mutant {
	return []Mutant{
		{
			Name: "raw-rebalance-before-take", Rule: 7, Why: "rebalances are allowed before what was fetched is dealt",
			Edits:   []Edit{{"bridge/source.go", "\tcancel()\n\tgot, err := s.take(fetches)\n", "\tcancel()\n\ts.allowRebalance()\n\tgot, err := s.take(fetches)\n"}},
			Package: "./bridge", Tests: []string{"TestPassThroughHoldsRebalances"},
		},
		{
			Name: "raw-late-answer", Rule: 7, Why: "an answer that comes after its partition was revoked is dealt",
			Edits:   []Edit{{"bridge/rawfetch.go", `if f.lives[l.tp] == l {`, `if true {`}},
			Package: "./bridge", Tests: []string{"TestLateAnswer"},
		},
		{
			Name: "raw-revoked-read-on", Rule: 7, Why: "a revoked partition is fetched on",
			Edits:   []Edit{{"bridge/assignment.go", "s.fetcher.drop(tps)", "_ = s.fetcher"}},
			Package: "./bridge", Tests: []string{"TestPassThroughMembersComeAndGo"},
		},
		{
			Name: "raw-aborted", Rule: 13, Why: "batches of aborted transactions are passed through",
			Edits:   []Edit{{"bridge/rawanswer.go", `if aborted.holds(b) || b.Control()`, `if aborted.holds(b) && false || b.Control()`}},
			Package: "./bridge", Tests: []string{"TestReadAnswer"},
		},
		{
			Name: "raw-markers", Rule: 13, Why: "transaction markers are passed through",
			Edits:   []Edit{{"bridge/rawanswer.go", `if aborted.holds(b) || b.Control()`, `if aborted.holds(b) || b.Control() && false`}},
			Package: "./bridge", Tests: []string{"TestReadAnswer"},
		},
		{
			Name: "raw-gaps", Rule: 17, Why: "batches that no broker takes from a producer are passed through",
			Edits:   []Edit{{"bridge/raw.go", `case !b.Portable():`, `case false:`}},
			Package: "./bridge", Tests: []string{"TestRepack"},
		},
		{
			Name: "raw-uncut", Rule: 17, Why: "a batch that begins before the position is passed through whole",
			Edits:   []Edit{{"bridge/raw.go", `case b.BaseOffset() < d.from:`, `case false:`}},
			Package: "./bridge", Tests: []string{"TestRepack"},
		},
		{
			Name: "large-refused", Rule: 16, Why: "a record larger than an ordinary batch ends the bridge, although the topic takes it",
			Edits:   []Edit{{"bridge/lane.go", `errors.Is(err, kerr.MessageTooLarge) && l.enlarge(failed.Topic)`, `errors.Is(err, kerr.MessageTooLarge) && false`}},
			Package: "./bridge", Tests: []string{"TestLargeRecords"},
		},
	}
}
