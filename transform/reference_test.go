package transform

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReference keeps the generated part of docs/transforms.md equal to the registry.
func TestReference(t *testing.T) {
	const (
		begin = "<!-- Generated from the registry: go test ./transform -run TestReference -update -->\n"
		end   = "<!-- End of the generated part. -->\n"
	)
	path := filepath.Join("..", "docs", "transforms.md")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, hasBegin := strings.Cut(string(content), begin)
	have, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		t.Fatalf("%s has lost the marks around the generated part", path)
	}
	want := reference()
	if have == want {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the registry; write it anew with: go test ./transform -run TestReference -update", path)
	}
	if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func reference() string {
	var b strings.Builder
	for _, d := range Definitions() {
		fmt.Fprintf(&b, "\n### %s\n\n`%s`\n\n%s\n\n```\n%s\n```\n", d.Name, strings.Join(strings.Split(d.Usage, " or "), "` or `"), d.Doc, d.Example)
	}
	b.WriteString("\n## For those who know Kafka Connect\n\nWhat its single message transforms do, under the names that they have there. What ends in $Key there, `on_key(...)` around ours does: `on_key(json_extract(id, bare))`.\n\n| Connect | here |\n|---|---|\n")
	for _, c := range counterparts {
		fmt.Fprintf(&b, "| %s | %s |\n", c.connect, c.ours)
	}
	return b.String() + "\n"
}
