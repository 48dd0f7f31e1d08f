// Command proof runs the parts of make proof and writes what came out into docs/proof.md.
//
//	proof run PART -- command args...   runs one part; its results replace those it had before
//	proof write                         writes the tables, unless a result failed
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/eosbridge/eosbridge/test/proof"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

// options say where everything is.
type options struct {
	results  string
	document string
	root     string // of the repository
	version  string // of the bridge
	anyway   bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("proof", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.results, "results", ".cache/proof.jsonl", "file of results")
	flags.StringVar(&o.document, "document", "docs/proof.md", "document to write the tables into")
	flags.StringVar(&o.root, "root", ".", "repository, for the map of known faults")
	flags.StringVar(&o.version, "version", "dev", "version of the bridge")
	flags.BoolVar(&o.anyway, "anyway", false, "write even if a result failed; it says so then")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch rest := flags.Args(); {
	case len(rest) == 1 && rest[0] == "write":
		return o.write(stdout)
	case len(rest) >= 4 && rest[0] == "run" && rest[2] == "--":
		return o.run(ctx, rest[1], rest[3:], stdout, stderr)
	default:
		return errors.New("usage: proof [flags] run PART -- command args..., or proof [flags] write")
	}
}

// run runs a command as a part, and records how it ended: a test that dies records nothing itself.
func (o options) run(ctx context.Context, part string, command []string, stdout, stderr io.Writer) error {
	results, err := filepath.Abs(o.results)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(results), 0o755); err != nil {
		return err
	}
	if err := proof.Forget(results, part); err != nil {
		return err
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Env = append(os.Environ(), proof.ResultsVariable+"="+results, proof.PartVariable+"="+part)
	ended := cmd.Run()
	err = proof.Append(results, proof.Result{
		Test: "make proof-" + part, Part: part, Failed: ended != nil, At: began.UTC(), Took: time.Since(began),
	})
	if ended != nil {
		return fmt.Errorf("part %s: %w", part, ended)
	}
	return err
}

// write makes the tables. What failed is no proof, so nothing is written then.
func (o options) write(stdout io.Writer) error {
	all, err := proof.Read(o.results)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("no results in %s: run make proof, or one of its parts", o.results)
	}
	if failed := proof.Failures(all); len(failed) > 0 && !o.anyway {
		return fmt.Errorf("%s stays as it is, for there are failures (-anyway writes them down):\n  %s", o.document, strings.Join(failed, "\n  "))
	}
	tests, err := proof.Tests(os.DirFS(o.root))
	if err != nil {
		return err
	}
	where := proof.Run{Date: time.Now(), Bridge: o.version, Go: runtime.Version(), Machine: machine()}
	if err := proof.ResultSection.Write(o.document, proof.ResultTables(where, all, tests)); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d results written into %s\n", len(all), o.document)
	return nil
}

// machine describes what the brokers, the bridge and the readers share.
func machine() string {
	model := ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = ", " + strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("one machine with %d cores (%s/%s%s) for brokers, bridge, feeder and readers", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, model)
}
