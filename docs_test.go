package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?s)\n```.*?\n```")
	status  = regexp.MustCompile(`(?m)^\texit\w+ += (\d+)`)
)

// anchor is what a heading is called in a link, as GitHub does it.
func anchor(title string) string {
	var name strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			name.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
			name.WriteRune(r)
		}
	}
	return name.String()
}

// TestLinks: what the documents point at is there, the sections too.
func TestLinks(t *testing.T) {
	anchors := map[string]map[string]bool{}
	texts := map[string]string{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := fenced.ReplaceAllString("\n"+string(data), "")
		texts[path], anchors[path] = text, map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			anchors[path][anchor(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for path, text := range texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, section, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			links++
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s points at %s, which is not there", path, m[1])
			} else if section != "" && anchors[to] != nil && !anchors[to][section] {
				t.Errorf("%s points at %s, which has no such section", path, m[1])
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links found", links)
	}
}

// TestRunbookKnowsEachStatus: whoever sees an exit status finds what to do.
func TestRunbookKnowsEachStatus(t *testing.T) {
	source, err := os.ReadFile("cli/exit.go")
	if err != nil {
		t.Fatal(err)
	}
	runbook, err := os.ReadFile("docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	found := status.FindAllStringSubmatch(string(source), -1)
	if len(found) < 8 {
		t.Fatalf("only %d statuses found in cli/exit.go", len(found))
	}
	for _, m := range found {
		code, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(runbook), "\n### Exit status "+strconv.Itoa(code)+"\n") {
			t.Errorf("docs/runbook.md has no entry for exit status %d", code)
		}
	}
}
