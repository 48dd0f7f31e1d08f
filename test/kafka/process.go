package kafka

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

// process is one running java. It dies with us: its own process group is
// killed by kill, and on Linux the kernel kills it when we die unexpectedly.
type process struct {
	pid  int
	done chan struct{} // closed when the process has been reaped
	err  error         // of Wait; read only after done
}

// launch starts the command. Its goroutine ends when the process does.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The parent-death signal is sent when the *thread* that started the
		// child ends, so this thread must stay ours until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd.SysProcAttr = processAttributes()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends to the whole process group. A process already gone is no error.
func (p *process) signal(sig syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(-p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
