package check

import (
	"cmp"
	"fmt"
	"slices"
)

// Status is what a finding amounts to.
type Status string

// The three of them; see the package's comment.
const (
	Pass Status = "PASS"
	Warn Status = "WARN"
	Fail Status = "FAIL"
)

// worse orders FAIL before WARN before PASS.
func (s Status) worse() int { return slices.Index([]Status{Fail, Warn, Pass}, s) }

// Finding is one line: what a rule says of one thing.
type Finding struct {
	Rule    string `json:"rule"`
	Status  Status `json:"status"`
	Subject string `json:"subject"` // the broker, topic, id or variable it is about
	Value   string `json:"value"`   // what was found
	Bound   string `json:"bound,omitempty"`
	Remedy  string `json:"remedy,omitempty"` // what to do, if it is not a PASS
}

// Report is everything that was found.
type Report struct {
	Version  string    `json:"version"`
	Verdict  Status    `json:"verdict"` // the worst status
	Pass     int       `json:"pass"`
	Warn     int       `json:"warn"`
	Fail     int       `json:"fail"`
	Findings []Finding `json:"findings"` // in the order of the rules
}

func newReport(findings []Finding) *Report {
	r := &Report{Verdict: Pass, Findings: findings}
	for _, f := range findings {
		switch f.Status {
		case Pass:
			r.Pass++
		case Warn:
			r.Warn++
		case Fail:
			r.Fail++
		}
		if f.Status.worse() < r.Verdict.worse() {
			r.Verdict = f.Status
		}
	}
	return r
}

// rule is one line of docs/check.md, and the function that judges by it.
type rule struct {
	name  string
	asks  string // what has to hold
	fails string // when it is a FAIL; empty = never
	warns string // when it is a WARN; empty = only if it could not be checked
	judge func(*Snapshot) []Finding
}

// rules are all of them, in the order of a report: what explains other findings comes first.
func rules() []rule {
	return slices.Concat(brokerRules(), accessRules(), topicRules(), settingRules(), limitRules(), groupRules(), transactionRules())
}

// judge holds a snapshot against every rule. Of a cluster that nobody could reach only that is said.
func judge(s *Snapshot) *Report {
	var findings []Finding
	for _, r := range rules() {
		if !s.Reached && !r.offline() {
			continue
		}
		for _, f := range r.judge(s) {
			f.Rule = r.name
			findings = append(findings, f)
		}
	}
	return newReport(findings)
}

// offline rules need no answer of the cluster.
func (r rule) offline() bool {
	return slices.Contains([]string{ruleConfig, ruleProtection, ruleInstance, ruleReachable}, r.name)
}

func pass(subject, value, bound string) Finding {
	return Finding{Status: Pass, Subject: subject, Value: value, Bound: bound}
}

func warn(subject, value, bound, remedy string) Finding {
	return Finding{Status: Warn, Subject: subject, Value: value, Bound: bound, Remedy: remedy}
}

func fail(subject, value, bound, remedy string) Finding {
	return Finding{Status: Fail, Subject: subject, Value: value, Bound: bound, Remedy: remedy}
}

// notChecked says what could not be looked at, with the permission that is missing if one is.
func notChecked(subject string, err error, grant string) Finding {
	if denied(err) {
		return warn(subject, "not checked: access denied", "", grant)
	}
	return warn(subject, fmt.Sprintf("not checked: %v", err), "", "look at the connection to the cluster, then check again")
}

// ordered sorts findings by subject, the worst first, for rules that collect them out of maps.
func ordered(findings []Finding) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Status.worse(), b.Status.worse()), cmp.Compare(a.Subject, b.Subject))
	})
	return findings
}
