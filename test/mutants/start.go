package mutants

// startRules breaks what a session begins with: rules 12 to 15.
func startRules() []Mutant {
	return []Mutant{
		{
			Name: "law-of-timeouts", Rule: 12, Why: "a session timeout below the transaction timeout is accepted",
			Edits:   []Edit{{"config/laws.go", `b.SessionTimeout <= b.TxnTimeout {`, `false {`}},
			Package: "./config", Tests: []string{"TestLaws"},
		},
		{
			Name: "law-of-epochs", Rule: 12, Why: "epochs that may outlive their transaction are accepted",
			Edits:   []Edit{{"config/laws.go", `b.TxnTimeout <= least {`, `b.TxnTimeout < 0*least {`}},
			Package: "./config", Tests: []string{"TestLaws"},
		},
		{
			Name: "silent-reset", Rule: 13, Why: "the client resets a position that the log no longer has",
			Edits:   []Edit{{"bridge/assignment.go", "\t\tkgo.ConsumeResetOffset(kgo.NoResetOffset()),\n", ""}},
			Package: "./bridge", Tests: []string{"TestTruncatedBehind", "TestTruncatedAhead"},
		},
		{
			Name: "no-control-records", Rule: 13, Why: "transaction markers do not move positions",
			Edits:   []Edit{{"bridge/assignment.go", "\t\tkgo.KeepControlRecords(), // markers move positions, and go no further\n", ""}},
			Package: "./bridge", Tests: []string{"TestTransactionalSource"},
		},
		{
			Name: "control-records-go-on", Rule: 13, Why: "transaction markers are bridged",
			Edits:   []Edit{{"bridge/converter.go", "\t\tif r.Attrs.IsControl() {\n\t\t\tcontinue\n\t\t}\n", ""}},
			Package: "./bridge", Tests: []string{"TestTransactionalSource"},
		},
		{
			Name: "uncommitted-source", Rule: 13, Why: "records of open and aborted source transactions are bridged",
			Edits:   []Edit{{"bridge/assignment.go", `kgo.FetchIsolationLevel(kgo.ReadCommitted())`, `kgo.FetchIsolationLevel(kgo.ReadUncommitted())`}},
			Package: "./bridge", Tests: []string{"TestTransactionalSource", "TestOpenTransactionInTheSource"},
		},
		{
			Name: "truncation-ignored", Rule: 13, Why: "the client's word that the log was truncated is passed over",
			Edits:   []Edit{{"bridge/source.go", "\tcase errors.As(err, &loss):\n\t\treturn txn.Fatalf(", "\tcase errors.As(err, &loss):\n\t\treturn nil\n\tcase false:\n\t\treturn txn.Fatalf("}},
			Package: "./bridge", Tests: []string{"TestFetchErrors", "TestFetchErrorsNameWhatIsLost"},
		},
		{
			Name: "start-not-committed", Rule: 13, Why: "start positions are not made durable before the first epoch",
			Edits:   []Edit{{"bridge/start.go", "s.sink.CommitStart(ctx, todo, s.credential())", "ctx.Err()"}},
			Package: "./bridge", Tests: []string{"TestStart"},
		},
		{
			Name: "written-output-accepted", Rule: 13, Why: "expired positions pass for a first start",
			Edits:   []Edit{{"bridge/start.go", `len(first) > 0 && s.opts.Start.Kind == offsets.StartUnset {`, `false {`}},
			Package: "./bridge", Tests: []string{"TestStartUnsetWithWrittenOutput"},
		},
		{
			Name: "positions-read-once", Rule: 13, Why: "an instance that began between two looks passes for expired positions",
			Edits:   []Edit{{"bridge/start.go", "if inputs, err = offsets.Unstarted(ctx, s.admin, s.opts.Group, inputs); err != nil {", "if err != nil {"}},
			Package: "./bridge", Tests: []string{"TestStartBesideAnother"},
		},
		{
			Name: "start-of-others-not-awaited", Rule: 13, Why: "a topic that another instance is about to begin passes for one whose positions have expired",
			Edits:   []Edit{{"bridge/start.go", "len(others) == 0 || ", "true || "}},
			Package: "./bridge", Tests: []string{"TestStartBeforeAnotherHasBegun"},
		},
		{
			Name: "probe-ignored", Rule: 14, Why: "a failed probe of the cluster's features passes for their absence",
			Edits:   []Edit{{"txn/recover.go", "\t\treturn 0, fmt.Errorf(\"probe broker versions: %w\", err)\n", "\t\treturn 0, nil\n"}},
			Package: "./txn", Tests: []string{"TestProbeFails"},
		},
		{
			Name: "probe-of-no-broker", Rule: 14, Why: "a cluster that lists no broker passes for one without the feature",
			Edits:   []Edit{{"txn/recover.go", "\tif len(all) == 0 {", "\tif false {"}, {"txn/recover.go", "if len(down) == len(all) {", "if len(down) == len(all) && len(down) > 0 {"}},
			Package: "./txn", Tests: []string{"TestProbeOfNoBroker"},
		},
		{
			Name: "no-add-offsets", Rule: 14, Why: "below transaction.version 2 the group is not added to the transaction",
			Edits:   []Edit{{"txn/progress.go", `if version < 2 {`, `if false {`}},
			Package: "./txn", Tests: []string{"TestTxnOffsetCommitFields", "TestRenewal"},
		},
		{
			Name: "no-cap", Rule: 14, Why: "below transaction.version 2 TxnOffsetCommit goes out in a version that wedges the id",
			Edits:   []Edit{{"txn/ring.go", `if o.Version < 2 {`, `if false {`}},
			Package: "./txn", Tests: []string{"TestSlotOptions"},
		},
		{
			Name: "no-renewal", Rule: 14, Why: "below transaction.version 2 a producer epoch is used for several transactions",
			Edits:   []Edit{{"txn/ring.go", `if r.opts.Version >= 2 {`, `if true {`}},
			Package: "./txn", Tests: []string{"TestRenewal"},
		},
		{
			Name: "begin-before-renewal", Rule: 14, Why: "an epoch begins while its producer is made anew",
			Edits:   []Edit{{"txn/ring.go", "\t\terr := r.slot[i].renew(ctx)\n", "\t\tr.free[i] <- nil\n\t\terr := r.slot[i].renew(ctx)\n"}, {"txn/ring.go", "client renewed\")\n\t\tr.free[i] <- err\n", "client renewed\")\n\t\t_ = err\n"}},
			Package: "./txn", Tests: []string{"TestBeginWaitsForRenewal", "TestRenewal"},
		},
		{
			Name: "output-not-looked-for", Rule: 15, Why: "a missing output topic is found by the first record",
			Edits:   []Edit{{"bridge/start.go", "\t\tcase errors.Is(d.Err, kerr.UnknownTopicOrPartition):\n\t\t\treturn txn.Fatalf(txn.StatusConfig, \"output topic", "\t\tcase errors.Is(d.Err, kerr.UnknownTopicOrPartition):\n\t\t\tcontinue\n\t\tcase false:\n\t\t\treturn txn.Fatalf(txn.StatusConfig, \"output topic"}},
			Package: "./bridge", Tests: []string{"TestRefusedBeforeARecordIsRead"},
		},
		{
			Name: "few-partitions", Rule: 15, Why: "an output with fewer partitions than its input is accepted",
			Edits:   []Edit{{"bridge/start.go", `case need.Short(have):`, `case false:`}},
			Package: "./bridge", Tests: []string{"TestRefusedBeforeARecordIsRead"},
		},
		{
			Name: "topic-made-anew", Rule: 15, Why: "positions of a deleted topic are used for the one made anew",
			Edits:   []Edit{{"bridge/start.go", `was != ([16]byte{}) && was != d.ID {`, `false && was != d.ID {`}},
			Package: "./bridge", Tests: []string{"TestTopicMadeAnewDuringARestart", "TestTopicMadeAnew"},
		},
		{
			Name: "own-output-read", Rule: 15, Why: "a regular expression reads our own outputs",
			Edits:   []Edit{{"topics/topics.go", "if p.Output != placeholder {", "if false {"}},
			Package: "./topics", Tests: []string{"TestExcluded"},
		},
	}
}
