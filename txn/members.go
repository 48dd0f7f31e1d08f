package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Member is who holds an instance id in the group, as the group coordinator describes it.
type Member struct {
	ID       string `json:"member_id"`
	ClientID string `json:"client_id"`
	Host     string `json:"host"`
}

// LiveInstances gives the group's static members by instance id. It asks both group protocols, for
// no answer of one of them means "nobody" by itself: about a group of the other protocol a broker says "Dead" without
// members (classic, before version 6), GROUP_ID_NOT_FOUND, or an empty member list. Only if a protocol knows the group
// are its members known; a group that neither knows is an error that wraps GROUP_ID_NOT_FOUND.
func LiveInstances(ctx context.Context, adm *kadm.Client, group string) (map[string]Member, error) {
	alive := make(map[string]Member)
	classic, err := adm.DescribeGroups(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("members of group %q: %w", group, err)
	}
	g, answered := classic[group]
	if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("members of group %q: %w", group, g.Err)
	}
	known := answered && g.Err == nil && g.State != "Dead"
	for _, m := range g.Members {
		if m.InstanceID != nil {
			alive[*m.InstanceID] = Member{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost}
		}
	}
	if known && len(g.Members) > 0 {
		return alive, nil // a group is of one protocol, so there is no need for brokers that know the other
	}

	consumer, err := adm.DescribeConsumerGroups(ctx, group)
	if err != nil && !knowsConsumerGroups(ctx, adm) {
		consumer, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("members of group %q, as a consumer group (KIP-848): %w", group, err)
	}
	c, answered := consumer[group]
	// UNSUPPORTED_VERSION is how Kafka 3.9 says that it has no groups of this kind.
	if c.Err != nil && !errors.Is(c.Err, kerr.GroupIDNotFound) && !errors.Is(c.Err, kerr.UnsupportedVersion) {
		return nil, fmt.Errorf("members of group %q, as a consumer group (KIP-848): %w", group, c.Err)
	}
	known = known || answered && c.Err == nil
	for _, m := range c.Members {
		if m.InstanceID != nil {
			alive[*m.InstanceID] = Member{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost}
		}
	}
	if !known {
		return nil, fmt.Errorf("members of group %q: %w", group, kerr.GroupIDNotFound)
	}
	return alive, nil
}

// knowsConsumerGroups reports whether any broker knows the request about KIP-848 groups; before Kafka 3.7 none does,
// and the client refuses to send it. In doubt they do.
func knowsConsumerGroups(ctx context.Context, adm *kadm.Client) bool {
	all, err := adm.ApiVersions(ctx)
	if err != nil {
		return true
	}
	for _, b := range all {
		if _, ok := b.KeyMaxVersion(int16(kmsg.ConsumerGroupDescribe)); ok || b.Err != nil {
			return true
		}
	}
	return false
}
