package mutants

// membershipRules breaks what ties an epoch to our place in the group: rules 6, 7, 10 and 11.
func membershipRules() []Mutant {
	return []Mutant{
		{
			Name: "late-credential", Rule: 6, Why: "member and generation are read at the commit and not at the barrier",
			Edits:   lateCredential(),
			Package: "./bridge", Tests: []string{"TestCommitOfAnEpoch", "TestKicked", "TestCommitMeetsARebalance"},
		},
		{
			Name: "late-credential-no-drain", Rule: 6, Why: "the same, and a revocation does not wait for the epochs in flight",
			Edits:   append(lateCredential(), Edit{"bridge/assignment.go", "\terr := s.flight.wait(ctx)\n", "\terr := ctx.Err()\n"}),
			Package: "./bridge", Tests: []string{"TestMembersComeAndGo", "TestCommitMeetsARebalance"},
		},
		{
			Name: "exception-after-lost", Rule: 6, Why: "a stale generation is renewed although the partitions were lost",
			Edits:   []Edit{{"txn/progress.go", ` || now.Lost != old.Lost`, ``}},
			Package: "./txn", Tests: []string{"TestStaleGenerationFinal"},
		},
		{
			Name: "exception-after-revoked", Rule: 6, Why: "a stale generation is renewed although partitions were revoked",
			Edits:   []Edit{{"txn/progress.go", ` || now.Revoked != old.Revoked`, ``}},
			Package: "./txn", Tests: []string{"TestStaleGenerationFinal"},
		},
		{
			Name: "exception-new-member", Rule: 6, Why: "a stale generation is renewed under another member id",
			Edits:   []Edit{{"txn/progress.go", `now.MemberID != old.MemberID || `, ``}},
			Package: "./txn", Tests: []string{"TestStaleGenerationFinal"},
		},
		{
			Name: "exception-twice", Rule: 6, Why: "the exception is made again and again",
			Edits:   []Edit{{"txn/progress.go", `case staleGeneration(err) && !repeated:`, `case staleGeneration(err) && (!repeated || repeated):`}},
			Package: "./txn", Tests: []string{"TestStaleGenerationOnlyOnce"},
		},
		{
			Name: "exception-read-late", Rule: 6, Why: "the pair is read anew after the flags were tested",
			Edits:   []Edit{{"txn/progress.go", "\t\t\treturn now, true\n", "\t\t\treturn g.present(), true\n"}},
			Package: "./txn", Tests: []string{"TestStaleGenerationReadsOnce"},
		},
		{
			Name: "credential-flags-first", Rule: 6, Why: "the counters are read before the pair",
			Edits:   []Edit{{"bridge/session.go", "\tmember, generation := pair()\n\treturn txn.Credential{MemberID: member, Generation: generation, Lost: lost.Load(), Revoked: revoked.Load()}", "\tc := txn.Credential{Lost: lost.Load(), Revoked: revoked.Load()}\n\tc.MemberID, c.Generation = pair()\n\treturn c"}},
			Package: "./bridge", Tests: []string{"TestCredentialReadsThePairFirst"},
		},
		{
			Name: "revoked-counted-early", Rule: 6, Why: "a revocation counts before it has returned, so that each scale-out aborts what drains",
			Edits:   []Edit{{"bridge/assignment.go", "\terr := s.flight.wait(ctx)\n", "\tif len(leaving) > 0 {\n\t\ts.revoked.Add(1)\n\t}\n\terr := s.flight.wait(ctx)\n"}},
			Package: "./bridge", Tests: []string{"TestRevocation"},
		},
		{
			Name: "revoked-not-counted", Rule: 6, Why: "a revocation is never counted",
			Edits:   []Edit{{"bridge/assignment.go", "\ts.revoked.Add(1)\n", ""}},
			Package: "./bridge", Tests: []string{"TestRevocation"},
		},
		{
			Name: "lost-not-counted", Rule: 6, Why: "a loss is never counted",
			Edits:   []Edit{{"bridge/assignment.go", "\ts.lost.Add(1)\n", ""}},
			Package: "./bridge", Tests: []string{"TestLossIsCounted"},
		},
		{
			Name: "rebalance-in-the-middle", Rule: 7, Why: "each poll allows a rebalance, also with records in an open epoch",
			Edits:   []Edit{{"bridge/source.go", "\tif err == nil && s.epoch.opened.IsZero() {\n\t\ts.allowRebalance() // a poll", "\tif err == nil {\n\t\ts.allowRebalance() // a poll"}},
			Package: "./bridge", Tests: []string{"TestMembersComeAndGo", "TestCommitMeetsARebalance", "TestBusyMemberHoldsNobodyUp"},
		},
		{
			Name: "idle-blocks", Rule: 7, Why: "an idle member allows no rebalance",
			Edits:   []Edit{{"bridge/source.go", "\tif err == nil && s.epoch.opened.IsZero() {\n\t\ts.allowRebalance() // a poll", "\tif false {\n\t\ts.allowRebalance() // a poll"}},
			Package: "./bridge", Tests: []string{"TestIdleMemberHoldsNobodyUp"},
		},
		{
			Name: "blocked-ignored", Rule: 7, Why: "a group that waits for us does not close the epoch",
			Edits:   []Edit{{"bridge/assignment.go", "\ts.blocked.Store(true)\n", ""}},
			Package: "./bridge", Tests: []string{"TestTriggerRebalance"},
		},
		{
			Name: "no-drain", Rule: 7, Why: "a revocation does not wait for the epochs in flight: they abort",
			Edits:   []Edit{{"bridge/assignment.go", "\terr := s.flight.wait(ctx)\n", "\terr := ctx.Err()\n"}},
			Package: "./bridge", Tests: []string{"TestMembersComeAndGo", "TestCommitMeetsARebalance"},
		},
		{
			Name: "lost-goes-on", Rule: 7, Why: "a loss of the partitions does not end the session",
			Edits:   []Edit{{"bridge/assignment.go", "\ts.fail(fmt.Errorf(\"%w: partitions lost: the group no longer counts us in, or its coordinator did not answer\", txn.ErrAborted))\n", "\t_ = fmt.Errorf(\"%w\", txn.ErrAborted)\n"}},
			Package: "./bridge", Tests: []string{"TestKicked", "TestFencedMember"},
		},
		{
			Name: "lane-remembers", Rule: 8, Why: "a lane keeps positions of partitions that were revoked",
			Edits:   []Edit{{"bridge/lane.go", "\t\t\tl.tracker.Forget(tp)\n", "\t\t\t_ = tp\n"}},
			Package: "./bridge", Tests: []string{"TestLaneForgets"},
		},
		{
			Name: "sink-remembers", Rule: 8, Why: "a revocation leaves carried positions of the partitions that go",
			Edits:   []Edit{{"bridge/assignment.go", "\ts.sink.Forget(tps)\n", "\t_ = tps\n"}},
			Package: "./bridge", Tests: []string{"TestRevocation"},
		},
		{
			Name: "id-prefix", Rule: 10, Why: "ids of a longer prefix are taken for ours",
			Edits:   []Edit{{"txn/id.go", `head != prefix || prefix == ""`, `!strings.HasPrefix(head, prefix) || prefix == ""`}},
			Package: "./txn", Tests: []string{"TestParseID", "FuzzParseID"},
		},
		{
			Name: "sweep-living", Rule: 10, Why: "the sweep aborts transactions of live members",
			Edits:   []Edit{{"txn/sweep.go", `return !own(id) && (err != nil || !ownerGone(id.Instance, alive))`, `return !own(id) && err != nil && !ownerGone(id.Instance, alive)`}},
			Package: "./txn", Tests: []string{"TestSweepLeavesTheLiving", "TestSweepWithoutMembers"},
		},
		{
			Name: "sweep-young", Rule: 10, Why: "the sweep aborts young transactions",
			Edits:   []Edit{{"txn/sweep.go", `!oldEnough(age, s.o.OlderThan)`, `age < 0`}},
			Package: "./txn", Tests: []string{"TestSweepLeavesTheYoung"},
		},
		{
			Name: "no-sweep", Rule: 10, Why: "nobody aborts what dead instances have left",
			Edits:   []Edit{{"bridge/watch.go", "\t\t\tif s.sweepDue(&swept) {\n\t\t\t\ts.sweep(ctx)\n\t\t\t}\n", "\t\t\t_ = swept\n"}},
			Package: "./bridge", Tests: []string{"TestSweep"},
		},
		{
			Name: "fight-for-the-name", Rule: 11, Why: "a process whose name was taken over goes on",
			Edits:   []Edit{{"bridge/session.go", "\tif who == txn.OwnershipLost {", "\tif false && who == txn.OwnershipLost {"}},
			Package: "./bridge", Tests: []string{"TestNameTaken", "TestZombies"},
		},
		{
			Name: "stale-leave", Rule: 11, Why: "FENCED_INSTANCE_ID to our LeaveGroup is not taken for a new owner",
			Edits:   []Edit{{"txn/recover.go", "\tcase errors.Is(err, kerr.FencedInstanceID):\n\t\treturn OwnershipLost, nil\n", "\tcase errors.Is(err, kerr.FencedInstanceID):\n\t\treturn OwnershipGone, nil\n"}},
			Package: "./txn", Tests: []string{"TestLeaveClassic", "TestLeaveConsumer"},
		},
		{
			Name: "no-wait-for-the-newcomer", Rule: 11, Why: "the ownership test does not wait for a newcomer that fences before it joins",
			Edits:   []Edit{{"bridge/supervisor.go", `if txn.MaybeFenced(err) {`, `if false {`}},
			Package: "./bridge", Tests: []string{"TestSupervisorNewcomer"},
		},
		{
			Name: "name-given-up-untested", Rule: 11, Why: "the group's word ends the process, without the test whose the name is",
			Edits:   []Edit{{"bridge/session.go", `return fmt.Errorf("%w (group: %w)", err, *group)`, `return fmt.Errorf("%w (group: %w)", txn.ErrFenced, *group)`}},
			Package: "./bridge", Tests: []string{"TestGroupErrors", "TestNameReleasedLate"},
		},
		{
			Name: "name-not-taken", Rule: 11, Why: "a start with KIP-848 waits until the broker gives up a killed process's name",
			Edits:   []Edit{{"bridge/session.go", `if s.left || !s.opts.Consumer {`, `if true {`}},
			Package: "./bridge", Tests: []string{"TestNameIsTaken"},
		},
	}
}

// lateCredential reads member and generation when the positions go out, in SendOffsets or in Commit.
func lateCredential() []Edit {
	const of, now = `(ctx, e.checkpoint())`, `(ctx, txn.Checkpoint{Epoch: e.n, Positions: e.positions, Credential: s.credential()})`
	return []Edit{
		{"bridge/coordinator.go", `s.sink.SendOffsets` + of, `s.sink.SendOffsets` + now},
		{"bridge/coordinator.go", `s.sink.Commit` + of, `s.sink.Commit` + now},
	}
}
