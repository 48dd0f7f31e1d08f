// Package cli is the command line: it parses arguments, turns the configuration into the options of the rooms,
// wires them together and prints. Each command has its own file.
//
// It takes everything it knows of the process from Context and ends it only through Main's result, so that tests
// run whole commands in process.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/eosbridge/eosbridge/config"
)

// Context is what a command may know of the process it runs in.
type Context struct {
	// Args are the arguments without the program's name.
	Args []string
	// Environ is the environment; commands do not alter it.
	Environ map[string]string
	// Hostname is the name of this host, possibly with its domain; empty if unknown.
	Hostname string
	// Executable is the path of this program, for commands that start it again; empty if unknown.
	Executable string

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Signals brings SIGINT and SIGTERM; nil for a process that is never asked to stop.
	Signals <-chan os.Signal
	// Unhook, if not nil, is called after the second signal, so that a third one ends the process by force.
	Unhook func()
	// Build says what was built; empty fields are taken from the build information of the Go toolchain.
	Build Build

	// Stop is cancelled by the first signal: finish in order. Main sets it.
	Stop context.Context
	// Abort is cancelled by the second signal: end now. Main sets it.
	Abort context.Context
}

// command is one word of the command line.
type command struct {
	name    string
	summary string    // one line for the list of commands
	usage   string    // the lines of --help: synopsis, then what it does and every flag
	example string    // one or more lines of --help, without the prompt
	sub     []command // subcommands: the first argument may name one
	// run gets Context.Stop and the arguments after the name. Its error is printed once, by Main. With subcommands it
	// is called if none is named.
	run func(ctx context.Context, c *Context, args []string) error
}

// commands lists all commands in the order of the help text. The first one runs if none is named.
func commands() []command {
	return []command{runCommand(), statusCommand(), demoCommand(), checkCommand(), auditCommand(), dlqCommand(), txnCommand(), configCommand(), transformCommand(), versionCommand()}
}

// Main runs the command that c.Args names and returns the exit status of the process.
func Main(c Context) int {
	stop, cancelStop := context.WithCancelCause(context.Background())
	abort, cancelAbort := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	watched := make(chan struct{})
	// Main waits for it below; done ends it.
	go func() {
		defer close(watched)
		watchSignals(&c, done, cancelStop, cancelAbort)
	}()
	defer func() {
		close(done)
		<-watched
		cancelStop(nil)
		cancelAbort(nil)
	}()
	c.Stop, c.Abort = stop, abort

	err := dispatch(&c, commands())
	if err == nil {
		return exitOK
	}
	if silent := quietError(nil); !errors.As(err, &silent) || !silent.Quiet() {
		fmt.Fprintf(c.Stderr, "eosbridge: %v\n", err)
	}
	return exitCode(err)
}

// signalError is the cause of a cancelled Context.Stop or Context.Abort.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "received " + e.signal.String() }

// watchSignals cancels stop at the first signal and abort at the second, then leaves the rest to the system.
func watchSignals(c *Context, done <-chan struct{}, stop, abort context.CancelCauseFunc) {
	for _, cancel := range []context.CancelCauseFunc{stop, abort} {
		select {
		case s := <-c.Signals: // a nil channel never delivers
			cancel(signalError{s})
		case <-done:
			return
		}
	}
	if c.Unhook != nil {
		c.Unhook()
	}
}

// dispatch finds the command and runs it.
func dispatch(c *Context, all []command) error {
	args := c.Args
	if len(args) > 0 {
		switch args[0] {
		case "help", "-h", "-help", "--help":
			return help(c, all, args[1:])
		case "-version", "--version":
			args = append([]string{"version"}, args[1:]...)
		}
	}
	chosen := all[0]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		i := slices.IndexFunc(all, func(cmd command) bool { return cmd.name == args[0] })
		if i < 0 {
			return unknownCommand(args[0], all)
		}
		chosen, args = all[i].descend(args[1:])
	}
	if askedForHelp(args) {
		chosen.writeHelp(c.Stdout)
		return nil
	}
	return chosen.run(c.Stop, c, args)
}

// descend returns the subcommand that the arguments name, if any, and the arguments after its name.
func (cmd command) descend(args []string) (command, []string) {
	for len(args) > 0 {
		i := slices.IndexFunc(cmd.sub, func(s command) bool { return s.name == args[0] })
		if i < 0 {
			break
		}
		cmd, args = cmd.sub[i], args[1:]
	}
	return cmd, args
}

func unknownCommand(name string, all []command) error {
	names := make([]string, len(all))
	for i, cmd := range all {
		names[i] = cmd.name
	}
	if near := config.Nearest(name, names); near != "" {
		return usageErrorf("unknown command %q: did you mean %q? See eosbridge help", name, near)
	}
	return usageErrorf("unknown command %q: use one of %s; see eosbridge help", name, strings.Join(names, ", "))
}

// askedForHelp looks for -h and --help before a -- that ends the flags.
func askedForHelp(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "-h", "-help", "--help":
			return true
		}
	}
	return false
}

// help shows the list of commands, or the help of the one that is named.
func help(c *Context, all []command, args []string) error {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		i := slices.IndexFunc(all, func(cmd command) bool { return cmd.name == args[0] })
		if i < 0 {
			return unknownCommand(args[0], all)
		}
		named, _ := all[i].descend(args[1:])
		named.writeHelp(c.Stdout)
		return nil
	}
	var b strings.Builder
	b.WriteString("eosbridge copies records between Kafka topics exactly once.\n\nusage: eosbridge [command] [flags]\n\n")
	for i, cmd := range all {
		summary := cmd.summary
		if i == 0 {
			summary += " (default)"
		}
		fmt.Fprintf(&b, "  %-10s %s\n", cmd.name, summary)
	}
	b.WriteString("\nIt is configured by environment variables: eosbridge config docs\n" +
		"Help on a command, with an example: eosbridge <command> --help\n")
	fmt.Fprint(c.Stdout, b.String())
	return nil
}

func (cmd command) writeHelp(w io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nexample:\n", strings.TrimSpace(cmd.usage))
	for line := range strings.Lines(strings.TrimSpace(cmd.example)) {
		b.WriteString("  " + line)
	}
	b.WriteString("\n")
	fmt.Fprint(w, b.String())
}

// newFlags returns a set of flags that reports its errors only through parseFlags.
func newFlags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

// parseFlags parses the arguments of a command that takes flags alone.
func parseFlags(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return usageErrorf("%w; see eosbridge %s --help", err, fs.Name())
	}
	if fs.NArg() > 0 {
		return usageErrorf("unexpected argument %q; see eosbridge %s --help", fs.Arg(0), fs.Name())
	}
	return nil
}

// parseFlagsAndNames parses the arguments of a command that takes others, too, before, between and behind its flags.
func parseFlagsAndNames(fs *flag.FlagSet, args []string) (names []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, usageErrorf("%w; see eosbridge %s --help", err, fs.Name())
		}
		rest := fs.Args()
		if len(rest) == 0 {
			return names, nil
		}
		if flags := len(args) - len(rest); flags > 0 && args[flags-1] == "--" {
			return append(names, rest...), nil
		}
		names, args = append(names, rest[0]), rest[1:]
	}
}
