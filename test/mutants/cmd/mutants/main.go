// Command mutants breaks the bridge on purpose and asks whether its tests notice; see package mutants. It ends
// with status 1 if a mutant survives or does not build.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/eosbridge/eosbridge/test/mutants"
	"github.com/eosbridge/eosbridge/test/proof"
)

func main() {
	run := flag.String("run", "", "only mutants whose name matches this regular expression")
	list := flag.Bool("list", false, "list the mutants and end")
	verbose := flag.Bool("v", false, "show the output of the tests of each mutant")
	parallel := flag.Int("parallel", 2, "mutants at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := try(ctx, *run, *list, *verbose, *parallel)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	stop()
	os.Exit(code)
}

func try(ctx context.Context, run string, list, verbose bool, parallel int) (int, error) {
	wanted, err := regexp.Compile(run)
	if err != nil {
		return 2, err
	}
	root, err := os.Getwd()
	if err != nil {
		return 2, err
	}
	var chosen []mutants.Mutant
	for _, m := range mutants.All() {
		if wanted.MatchString(m.Name) {
			chosen = append(chosen, m)
		}
	}
	if list {
		for _, m := range chosen {
			fmt.Printf("%-28s rule %2d  %s\n", m.Name, m.Rule, m.Why)
		}
		return 0, nil
	}
	began := time.Now()
	if err := mutants.Baseline(ctx, root, chosen); err != nil {
		return 1, err
	}
	fmt.Printf("%d mutants; their tests pass without them (%v)\n\n", len(chosen), time.Since(began).Round(time.Second))
	report := table(ctx, root, chosen, verbose, parallel)
	fmt.Printf("\n%d caught, %d survived, %d did not build, in %v\n", report.caught, report.survived, report.broken, time.Since(began).Round(time.Second))
	if ctx.Err() != nil {
		return 1, ctx.Err()
	}
	report.record(len(chosen), time.Since(began))
	if report.survived+report.broken > 0 {
		return 1, nil
	}
	return 0, nil
}

type report struct {
	mu                       sync.Mutex
	caught, survived, broken int
}

// table runs the mutants, so many at a time, and prints a line for each as it ends.
func table(ctx context.Context, root string, chosen []mutants.Mutant, verbose bool, parallel int) *report {
	r := &report{}
	work := make(chan mutants.Mutant)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() { // ends with work
			for m := range work {
				v, err := mutants.Run(ctx, root, m)
				r.line(m, v, err, verbose)
			}
		})
	}
	for _, m := range chosen {
		if ctx.Err() != nil {
			break
		}
		work <- m
	}
	close(work)
	wg.Wait()
	return r
}

func (r *report) line(m mutants.Mutant, v mutants.Verdict, err error, verbose bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	outcome := "caught by " + v.Caught
	switch {
	case err != nil:
		r.broken++
		outcome = err.Error()
	case v.Caught == "":
		r.survived++
		outcome = "SURVIVED: no test of " + m.Package + " noticed"
	default:
		r.caught++
	}
	fmt.Printf("%-28s rule %2d  %5.1fs  %s\n", m.Name, m.Rule, v.Took.Seconds(), outcome)
	if verbose || err == nil && v.Caught == "" {
		fmt.Println(v.Output)
	}
}

// record adds the result to those of the proof, if somebody collects them.
func (r *report) record(tried int, took time.Duration) {
	path := os.Getenv(proof.ResultsVariable)
	if path == "" {
		return
	}
	err := proof.Append(path, proof.Result{
		Test: "mutants", Part: os.Getenv(proof.PartVariable), Broker: proof.Fake, Failed: r.survived+r.broken > 0, At: time.Now().UTC(), Took: took,
		Scenarios: int64(tried), Note: fmt.Sprintf("%d broken builds: %d caught, %d survived", tried, r.caught, r.survived+r.broken),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants: result not recorded:", err)
	}
}
