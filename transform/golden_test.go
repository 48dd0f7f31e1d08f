package transform

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files and the table in docs/transforms.md")

// TestGolden replays testdata/*.txt. A file holds, line by line:
//
//	# a comment
//	chain <expression>
//	!! <what Parse says, if it refuses the expression>
//	<a record, see parseRecord>
//	-> <a result, or "nothing" if the record was dropped>
//	!! <what Apply says, if it refuses the record>
//
// With -update the lines that begin with "->" and "!!" are written anew; read the
// difference before committing it. Every registered transform has its own file, and
// chain.txt is about transforms together.
func TestGolden(t *testing.T) {
	for path, text := range goldenFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			got := replay(t, text)
			if got == text {
				return
			}
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			wantLines, gotLines := strings.Split(text, "\n"), strings.Split(got, "\n")
			for i := range min(len(wantLines), len(gotLines)) {
				if gotLines[i] != wantLines[i] {
					t.Fatalf("%s:%d differs (-update writes it anew)\n got %s\nwant %s", path, i+1, gotLines[i], wantLines[i])
				}
			}
			t.Fatalf("%s has %d lines, want %d (-update writes it anew)", path, len(wantLines), len(gotLines))
		})
	}
}

func TestGoldenForEveryTransform(t *testing.T) {
	expected := []string{"chain"}
	for _, d := range Definitions() {
		expected = append(expected, d.Name)
	}
	var found []string
	for path, text := range goldenFiles(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		found = append(found, name)
		if name != "chain" && !strings.Contains(text, "\nchain "+name) {
			t.Errorf("%s never uses %s", path, name)
		}
	}
	slices.Sort(expected)
	slices.Sort(found)
	if !slices.Equal(found, expected) {
		t.Errorf("golden files %q, want one for each of %q", found, expected)
	}
}

// goldenFiles returns the content of every golden file by its path.
func goldenFiles(t testing.TB) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	files := make(map[string]string, len(paths))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(content)
	}
	return files
}

// replay returns the golden's text with the results that the code gives.
func replay(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	var chain *Chain
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "->") || strings.HasPrefix(line, "!!") {
			continue
		}
		b.WriteString(line + "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if expr, isChain := strings.CutPrefix(line, "chain"); isChain {
			spec, err := ParseWith(expr[min(1, len(expr)):], outside())
			if err != nil {
				b.WriteString("!! " + err.Error() + "\n")
				chain = nil
				continue
			}
			chain = spec.New()
			continue
		}
		if chain == nil {
			t.Fatalf("the record %q has no chain above it", line)
		}
		b.WriteString(results(t, chain, line))
	}
	return b.String()
}

func results(t *testing.T, chain *Chain, line string) string {
	t.Helper()
	in, err := parseRecord(line)
	if err != nil {
		t.Fatal(err)
	}
	out, err := chain.Apply(&in, nil)
	if err != nil {
		return "!! " + err.Error() + "\n"
	}
	if len(out) == 0 {
		return "-> nothing\n"
	}
	var b strings.Builder
	for i := range out {
		b.WriteString("-> " + formatResult(&out[i]) + "\n")
	}
	return b.String()
}
