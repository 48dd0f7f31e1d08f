package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/txn"
)

// leastEnviron returns the least environment that loads, plus pairs of names and values.
func leastEnviron(pairs ...string) map[string]string {
	environ := map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092",
		"BRIDGE_INPUT_TOPICS":     "orders",
		"BRIDGE_OUTPUT_TOPIC":     "orders-clean",
		"BRIDGE_GROUP_ID":         "orders-bridge",
	}
	for i := 0; i < len(pairs); i += 2 {
		environ[pairs[i]] = pairs[i+1]
	}
	return environ
}

// runMain runs a whole command line.
func runMain(environ map[string]string, args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = Main(Context{
		Args: args, Environ: environ, Hostname: "pod-0.bridge", Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut,
	})
	return code, out.String(), errOut.String()
}

func TestUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"confg":               `unknown command "confg": did you mean "config"? See eosbridge help`,
		"bench":               `unknown command "bench": use one of run, status, demo, check, audit, dlq, txn, config, transform, version; see eosbridge help`,
		"help confg":          `unknown command "confg": did you mean "config"?`,
		"version x":           `unexpected argument "x"; see eosbridge version --help`,
		"version --jsn":       "flag provided but not defined: -jsn; see eosbridge version --help",
		"config --json=maybe": `invalid boolean value "maybe" for -json`,
		"config doc":          `unexpected argument "doc"; see eosbridge config --help`,
		"config docs --json":  "flag provided but not defined: -json; see eosbridge config docs --help",
		"--no-such-flag":      "flag provided but not defined: -no-such-flag",
	} {
		code, stdout, stderr := runMain(leastEnviron(), strings.Fields(line)...)
		if code != exitUsage || stdout != "" {
			t.Errorf("%s: status %d, output %q", line, code, stdout)
		}
		if !strings.HasPrefix(stderr, "eosbridge: "+want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: printed %q, want %q once", line, stderr, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, line := range []string{"help", "-h", "--help", "-help"} {
		code, stdout, stderr := runMain(nil, line)
		if code != exitOK || stderr != "" {
			t.Errorf("%s: status %d, %q", line, code, stderr)
		}
		for _, cmd := range commands() {
			if !strings.Contains(stdout, "\n  "+cmd.name+" ") || !strings.Contains(stdout, cmd.summary) {
				t.Errorf("%s: %s is not listed in\n%s", line, cmd.name, stdout)
			}
		}
	}
}

// TestEveryCommandHasHelp holds the commands of the whole package, whoever wrote them, to one form. Their help must
// not depend on the configuration.
func TestEveryCommandHasHelp(t *testing.T) {
	flagPattern := regexp.MustCompile(`(?m)^  --([a-z-]+)`)
	for i, cmd := range commands() {
		for _, args := range [][]string{{cmd.name, "--help"}, {cmd.name, "-h"}, {"help", cmd.name}, {cmd.name, "--json", "--help"}} {
			code, stdout, stderr := runMain(nil, args...)
			if code != exitOK || stderr != "" {
				t.Errorf("%v: status %d, %q", args, code, stderr)
			}
			if !strings.HasPrefix(stdout, "usage: eosbridge ") || !strings.Contains(stdout, "\nexample:\n  ") {
				t.Errorf("%v: prints\n%s", args, stdout)
			}
			for line := range strings.Lines(stdout) {
				if len(line) > 121 || strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
					t.Errorf("%v: untidy line %q", args, line)
				}
			}
		}
		if !strings.Contains(cmd.usage, "eosbridge "+cmd.name) && !strings.Contains(cmd.usage, "eosbridge ["+cmd.name+"]") {
			t.Errorf("%s: the usage does not name it", cmd.name)
		}
		if !strings.Contains(cmd.example, "eosbridge") {
			t.Errorf("%s: the example does not call it", cmd.name)
		}
		if i == 0 && cmd.name != "run" {
			t.Errorf("the default command is %s", cmd.name)
		}
		// Flags in the usage text exist: a wrong value or a missing configuration is not the same as an unknown flag.
		for _, match := range flagPattern.FindAllStringSubmatch(cmd.usage, -1) {
			if cmd.name == "demo" || cmd.name == "dlq" || cmd.name == "run" || cmd.name == "transform" {
				continue // these do work, or have subcommands
			}
			if _, _, stderr := runMain(nil, cmd.name, "--"+match[1]); strings.Contains(stderr, "not defined") {
				t.Errorf("%s: %s", cmd.name, stderr)
			}
		}
	}
}

func TestRunIsTheDefault(t *testing.T) {
	var got []string
	all := []command{
		{name: "run", run: func(_ context.Context, _ *Context, args []string) error { got = args; return nil }},
		{name: "other", run: func(context.Context, *Context, []string) error { return errors.New("wrong command") }},
	}
	for _, test := range []struct{ line, want string }{{"", ""}, {"--until-end", "--until-end"}, {"run --until-end", "--until-end"}, {"run x", "x"}, {"-x --help-me", "-x --help-me"}} {
		got = nil
		if err := dispatch(&Context{Args: strings.Fields(test.line)}, all); err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%q: arguments %v, error %v", test.line, got, err)
		}
	}
}

