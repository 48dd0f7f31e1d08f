package bridge

import (
	"errors"
	"strings"
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

// TestNameReleasedLate: at the first join the name may still be held by a process that died; at a later one its
// holder came after us.
func TestNameReleasedLate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(*world, *running)
		count  int // the client tries four times before it tells
		status int
	}{
		{"first join", nil, 6, 0},
		{"later join", func(w *world, b *running) {
			w.assigned(b, 2)
			w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}})
		}, -1, 75},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.topics(2, "in", "out")
				unreleased := kfake.Fault{
					Keys: []kmsg.Key{kmsg.ConsumerGroupHeartbeat}, Err: kerr.UnreleasedInstanceID, TopLevel: true, Count: tc.count,
					When: func(r kmsg.Request) bool { return r.(*kmsg.ConsumerGroupHeartbeatRequest).MemberEpoch == 0 },
				}
				if tc.before == nil {
					w.Fault(unreleased)
				}
				b := w.start(w.options(func(o *Options) { o.Consumer = true }))
				if tc.before != nil {
					tc.before(w, b)
					w.Fault(unreleased)
				}
				w.feed("in", 10, 0, 1)
				if tc.status == 75 {
					err := b.wait()
					if exitCodeOf(err) != 75 || !strings.Contains(err.Error(), `instance "a"`) {
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
