package bridge

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// frames lies between a wire and the brokers and reads Kafka's frames, so that a test can lose, delay or tear one
// request or its answer, with the errors that a real network gives: how a client goes on depends on their kind.
type frames struct {
	dial func(context.Context, string, string) (net.Conn, error)

	mu     sync.Mutex
	key    kmsg.Key // of the requests that the mishap is for; with a mishap only
	mishap mishap
	left   int // requests that the mishap may still meet; -1: all
	met    int // requests that it has met
	silent time.Time
	kinds  map[kmsg.Key]int // requests that were sent
}

// mishap is what becomes of a request.
type mishap struct {
	name    string
	request func(c *framed, frame []byte) error                    // in place of sending it on
	answer  func(c *framed, frame []byte) (read []byte, err error) // in place of handing it on
	silence time.Duration                                          // of everything, from the request on
	// sessions is how many sessions may fail beyond one per request: those that run into the same silence.
	sessions int
	lasts    time.Duration // until its consequences have been seen
}

// mishaps are all of them. What ends a connection ends it for good; answers that are behind are lost with it.
var mishaps = []mishap{
	{name: "cut before the broker has it", request: func(c *framed, _ []byte) error { return c.cut(io.EOF) }},
	{name: "reset before the broker has it", request: func(c *framed, _ []byte) error { return c.cut(reset()) }},
	{name: "cut within the request", request: func(c *framed, frame []byte) error {
		_, _ = c.Conn.Write(frame[:len(frame)/2])
		return c.cut(io.EOF)
	}},
	{name: "request of a wrong length", sessions: 3, lasts: 10 * time.Second, request: func(c *framed, frame []byte) error {
		binary.BigEndian.PutUint32(frame, 1<<20)
		_, err := c.Conn.Write(frame)
		return err
	}},
	{name: "closed in place of the answer", answer: func(c *framed, _ []byte) ([]byte, error) { return nil, c.cut(io.EOF) }},
	{name: "reset in place of the answer", answer: func(c *framed, _ []byte) ([]byte, error) { return nil, c.cut(reset()) }},
	{name: "cut within the answer", answer: func(c *framed, frame []byte) ([]byte, error) {
		_ = c.cut(io.EOF)
		return frame[:len(frame)/2], nil
	}},
	{name: "answer of an absurd length", answer: func(_ *framed, frame []byte) ([]byte, error) {
		binary.BigEndian.PutUint32(frame, 0x48545450) // "HTTP"
		return frame, nil
	}},
	{name: "answer of a negative length", answer: func(_ *framed, frame []byte) ([]byte, error) {
		binary.BigEndian.PutUint32(frame, 0xffffff00)
		return frame, nil
	}},
	{name: "no answer any more", sessions: 3, lasts: 10 * time.Second, answer: func(c *framed, _ []byte) ([]byte, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mute = true
		return nil, nil
	}},
	{name: "answer late by 2 s", lasts: 2 * time.Second, answer: func(c *framed, frame []byte) ([]byte, error) { return frame, c.sleep(2 * time.Second) }},
	{name: "answer late by 6 s", sessions: 2, lasts: 6 * time.Second, answer: func(c *framed, frame []byte) ([]byte, error) { return frame, c.sleep(6 * time.Second) }},
	{name: "silence of 4 s", silence: 4 * time.Second, sessions: 2, lasts: 4 * time.Second},
	{name: "silence of 15 s", silence: 15 * time.Second, sessions: 5, lasts: 15 * time.Second}, // longer than every timeout of the pipeline
}

// reset is what a read gives after the other end has reset the connection.
func reset() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

// frames lets the bridges' connections pass frames.
func (w *world) frames() *frames {
	f := &frames{dial: w.wire.dial, kinds: map[kmsg.Key]int{}}
	w.wire.dial = f.DialContext
	return f
}

// arm lets the next n requests of a kind meet a mishap; -1 lets all.
func (f *frames) arm(key kmsg.Key, m mishap, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.key, f.mishap, f.left, f.met = key, m, n, 0
}

// heal ends what arm began, also a silence, and answers how many requests have met it.
func (f *frames) heal() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.silent = 0, time.Time{}
	return f.met
}

func (f *frames) hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.met
}

// sent answers which kinds of requests were sent.
func (f *frames) sent() []kmsg.Key {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.kinds))
}

// meet notes a request, and answers the mishap that it meets.
func (f *frames) meet(key kmsg.Key) (mishap, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kinds[key]++
	if f.left == 0 || f.key != key {
		return mishap{}, false
	}
	f.left = max(f.left-1, -1)
	f.met++
	if f.mishap.silence > 0 && time.Now().After(f.silent) {
		f.silent = time.Now().Add(f.mishap.silence)
	}
	return f.mishap, true
}

