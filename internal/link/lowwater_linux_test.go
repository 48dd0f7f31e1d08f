package link_test

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/eosbridge/eosbridge/internal/link"
)

// TestLowWater: the socket is told to wait for much while a large answer is read, and for anything at all before and after.
func TestLowWater(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(frame []byte) []byte { return append(response(16, 0, 3<<20), response(16, 1, 10)...) })
	var tcp *net.TCPConn
	d := link.New(func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		tcp, _ = c.(*net.TCPConn)
		return c, err
	})
	conn := b.dial(d)
	mark := func() (n int) {
		raw, err := tcp.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) { n, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := conn.Write([]byte{0, 0, 0, 1, 0}); err != nil {
		t.Fatal(err)
	}
	if n := mark(); n != 1 {
		t.Errorf("before an answer the mark is %d", n)
	}
	size := len(response(16, 0, 3<<20))
	head := make([]byte, 4096)
	n, err := conn.Read(head)
	if err != nil || n < 4 {
		t.Fatal(n, err)
	}
	rest := make([]byte, size-n)
	if n, err = conn.Read(rest); err != nil {
		t.Fatal(err)
	}
	if m := mark(); m < 64<<10 {
		t.Errorf("in a large answer the mark is %d", m)
	}
	for got := n; got < len(rest); got += n {
		if n, err = conn.Read(rest[got:]); err != nil {
			t.Fatal(err)
		}
	}
	readFrame(t, conn)
	if n := mark(); n != 1 {
		t.Errorf("after it the mark is %d", n)
	}
}
