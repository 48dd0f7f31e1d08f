package measure

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestDistance goes through the proxy with a real client: all of its connections
// must, and each answer takes its time.
func TestDistance(t *testing.T) {
	const delay = 30 * time.Millisecond
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	broker := cluster.ListenAddrs()[0]
	d, err := newDistance(broker, delay)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(d.addr()),
		kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			if host != d.addr() {
				t.Errorf("the client went past the proxy, to %s", host)
			}
			return (&net.Dialer{}).DialContext(ctx, network, host)
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(cl)
	if err := adm.FindGroupCoordinators(ctx, "g").Error(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := adm.ListEndOffsets(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < delay {
		t.Errorf("an answer took %v, less than the delay of %v", took, delay)
	}
}

func TestRedirect(t *testing.T) {
	frameOf := func(answer kmsg.Response, version int16) []byte {
		answer.SetVersion(version)
		frame := make([]byte, 8, 256)
		binary.BigEndian.PutUint32(frame[4:], 77)
		if answer.IsFlexible() {
			frame = append(frame, 0)
		}
		frame = answer.AppendTo(frame)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		return frame
	}
	find := kmsg.NewPtrFindCoordinatorResponse()
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.Host, c.Port = "g", "elsewhere", 9092
	find.Coordinators = append(find.Coordinators, c)
	missing := kmsg.NewFindCoordinatorResponseCoordinator()
	missing.Key, missing.NodeID, missing.ErrorCode = "h", -1, 15
	find.Coordinators = append(find.Coordinators, missing)
	key, version := find.Key(), int16(5)
	frame, err := redirect(question{key, version}, frameOf(find, version), "127.0.0.1:12345")
	if err != nil {
		t.Fatal(err)
	}
	if size := binary.BigEndian.Uint32(frame); int(size) != len(frame)-4 || binary.BigEndian.Uint32(frame[4:]) != 77 {
		t.Errorf("size %d of %d bytes, correlation id %d", size, len(frame), binary.BigEndian.Uint32(frame[4:]))
	}
	read := kmsg.NewPtrFindCoordinatorResponse()
	read.SetVersion(version)
	if err := read.ReadFrom(frame[9:]); err != nil {
		t.Fatal(err)
	}
	if got := read.Coordinators[0]; got.Host != "127.0.0.1" || got.Port != 12345 || got.Key != "g" {
		t.Errorf("coordinator %+v", got)
	}
	if got := read.Coordinators[1]; got.Host != "" || got.ErrorCode != 15 {
		t.Errorf("no coordinator became %+v", got)
	}

	other := frameOf(kmsg.NewPtrHeartbeatResponse(), 4)
	if got, err := redirect(question{12, 4}, other, "127.0.0.1:12345"); err != nil || !bytes.Equal(got, other) {
		t.Errorf("a heartbeat was altered: %v, %v", got, err)
	}
	if _, err := redirect(question{3, 12}, []byte{0, 0, 0, 4, 0, 0, 0, 1}, "127.0.0.1:12345"); err == nil {
		t.Error("half an answer: no error")
	}
	if _, err := redirect(question{3, 12}, nil, "nonsense"); err == nil {
		t.Error("no address: no error")
	}
}

func TestReadFrame(t *testing.T) {
	if frame, err := readFrame(bytes.NewReader([]byte{0, 0, 0, 2, 7, 8, 9})); err != nil || !bytes.Equal(frame, []byte{0, 0, 0, 2, 7, 8}) {
		t.Errorf("%v, %v", frame, err)
	}
	for name, text := range map[string][]byte{"end": {}, "half a size": {0, 0}, "half a body": {0, 0, 0, 2, 7}, "huge": {255, 0, 0, 0}} {
		if _, err := readFrame(bytes.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
