package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fault is what a proxy does to an answer, or to a request, in place of passing it on.
type Fault int

const (
	// CutEOF closes the connection in order (FIN).
	CutEOF Fault = iota
	// CutReset closes the connection with a reset (RST).
	CutReset
	// Swallow drops the answer and every later one of that connection, which
	// stays open: the client runs into its time-out.
	Swallow
	// UnknownError lets the broker act and answers UNKNOWN_SERVER_ERROR.
	UnknownError
	// CutRequest closes the connection before the request reaches the broker.
	CutRequest
	// Refuse answers UNKNOWN_SERVER_ERROR and the broker does not act.
	Refuse
	// ResetRequest resets the connection before the request reaches the broker.
	ResetRequest
	// Hold lets the answer, and all behind it on its connection, wait for Rule.For.
	Hold
	// HushRequests lets nothing through to the broker for Rule.For, on no
	// connection, from this request on. What was sent meanwhile arrives then, also
	// on connections that the client has given up: as after a network's silence.
	HushRequests
	// HushAnswers is the same for everything from the broker, from this answer on.
	HushAnswers
)

// strikesRequest says that a fault strikes before the broker has the request.
func (f Fault) strikesRequest() bool {
	return f == CutRequest || f == Refuse || f == ResetRequest || f == HushRequests
}

var faultNames = map[Fault]string{
	CutEOF: "eof", CutReset: "reset", Swallow: "time-out", UnknownError: "unknown error", CutRequest: "request lost",
	Refuse: "refused", ResetRequest: "request reset", Hold: "late", HushRequests: "requests silent", HushAnswers: "answers silent",
}

// String is the fault's name in the names of tests.
func (f Fault) String() string { return faultNames[f] }

// Rule says which answers suffer a fault.
type Rule struct {
	Key   kmsg.Key // of the request, e.g. kmsg.EndTxn
	Fault Fault
	Every int // each so many-th of them; 1 = each
	Times int // no more than that

	For time.Duration // of Hold, HushRequests and HushAnswers
}

// Proxy stands between the bridge and a cluster of one broker. It speaks just
// enough of Kafka's protocol to put its own address where the broker says its
// own (Metadata, FindCoordinator, DescribeCluster), to know one request from
// another, and to lose the answers a [Rule] names. Everything else passes.
type Proxy struct {
	target string
	ln     net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	rule  *Rule
	seen  int // answers that fit the rule
	hits  int // faults done under the present rule
	delay time.Duration
	// open counts, by connection and key, requests that went to the broker and
	// whose answer the client does not have yet.
	open  map[net.Conn]map[int16]int
	next  map[int16]chan struct{} // closed when a request of that key goes to the broker
	conns map[net.Conn]struct{}
	tap   func(Passing)
	judge Judge
	// until is when requests (true) and answers get through again.
	until  map[bool]time.Time
	closed chan struct{}
}

// StartProxy listens on a free loopback port and forwards to target (host:port).
func StartProxy(target string) (*Proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{
		target: target, ln: ln, conns: make(map[net.Conn]struct{}),
		open: make(map[net.Conn]map[int16]int), next: make(map[int16]chan struct{}),
		until: make(map[bool]time.Time), closed: make(chan struct{}),
	}
	p.wg.Go(p.accept) // ended by Close
	return p, nil
}

// Addr is host:port to connect to.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Close ends all connections.
func (p *Proxy) Close() {
	_ = p.ln.Close()
	close(p.closed)
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// Set makes rule the only one; nil passes everything.
func (p *Proxy) Set(rule *Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule, p.seen, p.hits = rule, 0, 0
}

// InFlight says whether a request of this kind is at the broker, or its answer
// on the way: the client does not know its outcome.
func (p *Proxy) InFlight(key kmsg.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, counts := range p.open {
		if counts[key.Int16()] > 0 {
			return true
		}
	}
	return false
}

// Next is closed when the next request of this kind goes to the broker.
func (p *Proxy) Next(key kmsg.Key) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.next[key.Int16()]
	if next == nil {
		next = make(chan struct{})
		p.next[key.Int16()] = next
	}
	return next
}

