package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is one running child. It dies with us.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	stdout  tail
	stderr  tail
	exited  chan struct{} // closed when it is gone
}

// launch starts a child with exactly this environment. Its goroutine ends when
// the child does.
func launch(environ []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), exited: make(chan struct{})}
	p.cmd.Env = environ
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = processAttributes()
	p.cmd.WaitDelay = 5 * time.Second
	started := make(chan error)
	go func() {
		// The kernel ends the child with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.started = time.Now()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is asked of ProcessState
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ended is an error once the child is gone.
func (p *process) ended() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended by itself (%s):\n%s", p.cmd.Path, p.cmd.ProcessState, p.stderr.String())
	default:
		return nil
	}
}

// stop ends the child in order, with SIGTERM if no other signal is given, and answers its CPU time, user and system.
// A child that does not end is an error, and unless any status will do, one that does not end with 0.
func (p *process) stop(ctx context.Context, signal os.Signal, anyStatus bool) (time.Duration, error) {
	if signal == nil {
		signal = syscall.SIGTERM
	}
	if err := p.ended(); err != nil {
		return 0, err
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return 0, fmt.Errorf("stop %s: %w", p.cmd.Path, err)
	}
	patience := time.NewTimer(30 * time.Second)
	defer patience.Stop()
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.kill()
		return 0, context.Cause(ctx)
	case <-patience.C:
		p.kill()
		return 0, fmt.Errorf("stop %s: still running after 30 s:\n%s", p.cmd.Path, p.stderr.String())
	}
	state := p.cmd.ProcessState
	if !state.Success() && !anyStatus {
		return 0, fmt.Errorf("stop %s: %s:\n%s", p.cmd.Path, state, p.stderr.String())
	}
	return state.UserTime() + state.SystemTime(), nil
}

// kill ends the child at once, if it still runs.
func (p *process) kill() {
	if err := p.cmd.Process.Kill(); err == nil || errors.Is(err, syscall.ESRCH) {
		<-p.exited
	}
}

// dump ends the child the way that makes a Go program say where each of its goroutines stands, and a Java one its
// threads, on stderr.
func (p *process) dump() {
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return
	}
	select {
	case <-p.exited:
	case <-time.After(3 * time.Second): // a virtual machine goes on after its dump
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailLength = 256 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailLength; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
