package proof

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Section is a part of a document that is generated, between two marks that stay.
type Section struct{ begin, end string }

// The generated sections of docs/proof.md.
var (
	// CaseSection tells how much is tried: from the map, by make docs.
	CaseSection = Section{"<!-- cases: written by make docs -->\n", "<!-- end of cases -->\n"}
	// ResultSection tells what came out: from the results, by make proof.
	ResultSection = Section{"<!-- results: written by make proof -->\n", "<!-- end of results -->\n"}
)

// Of answers what a document has in the section now.
func (s Section) Of(document string) (string, error) {
	_, rest, begun := strings.Cut(document, s.begin)
	text, _, ended := strings.Cut(rest, s.end)
	if !begun || !ended {
		return "", fmt.Errorf("the marks %q and %q are missing", strings.TrimSpace(s.begin), strings.TrimSpace(s.end))
	}
	return text, nil
}

// Write replaces the section in a file. A reader of the file sees it as it was or as it is, never half of it.
func (s Section) Write(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	was, err := s.Of(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return replaceFile(path, []byte(strings.Replace(string(old), s.begin+was+s.end, s.begin+text+s.end, 1)))
}

// replaceFile gives a file new content at once.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // renamed, if all went well
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
