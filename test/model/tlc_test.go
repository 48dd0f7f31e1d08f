package model

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/proof"
)

var (
	jar     = flag.String("jar", "", "tla2tools.jar: run TLC")
	quick   = flag.Bool("quick", false, "leave the longest runs out")
	only    = flag.String("only", "", "runs whose names contain this")
	workers = flag.Int("workers", 2, "threads of TLC")
	update  = flag.Bool("update", false, "write the traces and the table of the README anew")
)

// limit is for one run, several times what the longest takes on two cores.
const limit = 5 * time.Minute

// TestTLC explores every run and wants exactly what its line says. Without -jar it does nothing: `make model` passes it.
func TestTLC(t *testing.T) {
	if *jar == "" {
		return
	}
	path, err := filepath.Abs(*jar)
	if err != nil {
		t.Fatal(err)
	}
	c := Checker{Jar: path, Spec: ".", Dir: t.TempDir(), Workers: *workers}
	var table bytes.Buffer
	began, done, states := time.Now(), 0, int64(0)
	for _, r := range Runs() {
		if *quick && r.Full || !strings.Contains(r.Name, *only) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			o, err := c.Check(ctx, r)
			if err == nil {
				err = r.Surprise(o)
			}
			t.Logf("%-36s %-10s %9d generated %8d distinct, depth %2d, %5.1f s", r.Name, verdict(o), o.Generated, o.Distinct, o.Depth, o.Took.Seconds())
			if err != nil {
				t.Error(err)
				return
			}
			if *update && r.Mutation() {
				if err := os.WriteFile(filepath.Join("testdata", r.File()), []byte(o.Trace.String()), 0o644); err != nil {
					t.Error(err)
				}
			}
			row(&table, r, o)
			done, states = done+1, states+o.Distinct
			proof.Record(t, proof.Result{
				Broker: proof.Model, Took: o.Took, Scenarios: o.Distinct,
				Note: fmt.Sprintf("%s; %s", r.Says, verdict(o)),
			})
		})
	}
	if done == 0 {
		t.Fatalf("no run has %q in its name", *only)
	}
	t.Logf("%d runs, %d distinct states, %s", done, states, time.Since(began).Round(time.Second))
	if *update && !t.Failed() && !*quick && *only == "" {
		writeTable(t, table.String())
	}
}

func verdict(o Outcome) string {
	if o.Violated != "" {
		return o.Violated
	}
	return "holds"
}

// row is a line of the README's table.
func row(w *bytes.Buffer, r Run, o Outcome) {
	cut := func(guards []string) string {
		if len(guards) == 0 {
			return ""
		}
		return "\"" + strings.Join(guards, "\", \"") + "\""
	}
	fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %d / %d | %d | %.0f |\n",
		r.Name, r.Says, strings.ReplaceAll(r.Settings(), "|", `\|`), cut(r.Without), verdict(o), o.Generated, o.Distinct, o.Depth, o.Took.Seconds())
}

const (
	tableBegins = "<!-- runs: made by `make model MODELFLAGS=-update` -->\n"
	tableEnds   = "<!-- end of runs -->\n"
)

// writeTable puts the rows between the README's marks.
func writeTable(t *testing.T, rows string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatal("README.md has no marks for the table")
	}
	head := "\n| Run | What | Constants | Without | Result | States generated / distinct | Depth | s |\n|---|---|---|---|---|---|---|---|\n"
	if err := os.WriteFile("README.md", []byte(before+tableBegins+head+rows+"\n"+tableEnds+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
