package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/proof"
)

// lastProducerEpoch is where the broker gives a transactional id a new producer
// id: Kafka's epochs end at 32,767, and the last one is for fencing.
const lastProducerEpoch = 32_766

// TestProducerEpochsUsedUp has the bridge run on until the producer epochs of
// both its ids are used up, which transactions that end quickly do in hours. The
// broker hands out a new producer id in the middle of the run, and nothing is
// noticed. Epochs are used up before by fencing; the default size stays far from
// the end, and only shows that old ids are taken over.
func TestProducerEpochsUsedUp(t *testing.T) {
	t.Parallel()
	c := kafka.Shared(t, kafka.V44)
	r := newRig(t, c, plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_EPOCH_INTERVAL": "0s"}})
	ids := []string{r.group + ".a.0", r.group + ".a.1"}
	before := r.useUp(t, ids, size(20, lastProducerEpoch-100))
	stopWatch := r.watched(t)
	feed := r.feed(t, 500)
	p := r.start(t, "a")
	eventually(t, "epochs beyond the last producer epoch", func() bool { return p.Log.Count(StepCommitted) > size(50, 600) })
	after := r.producers(t, ids)
	for _, id := range ids {
		t.Logf("%s: producer %d epoch %d, then producer %d epoch %d", id, before[id].ProducerID, before[id].Epoch, after[id].ProducerID, after[id].Epoch)
		if *long && after[id].ProducerID == before[id].ProducerID {
			t.Errorf("%s still has producer id %d", id, before[id].ProducerID)
		}
	}
	feed.finish(t)
	r.settle(t)
	stopWatch()
	r.exact(t)
	aborted := p.Log.Count("epoch aborted")
	t.Logf("%d epochs committed, %d aborted", p.Log.Count(StepCommitted), aborted)
	stop(t, p)
	proof.Record(t, proof.Result{
		Broker: c.Version(), Scenarios: 1, Records: r.input.Acked(), Took: time.Since(p.Started),
		Note: size("old producer ids taken over", "producer epochs of both ids used up in the middle of the run"),
	})
}

// useUp fences each id n times, which takes a producer epoch each.
func (r *rig) useUp(t *testing.T, ids []string, n int) map[string]producer {
	t.Helper()
	var group errgroup.Group
	for _, id := range ids {
		group.Go(func() error {
			cl, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Bootstrap()))
			if err != nil {
				return err
			}
			defer cl.Close()
			for range n {
				req := kmsg.NewPtrInitProducerIDRequest()
				req.TransactionalID, req.TransactionTimeoutMillis = &id, 40_000
				resp, err := req.RequestWith(t.Context(), cl)
				if err == nil {
					err = kerr.ErrorForCode(resp.ErrorCode)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return r.producers(t, ids)
}

type producer struct {
	ProducerID int64
	Epoch      int16
}

// producers are the present producer ids and epochs of transactional ids.
func (r *rig) producers(t *testing.T, ids []string) map[string]producer {
	t.Helper()
	described, err := r.adm.DescribeTransactions(within(t, patience), ids...)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]producer{}
	for id, d := range described {
		if d.Err != nil {
			t.Fatalf("%s: %v", id, d.Err)
		}
		all[id] = producer{d.ProducerID, d.ProducerEpoch}
	}
	if len(all) != len(ids) {
		t.Fatalf("%s: described %v", strings.Join(ids, ", "), all)
	}
	return all
}
