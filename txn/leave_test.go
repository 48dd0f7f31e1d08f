package txn

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerLeave answers LeaveGroup in the broker's place. kfake does not compare the member id of a static member, and
// does not let a member of a consumer group (KIP-848) leave this way; Kafka does both.
func (b *bed) answerLeave(code int16) {
	b.ControlKey(int16(kmsg.LeaveGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		asked := req.(*kmsg.LeaveGroupRequest)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.journal = append(b.journal, seen{copyOf(asked), b.CurrentNode()})
		resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
		for _, m := range asked.Members {
			resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{MemberID: m.MemberID, InstanceID: m.InstanceID, ErrorCode: code})
		}
		return resp, nil, true
	})
}

// joinConsumer makes the instance a member of a consumer group (KIP-848) and answers its member id.
func (b *bed) joinConsumer(instance string) string {
	b.t.Helper()
	cl, err := kgo.NewClient(append(b.clientOptions(), kgo.ConsumerGroup(group), kgo.InstanceID(instance), kgo.ConsumeTopics("in"),
		kgo.DisableAutoCommit(), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.CloseAllowingRebalance)
	if _, err := b.WaitGroupStable(b.ctx, group, 1); err != nil {
		b.t.Fatal(err)
	}
	return b.GroupInfo(group).Members[0].MemberID
}

// Invariant 11: whose our name is. A LeaveGroup with our last member id tells, and frees the name if it was ours.
func TestLeaveClassic(t *testing.T) {
	name := Name{Group: group, Instance: "me"}
	t.Run("ours", func(t *testing.T) {
		b := newBed(t)
		me := b.join("me", "")
		b.expectLeave(name, me.MemberID, OwnershipOurs)
		if info := b.GroupInfo(group); len(info.Members) != 0 {
			t.Errorf("still in the group: %+v", info.Members)
		}
		b.expectLeave(name, me.MemberID, OwnershipGone) // UNKNOWN_MEMBER_ID, and nobody holds the name
	})
	t.Run("no such group", func(t *testing.T) {
		newBed(t).expectLeave(name, "member", OwnershipGone)
	})
	t.Run("removed, others stay", func(t *testing.T) {
		b := newBed(t)
		b.join("sibling", "")
		b.expectLeave(name, "member", OwnershipGone)
		if info := b.GroupInfo(group); len(info.Members) != 1 {
			t.Errorf("a sibling was touched: %+v", info.Members)
		}
	})
	t.Run("a newcomer has it", func(t *testing.T) {
		b := newBed(t)
		b.join("me", "")
		b.answerLeave(kerr.FencedInstanceID.Code)
		b.expectLeave(name, "our last member id", OwnershipLost)
	})
	t.Run("we were removed, and a newcomer has it", func(t *testing.T) {
		b := newBed(t)
		b.join("me", "")
		b.answerLeave(kerr.UnknownMemberID.Code)
		b.expectLeave(name, "our last member id", OwnershipLost)
	})
	t.Run("the group still shows ourselves", func(t *testing.T) {
		b := newBed(t)
		me := b.join("me", "")
		b.answerLeave(kerr.UnknownMemberID.Code)
		b.expectLeave(name, me.MemberID, OwnershipGone)
	})
}

// TestLeaveOldBroker: a membership that has expired must not keep us from starting again on brokers that do not know
// the request about KIP-848 groups, as before Kafka 3.7.
func TestLeaveOldBroker(t *testing.T) {
	name := Name{Group: group, Instance: "me"}
	t.Run("expired", func(t *testing.T) {
		b := newOldBed(t)
		me := b.join("me", "")
		b.expectLeave(name, me.MemberID, OwnershipOurs)
		b.expectLeave(name, me.MemberID, OwnershipGone) // the group is there, and empty
	})
	t.Run("no such group", func(t *testing.T) {
		b := newOldBed(t)
		b.answerLeave(kerr.UnknownMemberID.Code)
		b.expectLeave(name, "member", OwnershipGone)
	})
	t.Run("a newcomer has it", func(t *testing.T) {
		b := newOldBed(t)
		b.join("me", "")
		b.answerLeave(kerr.UnknownMemberID.Code)
		b.expectLeave(name, "our last member id", OwnershipLost)
	})
}

func TestLeaveConsumer(t *testing.T) {
	name := Name{Group: group, Instance: "me"}
	t.Run("ours", func(t *testing.T) {
		b := newBed(t)
		member := b.joinConsumer("me")
		b.answerLeave(0)
		b.expectLeave(name, member, OwnershipOurs)
	})
	t.Run("no such group", func(t *testing.T) {
		b := newBed(t)
		b.answerLeave(kerr.UnknownMemberID.Code)
		b.expectLeave(name, "member", OwnershipGone)
	})
	t.Run("removed, others stay", func(t *testing.T) {
		b := newBed(t)
		b.joinConsumer("sibling")
		b.answerLeave(kerr.UnknownMemberID.Code)
		b.expectLeave(name, "member", OwnershipGone)
	})
	t.Run("a newcomer has it", func(t *testing.T) {
		b := newBed(t)
		b.answerLeave(kerr.FencedInstanceID.Code)
		b.expectLeave(name, "our last member id", OwnershipLost)
	})
	t.Run("we were removed, and a newcomer has it", func(t *testing.T) {
		b := newBed(t)
		b.joinConsumer("me")
		b.answerLeave(kerr.UnknownMemberID.Code)
		b.expectLeave(name, "our last member id", OwnershipLost)
	})
	t.Run("the group still shows ourselves", func(t *testing.T) {
		b := newBed(t)
		member := b.joinConsumer("me")
		b.answerLeave(kerr.UnknownMemberID.Code)
		b.expectLeave(name, member, OwnershipGone)
	})
}

// Invariant 11: an empty member id takes the name from whoever holds it; nobody is asked then.
func TestLeaveTakesTheName(t *testing.T) {
	b := newBed(t)
	b.join("me", "")
	name := Name{Group: group, Instance: "me"}
	b.expectLeave(name, "", OwnershipOurs)
	if info := b.GroupInfo(group); len(info.Members) != 0 {
		t.Errorf("members %+v", info.Members)
	}
	asked := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups, kmsg.ConsumerGroupDescribe}, Group: group, Observe: true, Count: -1})
	b.expectLeave(name, "", OwnershipGone)
	if asked.Hits() != 0 {
		t.Error("the group was described")
	}
}

