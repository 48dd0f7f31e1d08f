package e2e

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// harmless is a request with the number of the one in frame, whose answer takes
// the place of that one's: ApiVersions in its first version, without client id.
func harmless(frame []byte) []byte {
	request := binary.BigEndian.AppendUint32(nil, 10)
	request = binary.BigEndian.AppendUint16(request, uint16(kmsg.ApiVersions.Int16()))
	request = binary.BigEndian.AppendUint16(request, 0)
	request = append(request, frame[8:12]...)
	return binary.BigEndian.AppendUint16(request, 0xffff)
}

// readRequest reads the request in frame.
func readRequest(frame []byte) (kmsg.Request, error) {
	key, version := int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	// Size, key, version, number, then the client's id and the header's tags.
	body := frame[12:]
	if n := int16(binary.BigEndian.Uint16(body)); n > 0 {
		body = body[n:]
	}
	body = body[2:]
	if req.IsFlexible() {
		body = body[1:] // no tags
	}
	if err := req.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("proxy: %s v%d: %w", kmsg.NameForKey(key), version, err)
	}
	return req, nil
}

// readAnswer reads the answer to a request of this key and version.
func readAnswer(key, version int16, frame []byte) (kmsg.Response, error) {
	resp := kmsg.ResponseForKey(key)
	resp.SetVersion(version)
	if err := resp.ReadFrom(frame[answerHead(resp):]); err != nil {
		return nil, fmt.Errorf("proxy: answer to %s v%d: %w", kmsg.NameForKey(key), version, err)
	}
	return resp, nil
}

// answerHead is the length of an answer's size and correlation id, and in
// flexible versions of the header's tags, which are none. ApiVersions would be
// the exception; it is not read.
func answerHead(resp kmsg.Response) int {
	if resp.IsFlexible() {
		return 9
	}
	return 8
}

// refusal is the answer UNKNOWN_SERVER_ERROR to the request in frame.
func refusal(frame []byte) ([]byte, error) {
	req, err := readRequest(frame)
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	mirror(req, resp)
	failAnswer(resp)
	out := append(make([]byte, 4), frame[8:12]...)
	if resp.IsFlexible() {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

// mirror gives the answer the partitions of the request.
func mirror(req kmsg.Request, resp kmsg.Response) {
	switch req := req.(type) {
	case *kmsg.TxnOffsetCommitRequest:
		resp := resp.(*kmsg.TxnOffsetCommitResponse)
		for _, topic := range req.Topics {
			t := kmsg.NewTxnOffsetCommitResponseTopic()
			t.Topic, t.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				p.Partition = partition.Partition
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
	case *kmsg.ProduceRequest:
		resp := resp.(*kmsg.ProduceResponse)
		for _, topic := range req.Topics {
			t := kmsg.NewProduceResponseTopic()
			t.Topic, t.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition = partition.Partition
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
	}
}

// rewrite puts the proxy's address into an answer, or an error.
func (p *Proxy) rewrite(a asked, frame []byte, fail bool) ([]byte, error) {
	resp := kmsg.ResponseForKey(a.key)
	if resp == nil {
		return frame, nil
	}
	var change func(kmsg.Response)
	switch resp.(type) {
	case *kmsg.MetadataResponse, *kmsg.FindCoordinatorResponse, *kmsg.DescribeClusterResponse:
		change = p.redirect
	default:
		if !fail {
			return frame, nil
		}
		change = failAnswer
	}
	resp, err := readAnswer(a.key, a.version, frame)
	if err != nil {
		return nil, err
	}
	head := answerHead(resp)
	change(resp)
	out := resp.AppendTo(frame[:head:head])
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

// redirect writes the proxy's address over the broker's.
func (p *Proxy) redirect(resp kmsg.Response) {
	host, port := p.hostPort()
	switch resp := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range resp.Brokers {
			resp.Brokers[i].Host, resp.Brokers[i].Port = host, port
		}
	case *kmsg.FindCoordinatorResponse:
		if resp.NodeID >= 0 {
			resp.Host, resp.Port = host, port
		}
		for i := range resp.Coordinators {
			if resp.Coordinators[i].NodeID >= 0 {
				resp.Coordinators[i].Host, resp.Coordinators[i].Port = host, port
			}
		}
	case *kmsg.DescribeClusterResponse:
		for i := range resp.Brokers {
			resp.Brokers[i].Host, resp.Brokers[i].Port = host, port
		}
	}
}

func (p *Proxy) hostPort() (string, int32) {
	host, text, err := net.SplitHostPort(p.Addr())
	if err != nil {
		panic(err) // a listener's address has both
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		panic(err)
	}
	return host, int32(port)
}

// failAnswer makes UNKNOWN_SERVER_ERROR of the answers that rules name.
func failAnswer(resp kmsg.Response) {
	code := kerr.UnknownServerError.Code
	switch resp := resp.(type) {
	case *kmsg.EndTxnResponse:
		resp.ErrorCode = code
	case *kmsg.InitProducerIDResponse:
		resp.ErrorCode = code
	case *kmsg.TxnOffsetCommitResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				resp.Topics[i].Partitions[j].ErrorCode = code
			}
		}
	case *kmsg.ProduceResponse:
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				resp.Topics[i].Partitions[j].ErrorCode = code
			}
		}
	default:
		panic(fmt.Sprintf("proxy: no error for an answer to %s", kmsg.NameForKey(resp.Key())))
	}
}
