package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// Process is one life of the bridge, from its start to its end by a signal or
// by itself. It has its own process group and dies with the test's process.
type Process struct {
	// Log is what the process has written so far.
	Log *Log
	// Started is when it was started.
	Started time.Time

	cmd    *exec.Cmd
	exited chan struct{} // closed when it is gone and its output is read
}

// Launch starts the binary with exactly this environment.
func Launch(binary string, environ []string, args ...string) (*Process, error) {
	p := &Process{Log: NewLog(), cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	p.cmd.Env = environ
	p.cmd.Stdout, p.cmd.Stderr = p.Log, p.Log
	p.cmd.SysProcAttr = processAttributes()
	p.cmd.WaitDelay = 5 * time.Second
	p.Started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the bridge: %w", err)
	}
	go func() { // ends with the process
		_ = p.cmd.Wait() // how it ended is asked of ProcessState
		p.Log.close()
		close(p.exited)
	}()
	return p, nil
}

// Exited is closed when the process is gone and its log complete.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive says whether the process still runs (a stopped one does).
func (p *Process) Alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// ErrEnded says that a process had already ended by itself.
var ErrEnded = errors.New("the process had ended by itself")

// Signal sends sig to the process.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return fmt.Errorf("%w with status %d", ErrEnded, p.cmd.ProcessState.ExitCode())
	}
	return p.cmd.Process.Signal(sig)
}

// Kill ends the process with SIGKILL and waits until it is gone. It is an error
// (ErrEnded) if it had ended by itself before.
func (p *Process) Kill() error {
	err := p.Signal(syscall.SIGKILL)
	<-p.exited
	if err != nil {
		return err
	}
	if p.cmd.ProcessState.Exited() {
		return fmt.Errorf("%w with status %d", ErrEnded, p.cmd.ProcessState.ExitCode())
	}
	return nil
}

// Stop freezes the process with SIGSTOP; Continue lets it go on.
func (p *Process) Stop() error { return p.Signal(syscall.SIGSTOP) }

// Continue lets a stopped process go on.
func (p *Process) Continue() error { return p.Signal(syscall.SIGCONT) }

// Terminate asks the process to end, with SIGTERM.
func (p *Process) Terminate() error { return p.Signal(syscall.SIGTERM) }

// Wait waits for the end and returns the exit status, -1 after a fatal signal.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("the bridge still runs after %v: %w", time.Since(p.Started).Round(time.Millisecond), ctx.Err())
	}
}