func (b *bed) expectLeave(name Name, member string, want Ownership) {
	b.t.Helper()
	if got, err := Leave(b.ctx, b.cl, b.adm, name, member); got != want || err != nil {
		b.t.Errorf("leave: %d, %v; want %d", got, err, want)
	}
	for _, s := range b.requests(kmsg.LeaveGroup) { // of answerLeave
		m := s.Request.(*kmsg.LeaveGroupRequest).Members
		if len(m) != 1 || m[0].MemberID != member || m[0].InstanceID == nil || *m[0].InstanceID != name.Instance {
			b.t.Errorf("asked to remove %+v, want member %q, instance %q", m, member, name.Instance)
		}
	}
}

// What cannot be learnt is an error, never "gone": two processes would go on under one name.
func TestLeaveFails(t *testing.T) {
	b := newBed(t)
	b.join("me", "")
	name := Name{Group: group, Instance: "me"}
	denied := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.LeaveGroup}, Group: group, Err: kerr.GroupAuthorizationFailed, Count: -1})
	_, err := Leave(b.ctx, b.cl, b.adm, name, "member")
	expectClass(t, err, ErrFatal)
	denied.Remove()

	unclear := b.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.LeaveGroup}, Group: group, Err: kerr.UnknownMemberID, Count: -1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups, kmsg.ConsumerGroupDescribe}, Group: group, Err: kerr.GroupAuthorizationFailed, Count: -1})
	_, err = Leave(b.ctx, b.cl, b.adm, name, "member")
	if !errors.Is(err, kerr.GroupAuthorizationFailed) || !strings.Contains(err.Error(), group) {
		t.Errorf("leave: %v", err)
	}
	expectClass(t, Classify(CallGroup, err), ErrFatal)
	unclear.Remove()

	b.wire.down()
	cl, err := kgo.NewClient(append(b.clientOptions(), kgo.Dialer(b.wire.dial), kgo.RequestRetries(1), kgo.RetryTimeout(time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	_, err = Leave(b.ctx, cl, kadm.NewClient(cl), Name{Group: group, Instance: "me"}, "member")
	if err == nil || !Unreachable(err) {
		t.Errorf("leave: %v", err)
	}
}

// A LeaveGroup whose answer is lost is sent again by the client, and then finds nobody: gone is as good as ours.
func TestLeaveAnswerLost(t *testing.T) {
	b := newBed(t)
	me := b.join("me", "")
	cl, err := kgo.NewClient(append(b.clientOptions(), kgo.Dialer(b.wire.dial))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DescribeGroups(b.ctx, group); err != nil { // an end of a fresh connection is taken for missing SASL
		t.Fatal(err)
	}
	lost := b.wire.lose(kmsg.LeaveGroup, cutAfter, 1)
	got, err := Leave(b.ctx, cl, b.adm, Name{Group: group, Instance: "me"}, me.MemberID)
	if got != OwnershipGone || err != nil || lost.Hits() != 1 {
		t.Errorf("leave: %d, %v", got, err)
	}
}
