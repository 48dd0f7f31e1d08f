package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Courier is a connection to a broker that carries requests as they are, byte for
// byte: a late copy of another connection's, or one of a test's own making. Kafka
// promises no order between connections. It is not for use by several goroutines.
type Courier struct{ conn net.Conn }

// NewCourier connects to the broker at address.
func NewCourier(ctx context.Context, address string) (*Courier, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("courier: %w", err)
	}
	return &Courier{conn}, nil
}

// Close ends the connection.
func (c *Courier) Close() { _ = c.conn.Close() }

// Deliver sends a request's frame and returns the answer.
func (c *Courier) Deliver(ctx context.Context, frame []byte) (kmsg.Response, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.conn.SetDeadline(deadline); err != nil {
			return nil, fmt.Errorf("courier: %w", err)
		}
	}
	if _, err := c.conn.Write(frame); err != nil {
		return nil, fmt.Errorf("courier: %w", err)
	}
	answer, err := readFrame(c.conn)
	if err != nil {
		return nil, fmt.Errorf("courier: %w", err)
	}
	return readAnswer(int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:])), answer)
}

// DeliverCopy sends a copy over a new connection and names the broker's answer.
func DeliverCopy(ctx context.Context, address string, frame []byte) (string, error) {
	c, err := NewCourier(ctx, address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	resp, err := c.Deliver(ctx, frame)
	if err != nil {
		return "", err
	}
	return Codes(resp), nil
}

// Codes names the error codes of an answer to TxnOffsetCommit, EndTxn or
// InitProducerID, each once: "NONE", or what was refused.
func Codes(resp kmsg.Response) string {
	var names []string
	note := func(code int16) {
		name := "NONE"
		if err := kerr.TypedErrorForCode(code); err != nil {
			name = err.Message
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch resp := resp.(type) {
	case *kmsg.EndTxnResponse:
		note(resp.ErrorCode)
	case *kmsg.InitProducerIDResponse:
		note(resp.ErrorCode)
	case *kmsg.TxnOffsetCommitResponse:
		for _, topic := range resp.Topics {
			for _, partition := range topic.Partitions {
				note(partition.ErrorCode)
			}
		}
	default:
		panic(fmt.Sprintf("courier: no codes of an answer to %s", kmsg.NameForKey(resp.Key())))
	}
	return strings.Join(names, ", ")
}