func (f *frames) silence() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Until(f.silent)
}

// DialContext is a kgo.Dialer.
func (f *frames) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := f.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &framed{Conn: c, frames: f, waiting: map[int32]question{}, closed: make(chan struct{}), moved: make(chan struct{})}, nil
}

// framed is one connection.
type framed struct {
	net.Conn
	frames *frames

	out   []byte   // of the request that is being written; the writer's
	in    []byte   // of the answer that is being read; the reader's
	asked question // what it answers; the reader's

	mu       sync.Mutex
	waiting  map[int32]question // by correlation id
	ended    error              // how the other end ended the connection
	mute     bool               // nothing comes back any more
	deadline time.Time          // of reads
	moved    chan struct{}      // closed, and replaced, when the deadline moves
	closed   chan struct{}
	once     sync.Once
}

// question is a request whose answer meets a mishap.
type question struct {
	mishap
	key, version int16
}

// Write sends whole frames: size, key, version, correlation id.
func (c *framed) Write(p []byte) (int, error) {
	c.out = append(c.out, p...)
	for len(c.out) >= 12 {
		size := int(binary.BigEndian.Uint32(c.out)) + 4
		if len(c.out) < size {
			break
		}
		frame := c.out[:size:size]
		c.out = c.out[size:]
		if err := c.send(frame); err != nil {
			return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
		}
	}
	return len(p), nil
}

func (c *framed) send(frame []byte) error {
	key, version := int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
	m, meets := c.frames.meet(kmsg.Key(key))
	if meets && m.request != nil {
		return m.request(c, frame)
	}
	if meets && m.answer != nil {
		c.mu.Lock()
		c.waiting[int32(binary.BigEndian.Uint32(frame[8:]))] = question{m, key, version}
		c.mu.Unlock()
	}
	_, err := c.Conn.Write(frame)
	return err
}

// cut ends the connection as the other end would: reads answer err from now on.
func (c *framed) cut(err error) error {
	c.mu.Lock()
	c.ended = err
	c.mu.Unlock()
	_ = c.Close()
	return err
}

// Close implements net.Conn.
func (c *framed) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// SetReadDeadline implements net.Conn. It also ends a sleep.
func (c *framed) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	close(c.moved)
	c.moved = make(chan struct{})
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *framed) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.Conn.SetWriteDeadline(t)
}

// sleep lets time go by until d is over, or the deadline of the read.
func (c *framed) sleep(d time.Duration) error {
	end := time.Now().Add(d)
	for {
		c.mu.Lock()
		until, moved := end, c.moved
		late := !c.deadline.IsZero() && c.deadline.Before(end)
		if late {
			until = c.deadline
		}
		c.mu.Unlock()
		timer := time.NewTimer(time.Until(until))
		select {
		case <-timer.C:
			if late {
				return c.failure(os.ErrDeadlineExceeded)
			}
			return nil
		case <-moved:
			timer.Stop()
		case <-c.closed:
			timer.Stop()
			return c.failure(io.ErrClosedPipe)
		}
	}
}

// failure makes a pipe's error the one that a TCP connection would give.
func (c *framed) failure(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended != nil:
		return c.ended
	case errors.Is(err, io.ErrClosedPipe):
		return &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	default:
		return err
	}
}

// Read hands on answers.
func (c *framed) Read(p []byte) (int, error) {
	for len(c.in) == 0 {
		frame, err := c.answer()
		if err != nil {
			return 0, err
		}
		c.in = frame
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

// answer reads one frame, and answers what is left of it.
func (c *framed) answer() ([]byte, error) {
	frame := make([]byte, 8)
	if _, err := io.ReadFull(c.Conn, frame); err != nil {
		return nil, c.failure(err)
	}
	frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame)-4)...)
	if _, err := io.ReadFull(c.Conn, frame[8:]); err != nil {
		return nil, c.failure(err)
	}
	for d := c.frames.silence(); d > 0; d = c.frames.silence() { // what was sent is repeated by TCP, and arrives then
		if err := c.sleep(min(d, 100*time.Millisecond)); err != nil {
			return nil, err
		}
	}
	correlation := int32(binary.BigEndian.Uint32(frame[4:]))
	c.mu.Lock()
	q, meets := c.waiting[correlation]
	delete(c.waiting, correlation)
	mute := c.mute
	c.mu.Unlock()
	switch {
	case mute:
		return nil, nil
	case meets:
		c.asked = q
		return q.answer(c, frame)
	default:
		return frame, nil
	}
}
