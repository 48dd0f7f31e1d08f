package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain makes the test binary the program itself, when a test starts it that way.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_AS_PROGRAM") != "" {
		main()
	}
	os.Exit(m.Run())
}

// program runs main in a process of its own.
func program(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(environ, "TEST_AS_PROGRAM=1")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

func TestProgram(t *testing.T) {
	sound := []string{
		"KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9092", "BRIDGE_INPUT_TOPICS=a=b", "BRIDGE_OUTPUT_TOPIC=out", "BRIDGE_GROUP_ID=g",
	}
	for name, test := range map[string]struct {
		environ        []string
		args           []string
		code           int
		stdout, stderr string // parts
	}{
		"version":             {nil, []string{"version"}, 0, "eosbridge ", ""},
		"help":                {nil, []string{"--help"}, 0, "usage: eosbridge [command] [flags]", ""},
		"unknown command":     {nil, []string{"confg"}, 64, "", `eosbridge: unknown command "confg"`},
		"nothing configured":  {nil, nil, 78, "", "bad configuration, 4 problems:"},
		"a value holds an =":  {sound, []string{"config"}, 78, "", `the topic name "a=b"`},
		"configured":          {append(sound, "BRIDGE_INPUT_TOPICS=in"), []string{"config"}, 0, "BRIDGE_INPUT_TOPICS", ""},
		"a name from outside": {append(sound, "BRIDGE_INPUT_TOPICS=in", "BRIDGE_LANE=1"), []string{"config"}, 78, "", "did you mean BRIDGE_LANES?"},
	} {
		code, stdout, stderr := program(t, test.environ, test.args...)
		if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
			t.Errorf("%s: status %d\n%s%s", name, code, stdout, stderr)
		}
		if (stdout == "") != (test.stdout == "") || (stderr == "") != (test.stderr == "") {
			t.Errorf("%s: unexpected output:\n%s%s", name, stdout, stderr)
		}
	}
}