func TestHelpFlagAfterTerminator(t *testing.T) {
	if askedForHelp([]string{"--", "--help"}) || !askedForHelp([]string{"a", "-h", "--"}) || askedForHelp(nil) {
		t.Error("askedForHelp is wrong")
	}
}

func TestConfigProblemsEndWith78(t *testing.T) {
	for _, args := range [][]string{nil, {"run"}, {"config"}, {"config", "--json"}} {
		code, stdout, stderr := runMain(leastEnviron("BRIDGE_GROUP_ID", "", "BRIDGE_LANES", "x"), args...)
		want := `eosbridge: bad configuration, 2 problems:
  BRIDGE_LANES: "x" is not a whole number in range: write one, such as 20
  BRIDGE_GROUP_ID: not set: set it, for example BRIDGE_GROUP_ID=orders-bridge
`
		if code != exitConfig || stdout != "" || stderr != want {
			t.Errorf("%v: status %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

// stubMain runs one command through Main's own path.
func stubMain(c *Context, run func(ctx context.Context, c *Context, args []string) error) error {
	return dispatch(c, []command{{name: "run", run: run}})
}

func TestSignals(t *testing.T) {
	signals := make(chan os.Signal)
	unhooked := make(chan struct{})
	c := Context{Signals: signals, Unhook: func() { close(unhooked) }}
	stop, cancelStop := context.WithCancelCause(t.Context())
	abort, cancelAbort := context.WithCancelCause(t.Context())
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		watchSignals(&c, done, cancelStop, cancelAbort)
	}()
	signals <- syscall.SIGTERM
	<-stop.Done()
	if abort.Err() != nil {
		t.Error("the first signal aborts")
	}
	if got := context.Cause(stop).Error(); got != "received terminated" {
		t.Errorf("cause %q", got)
	}
	select {
	case <-unhooked:
		t.Error("unhooked after the first signal")
	default:
	}
	signals <- syscall.SIGINT
	<-abort.Done()
	if got := context.Cause(abort).Error(); got != "received interrupt" {
		t.Errorf("cause %q", got)
	}
	<-unhooked
	<-watched
}

// TestMainStopsWatching shows that nothing of Main outlives it, signal or not.
func TestMainStopsWatching(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	for range 2 {
		var out bytes.Buffer
		if code := Main(Context{Args: []string{"version"}, Signals: signals, Stdout: &out, Stderr: &out}); code != exitOK {
			t.Errorf("status %d: %s", code, &out)
		}
	}
}

func TestStopReachesTheCommand(t *testing.T) {
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	err := stubMain(&Context{Stop: stop}, func(ctx context.Context, _ *Context, _ []string) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

type codedError int

func (e codedError) Error() string { return fmt.Sprintf("error of status %d", int(e)) }
func (e codedError) ExitCode() int { return int(e) }

func TestExitCodes(t *testing.T) {
	killed := exec.CommandContext(t.Context(), "/bin/sh", "-c", "kill -9 $$").Run()
	three := exec.CommandContext(t.Context(), "/bin/sh", "-c", "exit 3").Run()
	if killed == nil || three == nil {
		t.Fatal("the children succeeded")
	}
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"none":                          {nil, 0},
		"any":                           {errors.New("x"), 1},
		"usage":                         {usageErrorf("x %d", 1), 64},
		"configuration":                 {&config.Problems{}, 78},
		"configuration, wrapped":        {fmt.Errorf("start: %w", &config.Problems{}), 78},
		"fenced":                        {fmt.Errorf("epoch 3: %w", txn.ErrFenced), 75},
		"aborted":                       {txn.ErrAborted, 1},
		"coded":                         {fmt.Errorf("run: %w", codedError(69)), 69},
		"coded wins over what it wraps": {&exitError{70, txn.ErrFenced}, 70},
		"coded below fenced":            {fmt.Errorf("%w: %w", txn.ErrFenced, codedError(77)), 77},
		"coded as success":              {codedError(0), 1},
		"coded outside the table":       {codedError(99), 1},
		"child killed":                  {fmt.Errorf("child: %w", killed), 1},
		"child of another status":       {fmt.Errorf("child: %w", three), 1},
		"fenced, with a killed child":   {errors.Join(killed, txn.ErrFenced), 75},
		"stopped":                       {context.Canceled, 1},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("%s: status %d, want %d", name, got, test.want)
		}
	}
}

func TestExitErrorKeepsItsCause(t *testing.T) {
	err := usageErrorf("bad flag: %w", flag.ErrHelp)
	if !errors.Is(err, flag.ErrHelp) || err.Error() != "bad flag: flag: help requested" {
		t.Errorf("got %v", err)
	}
}

// TestCommandsAreDistinct also says which commands there are: a new one belongs into this list and the help text.
func TestCommandsAreDistinct(t *testing.T) {
	names := map[string]bool{}
	for _, cmd := range commands() {
		if names[cmd.name] || cmd.run == nil || cmd.summary == "" {
			t.Errorf("%+v", cmd.name)
		}
		names[cmd.name] = true
	}
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, []string{"audit", "check", "config", "demo", "dlq", "run", "status", "transform", "txn", "version"}) {
		t.Errorf("commands %v", got)
	}
}
