package e2e

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/proof"
)

// TestLostJoin loses the answers to a later join with KIP-848, after the broker has
// acted: it then holds our name for ourselves, and says to every further join that
// the name is held. The process finds out that it is its own, and goes on. On TV2
// only: 3.9.1 has no such groups.
func TestLostJoin(t *testing.T) {
	t.Parallel()
	c := kafka.Shared(t, kafka.V44)
	r, proxy := behindProxy(t, c, plan{in: 2, out: 3, settings: map[string]string{
		"BRIDGE_GROUP_PROTOCOL": "consumer", "BRIDGE_RESTART_MAX_DELAY": "200ms",
	}})
	stopWatch := r.watched(t)
	feed := r.feed(t, 500)
	p := r.start(t, "a")
	awaitCommit(t, p, 0)
	lost := make(chan struct{}, 1)
	proxy.SetJudge(func(key kmsg.Key, request []byte, answer bool) (Rule, bool) {
		if key != kmsg.ConsumerGroupHeartbeat || !answer {
			return Rule{}, false
		}
		req, err := readRequest(request)
		if err != nil || req.(*kmsg.ConsumerGroupHeartbeatRequest).MemberEpoch != 0 {
			return Rule{}, false
		}
		select {
		case lost <- struct{}{}: // the first one only
			return Rule{Fault: CutEOF}, true
		default:
			return Rule{}, false
		}
	})
	proxy.Set(&Rule{Key: kmsg.TxnOffsetCommit, Fault: Refuse, Every: 1, Times: 1})
	mark := await(t, p, 0, "an aborted epoch", Message("epoch aborted")).At
	await(t, p, 0, "a commit", func(e Event) bool { return e.Message == StepCommitted && e.At.After(mark) })
	if len(lost) != 1 {
		t.Error("no answer to a join was lost")
	}
	feed.finish(t)
	r.settle(t)
	stopWatch()
	if !p.Alive() {
		t.Error("the process took itself for another one")
	}
	stop(t, p)
	r.exact(t)
	proof.Record(t, proof.Result{Broker: c.Version(), Scenarios: 1, Records: r.input.Acked(), Note: "the answer to a later join lost, KIP-848"})
}
