package e2e

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestServiceManager: the process tells systemd that it is ready when it has its partitions and not before, what it
// commits, and that it stops.
func TestServiceManager(t *testing.T) {
	r := newRig(t, kafka.Shared(t, kafka.V44), plan{in: 2, out: 2, preserve: true})
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Close() }()
	if err := manager.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	said := ""
	hear := func(what string) {
		t.Helper()
		buffer := make([]byte, 4096)
		for !strings.Contains(said, what) {
			n, err := manager.Read(buffer)
			if err != nil {
				t.Fatalf("%q was not said, but %q: %v", what, said, err)
			}
			said += string(buffer[:n])
		}
	}
	r.feedNow(t, 100)
	p := r.startWith(t, "a", map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000"})
	hear("READY=1\n")
	if before, _, _ := strings.Cut(said, "READY=1\n"); strings.Contains(before, "STATUS=running") {
		t.Errorf("it ran before it was ready: %q", said)
	}
	if !p.Log.Contains("partitions assigned") {
		t.Error("ready without partitions")
	}
	awaitCommit(t, p, 0)
	hear("WATCHDOG=1\n")
	hear(", epoch 1 committed at ")
	stop(t, p)
	hear("STOPPING=1\n")
	r.exact(t)
}
