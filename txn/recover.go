package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Probe answers the finalized transaction.version of the cluster (KIP-584, KIP-890), 0 when the feature is
// unknown to it. Any failure is an error: taking a failed probe for "absent" would send the wrong requests. Only
// a broker that cannot be connected to has no say, as long as another one has: it is down, and a cluster of
// many is not.
// Brokers before Kafka 3.6 are refused: they do not verify that a partition belongs to the transaction.
//
// With consumer set, brokers before 4.3 are refused as well: they answer a commit with the member epoch of a
// moment ago as if the member were gone (KIP-1251).
func Probe(ctx context.Context, adm *kadm.Client, consumer bool) (int16, error) {
	// kadm would answer with the brokers it knows, which it looks up every few minutes only; a broker that died
	// since would fail every start until then. With authorized operations it asks anew.
	all, err := adm.ApiVersions(kadm.WithAuthorizedOps(ctx))
	if err != nil {
		return 0, fmt.Errorf("probe broker versions: %w", err)
	}
	var version int16
	var down []error
	newest := int64(-1)
	for _, b := range all.Sorted() {
		if Unreachable(b.Err) {
			down = append(down, b.Err)
			continue
		}
		if b.Err != nil {
			return 0, fmt.Errorf("probe versions of broker %d: %w", b.NodeID, b.Err)
		}
		if err := Supported(b.NodeID, b.Raw(), consumer); err != nil {
			return 0, err
		}
		if at := b.Raw().FinalizedFeaturesEpoch; at >= newest {
			newest, version = at, Finalized(b.Raw())
		}
	}
	if len(all) == 0 { // the controller counts none in: a lone broker that stood still, or has just come up
		return 0, fmt.Errorf("probe broker versions: %w: the cluster lists no broker", kerr.BrokerNotAvailable)
	}
	if len(down) == len(all) {
		return 0, fmt.Errorf("probe broker versions: %w", errors.Join(down...))
	}
	return version, nil
}

// Supported says why a broker that answered so is too old, or nil. consumer asks for the broker's side of the group
// protocol of that name as well.
func Supported(node int32, answer *kmsg.ApiVersionsResponse, consumer bool) error {
	knows := func(key kmsg.Key, version int16) bool {
		return slices.ContainsFunc(answer.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
			return k.ApiKey == int16(key) && k.MaxVersion >= version
		})
	}
	switch {
	case !knows(kmsg.AddPartitionsToTxn, 4):
		return Fatalf(StatusConfig, "broker %d runs Kafka %s: 3.6 is the oldest supported (transaction verification, KIP-890): upgrade the broker",
			node, Guess(answer))
	case consumer && !knows(kmsg.DescribeLogDirs, 5):
		return Fatalf(StatusConfig, "broker %d runs Kafka %s: BRIDGE_GROUP_PROTOCOL=consumer needs 4.3 or later: upgrade the broker, or set classic",
			node, Guess(answer))
	}
	return nil
}

// Guess names the version of Kafka that answers so; a broker tells only which requests it knows.
func Guess(answer *kmsg.ApiVersionsResponse) string {
	return kversion.FromApiVersionsResponse(answer).VersionGuess()
}

// Finalized gives the cluster's transaction.version as a broker knows it, 0 if the feature is absent.
func Finalized(answer *kmsg.ApiVersionsResponse) int16 {
	for _, f := range answer.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return f.MaxVersionLevel
		}
	}
	return 0
}

// BelowSession says why a transaction timeout does not go with the session timeout that the brokers set for groups of
// the consumer protocol, or nil.
func BelowSession(timeout, session time.Duration) error {
	if timeout < session {
		return nil
	}
	return Fatalf(StatusConfig,
		"BRIDGE_TXN_TIMEOUT=%s must be below the broker's group.consumer.session.timeout.ms=%s: a member that is presumed dead must not keep a transaction open",
		timeout, session)
}

// below2 caps TxnOffsetCommit at v4 for clusters below transaction.version 2. From v5 on the broker adds the
// group to the transaction by itself, and at version 0 that wedges the transactional id until the broker
// restarts. Capping also keeps kgo from using the protocol of version 2.
func below2() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 4)
	return v
}

// Name is a place in a consumer group.
type Name struct {
	Group    string
	Instance string
}

// Ownership is what a LeaveGroup tells about our name.
type Ownership int

// The answers about a name.
const (
	OwnershipOurs Ownership = iota // it was ours, and is free now
	OwnershipGone                  // nobody holds it: expired, or removed
	OwnershipLost                  // a newer process holds it
)

// Leave gives up our place in the group, as the test whether the name is still ours: a stale member id
// against a live holder answers FENCED_INSTANCE_ID and leaves the holder alone. An empty member removes
// whoever holds the name. The caller must have closed the consumer.
func Leave(ctx context.Context, cl *kgo.Client, adm *kadm.Client, name Name, member string) (Ownership, error) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = name.Group
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = member, &name.Instance
	reason := "restart"
	m.Reason = &reason
	req.Members = append(req.Members, m)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return 0, fmt.Errorf("leave group %s: %w", name.Group, err)
	}
	err = kerr.ErrorForCode(resp.ErrorCode)
	if err == nil && len(resp.Members) > 0 {
		err = kerr.ErrorForCode(resp.Members[0].ErrorCode)
	}
	switch {
	case err == nil:
		return OwnershipOurs, nil
	case errors.Is(err, kerr.FencedInstanceID):
		return OwnershipLost, nil
	case errors.Is(err, kerr.GroupIDNotFound):
		return OwnershipGone, nil
	case errors.Is(err, kerr.UnknownMemberID):
		if member == "" {
			return OwnershipGone, nil
		}
		held, err := instanceHeld(ctx, adm, name, member)
		if err != nil {
			return 0, err
		}
		if held {
			return OwnershipLost, nil
		}
		return OwnershipGone, nil
	default:
		return 0, Classify(CallGroup, fmt.Errorf("leave group %s: %w", name.Group, err))
	}
}

// instanceHeld reports whether the group shows our instance id under another member id.
func instanceHeld(ctx context.Context, adm *kadm.Client, name Name, member string) (bool, error) {
	members, err := LiveInstances(ctx, adm, name.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return false, err
	}
	holder, held := members[name.Instance]
	return held && holder.ID != member, nil
}
