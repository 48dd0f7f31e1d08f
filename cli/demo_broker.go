package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

const (
	demoBrokerWord      = "broker" // `eosbridge demo broker DIR`, hidden from the help
	demoBrokerStartTime = 15 * time.Second
	demoBrokerStopTime  = 3 * time.Second
)

// serveDemoBroker is the embedded broker's process: kfake with one broker on a
// free loopback port, its logs in dir. It prints its address as one line and
// serves until stdin ends (the demo closed it, or died) or ctx ends.
func serveDemoBroker(ctx context.Context, dir string, stdin io.Reader, stdout io.Writer) error {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir))
	if err != nil {
		return fmt.Errorf("start the embedded broker in %s: %w", dir, err)
	}
	defer cluster.Close()
	if _, err := fmt.Fprintln(stdout, strings.Join(cluster.ListenAddrs(), ",")); err != nil {
		return fmt.Errorf("announce the embedded broker's address: %w", err)
	}
	parentGone := make(chan struct{})
	// Ends with the parent, or with this process.
	go func() {
		defer close(parentGone)
		_, _ = io.Copy(io.Discard, stdin)
	}()
	select {
	case <-parentGone:
	case <-ctx.Done():
	}
	return nil
}

// demoBroker is the parent's view of the embedded broker's process.
type demoBroker struct {
	address string
	cmd     *exec.Cmd
	stdin   io.Closer
	stderr  *bytes.Buffer // owned by cmd until exited is closed
	exited  chan struct{}
	waitErr error // set before exited is closed
}

// startDemoBroker starts cmd, which runs serveDemoBroker, and waits for its address.
func startDemoBroker(ctx context.Context, cmd *exec.Cmd) (*demoBroker, error) {
	b := &demoBroker{cmd: cmd, stderr: new(bytes.Buffer), exited: make(chan struct{})}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	b.stdin = stdin
	stdout, announce := io.Pipe()
	cmd.Stdout, cmd.Stderr = announce, b.stderr
	cmd.SysProcAttr = demoProcess()
	cmd.WaitDelay = demoBrokerStopTime
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	// Ends with the process, for which stop waits.
	go func() {
		b.waitErr = cmd.Wait()
		_ = announce.CloseWithError(io.EOF)
		close(b.exited)
	}()
	address := make(chan string, 1) // the line is read once
	// Ends with the process at the latest; reads on so that the pipe never fills.
	go func() {
		lines := bufio.NewReader(stdout)
		line, _ := lines.ReadString('\n')
		address <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, lines)
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, demoBrokerStartTime,
		fmt.Errorf("no address after %v", demoBrokerStartTime))
	defer cancel()
	select {
	case b.address = <-address:
	case <-ctx.Done():
		b.stop()
		return nil, fmt.Errorf("start the embedded broker: %w", context.Cause(ctx))
	}
	if _, _, err := net.SplitHostPort(b.address); err != nil {
		b.stop()
		return nil, fmt.Errorf("start the embedded broker: no address but %q: %w", b.address, b.failure())
	}
	return b, nil
}

// failure says how the process ended; call it after exited is closed.
func (b *demoBroker) failure() error {
	// Its exit status must not become ours: text only, no wrapping.
	how := "it ended"
	if b.waitErr != nil {
		how = b.waitErr.Error()
	}
	if text := strings.TrimSpace(b.stderr.String()); text != "" {
		how += ": " + text
	}
	return errors.New(how)
}

// stop ends the process, gracefully if it can, and returns when it is gone.
func (b *demoBroker) stop() {
	_ = b.stdin.Close()
	timer := time.NewTimer(demoBrokerStopTime)
	defer timer.Stop()
	select {
	case <-b.exited:
		return
	case <-timer.C:
	}
	_ = b.cmd.Process.Kill()
	<-b.exited
}
