package transform

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWASMInterpretedWhereNothingMayBecomeExecutable runs itself again in a process that has given
// up what systemd's MemoryDenyWriteExecute takes away.
func TestWASMInterpretedWhereNothingMayBecomeExecutable(t *testing.T) {
	const inside, cannot = "EOSBRIDGE_TEST_MDWE", "this kernel has no PR_SET_MDWE"
	if os.Getenv(inside) == "" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), inside+"=1")
		said, err := again.CombinedOutput()
		if err != nil || !strings.Contains(string(said), "--- PASS") {
			t.Errorf("%v\n%s", err, said)
		}
		return
	}
	err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)
	if errors.Is(err, unix.EINVAL) {
		t.Log(cannot) // before Linux 6.3
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Parse("drop_tombstones | wasm(@testdata/guests/manners.wasm)")
	if err != nil {
		t.Fatal(err)
	}
	if !spec.Interpreted() {
		t.Error("the guest seems to be compiled")
	}
	out, err := spec.New().Apply(&Record{Value: []byte("2")}, nil)
	if err != nil || len(out) != 2 {
		t.Errorf("%d results, %v", len(out), err)
	}
}

func TestWASMCompiledElsewhere(t *testing.T) {
	spec, err := Parse("wasm(@testdata/guests/manners.wasm) | drop_tombstones")
	if err != nil {
		t.Fatal(err)
	}
	if spec.Interpreted() == wasmCompiles() {
		t.Errorf("interpreted: %v, though compiling is possible: %v", spec.Interpreted(), wasmCompiles())
	}
}
