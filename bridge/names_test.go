package bridge

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/txn"
)

// TestNameTaken: a newcomer with our name wins; the older process ends with ErrFenced and leaves it alone.
func TestNameTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.topics(4, "in", "out")
		stop := w.feeding("in", 5*time.Millisecond, 0, 1, 2, 3)
		older := w.start(w.options())
		w.assigned(older, 4)
		w.pass(time.Second)
		w.judgeLeaves()
		newer := w.start(w.options())
		if err := older.wait(); exitCodeOf(err) != 75 {
			t.Errorf("the older one ended with %v", err)
		}
		w.assigned(newer, 4)
		w.pass(5 * time.Second)
		stop()
		w.caughtUp("in")
		newer.stopped()
		w.exact("out", "in")
		if newer.restarts() > 1 {
			t.Errorf("the newer one started again %d times", newer.restarts())
		}
	})
}

// exitCodeOf is what cli makes of an error.
func exitCodeOf(err error) int {
	var fatal *txn.FatalError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, txn.ErrFenced):
		return 75
	case errors.As(err, &fatal):
		return fatal.ExitCode()
	default:
		return 1
	}
}

// judgeLeaves makes LeaveGroup answer FENCED_INSTANCE_ID to a member id that no longer holds the name, as Kafka
// does; kfake removes whoever holds it.
func (w *world) judgeLeaves() {
	holder := map[string]string{}
	w.ControlKey(int16(kmsg.SyncGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		if req := r.(*kmsg.SyncGroupRequest); req.InstanceID != nil {
			holder[*req.InstanceID] = req.MemberID
		}
		return nil, nil, false
	})
	w.ControlKey(int16(kmsg.LeaveGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		req := r.(*kmsg.LeaveGroupRequest)
		m := req.Members[0]
		if m.MemberID == "" || m.InstanceID == nil || holder[*m.InstanceID] == m.MemberID || holder[*m.InstanceID] == "" {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
		answer := kmsg.NewLeaveGroupResponseMember()
		answer.MemberID, answer.InstanceID, answer.ErrorCode = m.MemberID, m.InstanceID, kerr.FencedInstanceID.Code
		resp.Members = append(resp.Members, answer)
		return resp, nil, true
	})
}

// TestNameReleasedLate: with KIP-848 a join may find the name held. At the first one by a process that died. At a later one
// by ourselves, if the answer to our join was lost, or by a process that came after us: only LeaveGroup tells.
func TestNameReleasedLate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		later  bool
		leave  int16 // the answer to LeaveGroup once the name was found held
		status int
	}{
		{"first join", false, 0, 0},
		{"later join, by ourselves", true, 0, 0},
		{"later join, by a newer process", true, kerr.FencedInstanceID.Code, 75},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				var held atomic.Bool
				hold := func() {
					w.Fault(kfake.Fault{ // the client tries four times before it tells
						Keys: []kmsg.Key{kmsg.ConsumerGroupHeartbeat}, Err: kerr.UnreleasedInstanceID, TopLevel: true, Count: 6,
						When: func(r kmsg.Request) bool {
							joins := r.(*kmsg.ConsumerGroupHeartbeatRequest).MemberEpoch == 0
							held.Store(held.Load() || joins)
							return joins
						},
					})
				}
				// kfake knows LeaveGroup for classic groups only: answer as Kafka 4.4.0 does.
				w.ControlKey(kmsg.LeaveGroup.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
					w.KeepControl()
					resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
					member := kmsg.NewLeaveGroupResponseMember()
					member.ErrorCode = tc.leave
					resp.Members = append(resp.Members, member)
					return resp, nil, held.Load()
				})
				if !tc.later {
					hold()
				}
				b := w.start(w.options(func(o *Options) { o.Consumer = true }))
				if tc.later {
					w.assigned(b, 2)
					hold()
					w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}})
				}
				w.feed("in", 10, 0, 1)
				if tc.status == 75 {
					if err := b.wait(); exitCodeOf(err) != 75 || !strings.Contains(err.Error(), `instance "a"`) {
						t.Errorf("ended with %v", err)
					}
					return
				}
				w.caughtUp("in")
				b.stopped()
				w.exact("out", "in")
			})
		})
	}
}
