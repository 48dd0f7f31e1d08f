package e2e

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestProcessOne runs the bridge as process 1 of a namespace of its own, as a
// container does: SIGTERM reaches it, and it stops in order.
func TestProcessOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, kafka.Shared(t, kafka.V44), plan{in: 2, out: 3})
	r.feedNow(t, 100)
	cmd := exec.Command(bridgeBinary(t), "run")
	cmd.Env = r.environ("a", nil)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER // then anybody may make one
	}
	log := NewLog()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, if all went well
		_ = cmd.Wait()
	})
	r.settle(t)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the process
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("process 1 ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("process 1 does not end")
	}
	r.exact(t)
	r.record(t, "")
}
