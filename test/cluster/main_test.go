package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/e2e"
	"github.com/eosbridge/eosbridge/test/kafka"
)

// long asks for the tests on three brokers, whose names begin with TestCluster.
var long = flag.Bool("long", false, "the tests on three brokers, too")

// patience is how long anything may take that has to happen at all. It is no
// measure of the product: three brokers and all else share a few cores.
const patience = 2 * time.Minute

// buildDir holds the binary; TestMain removes it.
var buildDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "eosbridge-cluster-") })

// built is the binary under test, built at first use.
var built = sync.OnceValues(func() (string, error) {
	dir, err := buildDir()
	if err != nil {
		return "", err
	}
	return e2e.Build(dir)
})

func TestMain(m *testing.M) {
	flag.Parse()
	if err := choose(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := kafka.Main(m)
	if dir, err := buildDir(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// choose leaves out what only -long runs, unless tests are named.
func choose() error {
	told := *long
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.run" || f.Name == "test.skip" })
	if told {
		return nil
	}
	return flag.Set("test.skip", "^TestCluster")
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// pause waits, as part of a plan of faults; nothing is asserted about the time.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test's time is over")
	}
}

// eventually polls until there is no error.
func eventually(t *testing.T, what string, done func(context.Context) error) {
	t.Helper()
	ctx := within(t, patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var last error // the reason before the one that only says that time is over
	for {
		err := done(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%s did not come true in time: %v", what, last)
		}
	}
}
