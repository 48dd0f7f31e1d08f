package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// requireRoot ends a test that needs root and the tools of package cluster where
// they are not there. With CI=true or -long that is a failure, for a green proof
// must have tried everything.
func requireRoot(t *testing.T) {
	t.Helper()
	end := t.Skipf
	if *long || os.Getenv("CI") == "true" {
		end = t.Fatalf
	}
	switch {
	case runtime.GOOS != "linux":
		end("network namespaces and tmpfs are Linux's; this is %s", runtime.GOOS)
	case os.Getuid() != 0:
		end("network namespaces and mounts need root; user id %d", os.Getuid())
	}
	for _, tool := range []struct{ name, pkg string }{{"ip", "iproute2"}, {"iptables", "iptables"}, {"mount", "mount"}} {
		if _, err := exec.LookPath(tool.name); err != nil {
			end("no %s in PATH: install Debian's package %s (make setup-debian)", tool.name, tool.pkg)
		}
	}
}

func newNamespace(t *testing.T) *Namespace {
	t.Helper()
	requireRoot(t)
	n, err := NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func newVolume(t *testing.T, size int) *Volume {
	t.Helper()
	requireRoot(t)
	v, err := NewVolume(t.TempDir(), size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// TestNamespaceCuts: what was said before a cut is heard, what is said during it
// is heard in the other direction only, and after it everything.
func TestNamespaceCuts(t *testing.T) {
	for _, row := range []struct {
		cut            Direction
		there, andBack bool // does a message arrive, does its answer
	}{
		{"", true, true},
		{ToBroker, false, false},
		{FromBroker, true, false},
		{Both, false, false},
	} {
		name := string(row.cut)
		if name == "" {
			name = "none"
		}
		t.Run(name, func(t *testing.T) {
			n := newNamespace(t)
			heard, address := echo(t, n.Host())
			ask, answers := talker(t, n, address)
			say(t, ask, "hello\n")
			expect(t, heard, "hello")
			expect(t, answers, "hello")
			if row.cut != "" {
				if err := n.Cut(row.cut, address); err != nil {
					t.Fatal(err)
				}
			}
			say(t, ask, "request\n")
			if row.there {
				expect(t, heard, "request")
			} else {
				silent(t, heard)
			}
			if row.andBack {
				expect(t, answers, "request")
				return
			}
			silent(t, answers)
			if err := n.Heal(); err != nil {
				t.Fatal(err)
			}
			if !row.there {
				expect(t, heard, "request") // TCP sends it again: late, but whole
			}
			expect(t, answers, "request")
		})
	}
}

// TestNamespaceGoes: nothing is left of a namespace, nor of one whose owner died.
func TestNamespaceGoes(t *testing.T) {
	requireRoot(t)
	// The process id of a process that has ended.
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	dead := fmt.Sprintf("%s%d-1", namePrefix, ended.Process.Pid)
	if err := run("ip", "netns", "add", dead); err != nil {
		t.Fatal(err)
	}
	n, err := NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/var/run/netns/" + dead); err == nil {
		t.Error("a dead owner's namespace is still there")
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/var/run/netns/" + n.name); err == nil {
		t.Error("the namespace is still there")
	}
	if err := n.Cut(Both, "127.0.0.1:1"); err == nil {
		t.Error("a cut in a namespace that is gone")
	}
	if err := n.Cut(Both, "nowhere"); err == nil {
		t.Error("a cut from no address")
	}
}

// TestVolume: a full volume takes nothing, a freed one does.
func TestVolume(t *testing.T) {
	v := newVolume(t, 1)
	file := filepath.Join(v.dir, "file")
	if err := v.Fill(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err == nil {
		t.Error("a full volume took a file")
	}
	if err := v.Free(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
	if _, err := NewVolume(filepath.Join(v.dir, "nowhere"), 1); err == nil {
		t.Error("mounted at a folder that does not exist")
	}
}

// echo listens on the host and sends back every line it hears.
func echo(t *testing.T, host string) (heard <-chan string, address string) {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	go func() { // ends with its only connection or the listener
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		readLines(io.TeeReader(conn, conn), lines)
	}()
	t.Cleanup(func() { ln.Close() })
	return lines, ln.Addr().String()
}

// talker is a process in the namespace that passes on what it is told, over one
// connection, and what it hears.
func talker(t *testing.T, n *Namespace, address string) (io.Writer, <-chan string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	args := n.Command("bash", "-c", "exec 3<>/dev/tcp/"+host+"/"+port+"; cat <&3 & cat >&3")
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	done := make(chan struct{})
	go func() { // ends with the process
		defer close(done)
		readLines(out, lines)
	}()
	t.Cleanup(func() {
		in.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with both cats
		_ = cmd.Wait()
	})
	return in, lines
}

func readLines(r io.Reader, lines chan<- string) {
	var rest []byte
	block := make([]byte, 1024)
	for {
		n, err := r.Read(block)
		rest = append(rest, block[:n]...)
		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			lines <- string(line)
			rest = after
		}
		if err != nil {
			return
		}
	}
}

func say(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	select {
	case line := <-lines:
		if line != want {
			t.Fatalf("heard %q, want %q", line, want)
		}
	case <-within(t, patience).Done():
		t.Fatalf("%q was not heard", want)
	}
}

// silent waits long enough for what is not dropped to be heard.
func silent(t *testing.T, lines <-chan string) {
	t.Helper()
	select {
	case line := <-lines:
		t.Fatalf("%q was heard in spite of the cut", line)
	case <-time.After(300 * time.Millisecond):
	}
}
