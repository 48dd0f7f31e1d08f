package bridge

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/internal/link"
)

// wire is the network between clients and brokers. It can be cut.
type wire struct {
	dial  func(context.Context, string, string) (net.Conn, error)
	cut   atomic.Bool
	delay time.Duration // of each request; set before clients are made
	late  time.Duration // of each read of an answer; set before clients are made

	mu   sync.Mutex
	open map[*wired]bool
	held chan struct{} // not nil: what is written waits for it to close
}

// wired is a connection with a send buffer, as a kernel has one: a client that writes never waits. (A client may
// write while it holds a lock, and a bubble's time stands still as long as anybody waits for that lock.)
type wired struct {
	net.Conn
	wire   *wire
	queue  chan []byte
	closed chan struct{}
	once   sync.Once
}

// pump delivers what was written; it ends with Close, or with the connection.
func (c *wired) pump() {
	for {
		select {
		case b := <-c.queue:
			c.wire.mu.Lock()
			held := c.wire.held
			c.wire.mu.Unlock()
			if held != nil {
				select {
				case <-held:
				case <-c.closed:
					return
				}
			}
			if c.wire.delay > 0 {
				<-time.After(c.wire.delay)
			}
			if _, err := c.Conn.Write(b); err != nil {
				_ = c.Close()
				return
			}
		case <-c.closed:
			return
		}
	}
}

func (c *wired) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.wire.late > 0 && n > 0 {
		select {
		case <-time.After(c.wire.late):
		case <-c.closed:
		}
	}
	return n, err
}

func (c *wired) Write(b []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	case c.queue <- bytes.Clone(b):
		return len(b), nil
	}
}

func (c *wired) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.wire.mu.Lock()
	delete(c.wire.open, c)
	c.wire.mu.Unlock()
	return c.Conn.Close()
}

// DialContext fails like a refused connection does: a network of pipes has errors of another type.
func (w *wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if w.cut.Load() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	}
	c, err := w.dial(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	wired := &wired{Conn: c, wire: w, queue: make(chan []byte, 1000), closed: make(chan struct{})}
	go wired.pump()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[wired] = true
	return wired, nil
}

// unplug closes every connection and refuses new ones until plug.
func (w *wire) unplug() {
	w.cut.Store(true)
	w.sever()
}

// sever closes every connection.
func (w *wire) sever() {
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.open))
	w.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

func (w *wire) plug() { w.cut.Store(false) }

// hold keeps back what is written from now on, until the answer is called: a process that was paused.
func (w *wire) hold() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := make(chan struct{})
	w.held = held
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.held = nil
		close(held)
	})
}

// newLink carries batches over the wire beside the client, the smallest ones as well, and spoils memory that is used again.
func newLink(w *wire) *link.Dialer {
	l := link.New(w.DialContext)
	l.Smallest, l.Poison = 1, true
	return l
}

// ownWire gives a bridge a connection of its own, which can be cut alone.
func (w *world) ownWire() (*wire, func(*Options)) {
	own := &wire{dial: w.wire.dial, open: map[*wired]bool{}}
	return own, func(o *Options) {
		o.Link = newLink(own)
		o.Client = []kgo.Opt{kgo.SeedBrokers(w.ListenAddrs()...), kgo.Dialer(o.Link.Dial)}
	}
}
