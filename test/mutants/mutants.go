// Package mutants breaks the bridge on purpose, one rule of its protocol at a time, and asks whether a test notices.
//
// A mutant is a change of the product's source, made while it is compiled (go build -overlay): nothing of it is in
// the product. It names the tests that have to fail. Guards that overlap, so that one alone can go without harm,
// are taken away together. A mutant that survives is a missing test.
//
//	make mutants
//	make mutants MUTANTFLAGS='-run offsets-refused -v'
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Edit replaces the one place in a file where the text From stands.
type Edit struct {
	File string // from the root of the repository
	From string
	To   string
}

// Mutant is one broken build.
type Mutant struct {
	Name  string
	Rule  int    // of the protocol: txn/doc.go, "Invariants"
	Why   string // what is broken, in words
	Edits []Edit
	// Package and Tests are what has to notice: names of test functions, one of which has to fail.
	Package string
	Tests   []string
}

// Apply answers the changed files of a mutant, by their path from the root of the repository.
func (m Mutant) Apply(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range m.Edits {
		text, ok := changed[e.File]
		if !ok {
			source, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, err
			}
			text = string(source)
		}
		if n := strings.Count(text, e.From); n != 1 {
			return nil, fmt.Errorf("mutant %s: %q stands %d times in %s, want once: the code has moved on, and the mutant has to follow",
				m.Name, e.From, n, e.File)
		}
		changed[e.File] = strings.Replace(text, e.From, e.To, 1)
	}
	return changed, nil
}

// Overlay writes the mutant's files into dir and answers the path of a file for go's flag -overlay.
func (m Mutant) Overlay(root, dir string) (string, error) {
	changed, err := m.Apply(root)
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range changed {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, file)] = path
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o644)
}

// All lists the mutants by rule.
func All() []Mutant {
	var all []Mutant
	for _, list := range [][]Mutant{commitRules(), membershipRules(), startRules(), borderRules(), batchRules(), passThroughRules(), errorRules(), inspectRules()} {
		all = append(all, list...)
	}
	return all
}
