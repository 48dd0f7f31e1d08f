package mutants

// commitRules breaks what makes an epoch true: rules 1 to 5, 8 and 9.
func commitRules() []Mutant {
	return []Mutant{
		{
			Name: "begin-before-flush", Rule: 1, Why: "the slot of n+1 may begin while n is not flushed",
			Edits:   []Edit{{"txn/ring.go", `last == StateOpen || last == StatePositioned {`, `false && last == StateOpen {`}},
			Package: "./txn", Tests: []string{"TestBeginBeforeFlush"},
		},
		{
			Name: "begin-behind-positions", Rule: 1, Why: "the slot of n+1 may begin when the positions of n are sent, although n is not flushed",
			Edits:   []Edit{{"txn/ring.go", `last == StateOpen || last == StatePositioned {`, `last == StateOpen {`}},
			Package: "./txn", Tests: []string{"TestOffsetsBesideFlush"},
		},
		{
			Name: "gate-before-flush", Rule: 1, Why: "lanes produce n+1 before n is flushed, and the slot lets them",
			Edits: []Edit{
				{"txn/ring.go", `last == StateOpen || last == StatePositioned {`, `false && last == StateOpen {`},
				{
					"bridge/coordinator.go", "\tif err := s.flush(ctx, e); err != nil {\n\t\treturn err\n\t}\n\tif err := s.openGate(s.ctx, e.next); err != nil {\n\t\treturn err\n\t}\n\ts.allow(e.next)\n\treturn nil\n}\n\nfunc (s *session) leadAtLeastOnce",
					"\tif err := s.openGate(s.ctx, e.next); err != nil {\n\t\treturn err\n\t}\n\tif err := s.flush(ctx, e); err != nil {\n\t\treturn err\n\t}\n\ts.allow(e.next)\n\treturn nil\n}\n\nfunc (s *session) leadAtLeastOnce",
				},
			},
			Package: "./bridge", Tests: []string{"TestOrderAcrossEpochs"},
		},
		{
			Name: "commit-out-of-order", Rule: 2, Why: "TxnOffsetCommit(n+1) before EndTxn(n)",
			Edits:   []Edit{{"txn/ring.go", `n != due {`, `false && n != due {`}},
			Package: "./txn", Tests: []string{"TestCommitOutOfOrder"},
		},
		{
			Name: "offsets-before-the-last-end", Rule: 2, Why: "TxnOffsetCommit(n+1) goes out beside the flush, before EndTxn(n) is answered",
			Edits:   []Edit{{"txn/ring.go", `s, err := r.dueSlot(cp.Epoch, StateOpen, StateFlushed)`, `s, err := r.slot[cp.Epoch%slots], error(nil)`}},
			Package: "./txn", Tests: []string{"TestOffsetsAfterTheLastEnd"},
		},
		{
			Name: "committer-overtakes", Rule: 2, Why: "the positions of n+1 go out while n is being committed, by the session and by the ring",
			Edits: []Edit{
				{"txn/ring.go", `s, err := r.dueSlot(cp.Epoch, StateOpen, StateFlushed)`, `s, err := r.slot[cp.Epoch%slots], error(nil)`},
				{"bridge/coordinator.go", "\tif err := s.queue(ctx, e); err != nil { // its positions", "\tif _, err := s.sink.SendOffsets(ctx, e.checkpoint()); err != nil {\n\t\treturn err\n\t}\n\tif err := s.queue(ctx, e); err != nil { // its positions"},
				{"bridge/coordinator.go", "steps, err := s.sink.SendOffsets(ctx, e.checkpoint())", "var steps txn.Steps\n\tvar err error\n\t_ = ctx"},
			},
			Package: "./bridge", Tests: []string{"TestOffsetsFollowTheLastEnd"},
		},
		{
			Name: "offsets-resent", Rule: 2, Why: "TxnOffsetCommit goes out through the client, which sends it again after a lost answer",
			Edits:   []Edit{{"txn/progress.go", `req.RequestWith(ctx, s.cl.Broker(int(node)))`, `req.RequestWith(ctx, s.cl)`}},
			Package: "./txn", Tests: []string{"TestTxnOffsetCommitUnanswered"},
		},
		{
			Name: "offsets-unanswered-again", Rule: 2, Why: "an unanswered TxnOffsetCommit is sent once more",
			Edits:   []Edit{{"txn/progress.go", `return errors.Is(err, kerr.CoordinatorLoadInProgress)`, `return !errors.As(err, new(*kerr.Error)) || errors.Is(err, kerr.CoordinatorLoadInProgress)`}},
			Package: "./txn", Tests: []string{"TestTxnOffsetCommitUnanswered"},
		},
		{
			Name: "offsets-not-again", Rule: 2, Why: "an answered NOT_COORDINATOR ends the epoch",
			Edits:   []Edit{{"txn/progress.go", `errors.Is(err, kerr.NotCoordinator) ||`, ``}},
			Package: "./txn", Tests: []string{"TestTxnOffsetCommitAgain", "TestCoordinatorMoves"},
		},
		{
			Name: "offsets-first-code", Rule: 2, Why: "only the first partition's code is looked at",
			Edits:   []Edit{{"txn/progress.go", "\tvar first error\n\tcodes(func(topic string, partition int32, code int16) {\n", "\tvar first error\n\tlooked := false\n\tcodes(func(topic string, partition int32, code int16) {\n\t\tif looked {\n\t\t\treturn\n\t\t}\n\t\tlooked = true\n"}},
			Package: "./txn", Tests: []string{"TestSecondPartitionRefused"},
		},
		{
			Name: "offsets-no-member", Rule: 2, Why: "TxnOffsetCommit names no member: a zombie is not refused",
			Edits:   []Edit{{"txn/progress.go", `err = g.attempts(ctx, cp.Credential, false, func(node int32, cred Credential) error {`, "err = g.attempts(ctx, cp.Credential, false, func(node int32, cred Credential) error {\n\t\tcred.MemberID, cred.Generation = \"\", -1"}},
			Package: "./txn", Tests: []string{"TestTxnOffsetCommitFields"},
		},
		{
			Name: "offsets-no-instance", Rule: 2, Why: "TxnOffsetCommit without the instance id",
			Edits:   []Edit{{"txn/progress.go", "s.id.String(), g.group, pid, epoch\n\treq.InstanceID = &g.instance\n", "s.id.String(), g.group, pid, epoch\n"}},
			Package: "./txn", Tests: []string{"TestTxnOffsetCommitFields"},
		},
		{
			Name: "offsets-no-leader-epoch", Rule: 2, Why: "TxnOffsetCommit without leader epochs",
			Edits:   []Edit{{"txn/progress.go", `p.Partition, p.Offset, p.LeaderEpoch = tp.Partition, pos.Offset, pos.LeaderEpoch`, `p.Partition, p.Offset = tp.Partition, pos.Offset`}},
			Package: "./txn", Tests: []string{"TestTxnOffsetCommitFields"},
		},
		{
			Name: "offsets-beside-newcomers", Rule: 2, Why: "positions go out while partitions are still being added to the transaction",
			Edits:   []Edit{{"txn/ring.go", `!s.places.wait(ctx)`, `false`}},
			Package: "./txn", Tests: []string{"TestOffsetsWaitForThePartitions"},
		},
		{
			Name: "commit-after-unknown", Rule: 3, Why: "n+1 commits although n did not",
			Edits:   []Edit{{"txn/ring.go", "\tr.due.Add(1)\n", ""}, {"txn/ring.go", "\tsteps, err := r.commit(ctx, s, cp)\n", "\tr.due.Add(1)\n\tsteps, err := r.commit(ctx, s, cp)\n"}},
			Package: "./txn", Tests: []string{"TestOutcomes"},
		},
		{
			Name: "failed-promise-ignored", Rule: 4, Why: "neither flush nor the end looks at failed and missing promises",
			Edits: []Edit{
				{"txn/slot.go", "\tif err := s.failed(); err != nil {\n\t\treturn Classify(CallProduce, err)\n\t}\n\tif h, a := s.handed.Load(), s.acked.Load(); h != a {", "\tif h, a := s.handed.Load(), s.acked.Load(); false && h != a {"},
				{"txn/slot.go", `a == 0 || h != a {`, `false && h != a {`},
				{"txn/slot.go", "\tif err := s.failed(); err != nil {\n\t\treturn Classify(CallProduce, err)\n\t}\n\tif err := s.visible(ctx)", "\tif err := s.visible(ctx)"},
			},
			Package: "./txn", Tests: []string{"TestFailedRecord"},
		},
		{
			Name: "offsets-refused", Rule: 4, Why: "EndTxn follows a refused TxnOffsetCommit",
			Edits:   []Edit{{"txn/ring.go", "if err := r.progress.sendInTxn(ctx, s, r.opts.Version, cp); err != nil {\n\t\treturn err\n\t}", "if err := r.progress.sendInTxn(ctx, s, r.opts.Version, cp); err != nil {\n\t\tr.opts.Log.Debug(\"ignored\", \"err\", err)\n\t}"}},
			Package: "./txn", Tests: []string{"TestTxnOffsetCommitRefused"},
		},
		{
			Name: "commit-before-flush", Rule: 4, Why: "EndTxn goes out while outputs are on their way behind the positions",
			Edits: []Edit{
				{"txn/ring.go", `s, err := r.dueSlot(cp.Epoch, StateFlushed, StatePrepared)`, `s, err := r.dueSlot(cp.Epoch, StateFlushed, StatePrepared, StatePositioned)`},
				{"txn/slot.go", `a == 0 || h != a {`, `false && h != a {`},
			},
			Package: "./txn", Tests: []string{"TestOffsetsBesideFlush"},
		},
		{
			Name: "flush-not-awaited", Rule: 4, Why: "the committer goes on without waiting for the flush",
			Edits:   []Edit{{"bridge/coordinator.go", "\t\t<-e.flushing\n\t\terr = e.flushErr\n", "\t\terr = nil\n"}},
			Package: "./bridge", Tests: []string{"TestPrepare", "TestOffsetsBesideTheFlush"},
		},
		{
			Name: "flush-not-awaited-alone", Rule: 4, Why: "at-least-once commits the positions of an epoch of one record before its output is acknowledged",
			Edits:   []Edit{{"bridge/coordinator.go", `if s.opts.Delivery == AtMostOnce { // it has no outputs yet`, `if s.opts.Delivery != ExactlyOnce {`}},
			Package: "./bridge", Tests: []string{"TestRefusedByBroker"},
		},
		{
			Name: "end-ignored", Rule: 4, Why: "a failed EndTxn is taken for a commit",
			Edits:   []Edit{{"txn/slot.go", "return Classify(CallEnd, fmt.Errorf(\"%s: %w\", s.id, err))", "s.log.Debug(\"ignored\", \"err\", Classify(CallEnd, err))"}},
			Package: "./txn", Tests: []string{"TestOutcomes"},
		},
		{
			Name: "invisible", Rule: 4, Why: "EndTransaction is called before the client knows the partitions it has produced to",
			Edits:   []Edit{{"txn/slot.go", "\tif err := s.visible(ctx); err != nil {\n\t\treturn err\n\t}\n", "\t_ = s.visible\n"}},
			Package: "./txn", Tests: []string{"TestCommitWaitsForTheBooks"},
		},
		{
			Name: "no-fence", Rule: 5, Why: "a start does not fence: dangling transactions block until their timeout, a zombie may commit",
			Edits:   []Edit{{"txn/slot.go", "\tpid, epoch, err := fence(ctx, out, s.log)\n", "\tpid, epoch, err := int64(0), int16(0), ctx.Err()\n\t_ = fence\n"}},
			Package: "./txn", Tests: []string{"TestOpenAfterDeath", "TestZombie"},
		},
		{
			Name: "one-fence", Rule: 5, Why: "only slot 0 is fenced",
			Edits:   []Edit{{"txn/slot.go", "\tpid, epoch, err := fence(ctx, out, s.log)\n", "\tvar pid int64\n\tvar epoch int16\n\tif s.id.Slot == 0 {\n\t\tpid, epoch, err = fence(ctx, out, s.log)\n\t}\n"}},
			Package: "./txn", Tests: []string{"TestOpenAfterDeath", "TestZombie"},
		},
		{
			Name: "not-stable", Rule: 5, Why: "positions are read while a transaction may still move them",
			Edits:   []Edit{{"offsets/group.go", `adm.FetchOffsets(kadm.RequireStable(ctx), group)`, `adm.FetchOffsets(ctx, group)`}},
			Package: "./offsets", Tests: []string{"TestCommittedWaits"},
		},
		{
			Name: "positions-step-back", Rule: 5, Why: "positions may go backwards",
			Edits:   []Edit{{"offsets/positions.go", `if to.Offset < 0 || to.Offset < from.Offset {`, `if to.Offset < 0 {`}},
			Package: "./offsets", Tests: []string{"TestMerge", "TestTrackerRefusesBackwards"},
		},
		{
			Name: "carried-lost", Rule: 8, Why: "what epochs without output have read is not carried into the next transaction",
			Edits:   []Edit{{"txn/ring.go", "\tcp.Positions, c.positions = c.positions, nil\n", "\tc.positions = nil\n"}},
			Package: "./txn", Tests: []string{"TestEpochWithoutOutput", "TestEpochsOfOtherTopics"},
		},
		{
			Name: "empty-transaction", Rule: 8, Why: "an epoch without output opens a transaction for its positions, which the client never ends",
			Edits:   []Edit{{"txn/ring.go", `if s.handed.Load() == 0 {`, `if false {`}, {"txn/slot.go", `a == 0 || h != a {`, `h != a {`}, {"txn/slot.go", "\tif err := s.visible(ctx); err != nil {\n\t\treturn err\n\t}\n", "\t_ = s.visible\n"}},
			Package: "./txn", Tests: []string{"TestEpochWithoutOutput"},
		},
		{
			Name: "plain-again", Rule: 8, Why: "an unanswered plain commit is sent again",
			Edits:   []Edit{{"txn/progress.go", `req.RequestWith(ctx, via.Broker(int(node)))`, `req.RequestWith(ctx, via)`}},
			Package: "./txn", Tests: []string{"TestSettleUnanswered"},
		},
		{
			Name: "plain-refused", Rule: 8, Why: "a refused or unanswered plain commit is taken for done",
			Edits:   []Edit{{"txn/ring.go", "return false, fmt.Errorf(\"carried positions: %w\", err)", "return false, nil"}},
			Package: "./txn", Tests: []string{"TestSettleRefused", "TestSettleUnanswered"},
		},
		{
			Name: "plain-present-credential", Rule: 8, Why: "carried positions are committed with the credential of the moment",
			Edits:   []Edit{{"txn/ring.go", `return r.plain(ctx, p, cred)` + "\n\t})", `return r.plain(ctx, p, r.opts.Present())` + "\n\t})"}},
			Package: "./txn", Tests: []string{"TestSettle", "TestSettleRefused"},
		},
		{
			Name: "carried-not-forgotten", Rule: 8, Why: "carried positions survive a revocation",
			Edits:   []Edit{{"txn/ring.go", "\tc.positions.Drop(leaving...)\n", "\t_ = leaving\n"}},
			Package: "./txn", Tests: []string{"TestForget"},
		},
		{
			Name: "not-settled-before-revoked", Rule: 8, Why: "a revocation does not settle carried positions first",
			Edits:   []Edit{{"bridge/assignment.go", "\tif err == nil {\n\t\terr = s.settle(0)\n\t}\n\tif err != nil {\n\t\ts.fail(err)", "\tif err != nil {\n\t\ts.fail(err)"}},
			Package: "./bridge", Tests: []string{"TestCarriedIsSettledBeforeItGoes"},
		},
		{
			Name: "never-settled", Rule: 8, Why: "nothing commits carried positions while idle",
			Edits:   []Edit{{"bridge/coordinator.go", "\t\t\tif err := s.settle(settleAfter); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n", ""}},
			Package: "./bridge", Tests: []string{"TestEverythingFiltered"},
		},
		{
			Name: "signal-cuts-the-commit", Rule: 9, Why: "a stop cancels the commit that is under way",
			Edits:   []Edit{{"bridge/coordinator.go", `context.WithDeadlineCause(s.late, e.triggered`, `context.WithDeadlineCause(s.ctx, e.triggered`}},
			Package: "./bridge", Tests: []string{"TestCommitOutlivesAFailure"},
		},
		{
			Name: "flush-for-ever", Rule: 9, Why: "flush has no deadline",
			Edits:   []Edit{{"txn/slot.go", `s.out.flush(ctx)`, `s.out.flush(context.WithoutCancel(ctx))`}},
			Package: "./txn", Tests: []string{"TestFlushDeadline"},
		},
		{
			Name: "fence-once", Rule: 9, Why: "a failed dial of InitProducerID is not tried again",
			Edits:   []Edit{{"txn/slot.go", `|| !retriableInit(err) {`, `|| err != nil {`}},
			Package: "./txn", Tests: []string{"TestOpenTriesAgain"},
		},
	}
}
