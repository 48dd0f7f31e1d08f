package oracle

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Every test in this file runs on kfake, which keeps no topic of positions: what
// a transaction holds is judged in transactions_test.go, and in test/e2e on Kafka.

// follow starts a follower together with a reader that tells it what it shows.
func (w *world) follow(t *testing.T, uncommitted bool) (*Follower, *Reader) {
	t.Helper()
	checker := NewChecker(w.form, w.input, nil)
	f, err := Follow(t.Context(), Following{Brokers: w.brokers, Outputs: []string{"out"}}, checker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	r, err := Read(t.Context(), Reading{
		Brokers: w.brokers, Topics: []string{"out"}, Uncommitted: uncommitted, Transactions: f.Transactions,
	}, checker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return f, r
}

// tear ends the open transaction in one partition only, as a broker might that
// was told so by a late copy of a request.
func (w *world) tear(t *testing.T, partition int32, commit bool) {
	t.Helper()
	id, epoch, err := w.writer.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	topic.Topic, topic.Partitions = "out", []int32{partition}
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.ProducerEpoch, marker.Committed = id, epoch, commit
	marker.Topics = append(marker.Topics, topic)
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = append(req.Markers, marker)
	resp, err := req.RequestWith(t.Context(), w.group)
	if err == nil {
		err = kerr.ErrorForCode(resp.Markers[0].Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// account is the follower's part of a verdict, at rest.
func account(t *testing.T, f *Follower) (v Verdict) {
	t.Helper()
	if err := f.Rest(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	f.Into(&v)
	return v
}

// TestFollowerLearnsEveryEnd: commit, abort, an abort by a fence, and an abort by
// the broker's time-out, with and without transaction.version 2. Below it a
// transaction's producer is new, as the bridge's is.
func TestFollowerLearnsEveryEnd(t *testing.T) {
	for name, opts := range map[string][]kfake.Opt{
		"TV2": nil, "TV1": {kfake.MaxVersions(kversion.V3_6_0())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, opts...)
			w.feed(t, Feed{Total: 40, Sources: sources(2)})
			f, r := w.follow(t, false)
			again := func() {
				if name == "TV1" {
					w.restart(t)
				}
			}
			w.copy(t, 0, 2)
			w.end(t, kgo.TryCommit)
			again()
			w.copy(t, 2, 4)
			w.end(t, kgo.TryAbort)
			again()
			w.copy(t, 2, 4)
			w.restart(t) // fences
			w.copy(t, 2, 4)
			w.end(t, kgo.TryCommit)
			w.writer = w.client(t, kgo.TransactionalID("copy.b.0"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.TransactionTimeout(200*time.Millisecond))
			w.copy(t, 4, 6)
			if err := Quiescent(within(t, 10*time.Second), w.adm, Rest{Prefix: "copy", Outputs: []string{"out"}}); err != nil {
				t.Fatal(err)
			}
			if err := r.CatchUp(within(t, 10*time.Second)); err != nil {
				t.Fatal(err)
			}
			v := account(t, f)
			sameCounts(t, v, Verdict{})
			if v.Committed != 2 || v.Aborted != 3 {
				t.Errorf("committed %d, aborted %d, want 2 and 3", v.Committed, v.Aborted)
			}
			if got := r.checker.Out(); got != 8 {
				t.Errorf("shown %d, want 8", got)
			}
		})
	}
}

// TestFollowerNeedsAPositionsTopic: a cluster that has none is told apart from a
// group without positions.
func TestFollowerNeedsAPositionsTopic(t *testing.T) {
	w := newWorld(t)
	f, err := Follow(t.Context(), Following{Brokers: w.brokers, Outputs: []string{"out"}, Group: "g"}, NewChecker(w.form, w.input, nil))
	if err == nil {
		f.Close()
		t.Error("kfake has no topic of positions")
	}
}
