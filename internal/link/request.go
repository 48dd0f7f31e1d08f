package link

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The first versions with compact lengths and tags (KIP-482).
const (
	produceFlexible = 9
	fetchFlexible   = 12
)

// fetch is a Fetch request whose answer goes beside kgo.
type fetch struct {
	*kmsg.FetchRequest
	d *Dialer
	j *journey
}

func (f *fetch) AppendTo(dst []byte) []byte { return f.d.token(f.FetchRequest.AppendTo(dst), f.j.id) }

func (f *fetch) ResponseKind() kmsg.Response {
	return &fetched{FetchResponse: &kmsg.FetchResponse{Version: f.Version}, d: f.d}
}

// fetched is the answer to fetch.
type fetched struct {
	*kmsg.FetchResponse
	d      *Dialer
	buffer *Buffer
}

// ReadFrom reads what kgo has, a token, or the answer itself if the connection let it pass.
func (f *fetched) ReadFrom(src []byte) error {
	id, ok := f.d.tokenOf(src)
	if !ok {
		return f.FetchResponse.ReadFrom(src)
	}
	if f.buffer = f.d.collect(id); f.buffer == nil {
		return errOver
	}
	rest := kbin.Reader{Src: f.buffer.bytes}
	if f.Version >= fetchFlexible {
		kmsg.SkipTags(&rest) // the header's
	}
	if err := rest.Complete(); err != nil {
		return err
	}
	return f.FetchResponse.ReadFrom(rest.Src)
}

// produce is a Produce request whose batches go beside kgo.
type produce struct {
	*kmsg.ProduceRequest
	d *Dialer
	j *journey
}

// AppendTo encodes what kmsg.ProduceRequest.AppendTo does, without the larger batches. Versions without compact lengths
// are left to it: brokers before Kafka 2.5.
func (p *produce) AppendTo(dst []byte) []byte {
	if p.Version < produceFlexible {
		return p.ProduceRequest.AppendTo(dst)
	}
	var cuts []cut
	dst = kbin.AppendCompactNullableString(dst, p.TransactionID)
	dst = kbin.AppendInt16(dst, p.Acks)
	dst = kbin.AppendInt32(dst, p.TimeoutMillis)
	dst = kbin.AppendCompactArrayLen(dst, len(p.Topics))
	for i := range p.Topics {
		t := &p.Topics[i]
		if p.Version < 13 { // KIP-516
			dst = kbin.AppendCompactString(dst, t.Topic)
		} else {
			dst = append(dst, t.TopicID[:]...)
		}
		dst = kbin.AppendCompactArrayLen(dst, len(t.Partitions))
		for k := range t.Partitions {
			b := t.Partitions[k].Records
			dst = kbin.AppendInt32(dst, t.Partitions[k].Partition)
			dst = binary.AppendUvarint(dst, uint64(len(b))+1)
			if len(b) < p.d.Smallest {
				dst = append(dst, b...)
			} else {
				cuts = append(cuts, cut{behind: len(dst), piece: b})
			}
			dst = append(dst, 0) // no tags
		}
		dst = append(dst, 0)
	}
	dst = append(dst, 0)
	for i := range cuts {
		cuts[i].behind = len(dst) - cuts[i].behind
	}
	p.d.mu.Lock()
	p.j.cuts = cuts
	p.d.mu.Unlock()
	return p.d.token(dst, p.j.id)
}
