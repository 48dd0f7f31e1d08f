package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is the dialer of the clients under test. It reads Kafka's frames, so that a test can lose exactly one
// answer, or alter one, with the errors that a real network gives: whether and how the client sends again
// depends on them.
type wire struct {
	mu     sync.Mutex
	rules  []*rule
	silent bool // nobody listens any more
	dialed int
}

// fate is what becomes of a request.
type fate int

const (
	// cutBefore ends the connection before the broker has seen the request.
	cutBefore fate = iota
	// cutAfter lets the broker act and ends the connection in place of the answer.
	cutAfter
	// swallow lets the broker act; the answer never comes, the connection stays.
	swallow
	// alter lets the broker act and changes the answer.
	alter
)

// rule applies a fate to requests of one kind.
type rule struct {
	key    kmsg.Key
	fate   fate
	left   int // -1: every time
	change func(broker string, resp kmsg.Response)
	then   func(hits int) // after each hit
	hits   atomic.Int64   // requests
	dealt  atomic.Int64   // requests that have met their fate
}

const always = -1

// met says that a request has met its fate.
func (r *rule) met() {
	if n := r.dealt.Add(1); r.then != nil {
		r.then(int(n))
	}
}

// Hits counts the requests that have met the rule.
func (r *rule) Hits() int { return int(r.hits.Load()) }

// lose applies a fate to the next n requests of a kind.
func (w *wire) lose(key kmsg.Key, f fate, n int) *rule {
	return w.add(&rule{key: key, fate: f, left: n})
}

// loseUntil does so each time, and calls stop after the n-th: for what would be waited for, or repeated, for longer
// than a test should take.
func (w *wire) loseUntil(key kmsg.Key, f fate, n int, stop func()) *rule {
	return w.add(&rule{key: key, fate: f, left: always, then: func(hits int) {
		if hits == n {
			stop()
		}
	}})
}

// change alters the answers to the next n requests of a kind, after the broker (an address) has acted.
func (w *wire) change(key kmsg.Key, n int, change func(broker string, resp kmsg.Response)) *rule {
	return w.add(&rule{key: key, fate: alter, left: n, change: change})
}

func (w *wire) add(r *rule) *rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, r)
	return r
}

// mend ends every rule.
func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules, w.silent = nil, false
}

// down refuses every new connection.
func (w *wire) down() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

func (w *wire) dials() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dialed
}

func (w *wire) match(key kmsg.Key) *rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rules {
		if r.key != key || r.left == 0 {
			continue
		}
		if r.left > 0 {
			r.left--
		}
		r.hits.Add(1)
		return r
	}
	return nil
}

// dial is a kgo.Dialer.
func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	silent := w.silent
	w.dialed++
	w.mu.Unlock()
	if silent {
		// A port that was just closed: the refusal, and its type, are the kernel's.
		var listen net.ListenConfig
		l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		address = l.Addr().String()
		l.Close()
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: c, wire: w, broker: address, waiting: map[int32]question{}}, nil
}

// question is a request that was sent and has a rule.
type question struct {
	rule    *rule
	key     int16
	version int16
}

type wireConn struct {
	net.Conn
	wire   *wire
	broker string

	out []byte // of the request that is being written; the writer's
	in  []byte // of the answer that is being read; the reader's

	mu      sync.Mutex
	waiting map[int32]question // by correlation id
	cut     bool
}

// Write forwards whole frames: size, api key (bytes 4 and 5), version, correlation id.
func (c *wireConn) Write(p []byte) (int, error) {
	c.out = append(c.out, p...)
	for len(c.out) >= 12 {
		size := int(binary.BigEndian.Uint32(c.out)) + 4
		if len(c.out) < size {
			break
		}
		frame := c.out[:size:size]
		c.out = c.out[size:]
		if err := c.forward(frame); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (c *wireConn) forward(frame []byte) error {
	q := question{key: int16(binary.BigEndian.Uint16(frame[4:])), version: int16(binary.BigEndian.Uint16(frame[6:]))}
	if q.rule = c.wire.match(kmsg.Key(q.key)); q.rule != nil {
		if q.rule.fate == cutBefore {
			defer q.rule.met()
			return c.end()
		}
		c.mu.Lock()
		c.waiting[int32(binary.BigEndian.Uint32(frame[8:]))] = q
		c.mu.Unlock()
	}
	_, err := c.Conn.Write(frame)
	return err
}

// end closes the connection as a broker would: what was written is gone, what is read ends.
func (c *wireConn) end() error {
	c.mu.Lock()
	c.cut = true
	c.mu.Unlock()
	return c.Conn.Close()
}

func (c *wireConn) Read(p []byte) (int, error) {
	for len(c.in) == 0 {
		answer, err := c.answer()
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.cut && errors.Is(err, net.ErrClosed) {
				err = io.EOF
			}
			return 0, err
		}
		c.in = answer
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

// answer reads one frame and applies its rule; nil without an error is a swallowed answer.
func (c *wireConn) answer() ([]byte, error) {
	head := make([]byte, 8)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return nil, err
	}
	frame := append(head, make([]byte, binary.BigEndian.Uint32(head)-4)...)
	if _, err := io.ReadFull(c.Conn, frame[8:]); err != nil {
		return nil, err
	}
	correlation := int32(binary.BigEndian.Uint32(head[4:]))
	c.mu.Lock()
	q, ok := c.waiting[correlation]
	delete(c.waiting, correlation)
	c.mu.Unlock()
	if !ok {
		return frame, nil
	}
	defer q.rule.met()
	switch q.rule.fate {
	case cutAfter:
		_ = c.end()
		return nil, io.EOF
	case swallow:
		return nil, nil
	default:
		return q.altered(c.broker, frame)
	}
}

func (q question) altered(broker string, frame []byte) ([]byte, error) {
	resp := kmsg.ResponseForKey(q.key)
	resp.SetVersion(q.version)
	head := 8
	if resp.IsFlexible() && kmsg.Key(q.key) != kmsg.ApiVersions {
		head++ // no tags
	}
	if err := resp.ReadFrom(frame[head:]); err != nil {
		return nil, err
	}
	q.rule.change(broker, resp)
	frame = resp.AppendTo(frame[:head:head])
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame, nil
}
