package proof

// scenarios are the situations that a bridge between Kafka topics has to survive.
var scenarios = []Case{
	{
		ID: "S01", Fault: "kill -9 before a record of an epoch is written: the next start reads from the committed positions, and nothing is visible",
		Tests: []string{"e2e.TestCrash/epoch: gate opened", "e2e.TestKill", "bridge.TestKills"},
	},
	{
		ID: "S02", Fault: "kill -9 after some records of an epoch: the next start aborts its transaction at once, not by a time-out, and nothing of it is shown",
		Tests: []string{"e2e.TestCrash/epoch: records handed over", "e2e.TestTakeOver", "bridge.TestDeadProcessLeavesNothing", "txn.TestOpenAfterDeath"},
	},
	{
		ID: "S03", Fault: "kill -9 after the flush, before TxnOffsetCommit: as S02",
		Tests: []string{"e2e.TestCrash/slot: open flush, after", "e2e.TestCrash/commit: TxnOffsetCommit ready", "txn.TestOpenAfterDeath"},
	},
	{
		ID: "S04", Fault: "kill -9 after TxnOffsetCommit, before EndTxn: the positions stay, the next start waits until they are stable, and the epoch comes once",
		Tests: []string{"e2e.TestCrash/commit: TxnOffsetCommit answered", "e2e.TestCrash/slot: open offsets, after", "txn.TestOpenAfterDeath", "bridge.TestWaitsForStablePositions", "model.TestTLC"},
	},
	{
		ID: "S05", Fault: "kill -9 while EndTxn is on its way: whatever became of it, nothing is repeated and nothing skipped",
		Tests: []string{"e2e.TestCrash/commit: EndTxn written", "e2e.TestLateCopies", "cluster.TestClusterCrashInCommit", "model.TestTLC"},
	},
	{
		ID: "S06", Fault: "kill -9 after the answer of EndTxn: the epoch is committed and not repeated",
		Tests: []string{"e2e.TestCrash/commit: EndTxn answered", "e2e.TestCrash/commit: bookkeeping done", "model.TestTLC"},
	},
	{
		ID: "S07", Fault: "the answer of EndTxn is lost and the process lives (EOF, reset, silence; once and repeatedly): in doubt, and exact in every variant",
		Tests: []string{"e2e.TestLostAnswers", "bridge.TestAnswersLost/EndTxn", "txn.TestOutcomes", "model.TestTLC", "bridge.TestMatrixOfTheWire"},
	},
	{
		ID: "S08", Fault: "the EndTxn request itself is lost: the next session aborts the transaction, and the epoch comes once",
		Tests: []string{"e2e.TestLostAnswers", "e2e.TestLateCopies", "model.TestTLC", "bridge.TestMatrixOfTheWire"},
	},
	{
		ID: "S09", Fault: "EndTxn is applied and answered UNKNOWN_SERVER_ERROR: no duplicate",
		Tests: []string{"e2e.TestLostAnswers", "bridge.TestMatrix/end txn", "txn.TestOutcomes", "bridge.TestMatrixAfterTheDeed"},
	},
	{
		ID: "S10", Fault: "a late copy of EndTxn or TxnOffsetCommit of an earlier epoch arrives: refused, or without effect, under transaction.version 2 and below it",
		Tests: []string{"e2e.TestLateCopies", "e2e.TestLateCopiesUnguarded", "model.TestTLC", "txn.TestTraces"},
	},
	{
		ID: "S11", Fault: "the owner is frozen for longer than its session, another process takes over, the owner wakes up: it ends as fenced and nothing of its epoch is shown",
		Tests: []string{"e2e.TestZombie", "e2e.TestSleeper", "e2e.TestRemovedMember", "bridge.TestZombies", "model.TestTLC"},
	},
	{
		ID: "S12", Fault: "two healthy processes of one name: the newer works on, the other ends once, and nobody fights",
		Tests: []string{"e2e.TestTwoOfOneName", "bridge.TestNameTaken", "model.TestTLC"},
	},
	{
		ID: "S13", Fault: "frozen for longer than the transaction timeout and shorter than the session: the broker aborts, the process goes on, the epoch comes once",
		Tests: []string{"e2e.TestPausedPastTheTransaction", "bridge.TestBrokerEndsTheTransaction"},
	},
	{
		ID: "S14", Fault: "SIGTERM while idle, in the middle of an epoch, or during a commit: settled within the deadline, the group left, status 0; a second one ends it at once, with no duplicate",
		Tests: []string{"e2e.TestStop", "bridge.TestStopIdle", "bridge.TestTriggerStop", "bridge.TestStopInTheMiddle", "bridge.TestSecondSignal"},
	},
	{
		ID: "S15", Fault: "SIGTERM while the broker cannot be reached: ends by its deadline, and not with 0 if an epoch was open",
		Tests: []string{"e2e.TestStopWithoutBroker", "bridge.TestStopWithoutBrokers", "bridge.TestStopBeforeTheBrokersAnswer"},
	},
	{
		ID: "S16", Fault: "a broker is killed (SIGKILL) with an open transaction, and comes back",
		Tests: []string{"cluster.TestClusterCrash", "cluster.TestClusterCrashInCommit"},
	},
	{
		ID: "S17", Fault: "the coordinators of the group and of transactions move in the middle of an epoch",
		Tests: []string{"cluster.TestClusterMoves", "cluster.TestClusterCrash", "bridge.TestCoordinatorsMove", "txn.TestCoordinatorMoves"},
	},
	{
		ID: "S18", Fault: "leaders move, or a node goes, while records are produced: order and uniqueness stay",
		Tests: []string{"cluster.TestClusterMoves", "cluster.TestClusterCrash", "bridge.TestLeadersMove", "bridge.TestNodesComeAndGo"},
	},
	{
		ID: "S19", Fault: "one-way partition: requests go out, no answer comes back: bounded by time-outs, not ready, then exact",
		Tests: []string{"cluster.TestClusterNetworkPartition", "e2e.TestLostAnswers", "bridge.TestBlackHole", "bridge.TestMatrixOfTheWire"},
	},
	{
		ID: "S20", Fault: "a full partition for longer than the transaction timeout that heals: the broker aborts, the epoch comes once, no loop of fencing",
		Tests: []string{"cluster.TestClusterNetworkPartition", "bridge.TestBrokersAway", "bridge.TestBlackHole"},
	},
	{
		ID: "S21", Fault: "a broker that takes half a minute to acknowledge: back-pressure within the memory budget; the epoch is given up before the transaction timeout",
		Tests: []string{"bridge.TestStuckOutput", "bridge.TestHangingOutput", "txn.TestFlushDeadline"},
	},
	{
		ID: "S22", Fault: "a broker's disk is full, or replicas are missing, for minutes: not ready, nothing lost, and it goes on by itself",
		Tests: []string{"cluster.TestClusterDiskFull", "cluster.TestClusterTooFewInSync", "bridge.TestBrokerCannotStore"},
	},
	{
		ID: "S23", Fault: "the local disk is full or read-only: correctness does not depend on it",
		Tests: []string{"proof.TestBridgeWritesNoFile"},
	},
	{
		ID: "S24", Fault: "CONCURRENT_TRANSACTIONS for a minute at a take-over: waited for, with few words",
		Tests: []string{"bridge.TestBusyAtTakeOver", "txn.TestOpenTriesAgain"},
	},
	{
		ID: "S25", Fault: "members join and leave in the middle of epochs (classic cooperative, KIP-848): committed or aborted before a partition goes, none read by two",
		Tests: []string{"e2e.TestMembersComeAndGo", "e2e.TestRevokedWhileCarrying", "bridge.TestMembersComeAndGo", "bridge.TestCommitMeetsARebalance", "model.TestTLC"},
	},
	{
		ID: "S26", Fault: "the committed positions have expired: it does not start anew by itself",
		Tests: []string{"bridge.TestExpiredPositions", "bridge.TestStartUnsetWithWrittenOutput", "e2e.TestStartIsRefused"},
	},
	{
		ID: "S27", Fault: "the source is truncated below or above the position: it stops and names the gap",
		Tests: []string{"e2e.TestTruncatedSource", "bridge.TestTruncatedBehind", "bridge.TestTruncatedAhead"},
	},
	{
		ID: "S28", Fault: "a source topic is deleted and made anew: known by its id; it stops, and offsets are never mixed",
		Tests: []string{"bridge.TestTopicMadeAnew", "bridge.TestTopicMadeAnewDuringARestart", "e2e.TestInputMadeAnew"},
	},
	{
		ID: "S29", Fault: "partitions are added to the source or to the output: taken up, a new one from its first record",
		Tests: []string{"e2e.TestPartitionAddedUnderLoad", "bridge.TestPartitionsAdded", "bridge.TestPartitionsAddedWithoutOutput", "bridge.TestOutputPartitionsAdded"},
	},
	{
		ID: "S30", Fault: "the output topic is missing or misspelt: refused by name before a record is read, and not created",
		Tests: []string{"bridge.TestRefusedBeforeARecordIsRead"},
	},
	{
		ID: "S31", Fault: "an output topic is deleted while records go there: aborted, tried again, then ended by name; no position moves",
		Tests: []string{"bridge.TestOutputDeleted", "bridge.TestOutputMadeAnew", "e2e.TestOutputDeleted"},
	},
	{
		ID: "S32", Fault: "a record is too large for the output after its transform",
		Tests: []string{"bridge.TestRecordRefused", "e2e.TestRecordTooLarge", "bridge.TestRefusedBeforehand", "bridge.TestRefusedByBroker", "e2e.TestDLQRefused"},
	},
	{
		ID: "S33", Fault: "poison records: the transform fails at the first, at the last, at many in a row",
		Tests: []string{"bridge.TestTransformFails", "bridge.TestFixedTransform", "bridge.TestDeadLetters", "bridge.TestErrorLimit", "e2e.TestDLQKill"},
	},
	{
		ID: "S34", Fault: "a transform panics: caught per record, its stack logged once, the record named",
		Tests: []string{"bridge.TestTransformFails/panic", "transform.TestChainPanic", "bridge.TestDeadLetters"},
	},
	{
		ID: "S35", Fault: "a transform hangs: the epoch is given up before the transaction timeout, and the process ends and says why",
		Tests: []string{"bridge.TestTransformHangs", "bridge.TestTransformHangsAtAStop"},
	},
	{
		ID: "S36", Fault: "a transform makes nothing, or very much, of one record: the position is committed all the same; memory is bounded or the error clear",
		Tests: []string{"bridge.TestEverythingFiltered", "bridge.TestManyOutputsOfOneRecord", "transform.TestChainIsBounded", "e2e.TestAllFilteredOut"},
	},
	{
		ID: "S37", Fault: "null and empty keys and values, binary and repeated headers, times at the ends of what there is: byte for byte",
		Tests: []string{"bridge.TestFidelity", "bridge.TestTransformSeesTheRecord", "transform.TestGolden"},
	},
	{
		ID: "S38", Fault: "a batch of the source is corrupt, or in an unknown compression: it does not go on behind it",
		Tests: []string{"bridge.TestUnreadableBatch", "bridge.TestFetchErrors"},
	},
	{
		ID: "S39", Fault: "aborted source transactions, markers only, or a source whose last stable offset stands still: aborted records are never copied, markers are passed, no busy loop",
		Tests: []string{"e2e.TestTransactionalSourcePastRetention", "bridge.TestTransactionalSource", "bridge.TestInterleavedProducers", "bridge.TestOpenTransactionInTheSource", "e2e.TestTxnInspector"},
	},
	{
		ID: "S40", Fault: "a right on the output, the group, the ids or the input is taken away while it runs: ends with status 77 and names it; given back, it goes on",
		Tests: []string{"bridge.TestRightTakenAway", "bridge.TestDenied"},
	},
	{
		ID: "S41", Fault: "a password is rotated; a client certificate is renewed on disk, or has expired",
		Tests: []string{"cli.TestPasswordIsReadAgain", "cli.TestTLSFilesAreReadAgain", "cli.TestTokenFile", "cli.TestAWSCredentials", "cli.TestTLSOwnCertificateExpired", "e2e.TestSecureListeners", "bridge.TestSupervisorNotAdmitted"},
	},
	{
		ID: "S42", Fault: "the wall clock jumps by an hour: epochs and time-outs follow the monotonic clock",
		Tests: []string{"bridge.TestDurationsAreMonotonic", "bridge.TestClockSetBack", "bridge.TestPauseAfterACommit", "txn.TestOpenSince"},
	},
	{
		ID: "S43", Fault: "a backlog of large records: memory stays within its limit; an OOM kill is like S02",
		Tests: []string{"e2e.TestMemoryLimit", "bridge.TestStuckOutput", "bridge.TestMemoryShares", "bridge.TestBudgetOfFiltered", "bridge.TestTransformSlowerThanTheInput"},
	},
	{
		ID: "S44", Fault: "one partition is slow: epochs end within their time-out, the others are not starved, and what waits is bounded",
		Tests: []string{"bridge.TestOneSlowPartition", "bridge.TestTransformSlowerThanTheInput", "bridge.TestSlowTransform"},
	},
	{
		ID: "S45", Fault: "a barrier while a partition is idle or is taken away: aligned without it",
		Tests: []string{"bridge.TestAligner", "bridge.TestAlignerTraces", "bridge.TestRevokedDuringAlignment"},
	},
	{
		ID: "S46", Fault: "the broker has forgotten the transactional id (INVALID_PRODUCER_ID_MAPPING): in doubt, and it goes on",
		Tests: []string{"bridge.TestMatrix/InvalidProducerIDMapping", "bridge.TestRecoveryRefused/InvalidProducerIDMapping"},
	},
	{
		ID: "S47", Fault: "producer epochs are used up (32,767): a new producer id is taken up in the middle of the run",
		Tests: []string{"e2e.TestProducerEpochsUsedUp"},
	},
	{
		ID: "S48", Fault: "three instances become one and leave open transactions: the survivor aborts them, and never those of a live member",
		Tests: []string{"bridge.TestSweep", "bridge.TestManyOldIDs", "txn.TestSweepAbortsTheDead", "txn.TestSweepLeavesTheLiving", "txn.TestSweepOfConsumerGroupOnKafka"},
	},
	{
		ID: "S49", Fault: "100 random kills under load with a third of the epochs aborted at random: exact, and nothing left open",
		Tests: []string{"e2e.TestHundredKills", "e2e.TestSoak", "e2e.TestKill"},
	},
	{
		ID: "S50", Fault: "configuration that cannot work (unknown variable, bad range, input is output, a value and its file, timeouts out of order): all problems at once, before Kafka is touched, no secret shown",
		Tests: []string{"config.TestAllProblemsAtOnce", "config.TestLaws", "config.TestUnknownNames", "config.TestSecretFiles", "config.TestUnknownValueIsNotShown", "cli.TestConfigProblemsEndWith78", "bridge.TestRefusedBeforeARecordIsRead"},
	},
}
