package mutants

// errorRules breaks what becomes of records that cannot be bridged.
func errorRules() []Mutant {
	return []Mutant{
		{
			Name: "dlq-lost", Rule: 18, Why: "a record that fails is left out where it has to become a dead letter",
			Edits:   []Edit{{"bridge/policy.go", "if p.action == Skip {\n\t\treturn out, nil", "if p.action != Fail {\n\t\treturn out, nil"}},
			Package: "./bridge", Tests: []string{"TestDeadLetters"},
		},
		{
			Name: "dlq-clock", Rule: 18, Why: "a dead letter says when it was written, and a replayed one is another",
			Edits:   []Edit{{"bridge/letter.go", `strconv.Itoa(f.attempts)`, `strconv.FormatInt(time.Now().UnixNano(), 10)`}},
			Package: "./bridge", Tests: []string{"TestDeadLettersAgain"},
		},
		{
			Name: "dlq-first-output", Rule: 18, Why: "only the first output of a record is compared with what its topic takes",
			Edits:   []Edit{{"bridge/policy.go", `for i := range outputs {`, `for i := range outputs[:min(1, len(outputs))] {`}},
			Package: "./bridge", Tests: []string{"TestRefusedBeforehand"},
		},
		{
			Name: "dlq-company", Rule: 18, Why: "the first record of a refused batch is taken for the refused one",
			Edits:   []Edit{{"bridge/refusal.go", `if !o.epoch.alone {`, `if false {`}},
			Package: "./bridge", Tests: []string{"TestRefusedByBroker"},
		},
		{
			Name: "dlq-not-alone", Rule: 18, Why: "a suspect is read together with others",
			Edits:   []Edit{{"bridge/source.go", "if s.isolation.on.Load() {\n\t\treturn 1", "if false {\n\t\treturn 1"}},
			Package: "./bridge", Tests: []string{"TestRefusedByBroker"},
		},
		{
			Name: "dlq-refused-letter", Rule: 18, Why: "a refused dead letter is dealt with like any other output",
			Edits:   []Edit{{"bridge/refusal.go", `if failed.Topic == p.dlq {`, `if false {`}},
			Package: "./bridge", Tests: []string{"TestRefusedDeadLetter"},
		},
		{
			Name: "dlq-stamped", Rule: 18, Why: "provenance headers change the headers of dead letters",
			Edits:   []Edit{{"bridge/provenance.go", `if dlq != "" && records[i].Topic == dlq {`, `if false && dlq != "" {`}},
			Package: "./bridge", Tests: []string{"TestDeadLetters"},
		},
		{
			Name: "dlq-endless-row", Rule: 18, Why: "any number of records in a row may fail",
			Edits:   []Edit{{"bridge/policy.go", `p.limit > 0 && row > p.limit`, `p.limit > 0 && row < 0`}},
			Package: "./bridge", Tests: []string{"TestErrorLimit"},
		},
		{
			Name: "audit-letters", Rule: 18, Why: "the audit takes a dead letter for an output, whatever is in it",
			Edits:   []Edit{{"audit/letters.go", `l.hash != it.hash ||`, `false && l.hash != it.hash ||`}},
			Package: "./audit", Tests: []string{"TestDeadLetters"},
		},
	}
}
