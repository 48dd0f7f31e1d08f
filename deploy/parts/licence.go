package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// marks are words by which a licence's text is known, in lower case with single spaces.
var marks = []struct {
	id    string // SPDX
	words []string
	not   string
}{
	{id: "Apache-2.0", words: []string{"apache license", "version 2.0"}},
	{id: "BSD-2-Clause", words: []string{"redistribution and use in source and binary forms"}, not: "neither the name"},
	{id: "BSD-3-Clause", words: []string{"redistribution and use in source and binary forms", "neither the name"}},
	{id: "MIT", words: []string{"permission is hereby granted, free of charge", "to use, copy, modify, merge, publish"}},
}

// refused are words of licences that ask for more than to be handed on.
var refused = []string{
	"general public license", "mozilla public license", "server side public license", "business source license", "commons clause",
}

// expression says under which licences a module stands, as an SPDX expression. Several texts of different kinds count as
// if all of them held, which is never too little. No licence, or an unknown one, is an error: a person has to look.
func expression(documents []text) (string, error) {
	var ids []string
	for _, d := range documents {
		body := strings.Join(strings.Fields(strings.ToLower(d.body)), " ")
		for _, words := range refused {
			if strings.Contains(body, words) {
				return "", fmt.Errorf("%s speaks of the %q: only permissive licences may be linked", d.name, words)
			}
		}
		for _, m := range marks {
			all := !slices.ContainsFunc(m.words, func(words string) bool { return !strings.Contains(body, words) })
			if all && (m.not == "" || !strings.Contains(body, m.not)) {
				ids = append(ids, m.id)
			}
		}
	}
	if len(ids) == 0 {
		return "", errors.New("no licence that is known here: read it, and add it to the table in deploy/parts/licence.go if it is permissive")
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " AND "), nil
}

// texts is one document with all licences and notices.
func (b *binary) texts() []byte {
	var s strings.Builder
	fmt.Fprintf(&s, "%s contains the following, under the licences given here.\n", b.main)
	rule := strings.Repeat("-", 80)
	for _, p := range b.parts {
		for _, d := range p.documents {
			fmt.Fprintf(&s, "\n%s\n%s %s: %s\n%s\n\n%s\n", rule, p.name, p.version, d.name, rule, strings.TrimSpace(d.body))
		}
	}
	return []byte(s.String())
}
