package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// long asks for the full size of each proof.
var long = flag.Bool("long", os.Getenv("E2E_LONG") != "", "full size: 100,000 records, 20 kills, all rows")

// raw makes every pipeline one that passes batches through: the whole suite then proves that path.
var raw = flag.Bool("raw", os.Getenv("E2E_RAW") != "", "every pipeline keeps its partitions and passes batches through")

// buildDir holds the binary; TestMain removes it.
var buildDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "eosbridge-e2e-") })

// built is the binary under test, built at first use.
var built = sync.OnceValues(build)

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(standInVariable); behaviour != "" {
		os.Exit(standIn(behaviour))
	}
	flag.Parse()
	if err := manyAtATime(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := kafka.Main(m)
	if dir, err := buildDir(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// manyAtATime runs four tests at a time where the command line does not say how
// many: on few cores, too, since most of their time is waiting for time-outs.
func manyAtATime() error {
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if told {
		return nil
	}
	return flag.Set("test.parallel", "4")
}

func build() (string, error) {
	dir, err := buildDir()
	if err != nil {
		return "", err
	}
	return Build(dir)
}

// bridgeBinary returns the binary under test.
func bridgeBinary(t testing.TB) string {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// onBoth runs a test on TV2 and on TV1.
func onBoth(t *testing.T, test func(*testing.T, *kafka.Cluster)) {
	t.Parallel()
	for name, version := range map[string]string{"TV2": kafka.V44, "TV1": kafka.V39} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, kafka.Shared(t, version))
		})
	}
}

// protocols are the group protocols a version has.
func protocols(c *kafka.Cluster) []string {
	if c.Version() == kafka.V39 {
		return []string{"classic"}
	}
	return []string{"classic", "consumer"}
}

// size is small in the default run and full in the long one.
func size[T any](small, full T) T {
	if *long {
		return full
	}
	return small
}

// seeds are those in use, by the test's name, for the record.
var seeds sync.Map

// seeded is the test's source of chance. Its seed is printed; E2E_SEED sets it.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seedOf(t), 0))
}

// seedOf is a seed of the present time, or E2E_SEED.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("E2E_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("E2E_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("replay with E2E_SEED=%d", seed)
	seeds.Store(t.Name(), seed)
	return seed
}

// between is a random duration in [from, to).
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
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
