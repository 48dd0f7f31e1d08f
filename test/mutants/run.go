package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eosbridge/eosbridge/test/proof"
)

// limit is how long the tests of one mutant may take, its compilation not included: what takes longer is no test
// that anybody runs before a commit.
const limit = time.Minute

// Verdict is what became of a mutant.
type Verdict struct {
	Mutant Mutant
	Caught string // the test that failed; empty = survived
	Took   time.Duration
	Output string // of go test
}

// ErrBuild says that a mutant does not compile: it proves nothing.
var ErrBuild = errors.New("the mutant does not build")

// Run builds a mutant and runs its tests in the repository at root.
func Run(ctx context.Context, root string, m Mutant) (Verdict, error) {
	dir, err := os.MkdirTemp("", "eosbridge-mutant-")
	if err != nil {
		return Verdict{}, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder in the temporary one
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return Verdict{}, err
	}
	began := time.Now()
	output, failed := goTest(ctx, root, m.Package, m.Tests, "-overlay", overlay, "-failfast")
	v := Verdict{Mutant: m, Took: time.Since(began), Output: output}
	switch {
	case ctx.Err() != nil:
		return v, ctx.Err()
	case strings.Contains(output, "[build failed]"), strings.Contains(output, "[setup failed]"):
		return v, fmt.Errorf("%w: %s:\n%s", ErrBuild, m.Name, output)
	case failed:
		v.Caught = caughtBy(output)
	}
	return v, nil
}

// Baseline runs the tests of all mutants on the code as it is: a test that fails there catches nothing.
func Baseline(ctx context.Context, root string, all []Mutant) error {
	tests := map[string][]string{}
	for _, m := range all {
		tests[m.Package] = append(tests[m.Package], m.Tests...)
	}
	for folder, names := range tests {
		if output, failed := goTest(ctx, root, folder, names); failed {
			return fmt.Errorf("tests of %s fail without any mutant:\n%s", folder, output)
		}
	}
	return nil
}

func goTest(ctx context.Context, root, folder string, tests []string, flags ...string) (output string, failed bool) {
	args := append([]string{"test", "-count=1", "-timeout", limit.String()}, flags...)
	args = append(args, "-run", "^("+strings.Join(tests, "|")+")$", folder)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	// Broken builds have no say in the proof.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, proof.ResultsVariable+"=") })
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err != nil
}

var failedTest = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// caughtBy names the test that failed: the deepest of the first failure, or what else ended the run.
func caughtBy(output string) string {
	all := failedTest.FindAllStringSubmatch(output, -1)
	switch {
	case len(all) > 1 && strings.HasPrefix(all[1][1], all[0][1]+"/"):
		return all[1][1]
	case len(all) > 0:
		return all[0][1]
	case strings.Contains(output, "panic: test timed out"):
		return "a test that timed out"
	case strings.Contains(output, "panic:"):
		return "a panic"
	default:
		return "go test"
	}
}
