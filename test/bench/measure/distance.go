package measure

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// distance is a TCP proxy that makes a broker far away: each answer arrives a
// fixed time later. Requests pass at once and answers may overlap, so only the
// latency grows, not the time per byte.
//
// The broker tells clients its own address, which would lead them past the proxy,
// so answers that hold it are written anew.
type distance struct {
	target string
	delay  time.Duration
	ln     net.Listener
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// newDistance listens on a free loopback port and forwards to target.
func newDistance(target string, delay time.Duration) (*distance, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &distance{target: target, delay: delay, ln: ln}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.wg.Go(func() { // ended by close
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.serve(client) })
		}
	})
	return d, nil
}

func (d *distance) addr() string { return d.ln.Addr().String() }

// close ends all connections and waits for them.
func (d *distance) close() {
	d.cancel()
	_ = d.ln.Close()
	d.wg.Wait()
}

// question is a request that is not answered yet. A broker answers the requests
// of a connection in their order.
type question struct{ key, version int16 }

// letter is an answer on its way.
type letter struct {
	due   time.Time
	frame []byte
}

// onTheWay bounds questions and letters of one connection. It is beyond what a
// client keeps in flight.
const onTheWay = 1024

// serve carries one connection until either side, or the proxy, ends it.
func (d *distance) serve(client net.Conn) {
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	broker, err := net.Dial("tcp", d.target)
	if err != nil {
		_ = client.Close()
		return
	}
	closeBoth := context.AfterFunc(ctx, func() { _, _ = client.Close(), broker.Close() })
	defer closeBoth()
	questions, letters := make(chan question, onTheWay), make(chan letter, onTheWay)
	var wg sync.WaitGroup
	for _, part := range []func(){
		func() { d.requests(ctx, client, broker, questions) },
		func() { d.answers(ctx, broker, questions, letters) },
		func() { deliver(ctx, client, letters) },
	} {
		wg.Go(func() { // the first that ends, ends the connection and so the others
			defer cancel()
			part()
		})
	}
	wg.Wait()
}

func (d *distance) requests(ctx context.Context, client io.Reader, broker io.Writer, questions chan<- question) {
	for {
		frame, err := readFrame(client)
		if err != nil || len(frame) < 8 {
			return
		}
		q := question{key: int16(binary.BigEndian.Uint16(frame[4:])), version: int16(binary.BigEndian.Uint16(frame[6:]))} //nolint:gosec // Kafka's int16
		select {
		case questions <- q:
		case <-ctx.Done():
			return
		}
		if _, err := broker.Write(frame); err != nil {
			return
		}
	}
}

func (d *distance) answers(ctx context.Context, broker io.Reader, questions <-chan question, letters chan<- letter) {
	for {
		frame, err := readFrame(broker)
		if err != nil {
			return
		}
		due := time.Now().Add(d.delay)
		var q question
		select {
		case q = <-questions:
		case <-ctx.Done():
			return
		}
		if frame, err = redirect(q, frame, d.addr()); err != nil {
			panic(err) // a proxy that lets clients pass by measures nothing
		}
		select {
		case letters <- letter{due, frame}:
		case <-ctx.Done():
			return
		}
	}
}

// deliver writes letters when they are due.
func deliver(ctx context.Context, client io.Writer, letters <-chan letter) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var l letter
		select {
		case l = <-letters:
		case <-ctx.Done():
			return
		}
		timer.Reset(time.Until(l.due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if _, err := client.Write(l.frame); err != nil {
			return
		}
	}
}

// largestFrame is more than any client here asks for.
const largestFrame = 256 << 20

// readFrame reads a request or an answer, with the size in front.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > largestFrame {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// redirect replaces the broker's address in the answers that hold it.
func redirect(q question, frame []byte, addr string) ([]byte, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseInt(portText, 10, 32)
	if err != nil {
		return nil, err
	}
	port := int32(number)
	answer := kmsg.ResponseForKey(q.key)
	switch answer.(type) {
	case *kmsg.MetadataResponse, *kmsg.FindCoordinatorResponse, *kmsg.DescribeClusterResponse:
	default:
		return frame, nil
	}
	answer.SetVersion(q.version)
	header := 8 // size, correlation id
	if answer.IsFlexible() {
		header++ // no tags
	}
	if len(frame) < header {
		return nil, fmt.Errorf("answer of %d bytes to %s", len(frame), kmsg.NameForKey(q.key))
	}
	if err := answer.ReadFrom(frame[header:]); err != nil {
		return nil, fmt.Errorf("answer to %s version %d: %w", kmsg.NameForKey(q.key), q.version, err)
	}
	switch a := answer.(type) {
	case *kmsg.MetadataResponse:
		for i := range a.Brokers {
			a.Brokers[i].Host, a.Brokers[i].Port = host, port
		}
	case *kmsg.FindCoordinatorResponse:
		if a.Host != "" {
			a.Host, a.Port = host, port
		}
		for i := range a.Coordinators {
			if a.Coordinators[i].Host != "" {
				a.Coordinators[i].Host, a.Coordinators[i].Port = host, port
			}
		}
	case *kmsg.DescribeClusterResponse:
		for i := range a.Brokers {
			a.Brokers[i].Host, a.Brokers[i].Port = host, port
		}
	}
	out := answer.AppendTo(append([]byte(nil), frame[:header]...))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4)) //nolint:gosec // below largestFrame
	return out, nil
}
