package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Schema names the form of the report. It changes when a program that reads the old form would misread the new one.
const Schema = "eosbridge.audit/1"

// Verdict is what an audit says of a partition, or of all of them.
type Verdict string

// The verdicts. The worst of all partitions is that of the report.
const (
	Pass       Verdict = "pass"
	CannotTell Verdict = "cannot tell"
	Faulty     Verdict = "finding"
)

// Report is the result of an audit.
type Report struct {
	Schema   string    `json:"schema"`
	Digest   string    `json:"digest"` // see Seal
	Version  string    `json:"version,omitempty"`
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended"`
	Pipeline Pipeline  `json:"pipeline"`
	Verdict  Verdict   `json:"verdict"`

	Sources  []Source       `json:"sources"`
	Targets  []Target       `json:"targets"`
	Counts   map[Kind]int64 `json:"findings"`
	Examples []Finding      `json:"examples"` // the first few of each kind
}

// Pipeline is what was audited.
type Pipeline struct {
	Group        string   `json:"group"`
	Inputs       []string `json:"inputs"`
	Outputs      []string `json:"outputs"`
	Identity     bool     `json:"identity"`
	Partitioning string   `json:"partitioning"`
	Provenance   bool     `json:"provenance"`
	Every        bool     `json:"every"`
}

// Source is what is known of a source partition.
type Source struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Method    string `json:"method"` // content, provenance or counts
	LogStart  int64  `json:"log_start"`
	From      int64  `json:"from"`      // audited from here
	Committed int64  `json:"committed"` // the group's position, up to which it is audited; -1 if there is none
	End       int64  `json:"end"`       // last stable offset
	Records   int64  `json:"records"`   // audited, without those that have a dead letter
	Checksum  string `json:"checksum"`  // of these records, whatever their order
	// DeadLetters is how many audited records have one, in place of an output.
	DeadLetters int64 `json:"dead_letters"`
	// Verified is the highest offset up to which every audited record was found in the target, once, whole and in
	// order: the source may be deleted up to it (exclusive).
	Verified  int64          `json:"verified"`
	Verdict   Verdict        `json:"verdict"`
	Findings  map[Kind]int64 `json:"findings"`
	Undecided []Undecided    `json:"undecided"`
	Outside   []Undecided    `json:"not_audited"`
}

// Target is what is known of a target partition.
type Target struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Method    string         `json:"method"`
	LogStart  int64          `json:"log_start"`
	End       int64          `json:"end"`     // compared below it
	Records   int64          `json:"records"` // audited
	Checksum  string         `json:"checksum"`
	Verdict   Verdict        `json:"verdict"`
	Findings  map[Kind]int64 `json:"findings"`
	Undecided []Undecided    `json:"undecided"`
	Outside   []Undecided    `json:"not_audited"`
}

func (s *side) verdict() Verdict {
	switch {
	case s.faulty():
		return Faulty
	case len(s.doubts) > 0:
		return CannotTell
	}
	return Pass
}

func checksum(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// verified is where a source partition may be deleted up to.
func (s *side) verified() int64 { return max(s.begin0, min(s.first, s.committed)) }

func report(o *Options, snap *snapshot, units []*unit, b *book, began time.Time) *Report {
	r := &Report{
		Schema: Schema, Began: began.UTC().Truncate(time.Millisecond), Ended: time.Now().UTC().Truncate(time.Millisecond),
		Verdict: Pass, Counts: b.counts, Examples: b.list(),
		Pipeline: Pipeline{Group: o.Group, Identity: o.Identity, Partitioning: "preserve", Provenance: o.Provenance, Every: o.Every},
		Sources:  []Source{}, Targets: []Target{},
	}
	if o.ByKey {
		r.Pipeline.Partitioning = "key"
	}
	r.Pipeline.Inputs, r.Pipeline.Outputs = snap.names()
	for _, u := range units {
		for _, s := range u.sources {
			r.Sources = append(r.Sources, Source{
				Topic: s.Topic, Partition: s.Partition, Method: u.method.String(), LogStart: s.gone, From: s.begin0, Committed: s.position, End: s.end,
				Records: s.records, Checksum: checksum(s.sum), DeadLetters: s.dead, Verified: s.verified(), Verdict: s.verdict(),
				Findings: s.faults, Undecided: listed(s.doubts), Outside: listed(s.asides),
			})
		}
		for _, t := range u.targets {
			r.Targets = append(r.Targets, Target{
				Topic: t.Topic, Partition: t.Partition, Method: u.method.String(), LogStart: t.gone, End: t.end,
				Records: t.records, Checksum: checksum(t.sum), Verdict: t.verdict(),
				Findings: t.faults, Undecided: listed(t.doubts), Outside: listed(t.asides),
			})
		}
	}
	slices.SortFunc(r.Sources, func(x, y Source) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	slices.SortFunc(r.Targets, func(x, y Target) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	for _, s := range r.Sources {
		r.Verdict = worse(r.Verdict, s.Verdict)
	}
	for _, t := range r.Targets {
		r.Verdict = worse(r.Verdict, t.Verdict)
	}
	if len(b.counts) > 0 {
		r.Verdict = Faulty
	}
	return r
}

func worse(a, b Verdict) Verdict {
	rank := func(v Verdict) int { return slices.Index([]Verdict{Pass, CannotTell, Faulty}, v) }
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// Seal computes the digest: "sha256:" and the hash of the report as canonical JSON without its digest, that is with
// the names of each object sorted and no white space, as RFC 8785 and `jq -cS` write it.
func (r *Report) Seal() error {
	text, err := canonical(r)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	r.Digest = "sha256:" + hex.EncodeToString(sum[:])
	return nil
}

func canonical(r *Report) ([]byte, error) {
	plain, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	decoder := json.NewDecoder(bytes.NewReader(plain))
	decoder.UseNumber() // offsets are longer than a float's digits
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	delete(tree, "digest")
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(tree); err != nil {
		return nil, err
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}
