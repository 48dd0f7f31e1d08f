package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// demoBridge is one life of the bridge: a child process from its start to its
// end, by our signal or by itself.
type demoBridge struct {
	cmd     *exec.Cmd
	log     *demoLog
	started time.Time
	exited  chan struct{} // closed when the process is gone and its log is read
}

// demoEnviron is all the environment a bridge of the demo has. Of the user's own
// only that reaches it, and only on the user's cluster, which is needed to get in.
func demoEnviron(bootstrap string, names demoNames, access map[string]string) map[string]string {
	environ := maps.Clone(access)
	if environ == nil {
		environ = make(map[string]string)
	}
	maps.Copy(environ, map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": bootstrap,
		"BRIDGE_INPUT_TOPICS":     names.input,
		"BRIDGE_OUTPUT_TOPIC":     names.output,
		"BRIDGE_GROUP_ID":         names.group,
		"BRIDGE_INSTANCE_ID":      demoInstance,
		"BRIDGE_HTTP_ADDR":        "off",   // the user's own bridge may have the port
		"LOG_LEVEL":               "debug", // each committed epoch is a debug line
		"LOG_FORMAT":              "json",
	})
	return environ
}

// demoAccess picks from the user's environment how to get into a cluster:
// encryption, login, rack.
func demoAccess(environ map[string]string) map[string]string {
	access := make(map[string]string)
	for name, value := range environ {
		switch {
		case name == "KAFKA_BOOTSTRAP_SERVERS" || name == "KAFKA_CLIENT_ID":
		case strings.HasPrefix(name, "KAFKA_"), strings.HasPrefix(name, "AWS_"),
			name == "SSL_CERT_FILE", name == "SSL_CERT_DIR":
			access[name] = value
		}
	}
	return access
}

// startDemoBridge starts cmd as the bridge. committed is called, from another
// goroutine, for every epoch its log reports as committed.
func startDemoBridge(cmd *exec.Cmd, committed func()) (*demoBridge, error) {
	b := &demoBridge{cmd: cmd, log: &demoLog{committed: committed}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = b.log, b.log
	cmd.SysProcAttr = demoProcess()
	cmd.WaitDelay = time.Second
	b.started = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the bridge: %w", err)
	}
	// Ends with the process, which kill and stop wait for.
	go func() {
		defer close(b.exited)
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
	}()
	return b, nil
}

// kill ends the process with SIGKILL and waits for it. It returns an error if
// the process had ended by itself before the signal came.
func (b *demoBridge) kill() error {
	err := b.cmd.Process.Kill()
	<-b.exited
	if err != nil || b.cmd.ProcessState.Exited() {
		return b.endedByItself()
	}
	return nil
}

// stop asks the process to end with SIGTERM and waits for it until ctx ends;
// then it is killed. A bridge that was asked to stop must exit with 0.
func (b *demoBridge) stop(ctx context.Context) error {
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		_ = b.cmd.Process.Kill()
	}
	select {
	case <-b.exited:
	case <-ctx.Done():
		_ = b.cmd.Process.Kill()
		<-b.exited
		return &demoBridgeError{What: "did not stop in time after SIGTERM", Log: b.log.tail()}
	}
	if !b.cmd.ProcessState.Success() {
		return &demoBridgeError{What: "was asked to stop and ended with " + b.cmd.ProcessState.String(), Log: b.log.tail()}
	}
	return nil
}

// endedByItself is the error of a bridge that nobody had ended; call it after
// exited is closed.
func (b *demoBridge) endedByItself() error {
	return &demoBridgeError{
		What: fmt.Sprintf("ended by itself after %.1f s with %s", time.Since(b.started).Seconds(), b.cmd.ProcessState),
		Log:  b.log.tail(),
	}
}

// demoBridgeError is a bridge that did something the demo had not asked for.
type demoBridgeError struct {
	What string
	Log  []string // its last lines
}

func (e *demoBridgeError) Error() string {
	if len(e.Log) == 0 {
		return "the bridge " + e.What + " and logged nothing"
	}
	return "the bridge " + e.What + "; its last lines:\n    " + strings.Join(e.Log, "\n    ")
}

// demoLogLines is how much of a bridge's log is kept to explain a failure.
const demoLogLines = 40

// demoLog takes a bridge's output line by line, reports committed epochs and
// keeps the last lines. The process's copying goroutine writes; anyone reads.
type demoLog struct {
	committed func()

	mu      sync.Mutex
	partial []byte
	lines   []string
}

// Write never fails: a full log must not stop the bridge.
func (l *demoLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	var commits int
	l.partial = append(l.partial, p...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			break
		}
		if l.take(line) {
			commits++
		}
		l.partial = rest
	}
	l.partial = bytes.Clone(l.partial)
	l.mu.Unlock()
	for range commits {
		l.committed()
	}
	return len(p), nil
}

// take keeps a line unless it is a debug line, and reports whether it says that
// an epoch was committed. What is no JSON (a panic, a usage error) is kept.
func (l *demoLog) take(line []byte) (committed bool) {
	var entry struct {
		Level   string `json:"level"`
		Message string `json:"msg"`
		Outcome string `json:"outcome"`
	}
	if json.Unmarshal(line, &entry) == nil {
		if entry.Message == "epoch committed" {
			// One that wrote nothing is carried into the next.
			return entry.Outcome != "carried"
		}
		if entry.Level == "DEBUG" {
			return false
		}
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return false
	}
	l.lines = append(l.lines, string(line))
	if len(l.lines) > demoLogLines {
		l.lines = l.lines[1:]
	}
	return false
}

// tail returns the last lines, an unfinished one included.
func (l *demoLog) tail() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := append([]string(nil), l.lines...)
	if len(bytes.TrimSpace(l.partial)) > 0 {
		lines = append(lines, string(l.partial))
	}
	return lines
}
