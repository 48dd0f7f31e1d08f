package link_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/eosbridge/eosbridge/internal/link"
)

// broker is a peer that shows the frames it gets, and answers what it is told to.
type broker struct {
	t        *testing.T
	listener net.Listener
	requests chan []byte         // frames, as they came
	answer   func([]byte) []byte // of a frame; nil: none
}

func newBroker(t *testing.T, answer func([]byte) []byte) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, listener: l, requests: make(chan []byte, 100), answer: answer}
	var serving errgroup.Group
	serving.Go(func() error {
		for {
			c, err := l.Accept()
			if err != nil {
				return nil //nolint:nilerr // closed
			}
			serving.Go(func() error { return b.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		if err := serving.Wait(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *broker) serve(c net.Conn) error {
	defer c.Close()
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(c, size); err != nil {
			return nil //nolint:nilerr // the client has gone
		}
		frame := append(size, make([]byte, binary.BigEndian.Uint32(size))...)
		if _, err := io.ReadFull(c, frame[4:]); err != nil {
			return err
		}
		b.requests <- frame
		if b.answer == nil {
			continue
		}
		if _, err := c.Write(b.answer(frame)); err != nil {
			return nil //nolint:nilerr // the client has gone
		}
	}
}

func (b *broker) dial(d *link.Dialer) net.Conn {
	b.t.Helper()
	c, err := d.Dial(b.t.Context(), "tcp", b.listener.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

func dialer() *link.Dialer { return link.New((&net.Dialer{}).DialContext) }

func produceRequest(sizes ...int) *kmsg.ProduceRequest {
	id := "g.a.0"
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &id, -1, 30_000
	for i, size := range sizes {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), bytes.Repeat([]byte{byte(i + 1)}, size)
		if i%2 == 0 {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = "out", [16]byte{1, 2, byte(i)}
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// TestProducedBytes: a broker gets what it would get without us, in every version and for every size.
func TestProducedBytes(t *testing.T) {
	t.Parallel()
	b := newBroker(t, nil)
	for version := int16(3); version <= kmsg.NewPtrProduceRequest().MaxVersion(); version++ {
		for _, smallest := range []int{1, 1000, 1 << 30} {
			for _, sizes := range [][]int{nil, {0}, {1}, {999, 1000, 1001}, {1 << 20, 5, 3 << 20, 1 << 10, 70}} {
				req := produceRequest(sizes...)
				req.SetVersion(version)
				d := dialer()
				d.Smallest = smallest
				format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me"))
				want := format.AppendRequest(nil, req, 77)
				whole, end := d.ProduceRequest(req)
				got := format.AppendRequest(nil, whole, 77)
				conn := b.dial(d)
				if n, err := conn.Write(got); n != len(got) || err != nil {
					t.Fatalf("version %d, batches %d: wrote %d of %d: %v", version, sizes, n, len(got), err)
				}
				if frame := <-b.requests; !bytes.Equal(frame, want) {
					t.Fatalf("version %d, batches %d, smallest %d: the broker got %d bytes that are not the %d of kmsg", version, sizes, smallest, len(frame), len(want))
				}
				if version >= 9 && smallest == 1 && len(sizes) == 5 && len(got) > 500 {
					t.Errorf("version %d: %d bytes were copied into the request", version, len(got))
				}
				end()
				_ = conn.Close()
			}
		}
	}
}

// TestRequestAfterItsEnd: what may be the caller's again is not read any more.
func TestRequestAfterItsEnd(t *testing.T) {
	t.Parallel()
	b := newBroker(t, nil)
	d := dialer()
	req := produceRequest(1 << 20)
	req.SetVersion(12)
	whole, end := d.ProduceRequest(req)
	buf := kmsg.NewRequestFormatter().AppendRequest(nil, whole, 1)
	end()
	if n, err := b.dial(d).Write(buf); n != 0 || err == nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	select {
	case frame := <-b.requests:
		t.Errorf("the broker got %d bytes", len(frame))
	default:
	}
}

// TestFrames: frames for kgo and frames beside it arrive whole and in order, however the network cuts them, and kgo's
// reader gets those that are not ours as they were sent.
func TestFrames(t *testing.T) {
	t.Parallel()
	for _, cut := range []func(io.Reader) io.Reader{
		func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader,
		func(r io.Reader) io.Reader { return &raggedReader{r, rand.New(rand.NewPCG(1, 2))} },
	} {
		random := rand.New(rand.NewPCG(3, 4))
		var sent bytes.Buffer
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }() // ends with near
		d := link.New(func(context.Context, string, string) (net.Conn, error) { return &cutConn{near, cut(&sent)}, nil })
		d.Poison = true
		conn, err := d.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		var pool link.Pool
		pool.Keep(1 << 20)
		type asked struct {
			fetch *link.FetchCall // nil: kgo's
			frame []byte
		}
		var all []asked
		for i := range 100 {
			req := kmsg.NewPtrFetchRequest()
			req.SetVersion([]int16{11, 12, 16}[random.IntN(3)])
			if random.IntN(2) == 0 {
				req.SetVersion(16)
			}
			var whole kmsg.Request = req
			var call *link.FetchCall
			if random.IntN(3) > 0 {
				call = d.FetchRequest(req, &pool)
				whole = call
			}
			if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, whole, int32(i))); err != nil {
				t.Fatal(err)
			}
			frame := response(req.Version, int32(i), random.IntN([]int{10, 1000, 100_000}[random.IntN(3)]))
			sent.Write(frame)
			all = append(all, asked{call, frame})
		}
		for i, a := range all {
			frame := readFrame(t, conn)
			if a.fetch == nil {
				if !bytes.Equal(frame, a.frame) {
					t.Fatalf("answer %d: kgo got %d bytes, not the %d that were sent", i, len(frame), len(a.frame))
				}
				continue
			}
			got, buffer := a.fetch.Answer(t, frame)
			want := kmsg.NewPtrFetchResponse()
			want.SetVersion(a.fetch.GetVersion())
			if err := want.ReadFrom(body(a.frame, want.Version)); err != nil {
				t.Fatal(err)
			}
			if w, g := want.Topics[0].Partitions[0].RecordBatches, got.Topics[0].Partitions[0].RecordBatches; !bytes.Equal(w, g) || len(frame) > 40 {
				t.Fatalf("answer %d: %d bytes of batches in place of %d, %d went through kgo", i, len(g), len(w), len(frame))
			}
			buffer.Release()
			if got := got.Topics[0].Partitions[0].RecordBatches; len(got) > 0 && got[0] != 0xDB {
				t.Fatal("what was released is not poisoned")
			}
			a.fetch.End()
		}
		_ = conn.Close()
	}
}

type raggedReader struct {
	io.Reader
	random *rand.Rand
}

func (r *raggedReader) Read(p []byte) (int, error) {
	return r.Reader.Read(p[:min(len(p), 1+r.random.IntN(50_000))])
}

// cutConn reads from somewhere else.
type cutConn struct {
	net.Conn
	from io.Reader
}

func (c *cutConn) Read(p []byte) (int, error) { return c.from.Read(p) }

func readFrame(t *testing.T, r io.Reader) []byte {
	t.Helper()
	size := make([]byte, 4)
	if _, err := io.ReadFull(r, size); err != nil {
		t.Fatal(err)
	}
	frame := append(size, make([]byte, binary.BigEndian.Uint32(size))...)
	if _, err := io.ReadFull(r, frame[4:]); err != nil {
		t.Fatal(err)
	}
	return frame
}

// response is the frame of an answer to a Fetch, with so many bytes of batches.
func response(version int16, correlation int32, size int) []byte {
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(version)
	topic, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
	topic.Topic, topic.TopicID = "in", [16]byte{9}
	p.RecordBatches = bytes.Repeat([]byte{byte(correlation)}, size)
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	frame := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(correlation))
	if version >= 12 {
		frame = append(frame, 0)
	}
	frame = resp.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

func body(frame []byte, version int16) []byte {
	if version >= 12 {
		return frame[9:]
	}
	return frame[8:]
}

// TestCutOff: a connection that ends in the middle of an answer is an error, and one between answers the end.
func TestCutOff(t *testing.T) {
	t.Parallel()
	whole := response(16, 1, 100_000)
	for _, at := range []int{0, 3, 8, 9, 50_000, len(whole) - 1} {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }() // ends with near
		d := link.New(func(context.Context, string, string) (net.Conn, error) {
			return &cutConn{near, bytes.NewReader(whole[:at])}, nil
		})
		conn, err := d.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		req := kmsg.NewPtrFetchRequest()
		req.SetVersion(16)
		call := d.FetchRequest(req, &link.Pool{})
		if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, call, 1)); err != nil {
			t.Fatal(err)
		}
		want := io.ErrUnexpectedEOF
		if at == 0 {
			want = io.EOF
		}
		if n, err := conn.Read(make([]byte, 4096)); n != 0 || !errors.Is(err, want) {
			t.Errorf("cut off after %d bytes: read %d, %v", at, n, err)
		}
		call.End()
		_ = conn.Close()
	}
}

// TestTrickle: the reader of a large answer sleeps until much of it is there, and of a small one behind it does not.
func TestTrickle(t *testing.T) {
	t.Parallel()
	const size = 5 << 20
	large, small := response(16, 0, size), response(16, 1, 10)
	gate := make(chan struct{})
	var pieces atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with the connection
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for piece := range slices.Chunk(slices.Concat(large, small[:4]), 10_000) {
			if _, err := c.Write(piece); err != nil {
				return
			}
			pieces.Add(1)
		}
		<-gate
		_, _ = c.Write(small[4:])
		<-gate
	}()
	d := dialer()
	conn, err := d.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := readFrame(t, conn); !bytes.Equal(got, large) {
		t.Error("the large answer is another one")
	}
	gate <- struct{}{}
	if got := readFrame(t, conn); !bytes.Equal(got, small) {
		t.Error("the small answer is another one")
	}
	close(gate)
	if pieces.Load() < size/10_000 {
		t.Errorf("%d pieces", pieces.Load())
	}
}

// TestClient: a client fetches and produces through it, on a real connection; with and without TLS nothing is different.
func TestClient(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		opts := []kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(2, "t")}
		dial := link.Dial((&net.Dialer{}).DialContext)
		if secure {
			server, client := certificates(t)
			opts = append(opts, kfake.TLS(server))
			dial = secured(client)
		}
		cluster, err := kfake.NewCluster(opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		d := link.New(dial)
		d.Poison = true
		var written, read atomic.Int64
		d.Beside = func(node int32, key kmsg.Key, w, r int) {
			if node != 0 || (key == kmsg.Fetch) != (r > 0) || (key == kmsg.Produce) != (w > 0) {
				t.Errorf("node %d, %s: %d written, %d read", node, key.Name(), w, r)
			}
			written.Add(int64(w))
			read.Add(int64(r))
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.Dialer(d.Dial), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1<<20),
			kgo.DisableIdempotentWrite()) // else a batch that is produced again is a duplicate
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		value := bytes.Repeat([]byte("v"), 300_000)
		for p := range int32(2) {
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: p, Value: value}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		var pool link.Pool
		pool.Keep(8 << 20)
		id := cluster.TopicInfo("t").TopicID
		for round := range 3 {
			req := kmsg.NewPtrFetchRequest()
			req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 100, 1, 8<<20
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.TopicID = "t", id
			for p := range int32(2) {
				fp := kmsg.NewFetchRequestTopicPartition()
				fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = p, int64(round), 4<<20
				topic.Partitions = append(topic.Partitions, fp)
			}
			req.Topics = append(req.Topics, topic)
			answer, memory, err := d.Fetch(ctx, cl, 0, req, &pool)
			if err != nil {
				t.Fatal(err)
			}
			produce := kmsg.NewPtrProduceRequest()
			produce.Acks, produce.TimeoutMillis = -1, 10_000
			out := kmsg.NewProduceRequestTopic()
			out.Topic, out.TopicID = "t", id
			for _, p := range answer.Topics[0].Partitions {
				if n := len(p.RecordBatches); n < len(value) || n > len(value)+1000 {
					t.Fatalf("round %d: %d bytes of partition %d", round, n, p.Partition)
				}
				pp := kmsg.NewProduceRequestTopicPartition()
				copy(p.RecordBatches, make([]byte, 8))                  // base offset
				pp.Partition, pp.Records = p.Partition, p.RecordBatches // of one record
				out.Partitions = append(out.Partitions, pp)
			}
			produce.Topics = append(produce.Topics, out)
			said, err := d.Produce(ctx, cl, 0, produce)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range said.Topics[0].Partitions {
				if p.ErrorCode != 0 || p.BaseOffset != int64(round+1) {
					t.Fatalf("round %d: %+v", round, p)
				}
			}
			memory.Release()
		}
		if want := int64(6 * len(value)); written.Load() < want || read.Load() < want {
			t.Errorf("%d bytes written and %d read beside the client, %d were moved", written.Load(), read.Load(), want)
		}
	}
}

// TestNilDialer: without a Dialer all goes through the client.
func TestNilDialer(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var d *link.Dialer
	answer, memory, err := d.Fetch(t.Context(), cl, 0, kmsg.NewPtrFetchRequest(), nil)
	if err != nil || answer == nil || memory != nil {
		t.Errorf("%v, %v, %v", answer, memory, err)
	}
	memory.Retain()
	memory.Release()
	if said, err := d.Produce(t.Context(), cl, 0, kmsg.NewPtrProduceRequest()); err != nil || said == nil {
		t.Errorf("%v, %v", said, err)
	}
}

// certificates are those of Go's own test server.
func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12},
		s.Client().Transport.(*http.Transport).TLSClientConfig
}

func secured(cfg *tls.Config) link.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&tls.Dialer{Config: cfg}).DialContext(ctx, network, address)
	}
}
