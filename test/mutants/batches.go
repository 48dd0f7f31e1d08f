package mutants

// batchRules breaks what replaces kgo's producer where whole batches are produced: rule 17.
func batchRules() []Mutant {
	return []Mutant{
		{
			Name: "batch-sequences-go-on", Rule: 17, Why: "sequence numbers go on over the end of a transaction",
			Edits:   []Edit{{"txn/sender_txn.go", `o.sequence = 0 // numbers begin anew with each producer epoch`, `_ = o`}},
			Package: "./txn", Tests: []string{"TestSequences"},
		},
		{
			Name: "batch-epoch-stays", Rule: 17, Why: "the producer epoch that EndTxn answers is not used",
			Edits:   []Edit{{"txn/sender_txn.go", `s.producerID, s.producerEpoch, s.inTxn, s.reason = resp.ProducerID, resp.ProducerEpoch, false, nil`, `s.inTxn, s.reason = false, nil`}},
			Package: "./txn", Tests: []string{"TestSequences"},
		},
		{
			Name: "batch-id-stays", Rule: 17, Why: "the producer id that EndTxn answers is not used",
			Edits:   []Edit{{"txn/sender_txn.go", `s.producerID, s.producerEpoch, s.inTxn, s.reason = resp.ProducerID, resp.ProducerEpoch, false, nil`, `s.producerEpoch, s.inTxn, s.reason = resp.ProducerEpoch, false, nil`}},
			Package: "./txn", Tests: []string{"TestNewProducerID"},
		},
		{
			Name: "batch-old-end", Rule: 17, Why: "an EndTxn that does not move the producer epoch is taken for one that does",
			Edits:   []Edit{{"txn/sender_txn.go", `if resp.Version < 5 {`, `if false {`}},
			Package: "./txn", Tests: []string{"TestOldEndTxn"},
		},
		{
			Name: "batch-commit-unanswered", Rule: 17, Why: "a transaction is committed while batches of it have no answer",
			Edits:   []Edit{{"txn/sender_txn.go", `if commit && (open > 0 || !inTxn) {`, `if commit && open < 0 && !inTxn {`}},
			Package: "./txn", Tests: []string{"TestSenderRefusesToCommit"},
		},
		{
			Name: "batch-overtakes", Rule: 17, Why: "a partition has several batches on their way",
			Edits:   []Edit{{"txn/sender.go", `if !o.busy {`, `if true {`}},
			Package: "./txn", Tests: []string{"TestOneBatchOnItsWay"},
		},
		{
			Name: "batch-after-a-failure", Rule: 17, Why: "batches are sent after one of the epoch has failed",
			Edits:   []Edit{{"txn/sender_request.go", `over = append(over, s.fail(err)...)`, `_ = s.fail`}, {"txn/sender_request.go", `case len(o.queue) > 0:`, `case false:`}, {"txn/sender_request.go", "\t\tcase err != nil:\n", "\t\tcase len(o.queue) > 0:\n\t\t\ts.next(o)\n\t\tcase err != nil:\n"}},
			Package: "./txn", Tests: []string{"TestRefusedBatch"},
		},
		{
			Name: "batch-not-again", Rule: 17, Why: "a batch is not sent again",
			Edits:   []Edit{{"txn/sender_request.go", `if err != nil && s.failure == nil && sendAgain(err) {`, `if false {`}},
			Package: "./txn", Tests: []string{"TestRepetition"},
		},
		{
			Name: "batch-damaged-again", Rule: 17, Why: "a batch that arrives damaged is sent again",
			Edits:   []Edit{{"txn/sender_request.go", ` && !errors.Is(err, kerr.CorruptMessage)`, ``}},
			Package: "./txn", Tests: []string{"TestRefusedBatch"},
		},
		{
			Name: "batch-silence-is-consent", Rule: 17, Why: "a partition that the answer leaves out counts as appended",
			Edits:   []Edit{{"txn/sender_request.go", "} else if err == nil {\n\t\t\terr = errNoAnswer\n\t\t}", "}"}, {"txn/sender_request.go", `var errNoAnswer = `, `var _ = `}},
			Package: "./txn", Tests: []string{"TestRepetition"},
		},
		{
			Name: "batch-duplicate-of-another", Rule: 17, Why: "a duplicate of what we have not sent before counts as appended",
			Edits:   []Edit{{"txn/sender_request.go", `if p.again && errors.Is(err, kerr.DuplicateSequenceNumber) {`, `if errors.Is(err, kerr.DuplicateSequenceNumber) {`}},
			Package: "./txn", Tests: []string{"TestDuplicateSequence"},
		},
		{
			Name: "batch-duplicate-fails", Rule: 17, Why: "a repetition that the broker knows fails the epoch",
			Edits:   []Edit{{"txn/sender_request.go", `if p.again && errors.Is(err, kerr.DuplicateSequenceNumber) {`, `if false {`}},
			Package: "./txn", Tests: []string{"TestDuplicateSequence"},
		},
		{
			Name: "batch-topic-made-anew", Rule: 17, Why: "a transaction goes on in a topic that was made anew",
			Edits:   []Edit{{"txn/sender_leaders.go", `case o.topicID != [16]byte{} && o.topicID != d.id:`, `case false:`}},
			Package: "./txn", Tests: []string{"TestTopicIsMadeAnew"},
		},
		{
			Name: "batch-and-records", Rule: 17, Why: "kgo's producer works beside ours under the same id",
			Edits:   []Edit{{"txn/ring.go", `if r.opts.Batches { // kgo`, `if false { // kgo`}},
			Package: "./txn", Tests: []string{"TestKindsOfRing"},
		},
		{
			Name: "batch-before-version-2", Rule: 17, Why: "whole batches are produced where a producer epoch serves several transactions",
			Edits:   []Edit{{"txn/ring.go", `if o.Batches && o.Version < 2 {`, `if false {`}},
			Package: "./txn", Tests: []string{"TestKindsOfRing"},
		},
		{
			Name: "batch-stamped-anew", Rule: 17, Why: "the checksum is computed anew, which makes a damaged batch a good one",
			Edits:   []Edit{{"internal/batch/batch.go", `b.crc()^crcOfChange(change[:], len(b)-atCount))`, `crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli)))`}},
			Package: "./txn", Tests: []string{"TestDamagedBatch"},
		},
		{
			Name: "batch-with-gaps", Rule: 17, Why: "a batch that compaction has left gaps in is passed on",
			Edits:   []Edit{{"internal/batch/batch.go", `return b.Gapless() && attributes`, `return attributes`}},
			Package: "./internal/batch", Tests: []string{"TestPortable"},
		},
		{
			Name: "batch-append-time", Rule: 17, Why: "a batch whose timestamps are the broker's is passed on",
			Edits:   []Edit{{"internal/batch/batch.go", `(bitControl|bitLogAppendTime|bitDeleteHorizon) == 0`, `(bitControl|bitDeleteHorizon) == 0`}},
			Package: "./internal/batch", Tests: []string{"TestPortable"},
		},
	}
}
