package link

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ProduceRequest is what Produce hands to the client, until end.
func (d *Dialer) ProduceRequest(req *kmsg.ProduceRequest) (whole kmsg.Request, end func()) {
	j := &journey{}
	d.begin(j)
	return &produce{req, d, j}, func() { d.end(j) }
}

// FetchCall is what Fetch hands to the client.
type FetchCall struct{ *fetch }

func (d *Dialer) FetchRequest(req *kmsg.FetchRequest, pool *Pool) *FetchCall {
	j := &journey{pool: pool}
	d.begin(j)
	return &FetchCall{&fetch{req, d, j}}
}

func (f *FetchCall) End() { f.d.end(f.j) }

// Answer reads the frame that the client got.
func (f *FetchCall) Answer(t *testing.T, frame []byte) (*kmsg.FetchResponse, *Buffer) {
	t.Helper()
	body := frame[8:]
	if f.Version >= fetchFlexible {
		body = frame[9:]
	}
	resp := f.ResponseKind().(*fetched)
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	return resp.FetchResponse, resp.buffer
}

// Take and Size are for tests of the pool.
func (p *Pool) Take(size int) *Buffer { return p.take(size) }
func (b *Buffer) Bytes() []byte       { return b.bytes }
