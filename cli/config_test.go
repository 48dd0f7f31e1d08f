package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/config"
)

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// problemsOf returns the problems of a configuration that must not load.
func problemsOf(t *testing.T, environ map[string]string) []config.Problem {
	t.Helper()
	_, err := loadConfig(&Context{Environ: environ, Hostname: "pod-0"})
	var problems *config.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	return problems.List
}

func TestConfigShowsSettings(t *testing.T) {
	path := writeFile(t, "password", "hunter2\n")
	environ := leastEnviron(
		"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD_FILE", path,
		"BRIDGE_EPOCH_INTERVAL", "1s",
	)
	code, table, stderr := runMain(environ, "config")
	if code != exitOK || stderr != "" {
		t.Fatalf("status %d, %s", code, stderr)
	}
	lines := map[string]string{}
	for line := range strings.Lines(table) {
		name, rest, _ := strings.Cut(line, " ")
		lines[name] = strings.Join(strings.Fields(rest), " ")
	}
	for name, want := range map[string]string{
		"NAME":                  "VALUE ORIGIN",
		"KAFKA_SASL_PASSWORD":   "*** file:" + path,
		"BRIDGE_EPOCH_INTERVAL": "1s environment",
		"BRIDGE_EPOCH_TIMEOUT":  "15s default",
		"BRIDGE_INSTANCE_ID":    "pod-0 default",
		"KAFKA_CLIENT_ID":       "eosbridge-pod-0 default",
	} {
		if lines[name] != want {
			t.Errorf("%s: %q, want %q", name, lines[name], want)
		}
	}
	code, object, stderr := runMain(environ, "config", "--json")
	if code != exitOK || stderr != "" {
		t.Fatalf("status %d, %s", code, stderr)
	}
	var settings []config.Setting
	if err := json.Unmarshal([]byte(object), &settings); err != nil {
		t.Fatal(err)
	}
	if len(settings)+1 != strings.Count(table, "\n") {
		t.Errorf("%d settings in JSON, the table has %d lines", len(settings), strings.Count(table, "\n"))
	}
	if strings.Contains(table+object, "hunter2") {
		t.Error("a secret is shown")
	}
}

func TestConfigDocs(t *testing.T) {
	// It needs no configuration, not even a sound one.
	code, stdout, stderr := runMain(map[string]string{"BRIDGE_NONSENSE": "1"}, "config", "docs")
	if code != exitOK || stderr != "" {
		t.Fatalf("status %d, %s", code, stderr)
	}
	page, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if stdout != string(page) {
		t.Error("docs/configuration.md is not what 'config docs' prints; run: go test ./config -run TestReferencePage -update")
	}
}

func TestTransformProblems(t *testing.T) {
	for expr, want := range map[string]string{
		"drop_tombstone":                        `unknown transform "drop_tombstone": did you mean "drop_tombstones"? (see 'eosbridge transform list')`,
		"drop_tombstones | route(orders)":       `routes to orders, which BRIDGE_INPUT_TOPICS lists as input: route to another topic`,
		"drop_tombstones(x) | set_header(a=b)":  "column ",
		"set_header(no separator in here) | no": "column ",
	} {
		got := problemsOf(t, leastEnviron("BRIDGE_TRANSFORM", expr))
		if len(got) != 1 || got[0].Variable != "BRIDGE_TRANSFORM" || !strings.Contains(got[0].Message, want) {
			t.Errorf("%s: got %v, want %q", expr, got, want)
		}
	}
	for _, environ := range []map[string]string{
		leastEnviron("BRIDGE_TRANSFORM", "drop_tombstones | route(other)"),
		leastEnviron("BRIDGE_TRANSFORM", "route(orders)", "BRIDGE_INPUT_TOPICS", "/orders.*/"),
	} {
		if _, err := loadConfig(&Context{Environ: environ, Hostname: "h"}); err != nil {
			t.Errorf("%s: %v", environ["BRIDGE_TRANSFORM"], err)
		}
	}
}

// TestProblemsOfBothRoomsTogether: one run shows what config sees and what only cli sees.
func TestProblemsOfBothRoomsTogether(t *testing.T) {
	got := problemsOf(t, leastEnviron(
		"BRIDGE_TRANSFORM", "nonsense", "BRIDGE_TXN_TIMEOUT", "1s", "BRIDGE_LANE", "2", "BRIDGE_LANES", "x",
		"KAFKA_SECURITY_PROTOCOL", "SSL", "KAFKA_TLS_CA_FILE", writeFile(t, "ca.pem", "not a certificate"),
	))
	var variables []string
	for _, p := range got {
		variables = append(variables, p.Variable)
	}
	if want := "BRIDGE_LANES BRIDGE_TXN_TIMEOUT BRIDGE_TRANSFORM KAFKA_TLS_CA_FILE BRIDGE_LANE"; strings.Join(variables, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
