// Command eosbridge copies records between Kafka topics exactly once.
package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/eosbridge/eosbridge/cli"
)

// Set by the linker (-X main.version=v1.2.3); without it, the build information of the Go toolchain counts.
var version, commit, date string //nolint:gochecknoglobals // the linker can set nothing else

func main() {
	// One place for each of the two signals that count; a third finds the default behaviour restored.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)

	environ := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		environ[name] = value
	}
	// A process that does not know its host name or its own path still works: the first is only a default, the
	// second serves the demo alone, and both say so where they are missed.
	hostname, _ := os.Hostname()
	executable, _ := os.Executable()

	os.Exit(cli.Main(cli.Context{
		Args:       os.Args[1:],
		Environ:    environ,
		Hostname:   hostname,
		Executable: executable,
		Stdin:      os.Stdin,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		Signals:    signals,
		Unhook:     func() { signal.Stop(signals) },
		Build:      cli.Build{Version: version, Commit: commit, Date: date},
	}))
}
