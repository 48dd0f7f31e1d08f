package cli

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/bridge"
)

// listen is a service manager's socket.
func listen(t *testing.T) (path string, next func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return path, func() string {
		t.Helper()
		buffer := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
}

// TestNotify: the manager hears of readiness once and only after recovery, of each new summary, and of the stop; the
// watchdog is fed as long as the loop lives.
func TestNotify(t *testing.T) {
	path, next := listen(t)
	var health atomic.Pointer[bridge.Health]
	health.Store(&bridge.Health{Live: true, Summary: "recovering for 1s"})
	n := newNotifier(map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000"}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.run(ctx, func() bridge.Health { return *health.Load() }) })
	defer running.Wait()
	defer cancel()
	if got := next(); got != "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=10000000\nSTATUS=recovering for 1s\n" {
		t.Errorf("while recovering: %q", got)
	}
	health.Store(&bridge.Health{Live: true, Ready: true, Summary: "running: 8 partitions, lag 0"})
	ready := 0
	for said := ""; !strings.Contains(said, "STATUS=running: 8 partitions, lag 0\n"); {
		said = next()
		ready += strings.Count(said, "READY=1\n")
	}
	for range 3 {
		if got := next(); got != "WATCHDOG=1\n" {
			t.Errorf("with nothing new: %q", got)
		}
	}
	// A loop that stands still is not fed for; what comes next is the summary that says so.
	health.Store(&bridge.Health{Summary: "stands still"})
	said := next()
	for said == "WATCHDOG=1\n" {
		said = next()
	}
	if said != "STATUS=stands still\n" {
		t.Errorf("while it stands still: %q", said)
	}
	cancel()
	if got := next(); !strings.HasPrefix(got, "STOPPING=1\n") {
		t.Errorf("at the stop: %q", got)
	}
	if ready != 1 {
		t.Errorf("READY was said %d times", ready)
	}
}

// TestNotifyNobody: without a manager, or with one that has gone, the bridge is not held up.
func TestNotifyNobody(t *testing.T) {
	for _, environ := range []map[string]string{nil, {"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "gone")}} {
		n := newNotifier(environ, slog.New(slog.DiscardHandler))
		n.tell(bridge.Health{Live: true, Ready: true, Summary: "running"})
		if n.socket != "" && environ != nil {
			t.Error("a socket that is gone is asked again and again")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n.run(ctx, func() bridge.Health { return bridge.Health{} })
	}
}
