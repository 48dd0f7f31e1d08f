package bridge

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

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
	goleak.VerifyTestMain(m, goleak.Cleanup(os.Exit))
}
