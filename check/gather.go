package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/eosbridge/eosbridge/offsets"
)

// atOnce bounds how many brokers are asked at the same time: each is a connection with handshakes of its own.
const atOnce = 16

// contact asks every bootstrap server for the brokers, and then every broker at the address that it advertises.
func (s *Snapshot) contact(ctx context.Context) error {
	s.Seeds = make([]Contact, len(s.Bootstrap))
	advertised := make([][]kmsg.MetadataResponseBroker, len(s.Bootstrap))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, address := range s.Bootstrap {
		group.Go(func() error {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{} // none
			answer, err := ask(ctx, s, address, req)
			s.Seeds[i] = Contact{Address: address, Node: -1, Err: err}
			if err == nil {
				advertised[i] = answer.Brokers
			}
			return nil
		})
	}
	_ = group.Wait() // answers nil
	for i := range s.Seeds {
		s.Reached = s.Reached || s.Seeds[i].Err == nil
		for _, b := range advertised[i] {
			if !slices.ContainsFunc(s.Brokers, func(c Contact) bool { return c.Node == b.NodeID }) {
				s.Brokers = append(s.Brokers, Contact{Address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), Node: b.NodeID})
			}
		}
	}
	slices.SortFunc(s.Brokers, func(a, b Contact) int { return int(a.Node - b.Node) })
	for i := range s.Brokers {
		group.Go(func() error {
			req := kmsg.NewPtrApiVersionsRequest()
			req.ClientSoftwareName, req.ClientSoftwareVersion = "eosbridge", "check"
			c := &s.Brokers[i]
			c.Answer, c.Err = ask(ctx, s, c.Address, req)
			if c.Err == nil {
				c.Err = kerr.ErrorForCode(c.Answer.ErrorCode)
			}
			return nil
		})
	}
	_ = group.Wait() // answers nil
	return nil
}

// ask sends one request to one address, by a client of its own: another would know more addresses, and try them.
func ask[Q interface {
	RequestWith(context.Context, kmsg.Requestor) (A, error)
}, A any](ctx context.Context, s *Snapshot, address string, req Q,
) (answer A, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout/3)
	defer cancel()
	options := append(s.Client[:len(s.Client):len(s.Client)], kgo.SeedBrokers(address), kgo.RequestRetries(0), kgo.RequestTimeoutOverhead(s.Timeout/3))
	cl, err := kgo.NewClient(options...)
	if err != nil {
		return answer, err
	}
	defer cl.Close()
	return req.RequestWith(ctx, cl)
}

// gathering asks a cluster that was reached.
type gathering struct {
	s   *Snapshot
	cl  *kgo.Client
	adm *kadm.Client
}

func newGathering(s *Snapshot, cl *kgo.Client) *gathering {
	return &gathering{s: s, cl: cl, adm: kadm.NewClient(cl)}
}

// all asks everything, in an order in which later answers explain earlier ones: a transaction is listed before the
// members of the group, for an owner that comes in between is then no stranger.
func (g *gathering) all(ctx context.Context) {
	g.topics(ctx)
	g.settings(ctx)
	g.logs(ctx)
	g.access(ctx)
	g.transactions(ctx)
	g.group(ctx)
	g.lookAgain(ctx)
	g.positions(ctx)
	g.hanging(ctx)
}

// topics looks up the inputs, the outputs and Kafka's own two.
func (g *gathering) topics(ctx context.Context) {
	plan := g.s.Plan
	if plan.Pattern != nil {
		all, err := g.metadata(ctx, nil)
		if err != nil {
			g.s.Unlisted = err
			return
		}
		g.s.Inputs, g.s.Left = plan.Select(keys(all))
		for _, name := range g.s.Inputs {
			g.s.Topics[name] = all[name]
		}
	} else {
		g.s.Inputs, _ = plan.Select(nil)
	}
	g.s.Outputs = plan.Written(g.s.Inputs)
	if plan.Letters != "" {
		g.s.Outputs = append(g.s.Outputs, plan.Letters)
	}
	var names []string
	for _, name := range slices.Concat(g.s.Inputs, g.s.Outputs, internal()) {
		if _, known := g.s.Topics[name]; !known {
			names = append(names, name)
		}
	}
	found, err := g.metadata(ctx, names)
	again(ctx, func() bool {
		return err == nil && slices.ContainsFunc(g.s.all(), func(name string) bool { return retriable(found[name].Err) })
	}, func() { found, err = g.metadata(ctx, names) })
	for _, name := range names {
		if t, answered := found[name]; answered {
			g.s.Topics[name] = t
		} else {
			g.s.Topics[name] = Topic{Err: unanswered(err)}
		}
	}
}

// How often, and how long apart, is looked again at what a broker does not know yet: a topic that was just made.
const (
	moreLooks = 6
	moreWait  = 300 * time.Millisecond
)

// again repeats a look while it is of no use.
func again(ctx context.Context, useless func() bool, look func()) {
	tick := time.NewTicker(moreWait)
	defer tick.Stop()
	for i := 0; i < moreLooks && useless(); i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			look()
		}
	}
}