// asks notes that a request goes to the broker, answered that its answer has
// reached the client.
func (p *Proxy) asks(client net.Conn, key int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[client] == nil {
		p.open[client] = make(map[int16]int)
	}
	p.open[client][key]++
	if next := p.next[key]; next != nil {
		close(next)
		delete(p.next, key)
	}
}

func (p *Proxy) answered(client net.Conn, key int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[client][key]--
}

// SetDelay holds back every answer for d from now on, as a network does: answers
// stay in order, and one does not hold up the next any longer.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

func (p *Proxy) due() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.delay)
}

// Hits is how often the present rule has struck.
func (p *Proxy) Hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

// Passing is a request on its way to the broker, or the answer on its way back.
type Passing struct {
	Key, Version int16
	Request      []byte // with its four bytes of size
	Answer       []byte // nil while the request is still on its way to the broker
}

// Tap shows everything that passes from now on to fn; nil ends that. What fn is
// shown waits, and with it all that follows on its connection, until fn returns.
func (p *Proxy) Tap(fn func(Passing)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tap = fn
}

// Judge decides about each request (answer false) and each answer to it: pass it
// on (false), or do the rule's fault to it. Only a fault that strikes requests can
// be done to a request, only another one to an answer.
type Judge func(key kmsg.Key, request []byte, answer bool) (Rule, bool)

// SetJudge makes fn decide where the rule does not strike; nil ends that.
func (p *Proxy) SetJudge(fn Judge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = fn
}

// suffers decides about one request or one answer.
func (p *Proxy) suffers(key int16, request []byte, answer bool) (Rule, bool) {
	p.mu.Lock()
	judge := p.judge
	p.mu.Unlock()
	rule, struck := p.strikes(key, !answer)
	if !struck && judge != nil {
		rule, struck = judge(kmsg.Key(key), request, answer)
	}
	if struck && (rule.Fault == HushRequests || rule.Fault == HushAnswers) {
		p.mu.Lock()
		p.until[!answer] = time.Now().Add(rule.For)
		p.mu.Unlock()
	}
	return rule, struck
}

func (p *Proxy) show(what Passing) {
	p.mu.Lock()
	tap := p.tap
	p.mu.Unlock()
	if tap != nil {
		tap(what)
	}
}

// strikes says whether the present rule does.
func (p *Proxy) strikes(key int16, request bool) (Rule, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.rule
	if r == nil || r.Key.Int16() != key || request != r.Fault.strikesRequest() || p.hits >= r.Times {
		return Rule{}, false
	}
	p.seen++
	if p.seen%r.Every != 0 {
		return Rule{}, false
	}
	p.hits++
	return *r, true
}

// pass waits until requests, or answers, get through, and says whether it had to.
func (p *Proxy) pass(request bool) (late bool) {
	for {
		p.mu.Lock()
		left := time.Until(p.until[request])
		p.mu.Unlock()
		if left <= 0 {
			return late
		}
		late = true
		select {
		case <-time.After(left):
		case <-p.closed:
			return late
		}
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client.(*net.TCPConn)) }) // ends with the connection
	}
}

// track notes a connection for Close; the returned function closes and forgets it.
func (p *Proxy) track(c net.Conn) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return func() {
		_ = c.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
		delete(p.open, c)
	}
}

// asked is a request whose answer is still to come. A broker answers the
// requests of one connection in their order, and every one: the bridge does not
// produce with acks=0.
type asked struct {
	key, version int16
	frame        []byte
	instead      []byte // answer in place of the broker's; nil = none
}

