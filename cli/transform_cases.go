package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/eosbridge/eosbridge/transform"
)

func transformTestCommand() command {
	return command{
		name:    "test",
		summary: "try a chain on cases written down in YAML",
		usage: `usage: eosbridge transform test [--chain CHAIN] [--json] FILE ...

Reads cases from YAML, passes the input of each through the chain, and compares what becomes of it, byte for byte, with
what is expected. All inputs then pass again, through other instances, in another order and cut into other pieces, as
an aborted epoch is replayed: what differs is not deterministic, and fails. The exit status is 1 if a case fails.

  --chain CHAIN   the chain; without it that of the file, and without that BRIDGE_TRANSFORM's
  --json          print a JSON object with the cases and what differs

A file of cases:

  chain: filter(value.region == "eu") | set(value.tier = "gold")
  cases:
    - name: an order from Europe
      input: {key: k, value: {"id":1,"region":"eu","amount":1.10}}
      output: {value: {"id":1,"region":"eu","amount":1.10,"tier":"gold"}}
    - name: any other order is dropped
      input: {value: {"id":2,"region":"us"}}
      output: []
    - name: not JSON
      input: {value: oops}
      error: not JSON

The input is a record or a list of them, and so is the output. What an output leaves out has to be as in the input, from
which it came; null has to be written. An error is a part of the message with which the first record is refused that is.
JSON in YAML becomes JSON without spaces, with names and numbers as written; in quotes a text stays as it is.

` + recordForm,
		example: "eosbridge transform test orders.yaml\n" +
			"eosbridge transform test --chain \"$(cat chain.txt)\" --json orders.yaml returns.yaml",
		run: runTransformTest,
	}
}

// testReport is what became of the cases of all files.
type testReport struct {
	Files  []testedFile `json:"files"`
	Passed int          `json:"passed"`
	Failed int          `json:"failed"`
}

type testedFile struct {
	File  string       `json:"file"`
	Chain string       `json:"chain"`
	Cases []testedCase `json:"cases"`
}

type testedCase struct {
	Name   string   `json:"name"`
	Line   int      `json:"line"`
	Passed bool     `json:"passed"`
	Faults []string `json:"faults,omitempty"` // a text of several lines for each
}

func runTransformTest(ctx context.Context, c *Context, args []string) error {
	flags := newFlags("transform test")
	expr := flags.String("chain", "", "")
	asJSON := flags.Bool("json", false, "")
	files, err := parseFlagsAndNames(flags, args)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return usageErrorf("no file of cases is named; see eosbridge transform test --help")
	}
	var report testReport
	for _, file := range files {
		tested, err := testFile(ctx, c, file, *expr)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, one := range tested.Cases {
			if one.Passed {
				report.Passed++
			} else {
				report.Failed++
			}
		}
		report.Files = append(report.Files, tested)
	}
	if *asJSON {
		err = printJSON(c.Stdout, report)
	} else {
		err = report.write(c.Stdout)
	}
	if err == nil && report.Failed > 0 {
		err = failedCases{}
	}
	return err
}

// failedCases is the end of a test with failures, which its report has told.
type failedCases struct{}

func (failedCases) Error() string { return "cases failed" }

func (failedCases) Quiet() bool { return true }

func (r *testReport) write(w io.Writer) error {
	var b strings.Builder
	for _, file := range r.Files {
		fmt.Fprintf(&b, "%s: %s\n", file.File, file.Chain)
		for _, one := range file.Cases {
			if one.Passed {
				fmt.Fprintf(&b, "  ok    %s\n", one.Name)
				continue
			}
			fmt.Fprintf(&b, "  FAIL  %s (line %d)\n", one.Name, one.Line)
			for _, fault := range one.Faults {
				fmt.Fprintf(&b, "        %s\n", strings.ReplaceAll(fault, "\n", "\n        "))
			}
		}
	}
	fmt.Fprintf(&b, "%d passed, %d failed\n", r.Passed, r.Failed)
	_, err := io.WriteString(w, b.String())
	return err
}

// testFile tries the cases of a file.
func testFile(ctx context.Context, c *Context, file, expr string) (testedFile, error) {
	tested := testedFile{File: file}
	content, err := os.ReadFile(file)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err // the caller names the file
		}
		return tested, err
	}
	own, cases, err := readCases(content)
	if err != nil {
		return tested, &exitError{exitConfig, err}
	}
	if expr == "" {
		expr = own
	}
	spec, err := chainOf(ctx, c, expr)
	if err != nil {
		return tested, err
	}
	tested.Chain = spec.String()
	t := trial{build: func() transform.Transform { return spec.New() }, cases: cases, faults: make([][]string, len(cases))}
	if err := t.run(ctx); err != nil {
		return tested, err
	}
	for i, one := range cases {
		tested.Cases = append(tested.Cases, testedCase{Name: one.name, Line: one.line, Passed: len(t.faults[i]) == 0, Faults: t.faults[i]})
	}
	return tested, nil
}
