package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/test/proof"
)

const page = "head\n<!-- results: written by make proof -->\nold\n<!-- end of results -->\nfoot\n"

// TestCommand runs parts that record, fail, or die, and writes the tables, or refuses to.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	results, document := filepath.Join(dir, "sub", "results"), filepath.Join(dir, "proof.md")
	if err := os.WriteFile(document, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) (string, error) {
		var out strings.Builder
		err := run(t.Context(), append([]string{"-results", results, "-document", document, "-root", "../../../.."}, args...), &out, &out)
		return out.String(), err
	}
	if _, err := command("write"); err == nil || !strings.Contains(err.Error(), "no results") {
		t.Errorf("nothing to write: %v", err)
	}
	record := `echo "{\"test\":\"TestX\",\"broker\":\"kfake\",\"records\":5,\"rows\":1,\"part\":\"$` + proof.PartVariable + `\"}" >> "$` + proof.ResultsVariable + `"; echo said`
	for range 2 { // a part that is run again replaces its results
		if out, err := command("run", "fake", "--", "sh", "-c", record); err != nil || out != "said\n" {
			t.Fatalf("%q, %v", out, err)
		}
	}
	if all, err := proof.Read(results); err != nil || len(all) != 2 || all[0].Part != "fake" || all[0].Records != 5 || all[1].Failed || all[1].Took <= 0 {
		t.Fatalf("results %+v, %v", all, err)
	}
	if out, err := command("write"); err != nil || !strings.Contains(out, "2 results") {
		t.Fatalf("%q, %v", out, err)
	}
	written := read(t, document)
	if !strings.Contains(written, "| `TestX` | kfake |") || strings.Contains(written, "old") || !strings.HasSuffix(written, "foot\n") {
		t.Errorf("written:\n%s", written)
	}

	if _, err := command("run", "e2e", "--", "false"); err == nil {
		t.Error("a part that fails: no error")
	}
	if _, err := command("write"); err == nil || !strings.Contains(err.Error(), "make proof-e2e") {
		t.Errorf("after a failure: %v", err)
	}
	if read(t, document) != written {
		t.Error("after a failure the document was changed")
	}
	if _, err := command("-anyway", "write"); err != nil || !strings.Contains(read(t, document), "FAILED") {
		t.Errorf("anyway: %v", err)
	}
	for _, args := range [][]string{{}, {"run"}, {"run", "x"}, {"run", "x", "true"}, {"write", "x"}, {"-nonsense"}} {
		if _, err := command(args...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
