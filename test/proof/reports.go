package proof

// reports are faults of bridges, clients and brokers that others met and described in public.
var reports = []Case{
	{
		ID: "O01", Where: "akka/alpakka-kafka #739, #752, #1038; aio-libs/aiokafka #844",
		Fault: "duplicates whenever a member joins or leaves in the middle of a transaction",
		Tests: []string{"e2e.TestMembersComeAndGo", "bridge.TestMembersComeAndGo", "bridge.TestTriggerRebalance", "model.TestTLC"},
	},
	{
		ID: "O02", Where: "twmb/franz-go #1222", Fault: "after an abort, records already in the client's buffer are handed on, so that the rewind skips a range",
		Tests: []string{"bridge.TestRewindOfEveryPartition"},
	},
	{
		ID: "O03", Where: "twmb/franz-go v1.21.4", Fault: "a leader that moves during the abort undoes the rewind",
		Tests: []string{"bridge.TestRewindOfEveryPartition"},
	},
	{
		ID: "O04", Where: "spring-projects/spring-kafka #656 to #659, #4439", Fault: "after a rollback only the partition that failed is read again",
		Tests: []string{"bridge.TestRewindOfEveryPartition", "bridge.TestFixedTransform"},
	},
	{
		ID: "O05", Where: "spring-projects/spring-kafka #657, #1259", Fault: "a failure counts as handled: positions are committed, output is rolled back",
		Tests: []string{"bridge.TestFixedTransform", "bridge.TestTransformFails"},
	},
	{
		ID: "O06", Where: "apache/flink #5053", Fault: "a kill with one epoch committed and the next half written: recovery commits the half",
		Tests: []string{"bridge.TestDeadProcessLeavesNothing", "e2e.TestCrash", "model.TestTLC"},
	},
	{
		ID: "O07", Where: "apache/flink #5030, #16941, #17152; redpanda-data/redpanda #7975", Fault: "fenced during recovery is taken for committed earlier, and data is lost",
		Tests: []string{"bridge.TestRecoveryRefused", "txn.TestOutcomes", "txn.TestEndTxnIsNeverFatal", "model.TestTLC"},
	},
	{
		ID: "O08", Where: "twmb/franz-go #1485", Fault: "partitions that were taken away while their positions were being asked for are read on",
		Tests: []string{"bridge.TestSlowOffsetFetch"},
	},
	{
		ID: "O09", Where: "evolution-gaming/kafka-flow #854; IBM/sarama #3593; redpanda-data/redpanda #3279", Fault: "a commit of positions in a transaction has an old generation, or none: zombies are not fenced",
		Tests: []string{"bridge.TestEveryCommitHasItsMember", "txn.TestTxnOffsetCommitFields", "txn.TestStaleGenerationAgain", "e2e.TestRemovedMember", "model.TestTLC", "txn.TestTraces"},
	},
	{
		ID: "O10", Where: "databricks/iceberg-kafka-connect #200; redpanda-data/redpanda #6423", Fault: "a start reads a position that an open transaction is about to move",
		Tests: []string{"bridge.TestWaitsForStablePositions", "offsets.TestCommittedWaits", "e2e.TestCrash/commit: TxnOffsetCommit answered", "model.TestTLC"},
		Lacks: "a state of its own for this wait; it shows as joining",
	},
	{
		ID: "O11", Where: "twmb/franz-go #931, #479; confluentinc/confluent-kafka-go #494", Fault: "two processes with one static name: one idles for ever",
		Tests: []string{"e2e.TestTwoOfOneName", "bridge.TestNameTaken", "bridge.TestNameReleasedLate"},
	},
	{
		ID: "O12", Where: "twmb/franz-go #1483", Fault: "rolling restart of static members: partitions stay without an owner",
		Tests: []string{"bridge.TestRollingRestart"},
	},
	{
		ID: "O13", Where: "lovoo/goka #267, #207; twmb/franz-go #366; astubbs/parallel-consumer #183", Fault: "after scaling out and in, some partitions are assigned and never read again",
		Tests: []string{"bridge.TestScaleOutAndIn", "e2e.TestMembersComeAndGo", "e2e.TestScaleToZero", "e2e.TestScaleDownDangling"},
	},
	{
		ID: "O14", Where: "MaterializeInc/materialize #10876; pravega/flink-connectors #5; apache/kafka #13129", Fault: "a transaction timeout below the epoch: every epoch is aborted, for ever",
		Tests: []string{"config.TestLaws", "bridge.TestTransformBlocksOnce", "bridge.TestTriggers/age", "bridge.TestTransformSlowerThanTheInput"},
	},
	{
		ID: "O15", Where: "j3-signalroom/apache_flink_kickstarter #787; redpanda-data/redpanda #21504", Fault: "a transaction timeout above the broker's maximum: an opaque failure at the start",
		Tests: []string{"bridge.TestRefusedBeforeARecordIsRead/the transaction timeout exceeds", "txn.TestOpenFatal"},
	},
	{
		ID: "O16", Where: "IBM/sarama #2859, #2915; apache/kafka #3377, #18810", Fault: "transactions that follow each other closely meet CONCURRENT_TRANSACTIONS; retries run out",
		Tests: []string{"bridge.TestConcurrentTransactions", "bridge.TestMatrix/ConcurrentTransactions", "e2e.TestProducerEpochsUsedUp"},
	},
	{
		ID: "O17", Where: "corda/corda-runtime-os #2418; UltimateSoftware/surge #9; apache/kafka #8549, #9700", Fault: "the broker's own time-out is taken for another instance, or another instance for a time-out",
		Tests: []string{"bridge.TestBrokerEndsTheTransaction", "e2e.TestPausedPastTheTransaction", "e2e.TestTwoOfOneName", "bridge.TestSupervisorNewcomer"},
	},
	{
		ID: "O18", Where: "apache/kafka #7748", Fault: "UNKNOWN_PRODUCER_ID or OUT_OF_ORDER_SEQUENCE ends workers after hours",
		Tests: []string{"bridge.TestMatrix/OutOfOrderSequenceNumber", "bridge.TestMatrix/UnknownProducerID"},
	},
	{
		ID: "O19", Where: "twmb/franz-go v1.21.4; streamnative/kop #1424", Fault: "EndTxn answered with an unknown error is taken for committed",
		Tests: []string{"e2e.TestLostAnswers", "bridge.TestMatrix/end txn", "txn.TestOutcomes", "bridge.TestMatrixAfterTheDeed"},
	},
	{
		ID: "O20", Where: "twmb/franz-go #1534", Fault: "an abort while the transaction before is still being finished ends the producer",
		Tests: []string{"bridge.TestAbortRefused", "txn.TestAbort", "txn.TestAbortLeavesDoubt"},
	},
	{
		ID: "O21", Where: "apache/kafka #19656", Fault: "the abort fails with an abortable error, and is repeated without end",
		Tests: []string{"bridge.TestAbortRefused/TransactionAbortable", "txn.TestAbortDeadline"},
	},
	{
		ID: "O22", Where: "confluentinc/librdkafka #3003, #3444; spring-cloud/spring-cloud-stream #2287", Fault: "too few replicas in sync during a roll: a fatal state without a way out",
		Tests: []string{"cluster.TestClusterTooFewInSync", "bridge.TestBrokerCannotStore"},
	},
	{
		ID: "O23", Where: "twmb/franz-go #855", Fault: "a network partition at the end of a transaction: is the client good for anything?",
		Tests: []string{"bridge.TestBlackHole", "cluster.TestClusterNetworkPartition", "e2e.TestLostAnswers", "bridge.TestMatrixOfTheWire"},
	},
	{
		ID: "O24", Where: "confluentinc/librdkafka #5456, #3013, #3348", Fault: "positions for a transaction wait for the group's coordinator without end",
		Tests: []string{"bridge.TestBrokerCannotStore/TxnOffsetCommit", "bridge.TestStopWithoutACoordinator", "txn.TestTxnOffsetCommitDeadline", "txn.TestNoCoordinator"},
	},
	{
		ID: "O25", Where: "apache/kafka #21672; confluentinc/librdkafka #4966", Fault: "a flush never returns, for a target topic was deleted",
		Tests: []string{"bridge.TestOutputDeleted", "e2e.TestOutputDeleted"},
	},
	{
		ID: "O26", Where: "twmb/franz-go #1484", Fault: "a record counts as written that is not, after a delivery time-out or a cancelled context",
		Tests: []string{"bridge.TestMatrix/produce", "txn.TestFailedRecord", "txn.TestCloseWithRecordsOutstanding"},
	},
	{
		ID: "O27", Where: "apache/kafka #21506, #8239", Fault: "the producer epoch is used up by frequent short transactions",
		Tests: []string{"e2e.TestProducerEpochsUsedUp"},
	},
	{
		ID: "O28", Where: "redpanda-data/redpanda #3279; twmb/franz-go #618, #416", Fault: "a broker takes positions and checks no member (before KIP-447)",
		Tests: []string{"bridge.TestOlderThanTransactionsWithMembers", "bridge.TestOlderClusters", "txn.TestProbe"},
	},
	{
		ID: "O29", Where: "redpanda-data/redpanda #12424, #10238", Fault: "a new transactional id per checkpoint fills the coordinator",
		Tests: []string{"bridge.TestTransactionalIDs"},
	},
	{
		ID: "O30", Where: "apache/flink #9323, #17019", Fault: "a start takes minutes, for thousands of old ids are aborted one after the other",
		Tests: []string{"bridge.TestManyOldIDs", "txn.TestSweepFencesNoIdleID"},
	},
	{
		ID: "O31", Where: "MaterializeInc/materialize #23363", Fault: "ids depend on the number of workers; after a change of it the old writer is not fenced",
		Tests: []string{"e2e.TestZombie", "txn.TestZombie", "txn.TestParseID", "bridge.TestTransactionalIDs", "model.TestTLC"},
	},
	{
		ID: "O32", Where: "confluentinc/librdkafka #1442; streamnative/kop #1737", Fault: "positions expired while the job was off, and everything is copied again",
		Tests: []string{"bridge.TestExpiredPositions", "e2e.TestStartIsRefused"},
	},
	{
		ID: "O33", Where: "apache/kafka #22248, #22380; apache/druid #3678", Fault: "the position fell off the log, and a reset hides the hole",
		Tests: []string{"bridge.TestTruncatedBehind", "e2e.TestTruncatedSource"},
	},
	{
		ID: "O34", Where: "grafana/mimir #9199; apache/kafka #22451, #21831", Fault: "compacted or transactional sources raise false alarms of gaps; the lag is negative",
		Tests: []string{"bridge.TestCompactedInput", "bridge.TestTransactionalSource"},
	},
	{
		ID: "O35", Where: "apache/kafka #12366; segmentio/kafka-go #1332; confluentinc/librdkafka #3020", Fault: "records of aborted source transactions are copied",
		Tests: []string{"bridge.TestInterleavedProducers", "bridge.TestTransactionalSource", "e2e.TestTransactionalSourcePastRetention"},
	},
	{
		ID: "O36", Where: "softwaremill/klag-exporter #104; evolution-gaming/kafka-flow #857", Fault: "a stranger's open transaction holds the source up, and the bridge looks broken",
		Tests: []string{"bridge.TestOpenTransactionInTheSource", "e2e.TestTxnInspector"},
		Lacks: "a word for it on the status page; the metric of what lies behind the last stable offset, an alert, and `eosbridge txn list`, which names the transaction, are there",
	},
	{
		ID: "O37", Where: "spring-projects/spring-kafka #1587; confluentinc/librdkafka #2539, #3917", Fault: "the lag never becomes 0, for the last offsets are markers",
		Tests: []string{"bridge.TestMarkersAtTheEnd", "bridge.TestTransactionalSource", "e2e.TestTransactionalSourcePastRetention"},
	},
	{
		ID: "O38", Where: "apache/kafka #9632, #5428; thingsboard/thingsboard #4641", Fault: "an idle pipeline commits at each interval: markers and positions fill the logs",
		Tests: []string{"bridge.TestIdle", "bridge.TestEverythingFiltered"},
	},
	{
		ID: "O39", Where: "apache/flink #22126", Fault: "the first epoch is empty, and committing it fails",
		Tests: []string{"bridge.TestFirstRecordLate", "txn.TestEpochWithoutOutput"},
	},
	{
		ID: "O40", Where: "danielqsj/kafka_exporter #76, #169; seglo/kafka-lag-exporter #197, #45", Fault: "lag metrics are negative, or stay for partitions that have gone",
		Tests: []string{"bridge.TestLagMetrics", "bridge.TestLagCoversOnlyOurPartitions", "offsets.TestLags"},
	},
	{
		ID: "O41", Where: "twmb/franz-go v1.21.6; apache/kafka #1572", Fault: "a topic that appears later and matches the pattern is never read",
		Tests: []string{"bridge.TestPattern", "bridge.TestPatternWithoutMatch"},
	},
	{
		ID: "O42", Where: "twmb/franz-go #523", Fault: "a topic that matched is deleted, and the client spins",
		Tests: []string{"bridge.TestTopicDeletedOfAPattern"},
	},
	{
		ID: "O43", Where: "confluentinc/librdkafka #4966; redpanda-data/connect #3562", Fault: "the target topic is missing, and a send waits without a word",
		Tests: []string{"bridge.TestRefusedBeforeARecordIsRead", "bridge.TestPatternNewTopicWithoutOutput"},
	},
	{
		ID: "O44", Where: "apache/kafka #3151; confluentinc/librdkafka #1449", Fault: "the order of a key is lost, for the target has another number of partitions",
		Tests: []string{"bridge.TestPartitioningPreserve", "bridge.TestPartitioningKey", "bridge.TestMurmur2", "bridge.TestMurmur2LikeTheClient", "e2e.TestKill"},
	},
	{
		ID: "O45", Where: "confluentinc/librdkafka #592", Fault: "the target has fewer partitions, and sends to those that are not there hang",
		Tests: []string{"bridge.TestRefusedBeforeARecordIsRead/too few output partitions"},
	},
	{
		ID: "O46", Where: "redpanda-data/connect #4387, #550; confluentinc/librdkafka #623, #1092", Fault: "a batch that is sent again changes the order within its partition",
		Tests: []string{"bridge.TestOneOutputPartitionRefuses", "bridge.TestOrderAcrossEpochs", "e2e.TestKillOrder"},
	},
	{
		ID: "O47", Where: "j3-signalroom/apache_flink_kickstarter #750, #779", Fault: "two pipelines with one identity, or with overlapping prefixes, fence each other: of two with one name the newer works on and the other ends with status 75; prefixes that only begin alike are strangers",
		Tests: []string{"e2e.TestTwoOfOneName", "bridge.TestNameTaken", "txn.TestParseID", "bridge.TestSweep"},
	},
	{
		ID: "O48", Where: "strimzi/strimzi-kafka-operator #3375", Fault: "the target cluster was rebuilt, the position survived, and nothing is copied",
		Lacks: "two clusters",
	},
	{
		ID: "O49", Where: "apache/kafka #13178; strimzi/strimzi-kafka-operator #9609", Fault: "a group's positions are translated to the target, and point past the data",
		Lacks: "two clusters, and the translation of other groups' positions",
	},
	{
		ID: "O50", Where: "apache/kafka #9451, #12366; Comcast/MirrorTool-for-Kafka-Connect #26", Fault: "a crash between the commit of the target and that of the position copies an epoch twice",
		Tests: []string{"e2e.TestCrash/commit: EndTxn written", "e2e.TestKill"}, Lacks: "two clusters; on one cluster there is no time between, both are one transaction",
	},
	{
		ID: "O51", Where: "vectordotdev/vector #11931; redpanda-data/connect #3180, #1999; apache/kafka #6027", Fault: "a tombstone is dropped, or becomes an empty value",
		Tests: []string{"bridge.TestFidelity", "bridge.TestCompactedInput", "transform.TestGolden"},
	},
	{
		ID: "O52", Where: "dpkp/kafka-python #1335; zendesk/ruby-kafka #706", Fault: "a record's time is lost, or becomes now",
		Tests: []string{"e2e.TestTimestampsOfTheBroker", "bridge.TestFidelity", "bridge.TestOutputWithTimesOfItsOwn"},
	},
	{
		ID: "O53", Where: "confluentinc/librdkafka #2880; IBM/sarama #1252", Fault: "batches of some codec cannot be read, or the output's codec is not what was asked for",
		Tests: []string{"bridge.TestFidelityOfBatches", "cli.TestCompressionOfTheOutput", "cli.TestCompressionUnknown"},
	},
	{
		ID: "O54", Where: "OneCricketeer/schema-registry-transfer-smt #36, #38; redpanda-data/connect #3660", Fault: "payloads framed for a schema registry: values that are not framed break the transform",
		Never: "values arrive byte for byte (S37) unless a transform is asked to read them; one that reads JSON refuses what is none (transform.TestReplay), and schema ids mean the same on one cluster",
	},
	{
		ID: "O55", Where: "confluentinc/ksql #6563; apache/kafka #15561", Fault: "one bad record: the same epoch is aborted and tried again for ever, and all looks healthy",
		Tests: []string{"bridge.TestTransformFails", "bridge.TestRecordRefused", "bridge.TestRestartLimit", "bridge.TestSkip", "bridge.TestDeadLetters", "bridge.TestErrorLimit"},
	},
	{
		ID: "O56", Where: "spring-projects/spring-kafka #991, #1355", Fault: "the dead letter is written outside of the transaction: twice, or without its position",
		Tests: []string{"e2e.TestDLQKill", "bridge.TestDeadLettersAgain", "audit.TestDeadLetters"},
	},
	{
		ID: "O57", Where: "spring-projects/spring-kafka #1259; datastax/kafka-sink #80", Fault: "the dead letter cannot be written, and the record is lost",
		Tests: []string{"bridge.TestRefusedDeadLetter", "bridge.TestDeadLetterTopic"},
	},
	{
		ID: "O58", Where: "redpanda-data/redpanda #30836", Fault: "of several outputs one fails; the others spin, and nothing restarts",
		Tests: []string{"bridge.TestOneOfThreeOutputsRefuses", "bridge.TestRoutePerRecord"},
	},
	{
		ID: "O59", Where: "risingwavelabs/risingwave #2625; apache/flink #2754", Fault: "a slow pipeline makes its epochs larger and larger",
		Tests: []string{"bridge.TestTransformSlowerThanTheInput", "bridge.TestPace", "bridge.TestStuckOutput", "bridge.TestTriggers"},
	},
	{
		ID: "O60", Where: "apache/flink #15055, #14831", Fault: "an input goes away during alignment, and the barrier waits for it for ever",
		Tests: []string{"bridge.TestRevokedDuringAlignment", "bridge.TestAligner", "bridge.TestAlignEnds"},
	},
	{
		ID: "O61", Where: "confluentinc/kafka-streams-examples #447; redpanda-data/redpanda #10238", Fault: "thousands of partitions: memory and start time explode",
		Tests: []string{"bridge.TestManyPartitions"}, Untold: "600 partitions are tried; the process's memory is not asserted",
	},
	{
		ID: "O62", Where: "kafka4beam/brod #442; vectordotdev/vector #15870; dapr/components-contrib #3887", Fault: "a stop loses or repeats the last batch, or leaves the group by time-out only",
		Tests: []string{"bridge.TestStopsUnderLoad", "bridge.TestStopIdle", "bridge.TestStopAtOnce", "e2e.TestStop"},
	},
	{
		ID: "O63", Where: "twmb/franz-go #1500", Fault: "a stop hangs while a rebalance is under way",
		Tests: []string{"bridge.TestStopDuringARebalance", "bridge.TestRevokedWhileStopping"},
	},
	{
		ID: "O64", Where: "Graylog2/graylog-docker #87; apache/bookkeeper #2857", Fault: "in the container a shell is process 1, and SIGTERM does not reach the daemon",
		Tests: []string{"deploy.TestDockerfile", "deploy.TestUnit", "e2e.TestProcessOne"},
	},
	{
		ID: "O65", Where: "MaterializeInc/materialize #26136; redpanda-data/redpanda #2891, #14969", Fault: "a right is missing, and the error at the first commit does not say which",
		Tests: []string{"e2e.TestMinimalAccess", "e2e.TestCheckPlantedFaults", "bridge.TestRights", "bridge.TestDenied"},
	},
	{
		ID: "O66", Where: "dpkp/kafka-python #2205; segmentio/kafka-go #1100; akka/alpakka-kafka #1592", Fault: "credentials end in the middle of a transaction; a renewed certificate is not read; passwords show in logs",
		Tests: []string{"bridge.TestSessionsOfCredentials", "e2e.TestSecureListeners", "cli.TestNoPrinterShowsSecrets", "cli.TestPasswordIsReadAgain", "cli.TestTLSFilesAreReadAgain", "config.TestSecretIsMasked", "config.TestSecretInPanic", "config.TestConfigShowsNoSecret", "cli.TestTokenEndpointShowsNoSecret"},
	},
	{
		ID: "O67", Where: "confluentinc/librdkafka #2841; twmb/franz-go #198, #119; Apicurio/apicurio-registry #1147", Fault: "brokers restart, one after the other or all at once, or move; or transactions never find a coordinator",
		Tests:  []string{"cluster.TestClusterRollingRestart", "cluster.TestClusterCrash", "bridge.TestNodesComeAndGo", "bridge.TestNeverACoordinator"},
		Untold: "bootstrap names that all lead to other addresses than before",
	},
}
