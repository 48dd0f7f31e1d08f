package mutants

// borderRules breaks what keeps epochs apart and memory bounded: the aligner, the budget (rule 16), and the lanes.
func borderRules() []Mutant {
	return []Mutant{
		{
			Name: "aligned-by-one", Rule: 2, Why: "an epoch is aligned when the first lane has passed its barrier",
			Edits:   []Edit{{"bridge/barrier.go", "\ta.waiting[lane] = false\n\ta.left--\n\treturn a.left == 0, nil\n}", "\ta.waiting[lane] = false\n\ta.left--\n\treturn true, nil\n}"}},
			Package: "./bridge", Tests: []string{"TestAligner", "TestAlignerTraces"},
		},
		{
			Name: "barrier-twice", Rule: 2, Why: "a lane that passes a barrier twice counts twice",
			Edits:   []Edit{{"bridge/barrier.go", "\tcase !waits:\n", "\tcase false:\n"}, {"bridge/barrier.go", "waits, known := a.waiting[lane]", "_, known := a.waiting[lane]"}},
			Package: "./bridge", Tests: []string{"TestAligner", "TestAlignerTraces"},
		},
		{
			Name: "old-barrier-counts", Rule: 2, Why: "a barrier of an epoch that was given up counts for the present one",
			Edits:   []Edit{{"bridge/barrier.go", "\tif b.Epoch < a.epoch {\n\t\treturn false, nil\n\t}\n", ""}},
			Package: "./bridge", Tests: []string{"TestAligner", "TestAlignerTraces"},
		},
		{
			Name: "barrier-overtakes", Rule: 1, Why: "a lane passes a barrier before the outputs in front of it are produced",
			Edits:   []Edit{{"bridge/lane.go", `if l.early {`, `if true {`}},
			Package: "./bridge", Tests: []string{"TestBarrierBehindOutputs"},
		},
		{
			Name: "gate-ignored", Rule: 1, Why: "a lane produces into an epoch whose gate is closed",
			Edits:   []Edit{{"bridge/lane.go", `if len(l.pending) > 0 || !o.epoch.open() {`, `if len(l.pending) > 0 {`}},
			Package: "./bridge", Tests: []string{"TestLanes", "TestOrderAcrossEpochs", "TestCopy"},
		},
		{
			Name: "parts-joined-backwards", Rule: 1, Why: "the parts of a piece that several converters share are not joined in their order",
			Edits:   []Edit{{"bridge/crew.go", `p, from, to := &parts[i],`, `p, from, to := &parts[len(parts)-1-i],`}},
			Package: "./bridge", Tests: []string{"TestSharedAsAlone"},
		},
		{
			Name: "parts-joined-over-others", Rule: 1, Why: "what one part grows to is written over the outputs of the next",
			Edits:   []Edit{{"bridge/crew.go", `if inPlace && len(outputs)`, `if inPlace && false && len(outputs)`}},
			Package: "./bridge", Tests: []string{"TestSharedAsAlone"},
		},
		{
			Name: "parts-not-awaited", Rule: 1, Why: "a lane goes on while hands are still at its records",
			Edits:   []Edit{{"bridge/crew.go", "\tworking.Wait()\n", ""}},
			Package: "./bridge", Tests: []string{"TestSharedAsAlone", "TestOneHotPartition"},
		},
		{
			Name: "parts-late-error", Rule: 1, Why: "of several records that fail the last one is reported",
			Edits:   []Edit{{"bridge/crew.go", `if err == nil {`, `if parts[i].err != nil {`}},
			Package: "./bridge", Tests: []string{"TestSharedAsAlone", "TestFirstErrorOfAPiece"},
		},
		{
			Name: "parts-given-up", Rule: 1, Why: "a record before the one that failed is left unconverted, and its error unknown",
			Edits:   []Edit{{"bridge/crew.go", "i := int(next.Add(1)) - 1\n\t\t\tif i >= len(parts) {", "i := len(parts) - int(next.Add(1))\n\t\t\tif i < 0 {"}},
			Package: "./bridge", Tests: []string{"TestSharedAsAlone", "TestFirstErrorOfAPiece"},
		},
		{
			Name: "registry-away", Rule: 5, Why: "a schema registry that does not answer is taken for the record's fault",
			Edits:   []Edit{{"bridge/converter.go", "\treturn away\n", "\treturn away && false\n"}},
			Package: "./bridge", Tests: []string{"TestSchemasAway"},
		},
		{
			Name: "registry-for-ever", Rule: 12, Why: "a lane waits for a schema registry beyond the end of its session",
			Edits:   []Edit{{"bridge/session.go", "\t\tc.chain.Until(s.ctx)\n", ""}},
			Package: "./bridge", Tests: []string{"TestSchemasAway", "TestSchemasAwayAtAStop"},
		},
		{
			Name: "epoch-for-ever", Rule: 12, Why: "an epoch has no deadline",
			Edits:   []Edit{{"bridge/coordinator.go", "return context.WithDeadlineCause(s.ctx, e.triggered.Add(s.opts.EpochTimeout),", "return context.WithDeadlineCause(s.ctx, e.triggered.Add(24*time.Hour),"}},
			Package: "./bridge", Tests: []string{"TestEpochDeadline"},
		},
		{
			Name: "old-transaction", Rule: 12, Why: "a transaction that gets too old is left to the broker's timeout",
			Edits:   []Edit{{"bridge/watch.go", "\t\t\ts.watchAge()\n", ""}},
			Package: "./bridge", Tests: []string{"TestTransformHangsBehindAQueue"},
		},
		{
			Name: "budget-not-given-back", Rule: 16, Why: "acknowledged records stay in the budget",
			Edits:   []Edit{{"bridge/lane.go", "\t\to.piece.budget.give(o.piece.size)\n", ""}},
			Package: "./bridge", Tests: []string{"TestBudget", "TestStuckOutput"},
		},
		{
			Name: "budget-not-taken", Rule: 16, Why: "nothing is counted into the budget",
			Edits:   []Edit{{"bridge/source.go", "\ts.budget.take(size)\n", ""}, {"bridge/lane.go", "\t\to.piece.budget.give(o.piece.size)\n", ""}, {"bridge/lane.go", "\t\tl.budget.give(w.size)\n", ""}},
			Package: "./bridge", Tests: []string{"TestStuckOutput"},
		},
		{
			Name: "filtered-not-given-back", Rule: 16, Why: "records that are dropped stay in the budget",
			Edits:   []Edit{{"bridge/lane.go", "\t\tl.budget.give(w.size)\n", ""}},
			Package: "./bridge", Tests: []string{"TestBudgetOfFiltered"},
		},
	}
}
