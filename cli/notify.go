package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/eosbridge/eosbridge/bridge"
)

// notifyEvery is the time between two looks at the bridge for the service manager.
const notifyEvery = 5 * time.Second

// notifier speaks to the service manager, as sd_notify(3) does: ready after recovery, a line of status, and the watchdog
// as long as the loop of epochs makes progress.
type notifier struct {
	socket   string // NOTIFY_SOCKET; empty = there is no manager
	every    time.Duration
	watchdog bool
	log      *slog.Logger

	ready bool
	said  string
}

// newNotifier reads what systemd has put into the environment. A watchdog is fed three times within its time.
func newNotifier(environ map[string]string, log *slog.Logger) *notifier {
	n := &notifier{socket: environ["NOTIFY_SOCKET"], every: notifyEvery, log: log}
	if usec, err := strconv.ParseInt(environ["WATCHDOG_USEC"], 10, 64); err == nil && usec > 0 {
		n.watchdog = true
		n.every = min(n.every, time.Duration(usec)*time.Microsecond/3)
	}
	return n
}

// run tells the manager about the bridge until ctx ends, and then that it stops; the caller waits for it. While the bridge
// is not ready yet it looks more often, so that what waits for the start does not wait longer than it has to.
func (n *notifier) run(ctx context.Context, health func() bridge.Health) {
	if n.socket == "" {
		return
	}
	const soon = 200 * time.Millisecond
	pause := min(soon, n.every)
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			n.send("STOPPING=1\nSTATUS=stopping: committing the last epoch")
			return
		case <-ticker.C:
			n.tell(health())
			if n.ready && pause != n.every {
				pause = n.every
				ticker.Reset(pause)
			}
		}
	}
}

// tell sends what has changed, and feeds the watchdog.
func (n *notifier) tell(h bridge.Health) {
	var message string
	if n.watchdog && h.Live {
		message += "WATCHDOG=1\n"
	}
	if !n.ready {
		if h.Ready {
			n.ready = true
			message += "READY=1\n"
		} else if h.Live {
			// The start may take as long as the brokers do.
			message += fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\n", (2 * notifyEvery).Microseconds())
		}
	}
	if h.Summary != n.said {
		n.said = h.Summary
		message += "STATUS=" + h.Summary + "\n"
	}
	if message != "" {
		n.send(message)
	}
}

// send writes a datagram to the manager. A failure changes nothing for the bridge; it is told once.
func (n *notifier) send(message string) {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(message))
		_ = conn.Close() // nothing is left to be written
	}
	if err != nil {
		n.log.Warn("service manager not notified", "err", err)
		n.socket = ""
	}
}
