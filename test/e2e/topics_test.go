package e2e

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/proof"
)

// pair is a pipeline between two topics that a test deletes: no reader may look
// on all the time.
type pair struct {
	*rig
	from, to string
	settings map[string]string
}

func newPair(t *testing.T, c *kafka.Cluster) *pair {
	t.Helper()
	p := &pair{rig: newRig(t, c, plan{in: 1, out: 1, preserve: true}), from: c.Topic(t, 1), to: c.Topic(t, 1)}
	p.rig.in, p.rig.group = p.from, p.to+"-group" // for position
	p.settings = map[string]string{"BRIDGE_INPUT_TOPICS": p.from, "BRIDGE_OUTPUT_TOPIC": p.to, "BRIDGE_GROUP_ID": p.rig.group}
	maps.Copy(p.settings, shortSessions)
	return p
}

// write produces n records to the input.
func (p *pair) write(t *testing.T, n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.cluster.Bootstrap()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range n {
		cl.Produce(t.Context(), &kgo.Record{Topic: p.from, Value: []byte("x")}, nil)
	}
	if err := cl.Flush(within(t, patience)); err != nil {
		t.Fatal(err)
	}
}

func (p *pair) remove(t *testing.T, topic string) {
	t.Helper()
	resp, err := p.adm.DeleteTopics(within(t, patience), topic)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the topic", func() bool {
		all, err := p.adm.ListTopics(within(t, patience), topic)
		return err == nil && !all.Has(topic)
	})
}

// TestOutputDeleted takes the output away while records go there: the bridge
// ends with its name, no position moves, and it goes on with a new one.
func TestOutputDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		p := newPair(t, c)
		life := p.startWith(t, "a", p.settings)
		p.write(t, 15)
		eventually(t, "the first positions", func() bool { return p.position(t, 0) == 15 })
		p.remove(t, p.to)
		p.write(t, 15)
		exits(t, life, 78)
		if !life.Log.Contains(p.to) || !life.Log.Contains("does not exist") {
			t.Errorf("the log does not name the topic:\n%s", life.Log.Tail(5))
		}
		if at := p.position(t, 0); at != 15 {
			t.Errorf("the position is %d, want 15", at)
		}
		c.CreateTopic(t, p.to, 1)
		life = p.startWith(t, "a", p.settings)
		eventually(t, "the rest", func() bool { return p.position(t, 0) == 30 })
		stop(t, life)
		if n := len(times(t, c, p.to)); n != 15 {
			t.Errorf("%d records in the new topic, want 15", n)
		}
		proof.Record(t, proof.Result{Broker: c.Version(), Scenarios: 1, Records: 30})
	})
}

// TestInputMadeAnew deletes the input and makes one of the same name: offsets of
// the old one mean nothing in the new one, so the bridge ends and says so.
func TestInputMadeAnew(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		p := newPair(t, c)
		life := p.startWith(t, "a", p.settings)
		p.write(t, 15)
		eventually(t, "the first positions", func() bool { return p.position(t, 0) == 15 })
		p.remove(t, p.from)
		c.CreateTopic(t, p.from, 1)
		p.write(t, 20)
		exits(t, life, 1)
		if !life.Log.Contains("made anew") && !life.Log.Contains("was deleted") {
			t.Errorf("the log does not say why:\n%s", life.Log.Tail(5))
		}
		if n := len(times(t, c, p.to)); n != 15 {
			t.Errorf("%d records in the output, want those of the old topic, 15", n)
		}
		proof.Record(t, proof.Result{Broker: c.Version(), Scenarios: 1, Records: 35})
	})
}
