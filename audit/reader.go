package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

// The fetch loop is our own, on single Fetch requests: a comparison reads two partitions in step and has to hold one
// of them back at will, and it has to know when it has passed an offset, also where nothing visible is left before
// it (aborted records, a compacted end). The client's own consumer offers neither.

// errDeleted says that retention has deleted records while we were reading them.
var errDeleted = errors.New("records were deleted (retention) while they were being read")

// cluster is what all readers of an audit share.
type cluster struct {
	client  *kgo.Client
	leaders leaders
	bytes   int32 // of one fetch answer
	read    *atomic.Int64
	readers sync.WaitGroup
}

// reading says how to read one partition.
type reading struct {
	offsets.TopicPartition
	id        [16]byte
	from, end int64
	convert   func(*view) item
}

// chunksAhead is how many chunks wait for the comparison, besides the one it works on and the one being made.
const chunksAhead = 2

// chunkLength is how many records a chunk has at most: well compressed, many more may come with one answer.
const chunkLength = 16_384

// chunk is a part of what a fetch brought, or why there are no more.
type chunk struct {
	items []item
	err   error
}

// start reads a partition ahead of whoever calls the answered function. It ends with ctx or with the partition.
func (c *cluster) start(ctx context.Context, what reading) pull {
	ready, empty := make(chan chunk, chunksAhead), make(chan []item, chunksAhead+2)
	c.readers.Go(func() { // ends with ctx or the last chunk; Run waits
		defer close(ready)
		c.loop(ctx, what, ready, empty)
	})
	var last []item
	ended := error(nil)
	return func(ctx context.Context) ([]item, error) {
		if ended != nil {
			return nil, ended
		}
		if last != nil {
			select {
			case empty <- last[:0]:
			default:
			}
			last = nil
		}
		select {
		case got, ok := <-ready:
			if !ok {
				got.err = context.Cause(ctx)
				if got.err == nil {
					got.err = io.EOF
				}
			}
			last, ended = got.items, got.err
			return got.items, got.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *cluster) loop(ctx context.Context, what reading, ready chan<- chunk, empty <-chan []item) {
	send := func(x chunk) bool {
		select {
		case ready <- x:
			return x.err == nil
		case <-ctx.Done():
			return false
		}
	}
	fresh := func() []item {
		select {
		case items := <-empty:
			return items
		default:
			return nil
		}
	}
	decode, items, gone := newDecoder(), fresh(), false
	take := func(r *view) {
		if r.offset >= what.end || gone {
			return
		}
		if items = append(items, what.convert(r)); len(items) >= chunkLength {
			gone = !send(chunk{items: items})
			items = fresh()
		}
	}
	for at := what.from; at < what.end; {
		answer, err := c.fetch(ctx, what, at)
		if err != nil {
			send(chunk{err: err})
			return
		}
		next, err := decode.decode(answer, at, take)
		if err == nil && next <= at {
			err = fmt.Errorf("%w: a batch is larger than what the broker sends", errUnreadable)
		}
		if err != nil {
			send(chunk{err: fmt.Errorf("read %s at offset %d: %w", what.TopicPartition, at, err)})
			return
		}
		c.read.Add(min(next, what.end) - at)
		at = next
		if len(items) > 0 {
			gone = gone || !send(chunk{items: items})
			items = fresh()
		}
		if gone {
			return
		}
	}
	send(chunk{err: io.EOF})
}

// fetch reads from one offset. It repeats what may pass.
func (c *cluster) fetch(ctx context.Context, what reading, at int64) (*kmsg.FetchResponseTopicPartition, error) {
	wait := 20 * time.Millisecond
	for tried := 0; ; tried++ {
		answer, err := c.once(ctx, what, at)
		if err == nil && len(answer.RecordBatches) > 0 {
			return answer, nil
		}
		if err != nil && (!passing(err) || tried > 60) {
			return nil, fmt.Errorf("read %s at offset %d: %w", what.TopicPartition, at, denied(err, "Read", "topic", what.Topic))
		}
		if tried > 120 {
			return nil, fmt.Errorf("read %s at offset %d: the broker shows nothing there, although its log goes on", what.TopicPartition, at)
		}
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
		wait = min(2*wait, time.Second)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// passing says whether an error may go away by itself: a leader that moved, a connection that broke.
func passing(err error) bool {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Retriable && !errors.Is(err, kerr.OffsetOutOfRange)
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errDeleted) && !errors.Is(err, errUnreadable)
}

// once sends one Fetch to the leader.
func (c *cluster) once(ctx context.Context, what reading, at int64) (*kmsg.FetchResponseTopicPartition, error) {
	leader, err := c.leaders.of(ctx, c.client, what.TopicPartition)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, c.bytes
	req.IsolationLevel = 1 // read_committed
	req.SessionEpoch = -1  // no session (KIP-227)
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = what.Topic, what.id
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = what.Partition, at, c.bytes
	partition.CurrentLeaderEpoch = -1
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	answer, err := c.client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		c.leaders.forget(what.TopicPartition)
		return nil, err
	}
	resp := answer.(*kmsg.FetchResponse) // kgo answers with the request's kind
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the broker answered a fetch without the partition")
	}
	rp := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
		c.leaders.forget(what.TopicPartition)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			return nil, fmt.Errorf("%w: %w", errDeleted, err)
		}
		return nil, err
	}
	return rp, nil
}

// errUnreadable says that the broker's answer could not be decoded.
var errUnreadable = errors.New("unreadable batch")

// denied explains an authorization error: which right is missing.
func denied(err error, operation, kind, name string) error {
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return &DeniedError{Operation: operation, Kind: kind, Name: name, Err: err}
	}
	return err
}

// DeniedError says which right is missing.
type DeniedError struct {
	Operation string // as kafka-acls.sh spells it
	Kind      string // topic or group
	Name      string
	Err       error
}

// Error names the right and how to give it.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s of %s %q is denied; allow it: kafka-acls.sh --add --allow-principal … --operation %s --%s '%s' (%v)",
		e.Operation, e.Kind, e.Name, e.Operation, e.Kind, e.Name, e.Err)
}

// Unwrap gives the broker's code.
func (e *DeniedError) Unwrap() error { return e.Err }

// ExitCode is that of a denied access (EX_NOPERM).
func (e *DeniedError) ExitCode() int { return 77 }
