package txn

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestSweepWithoutMembers: as long as it is not known who is alive, everybody is; only our own older slots go.
func TestSweepWithoutMembers(t *testing.T) {
	for name, prepare := range map[string]func(b *sweepBed){
		"no such group": func(*sweepBed) {},
		"denied": func(b *sweepBed) {
			b.join("me", 1)
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups}, Group: "app", Err: kerr.GroupAuthorizationFailed, Count: -1})
		},
		"group error": func(b *sweepBed) {
			b.join("me", 1)
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeGroups}, Group: "app", Err: kerr.InvalidGroupID, Count: -1})
		},
		"KIP-848 denied": func(b *sweepBed) {
			b.join("me", 1, consumerProtocol()...)
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ConsumerGroupDescribe}, Group: "app", Err: kerr.GroupAuthorizationFailed, Count: -1})
		},
		"KIP-848 group error": func(b *sweepBed) {
			b.join("me", 1, consumerProtocol()...)
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ConsumerGroupDescribe}, Group: "app", Err: kerr.InvalidGroupID, Count: -1})
		},
		// What Apache Kafka says about a KIP-848 group in the classic answer, up to version 5: Dead, no error.
		"dead to one, unreachable by the other": func(b *sweepBed) {
			b.join("me", 1, consumerProtocol()...)
			b.ControlKey(int16(kmsg.DescribeGroups), deadGroup)
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ConsumerGroupDescribe}, Group: "app", Err: kerr.GroupIDNotFound, Count: -1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSweepBed(t)
			prepare(b)
			b.open("app.dead.0", 0)
			b.open("app.me.7", 1)
			got, err := b.sweep(b.options())
			if err == nil || !strings.Contains(err.Error(), `members of group "app"`) {
				t.Errorf("error %v, want it to say that the members are not known", err)
			}
			if want := []string{"app.me.7"}; !slices.Equal(got, want) {
				t.Errorf("swept %q, want %q", got, want)
			}
			b.stillOpen("app.dead.0")
		})
	}
}

// deadGroup answers one DescribeGroups.
func deadGroup(r kmsg.Request) (kmsg.Response, error, bool) {
	resp := r.ResponseKind().(*kmsg.DescribeGroupsResponse)
	g := kmsg.NewDescribeGroupsResponseGroup()
	g.Group, g.State = "app", "Dead"
	resp.Groups = append(resp.Groups, g)
	return resp, nil, true
}

// TestSweepOfConsumerGroupOnKafka: the classic answer of Apache Kafka about a KIP-848 group must not read as "no
// members". kfake's differs, so it is replaced.
func TestSweepOfConsumerGroupOnKafka(t *testing.T) {
	b := newSweepBed(t)
	b.join("me", 1, consumerProtocol()...)
	b.join("sibling", 2, consumerProtocol()...)
	b.open("app.sibling.0", 0)
	b.open("app.dead.0", 1)
	b.ControlKey(int16(kmsg.DescribeGroups), deadGroup)
	b.expect(b.options(), "app.dead.0")
	b.stillOpen("app.sibling.0")
}

// TestSweepOldBroker: a broker that knows no KIP-848 groups is not asked about them.
func TestSweepOldBroker(t *testing.T) {
	b := newSweepBed(t, kfake.MaxVersions(kversion.V3_6_0()))
	b.join("me", 1)
	b.join("sibling", 2)
	b.open("app.sibling.0", 0)
	b.open("app.dead.0", 1)
	b.expect(b.options(), "app.dead.0")
	b.stillOpen("app.sibling.0")
}

// TestSweepEmptyGroup: a group that is known to have no members has no living ones, whether or not the broker knows
// KIP-848 (Kafka 3.9 answers UNSUPPORTED_VERSION for the group, seen there).
func TestSweepEmptyGroup(t *testing.T) {
	for name, code := range map[string]*kerr.Error{"4.4": kerr.GroupIDNotFound, "3.9": kerr.UnsupportedVersion} {
		t.Run(name, func(t *testing.T) {
			b := newSweepBed(t)
			b.open("app.dead.0", 0)
			b.ControlKey(int16(kmsg.DescribeGroups), func(r kmsg.Request) (kmsg.Response, error, bool) {
				resp, err, handled := deadGroup(r)
				resp.(*kmsg.DescribeGroupsResponse).Groups[0].State = "Empty"
				return resp, err, handled
			})
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ConsumerGroupDescribe}, Group: "app", Err: code, Count: -1})
			b.expect(b.options(), "app.dead.0")
		})
	}
}
