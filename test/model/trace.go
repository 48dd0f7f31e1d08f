package model

import (
	"fmt"
	"regexp"
	"strings"
)

// Trace is a behaviour of the model, one line per step: who, what, on which slot, which positions, and after a colon
// the answer. An instance 0 is nobody of ours.
//
//	1 Begin slot 0 at 1:2
//	1 TxnOffsetCommit slot 0 at 1:2 : lost, under way
//
// Positions are partition:position, from 1; those of Produce name the record, and its answer the output partition.
type Trace []string

func (t Trace) String() string { return strings.Join(t, "\n") + "\n" }

var (
	stepBlock = regexp.MustCompile(`(?ms)^/\\ step = (\[.*?\])$`)
	stepField = regexp.MustCompile(`(\w+) \|-> ("[^"]*"|<<[^>]*>>|\([^)]*\)|\d+)`)
	pair      = regexp.MustCompile(`(\d+) :> (\d+)`)
)

// steps reads the variable step out of TLC's report of a behaviour.
func steps(text string) Trace {
	var t Trace
	for _, block := range stepBlock.FindAllStringSubmatch(text, -1) {
		f := map[string]string{}
		for _, field := range stepField.FindAllStringSubmatch(block[1], -1) {
			f[field[1]] = strings.Trim(field[2], `"`)
		}
		if f["do"] == "Init" {
			continue
		}
		line := f["by"] + " " + f["do"]
		if f["slot"] != "" {
			line += " slot " + f["slot"]
		}
		if f["at"] != "" {
			line += " at " + positions(f["at"])
		}
		if f["answer"] != "" {
			line += " : " + f["answer"]
		}
		t = append(t, line)
	}
	return t
}

// positions writes a function from partitions as p:n p:n.
func positions(value string) string {
	var all []string
	if inner, ok := strings.CutPrefix(value, "<<"); ok {
		for i, n := range strings.Split(strings.TrimSuffix(inner, ">>"), ",") {
			if n = strings.TrimSpace(n); n != "" {
				all = append(all, fmt.Sprintf("%d:%s", i+1, n))
			}
		}
		return strings.Join(all, " ")
	}
	for _, m := range pair.FindAllStringSubmatch(value, -1) {
		all = append(all, m[1]+":"+m[2])
	}
	return strings.Join(all, " ")
}

// File is the name under testdata of the trace of a run.
func (r Run) File() string {
	return strings.NewReplacer(",", "", " ", "-").Replace(r.Name) + ".trace"
}
