package main_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/cli"
)

// What the documents name and a reader will type or look for.
var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	variable   = regexp.MustCompile(`\b(?:BRIDGE|KAFKA|LOG|AWS|OTEL|SCHEMA_REGISTRY|TARGET_SCHEMA_REGISTRY)_[A-Z0-9_]*[A-Z0-9]\b`)
	metric     = regexp.MustCompile(`\beosbridge_[a-z_]+[a-z]\b`)
	makeTarget = regexp.MustCompile(`(?:^|[ (])make ([a-z][a-z-]*[a-z])\b`)
	command    = regexp.MustCompile(`(?:^|[ /])eosbridge(?:[:][a-z0-9.]+)? ([a-z][^|#;&>)]*)`)
	flagName   = regexp.MustCompile(`(?:^|[ \[])--?([a-z][a-z-]*)`)
	testName   = regexp.MustCompile(`\bTest[A-Z]\w+`)
	exitStatus = regexp.MustCompile(`(?i)\bstatus (\d+)\b`)
	alert      = regexp.MustCompile(`\bEosbridge[A-Z]\w+`)
	repoPath   = regexp.MustCompile(`^(?:audit|bridge|check|cli|config|deploy|docs|internal|offsets|test|topics|transform|txn)/[\w./@-]+$`)
)

// example has what CONTRIBUTING.md makes up to show how something is added.
var example = map[string]bool{"TestSomething": true, "transform/mask.go": true, "transform/testdata/mask.txt": true}

// document is a text for readers.
type document struct{ path, text string }

// documents are all but the changelog, which tells of what was.
func documents(t *testing.T) (all []document) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "dist") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" && path != "CHANGELOG.md" {
			all = append(all, document{path, read(t, path)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 15 {
		t.Fatalf("only %d documents found", len(all))
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// code is what stands in a document as code: spans, the lines of fenced and of indented blocks (a line that ends
// with a backslash goes on in the next one).
func (d document) code() (all []string) {
	inside := false
	for line := range strings.Lines(strings.ReplaceAll(d.text, "\\\n", " ")) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
			continue
		}
		if inside || strings.HasPrefix(line, "    ") {
			all = append(all, strings.TrimSpace(line))
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			all = append(all, m[1])
		}
	}
	return all
}

// TestDocumentsNameWhatExists: variables, metrics, alerts, targets of make, statuses, tests and files that a document names are there.
func TestDocumentsNameWhatExists(t *testing.T) {
	settings, metrics := read(t, "docs/configuration.md"), read(t, "docs/metrics.md") // written from the code, and tested for it
	targets, statuses := "\n"+read(t, "Makefile"), map[string]bool{"1": true, "2": true}
	for _, m := range status.FindAllStringSubmatch(read(t, "cli/exit.go"), -1) {
		statuses[m[1]] = true
	}
	tests, alerts := testsOf(t), read(t, "deploy/prometheus/alerts.yaml")
	found := map[string]int{}
	for _, d := range documents(t) {
		wrong := func(what, name string) {
			if !example[name] {
				t.Errorf("%s names %s %s, which does not exist", d.path, what, name)
			}
		}
		for _, name := range variable.FindAllString(d.text, -1) {
			found["variable"]++
			if !strings.Contains(settings, "`"+name+"`") && !strings.Contains(targets, "\n"+name) {
				wrong("the variable", name)
			}
		}
		for _, name := range metric.FindAllString(d.text, -1) {
			found["metric"]++
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !strings.Contains(metrics, "| `"+name+"` |") && !strings.Contains(metrics, "| `"+base+"` | histogram |") {
				wrong("the metric", name)
			}
		}
		for _, m := range exitStatus.FindAllStringSubmatch(d.text, -1) {
			found["status"]++
			if m[1] != "0" && !statuses[m[1]] {
				wrong("the exit status", m[1])
			}
		}
		for _, name := range testName.FindAllString(d.text, -1) {
			found["test"]++
			if !tests[name] {
				wrong("the test", name)
			}
		}
		for _, name := range alert.FindAllString(d.text, -1) {
			found["alert"]++
			if !strings.Contains(alerts, "- alert: "+name+"\n") {
				wrong("the alert", name)
			}
		}
		for _, code := range d.code() {
			for _, m := range makeTarget.FindAllStringSubmatch(code, -1) {
				found["target"]++
				if !strings.Contains(targets, "\n"+m[1]+":") && !strings.Contains(targets, " "+m[1]+":") {
					wrong("the target", m[1])
				}
			}
			if repoPath.MatchString(code) {
				found["file"]++
				if _, err := os.Stat(code); err != nil {
					wrong("the file", code)
				}
			}
		}
	}
	for _, what := range []string{"variable", "metric", "status", "test", "alert", "target", "file"} {
		if found[what] < 10 {
			t.Errorf("only %d times a %s is named: is it still found?", found[what], what)
		}
	}
}

// testsOf is every test of the repository, by name.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range declared.FindAllStringSubmatch(read(t, path), -1) {
				all[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDocumentedCommands: each command line of ours in a document has a command that there is, and flags that it knows.
func TestDocumentedCommands(t *testing.T) {
	helps, commands, flags := map[string]string{}, 0, 0
	help := func(words ...string) string {
		name := strings.Join(words, " ")
		if _, ok := helps[name]; !ok {
			var out, errOut bytes.Buffer
			if cli.Main(cli.Context{Args: append(words, "--help"), Stdout: &out, Stderr: &errOut}) != 0 {
				out.Reset()
			}
			helps[name] = out.String()
		}
		return helps[name]
	}
	for _, d := range documents(t) {
		for _, code := range d.code() {
			for _, m := range command.FindAllStringSubmatch(code, -1) {
				words := strings.Fields(m[1])
				known := help(words[0])
				if words[0] == "help" {
					continue
				}
				if known == "" {
					t.Errorf("%s: there is no command %q, in %q", d.path, words[0], code)
					continue
				}
				commands++
				if len(words) > 1 && regexp.MustCompile(`^[a-z]+$`).MatchString(words[1]) {
					if sub := help(words[:2]...); sub != "" {
						known = sub
					}
				}
				for _, f := range flagName.FindAllStringSubmatch(m[1], -1) {
					flags++
					if !regexp.MustCompile(`--` + f[1] + `(?:[^a-z-]|$)`).MatchString(known) {
						t.Errorf("%s: %q does not know --%s; its help:\n%s", d.path, words[0], f[1], known)
					}
				}
			}
		}
	}
	if commands < 40 || flags < 20 {
		t.Errorf("only %d commands and %d flags found", commands, flags)
	}
}
