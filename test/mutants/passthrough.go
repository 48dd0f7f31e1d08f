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
			Name: "raw-memory-early", Rule: 17, Why: "the memory of batches is used again before they are acknowledged",
			Edits:   []Edit{{"bridge/raw.go", "len(o.raw.batches)\n", "len(o.raw.batches)\n\to.raw.memory.Release()\n"}},
			Package: "./bridge", Tests: []string{"TestPassThrough"},
		},
		{
			Name: "raw-memory-not-retained", Rule: 17, Why: "the memory of an answer is used again while its batches wait for a lane",
			Edits:   []Edit{{"bridge/rawfetch.go", "\t\t\tmemory.Retain()\n", ""}},
			Package: "./bridge", Tests: []string{"TestPassThrough"},
		},
		{
			Name: "link-over", Rule: 17, Why: "batches that are their owner's again are still written",
			Edits:   []Edit{{"internal/link/link.go", "delete(d.journeys, j.id)", "_ = j"}},
			Package: "./internal/link", Tests: []string{"TestRequestAfterItsEnd"},
		},
		{
			Name: "large-refused", Rule: 16, Why: "a record larger than an ordinary batch ends the bridge, although the topic takes it",
			Edits:   []Edit{{"bridge/lane.go", `errors.Is(err, kerr.MessageTooLarge) && l.enlarge(failed.Topic)`, `errors.Is(err, kerr.MessageTooLarge) && false`}},
			Package: "./bridge", Tests: []string{"TestLargeRecords"},
		},
	}
}
