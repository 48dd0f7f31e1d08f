package bridge

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// memoryLimit is many times what these tests need, and far below what a machine has.
const memoryLimit = 8 << 30

// passThrough runs the tests of whole bridges with pass-through wherever they do not choose.
var passThrough = flag.Bool("raw", false, "pass batches through in the tests of whole bridges")

// TestMain fails when a goroutine outlives the tests. Tests in a bubble (see rig_test.go) are held to more: theirs
// must have ended when the test returns.
func TestMain(m *testing.M) {
	flag.Parse()
	// The tests in bubbles block on channels more than they compute; with two cores the default would be two.
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	go watchMemory() // ends with the process
	goleak.VerifyTestMain(m, goleak.Cleanup(os.Exit), goleak.IgnoreTopFunction("github.com/eosbridge/eosbridge/bridge.watchMemory"))
}

// watchMemory ends the process before it takes all of the machine's memory. A bubble in which something goes round and
// round in no time never moves its clock on: no deadline in it ends the test, and each round may leave something.
func watchMemory() {
	sample := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"}}
	for range time.Tick(time.Second) {
		runtimemetrics.Read(sample)
		if used := sample[0].Value.Uint64(); used > memoryLimit {
			debug.SetTraceback("all")
			panic(fmt.Sprintf("the tests use %d MiB: the clock of a bubble stands still", used>>20))
		}
	}
}