// serve carries one client connection until either side ends.
func (p *Proxy) serve(client *net.TCPConn) {
	defer p.track(client)()
	broker, err := net.Dial("tcp", p.target)
	if err != nil {
		return // the client sees its connection closed, as from a dead broker
	}
	defer p.track(broker)()
	// More than kgo or the broker allow in flight on one connection.
	inFlight, arrived := make(chan asked, 1024), make(chan held, 1024)
	var wg sync.WaitGroup
	gone := make(chan struct{}) // closed when the broker's side is
	wg.Go(func() {              // ended by the broker's side closing, here or there
		defer close(gone)
		defer close(arrived)
		p.answers(client, broker, inFlight, arrived)
		_ = client.Close()
	})
	wg.Go(func() { // ended by answers
		for answer := range arrived {
			select {
			case <-time.After(time.Until(answer.due)): // as long as the network takes
			case <-p.closed:
			}
			p.pass(false)
			_, _ = client.Write(answer.frame) // a client that is gone is noticed by requests
			p.answered(client, answer.key)
		}
	})
	if late := p.requests(client, broker, inFlight); late {
		p.acted(inFlight, gone)
	}
	_ = broker.Close()
	wg.Wait()
}

// acted waits until the broker has answered what arrived late: on a connection
// that ends at once it might not act.
func (p *Proxy) acted(inFlight <-chan asked, gone <-chan struct{}) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(inFlight) > 0 {
		select {
		case <-tick.C:
		case <-gone:
			return
		case <-p.closed:
			return
		}
	}
}

// held is an answer on its way to the client.
type held struct {
	key   int16
	frame []byte
	due   time.Time
}

// requests forwards requests until the client or a rule ends the connection. It
// answers whether the last one was late: held back by a silence.
func (p *Proxy) requests(client *net.TCPConn, broker net.Conn, inFlight chan<- asked) (late bool) {
	for {
		frame, err := readFrame(client)
		if err != nil || len(frame) < 8 {
			return late
		}
		key := int16(binary.BigEndian.Uint16(frame[4:]))
		version := int16(binary.BigEndian.Uint16(frame[6:]))
		a := asked{key: key, version: version, frame: frame}
		p.show(Passing{Key: key, Version: version, Request: frame})
		switch rule, struck := p.suffers(key, frame, false); {
		case struck && rule.Fault == Refuse:
			if a.instead, err = refusal(frame); err != nil {
				panic(err) // a proxy that cannot read the protocol proves nothing
			}
			frame = harmless(frame)
		case struck && rule.Fault == ResetRequest:
			_ = client.SetLinger(0)
			return late
		case struck && rule.Fault == CutRequest:
			return late
		}
		late = p.pass(true)
		inFlight <- a
		p.asks(client, key)
		if _, err := broker.Write(frame); err != nil {
			return late
		}
	}
}

// answers forwards answers until the broker or a rule ends the connection.
func (p *Proxy) answers(client *net.TCPConn, broker net.Conn, inFlight <-chan asked, arrived chan<- held) {
	swallowing := false
	for {
		frame, err := readFrame(broker)
		if err != nil || len(frame) < 8 {
			return
		}
		a := <-inFlight
		if a.instead == nil {
			p.show(Passing{Key: a.key, Version: a.version, Request: a.frame, Answer: frame})
		}
		rule, struck := p.suffers(a.key, a.frame, true)
		due := p.due()
		if struck {
			switch rule.Fault {
			case CutEOF:
				return
			case CutReset:
				_ = client.SetLinger(0)
				return
			case Swallow:
				swallowing = true
			case Hold:
				due = due.Add(rule.For)
			}
		}
		if swallowing {
			continue
		}
		if a.instead != nil {
			arrived <- held{a.key, a.instead, due}
			continue
		}
		frame, err = p.rewrite(a, frame, struck && rule.Fault == UnknownError)
		if err != nil {
			panic(err) // a proxy that cannot read the protocol proves nothing
		}
		arrived <- held{a.key, frame, due}
	}
}

// readFrame reads one request or answer with its four bytes of size.
func readFrame(r io.Reader) ([]byte, error) {
	frame := make([]byte, 4)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(frame)
	if size > 256<<20 {
		return nil, errors.New("proxy: frame of more than 256 MiB")
	}
	frame = append(frame, make([]byte, size)...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
