// Package link is the connection to a broker, and the way of large payloads beside the client library's buffers.
//
// kgo reads an answer into a new slice and writes a request from a buffer into which it was copied. For records that
// are decoded that is how it has to be; for batches that are handed on as they came it is a fifth of what they cost
// (measured: test/bench, part main, W1 raw): the new slice is cleared, its pages are touched for the first time, and
// each batch is copied once more. So Fetch and Produce leave the payload out of what kgo sees:
//
//	Produce   kgo writes the request without the batches, and a token at its end; the connection takes the token
//	          off, puts the batches back in, and writes all of it at once (writev).
//	Fetch     the request ends with a token, which is taken off as well. The answer with its correlation id is read by
//	          the connection into a Buffer, which is used again; kgo sees an answer that holds nothing but the token.
//
// kgo still has the connections, the order of requests, the versions, authentication, time-outs and throttling. What a
// broker is sent and sends is, byte for byte, what it would be without this package.
//
// The second thing that a connection does, for all answers, is to wake its reader seldom: see wakeAfter.
package link

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Dial is what kgo.Dialer asks for.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer makes connections. Fetch and Produce ask for clients that have its Dial as their kgo.Dialer. All methods may
// be called from several goroutines. A nil Dialer's Fetch and Produce leave everything to kgo.
type Dialer struct {
	// Beside is told what kgo did not see: bytes of payload written to and read from a broker. It may be nil, and is set
	// before the first connection.
	Beside func(node int32, key kmsg.Key, written, read int)
	// Smallest is the size in bytes from which on a batch is not copied into the request: a system call's vector has its
	// price, too.
	Smallest int
	// Poison is for tests: what is released is overwritten, so whoever still looks at it sees that.
	Poison bool

	dial Dial
	mark [16]byte // nobody else's bytes begin a token

	mu       sync.Mutex
	last     uint64
	journeys map[uint64]*journey
}

// New makes a Dialer whose connections are those of dial.
func New(dial Dial) *Dialer {
	d := &Dialer{dial: dial, journeys: map[uint64]*journey{}, Smallest: 8 << 10}
	_, _ = rand.Read(d.mark[:]) // never fails
	return d
}

// Dial connects.
func (d *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newConn(c, d), nil
}

// journey is one call of Fetch or Produce.
type journey struct {
	id   uint64
	cuts []cut // of a Produce request
	pool *Pool // of a Fetch
	got  *Buffer
}

// cut is a piece that is missing in what kgo has of a request.
type cut struct {
	behind int // bytes of the request that follow the piece, pieces and token not counted
	piece  []byte
}

var errOver = errors.New("a request was written, or answered, after its end")

func (d *Dialer) begin(j *journey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	j.id = d.last
	d.journeys[j.id] = j
}

// end makes what is written or answered from now on fail: the payload is the caller's again.
func (d *Dialer) end(j *journey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.journeys, j.id)
}

const tokenSize = 16 + 8

func (d *Dialer) token(dst []byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, d.mark[:]...), id)
}

// tokenOf answers the id in a token.
func (d *Dialer) tokenOf(b []byte) (uint64, bool) {
	if len(b) != tokenSize || [16]byte(b) != d.mark {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[16:]), true
}

// deposit keeps an answer for the call that waits for it.
func (d *Dialer) deposit(id uint64, b *Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.journeys[id]; j != nil {
		j.got = b
	}
}

// collect answers what was deposited, nil if nobody waits for it any more.
func (d *Dialer) collect(id uint64) *Buffer {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.journeys[id]
	if j == nil {
		return nil
	}
	b := j.got
	j.got = nil
	return b
}

// Fetch is req.RequestWith for one broker. The batches of the answer lie in the Buffer, which the caller releases; it
// is nil if they do not. Buffers are taken from pool. The errors are those of kgo.Broker.Request.
func (d *Dialer) Fetch(ctx context.Context, cl *kgo.Client, node int32, req *kmsg.FetchRequest, pool *Pool) (*kmsg.FetchResponse, *Buffer, error) {
	if d == nil {
		resp, err := req.RequestWith(ctx, cl.Broker(int(node)))
		return resp, nil, err
	}
	j := &journey{pool: pool}
	d.begin(j)
	defer d.end(j)
	resp, err := cl.Broker(int(node)).Request(ctx, &fetch{req, d, j})
	if err != nil {
		return nil, nil, err
	}
	answer := resp.(*fetched) //nolint:forcetypeassert // fetch.ResponseKind
	if answer.buffer != nil && d.Beside != nil {
		d.Beside(node, kmsg.Fetch, 0, len(answer.buffer.bytes))
	}
	return answer.FetchResponse, answer.buffer, nil
}

// Produce is req.RequestWith for one broker. Until it returns without an error the batches must not be changed, and if
// it returns with one, never again: they may still be on their way. The errors are those of kgo.Broker.Request.
func (d *Dialer) Produce(ctx context.Context, cl *kgo.Client, node int32, req *kmsg.ProduceRequest) (*kmsg.ProduceResponse, error) {
	if d == nil {
		return req.RequestWith(ctx, cl.Broker(int(node)))
	}
	j := &journey{}
	d.begin(j)
	defer d.end(j)
	resp, err := cl.Broker(int(node)).Request(ctx, &produce{req, d, j})
	if err != nil {
		return nil, err
	}
	if d.Beside != nil {
		written := 0
		d.mu.Lock()
		for _, c := range j.cuts {
			written += len(c.piece)
		}
		d.mu.Unlock()
		d.Beside(node, kmsg.Produce, written, 0)
	}
	return resp.(*kmsg.ProduceResponse), nil //nolint:forcetypeassert // kmsg.ProduceRequest.ResponseKind
}
