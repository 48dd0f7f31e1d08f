package link

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"syscall"
)

// conn is a connection to a broker. As with every net.Conn one goroutine writes while another one reads; kgo writes a
// request with one Write, and gives the connection up after an error.
type conn struct {
	net.Conn
	raw syscall.RawConn // of a TCP connection; nil: it cannot be told when to wake the reader
	d   *Dialer

	mu       sync.Mutex
	expected map[int32]expected // answers that go beside kgo, by correlation id

	// The reader's.
	stash []byte  // read, and of the next frame
	ahead []byte  // for kgo, before anything else
	head  [4]byte // a frame's size
	have  int     // bytes of head
	rest  int     // bytes of the frame that follow
	wake  int     // what the socket was told
}

type expected struct {
	id       uint64
	flexible bool
}

func newConn(c net.Conn, d *Dialer) *conn {
	w := &conn{Conn: c, d: d, expected: map[int32]expected{}, wake: 1}
	if tcp, ok := c.(*net.TCPConn); ok {
		w.raw, _ = tcp.SyscallConn()
	}
	return w
}

// The fields of a request: size, key, version, correlation id.
const requestHeader = 4 + 2 + 2 + 4

// Write writes one request. One with a token is written with what the token stands for.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) < requestHeader+tokenSize {
		return c.Conn.Write(p)
	}
	id, ok := c.d.tokenOf(p[len(p)-tokenSize:])
	if !ok {
		return c.Conn.Write(p)
	}
	c.d.mu.Lock()
	j := c.d.journeys[id]
	var cuts []cut
	if j != nil {
		cuts = j.cuts
	}
	c.d.mu.Unlock()
	if j == nil {
		return 0, errOver
	}
	body := p[:len(p)-tokenSize]
	size := len(body) - 4
	whole := make(net.Buffers, 0, 2*len(cuts)+1)
	from := 0
	for _, cut := range cuts {
		at := len(body) - cut.behind
		whole = append(whole, body[from:at], cut.piece)
		from, size = at, size+len(cut.piece)
	}
	whole = append(whole, body[from:])
	binary.BigEndian.PutUint32(p, uint32(size)) //nolint:gosec // a request is smaller
	if j.pool != nil {
		c.mu.Lock()
		c.expected[int32(binary.BigEndian.Uint32(p[8:]))] = expected{id, binary.BigEndian.Uint16(p[6:]) >= fetchFlexible} //nolint:gosec // as it was written
		c.mu.Unlock()
	}
	n, err := whole.WriteTo(c.Conn)
	if err != nil {
		return int(min(n, int64(len(p)-1))), err
	}
	return len(p), nil
}

// Read reads answers, each frame by its own.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.ahead) == 0 && c.have == 0 && c.expects() {
		if err := c.frame(); err != nil {
			return 0, err
		}
	}
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	n, err := c.fill(p, c.rest)
	in := c.count(p[:n])
	if in < n {
		c.stash = append([]byte(nil), p[in:n]...)
	}
	return in, err
}

// expects reports whether an answer goes beside kgo. That is known before the answer comes.
func (c *conn) expects() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.expected) > 0
}

// largest is how large an answer may be that kgo does not see; above it kgo decides what to do.
const largest = 100 << 20

// frame begins an answer: it is read whole if it is an expected one, else left to kgo.
func (c *conn) frame() error {
	var start [8]byte // size and correlation id
	if err := c.full(start[:]); err != nil {
		return err
	}
	size, answers := int(int32(binary.BigEndian.Uint32(start[:]))), int32(binary.BigEndian.Uint32(start[4:])) //nolint:gosec // as it was written
	c.mu.Lock()
	e, ok := c.expected[answers]
	delete(c.expected, answers)
	c.mu.Unlock()
	if !ok || size < 4 || size > largest {
		c.ahead = start[:]
		c.have, c.rest = copy(c.head[:], start[:]), size-4
		if c.rest <= 0 { // kgo makes an end of it
			c.have = 0
		}
		return nil
	}
	c.d.mu.Lock()
	j := c.d.journeys[e.id]
	c.d.mu.Unlock()
	var pool *Pool
	if j != nil {
		pool = j.pool
	}
	b := pool.take(size - 4)
	b.poison = c.d.Poison
	if err := c.full(b.bytes); err != nil {
		if err == io.EOF { //nolint:errorlint // as io.ReadFull has it
			err = io.ErrUnexpectedEOF // in the middle of a frame
		}
		return err
	}
	c.d.deposit(e.id, b)
	in := 4 + tokenSize
	if e.flexible {
		in++
	}
	c.ahead = binary.BigEndian.AppendUint32(make([]byte, 0, 4+in), uint32(in)) //nolint:gosec // small
	c.ahead = append(c.ahead, start[4:]...)
	if e.flexible {
		c.ahead = append(c.ahead, 0)
	}
	c.ahead = c.d.token(c.ahead, e.id)
	return nil
}

// full is io.ReadFull of what comes next.
func (c *conn) full(p []byte) error {
	for n := 0; n < len(p); {
		m, err := c.fill(p[n:], len(p)-n)
		if n += m; err != nil && n < len(p) {
			if n > 0 && err == io.EOF { //nolint:errorlint // as io.ReadFull has it
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// fill reads something, of which so many bytes will be asked for in any case.
func (c *conn) fill(p []byte, certain int) (int, error) {
	if len(c.stash) > 0 {
		n := copy(p, c.stash)
		c.stash = c.stash[n:]
		return n, nil
	}
	c.wakeFor(min(certain, len(p)))
	return c.Conn.Read(p)
}

// wakeAfter is how much of a large answer has to be there before its reader is woken (SO_RCVLOWAT). A broker sends a
// large answer piece by piece, and is about as fast as its reader: without this the reader falls asleep and is woken
// every 100 KB, which at full speed is a sixth of the CPU time (measured as above). The answer is of no use before its
// end, so nothing comes later for it. The kernel makes the receive buffer twice as large.
const wakeAfter = 1 << 20

// wakeWorth is from where on a system call to change it is worth its price.
const wakeWorth = 128 << 10

func (c *conn) wakeFor(certain int) {
	after := 1
	if certain >= wakeWorth {
		after = min(certain, wakeAfter)
	}
	if c.raw != nil && after != c.wake {
		c.wake = after
		_ = c.raw.Control(func(fd uintptr) { setLowWater(fd, after) })
	}
}

// count follows the frames that kgo reads, and answers how much of b is not of the next one.
func (c *conn) count(b []byte) int {
	n := copy(c.head[c.have:], b)
	if n > 0 {
		if c.have += n; c.have < len(c.head) {
			return n
		}
		c.rest = max(int(int32(binary.BigEndian.Uint32(c.head[:]))), 0) //nolint:gosec // as it was written
	}
	in := min(c.rest, len(b)-n)
	c.rest -= in
	if c.have == len(c.head) && c.rest == 0 {
		c.have = 0
	}
	return n + in
}
