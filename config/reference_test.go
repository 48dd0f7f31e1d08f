package config

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the generated files")

const referencePage = "../docs/configuration.md"

// TestReferencePage fails if docs/configuration.md is not what the tags say; run
//
//	go test ./config -run TestReferencePage -update
func TestReferencePage(t *testing.T) {
	var page bytes.Buffer
	if err := WriteReference(&page); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(referencePage, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, page.Bytes()) {
		t.Errorf("%s is not what the code says; run: go test ./config -run TestReferencePage -update", referencePage)
	}
}

func TestReferenceNamesEverything(t *testing.T) {
	var page bytes.Buffer
	if err := WriteReference(&page); err != nil {
		t.Fatal(err)
	}
	for _, v := range variables() {
		if !strings.Contains(page.String(), "\n| `"+v.name+"` | ") {
			t.Errorf("%s has no row", v.name)
		}
		if v.secret() && !strings.Contains(page.String(), "`"+v.name+"_FILE`") {
			t.Errorf("%s does not say that it may be a file", v.name)
		}
	}
	for line := range strings.Lines(page.String()) {
		if cells := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); strings.HasPrefix(line, "|") && cells != 4 {
			t.Errorf("a row of %d bars: %s", cells, line)
		}
		if strings.Count(line, "`")%2 != 0 && !strings.HasPrefix(line, "```") {
			t.Errorf("odd number of backticks: %s", line)
		}
	}
}

// TestExampleLoads loads the example of the page.
func TestExampleLoads(t *testing.T) {
	environ := map[string]string{}
	for line := range strings.Lines(exampleEnvironment()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		environ[name] = value
	}
	if got := problems(t, environ); got != nil {
		t.Errorf("refused: %v", got)
	}
	// The other examples are values as well.
	for _, v := range variables() {
		if v.example == "" || strings.HasSuffix(v.name, "_FILE") || strings.HasPrefix(v.name, "KAFKA_SASL_") {
			continue
		}
		environ := with(v.name, v.example)
		if v.name == "BRIDGE_DLQ_TOPIC" { // belongs to another one
			environ["BRIDGE_ON_ERROR"] = OnErrorDLQ
		}
		if got := problems(t, environ); got != nil {
			t.Errorf("%s: %v", v.name, got)
		}
	}
}

type brokenPipe struct{}

var errBroken = errors.New("broken pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errBroken }

func TestReferenceReportsWriteErrors(t *testing.T) {
	if err := WriteReference(brokenPipe{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func TestCode(t *testing.T) {
	for in, want := range map[string]string{
		"a 'b' c":                    "a `b` c",
		"'a' and 'b', then ('c')":    "`a` and `b`, then (`c`)",
		"the broker's and Kafka's x": "the broker's and Kafka's x",
		"brokers' 'a.b' counts":      "brokers' `a.b` counts",
	} {
		if got := code(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