// retriable holds for an answer that may soon be another.
func retriable(err error) bool { return err != nil && kerr.IsRetriable(err) }

// unanswered is the error of a topic that an answer leaves out.
func unanswered(err error) error {
	if err == nil {
		return errors.New("the broker did not answer for it")
	}
	return err
}

// metadata looks up topics with what we may do to them (KIP-430, which needs no permission of its own); nil for all.
// kadm's would fail as a whole where one topic is hidden.
func (g *gathering) metadata(ctx context.Context, names []string) (map[string]Topic, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, g.cl)
	if err != nil {
		return nil, err
	}
	found := map[string]Topic{}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		topic := Topic{Err: kerr.ErrorForCode(t.ErrorCode), Operations: kadm.DecodeACLOperations(t.AuthorizedOperations)}
		slices.SortFunc(t.Partitions, func(a, b kmsg.MetadataResponseTopicPartition) int { return int(a.Partition - b.Partition) })
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, Partition{
				Leader: p.Leader, Replicas: len(p.Replicas), InSync: len(p.ISR), Start: -1, Stable: -1, End: -1,
			})
		}
		found[*t.Topic] = topic
	}
	return found, nil
}

// settings reads the configuration of the topics that are there, and of one broker.
func (g *gathering) settings(ctx context.Context) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range g.s.there(append(g.s.all(), internal()...)) {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		if !slices.ContainsFunc(req.Resources, func(has kmsg.DescribeConfigsRequestResource) bool { return has.ResourceName == name }) {
			req.Resources = append(req.Resources, r)
		}
	}
	if len(req.Resources) > 0 {
		found, err := g.describe(ctx, req)
		again(ctx, func() bool {
			return slices.ContainsFunc(slices.Collect(maps.Values(found)), func(s Settings) bool { return retriable(s.Err) })
		}, func() { found, err = g.describe(ctx, req) })
		for _, r := range req.Resources {
			t := g.s.Topics[r.ResourceName]
			t.Settings = found[r.ResourceName]
			if _, answered := found[r.ResourceName]; !answered {
				t.Settings.Err = unanswered(err)
			}
			g.s.Topics[r.ResourceName] = t
		}
	}
	node, ok := g.anyBroker()
	if !ok {
		g.s.Broker.Err = errors.New("no broker could be asked")
		return
	}
	name := strconv.Itoa(int(node))
	req = kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, name
	req.Resources = append(req.Resources, r)
	found, err := g.describe(ctx, req)
	if settings, answered := found[name]; answered {
		g.s.Broker = settings
	} else {
		g.s.Broker.Err = unanswered(err)
	}
}

// anyBroker is one that answered.
func (g *gathering) anyBroker() (int32, bool) {
	for _, c := range g.s.Brokers {
		if c.Err == nil {
			return c.Node, true
		}
	}
	return 0, false
}

// describe reads configurations. What one broker or topic refuses does not hide the others.
func (g *gathering) describe(ctx context.Context, req *kmsg.DescribeConfigsRequest) (map[string]Settings, error) {
	found := map[string]Settings{}
	var failed error
	for _, shard := range g.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			failed = shard.Err
			continue
		}
		resp, ok := shard.Resp.(*kmsg.DescribeConfigsResponse)
		if !ok {
			failed = fmt.Errorf("unexpected answer %T", shard.Resp)
			continue
		}
		for _, r := range resp.Resources {
			settings := Settings{Values: map[string]string{}, Err: kerr.ErrorForCode(r.ErrorCode)}
			for _, c := range r.Configs {
				if c.Value != nil {
					settings.Values[c.Name] = *c.Value
				}
			}
			found[r.ResourceName] = settings
		}
	}
	return found, failed
}

// logs reads where the logs of inputs and outputs begin and end. What fails stays -1.
func (g *gathering) logs(ctx context.Context) {
	names := g.s.there(g.s.all())
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, look := range []struct {
		list func(context.Context, ...string) (kadm.ListedOffsets, error)
		into func(*Partition) *int64
	}{
		{g.adm.ListStartOffsets, func(p *Partition) *int64 { return &p.Start }},
		{g.adm.ListCommittedOffsets, func(p *Partition) *int64 { return &p.Stable }},
		{g.adm.ListEndOffsets, func(p *Partition) *int64 { return &p.End }},
	} {
		listed, _ := look.list(ctx, names...) // rules say what they could not look at
		listed.Each(func(o kadm.ListedOffset) {
			t := g.s.Topics[o.Topic]
			if o.Err == nil && int(o.Partition) < len(t.Partitions) && o.Partition >= 0 {
				*look.into(&t.Partitions[o.Partition]) = o.Offset
			}
		})
	}
}

// positions reads what the group has committed, whatever open transactions may do to it.
func (g *gathering) positions(ctx context.Context) {
	group := &g.s.Group
	group.Positions = map[offsets.TopicPartition]int64{}
	if group.Absent {
		return
	}
	fetched, err := g.adm.FetchOffsets(ctx, g.s.Options.Group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return
	}
	group.PositionsErr = err
	fetched.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.At >= 0 {
			group.Positions[offsets.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = o.At
		}
	})
}
