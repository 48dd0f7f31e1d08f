package check

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
	"github.com/eosbridge/eosbridge/txn"
)

// nobody is a member and an instance that no group and no pipeline has.
const nobody = "eosbridge-check"

// coordinators reports whether Kafka's topic for groups or transactions exists, as far as we may see: looking for a
// coordinator makes it.
func (g *gathering) coordinators(topic string) bool {
	return !errors.Is(g.s.Topics[topic].Err, kerr.UnknownTopicOrPartition)
}

// access tries what cannot be read, with requests that are refused in any case; see the package's comment.
func (g *gathering) access(ctx context.Context) {
	if !g.coordinators(offsetsTopic) || g.s.Transactional && !g.coordinators(stateTopic) {
		g.s.Access.Skipped = true
		return
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID, beat.Generation = g.s.Options.Group, nobody, -1
	resp, err := beat.RequestWith(ctx, g.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	g.s.Access.GroupRead = err
	if !g.s.Transactional {
		return
	}
	g.s.Access.OwnID = g.tryID(ctx, g.s.Instance)
	g.s.Access.PrefixID = g.tryID(ctx, nobody)
}

func (g *gathering) tryID(ctx context.Context, instance string) error {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID = txn.ID{Prefix: g.s.Prefix, Instance: instance, Slot: 0}.String()
	req.ProducerID, req.ProducerEpoch, req.Group = -1, -1, g.s.Options.Group
	resp, err := req.RequestWith(ctx, g.cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// group describes the group in whichever protocol it is.
func (g *gathering) group(ctx context.Context) {
	name, into := g.s.Options.Group, &g.s.Group
	if !g.coordinators(offsetsTopic) {
		into.Absent = true
		return
	}
	classic, err := g.adm.DescribeGroups(ctx, name)
	described := classic[name]
	if err == nil {
		err = described.Err
	}
	unknown := errors.Is(err, kerr.GroupIDNotFound)
	if err != nil && !unknown {
		into.Err = err
		return
	}
	if !unknown && described.State != "Dead" {
		into.ProtocolType, into.Assignor = described.ProtocolType, described.Protocol
		for _, m := range described.Members {
			member := Member{ID: m.MemberID, Client: m.ClientID, Host: m.ClientHost}
			if m.InstanceID != nil {
				member.Instance = *m.InstanceID
			}
			if join, ok := m.Join.AsConsumer(); ok {
				member.Topics = join.Topics
			}
			into.Members = append(into.Members, member)
		}
		if len(into.Members) > 0 {
			return // a group is of one protocol
		}
	}
	consumer, err := g.adm.DescribeConsumerGroups(ctx, name)
	c, answered := consumer[name]
	if err != nil || !answered || c.Err != nil {
		// A broker that does not know the request, or the group, or has it as a classic one.
		into.Absent = unknown || described.State == "Dead"
		return
	}
	into.Consumer, into.Assignor, into.ProtocolType = true, c.AssignorName, "consumer"
	for _, m := range c.Members {
		member := Member{ID: m.MemberID, Client: m.ClientID, Host: m.ClientHost, Topics: m.SubscribedTopics}
		if m.InstanceID != nil {
			member.Instance = *m.InstanceID
		}
		into.Members = append(into.Members, member)
	}
}

// The states in which a transaction has begun and not ended (TransactionState in Kafka's coordinator).
func open(state string) bool {
	return slices.Contains([]string{"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}, state)
}

// transactions lists what is open under our prefix.
func (g *gathering) transactions(ctx context.Context) {
	if !g.s.Transactional || !g.coordinators(stateTopic) {
		return
	}
	listed, err := g.adm.ListTransactions(ctx, nil, nil)
	g.s.Transactions.Err = err
	var ids []string
	for _, t := range listed.Sorted() {
		if open(t.State) && under(g.s.Prefix, t.TxnID) {
			ids = append(ids, t.TxnID)
		}
	}
	for _, d := range g.transaction(ctx, ids) {
		partitions := map[string][]int32{}
		d.Topics.Each(func(topic string, p int32) { partitions[topic] = append(partitions[topic], p) })
		t := Transaction{ID: d.TxnID, State: d.State, Timeout: time.Duration(d.TimeoutMillis) * time.Millisecond, Age: -1, Partitions: partitions}
		if d.StartTimestamp > 0 {
			t.Age = time.Since(time.UnixMilli(d.StartTimestamp))
		}
		t.start = d.StartTimestamp
		g.s.Transactions.Open = append(g.s.Transactions.Open, t)
	}
}

// under reports whether an id is the prefix, or the prefix, a dot and more: orders2 is not under orders.
func under(prefix, id string) bool {
	return id == prefix || len(id) > len(prefix) && id[:len(prefix)] == prefix && id[len(prefix)] == '.'
}

// transaction describes ids, those that are open, in order.
func (g *gathering) transaction(ctx context.Context, ids []string) []kadm.DescribedTransaction {
	if len(ids) == 0 {
		return nil // kadm reads none as all
	}
	described, err := g.adm.DescribeTransactions(ctx, ids...)
	if err != nil {
		g.s.Transactions.Err = errors.Join(g.s.Transactions.Err, err)
	}
	return slices.DeleteFunc(described.Sorted(), func(d kadm.DescribedTransaction) bool { return d.Err != nil || !open(d.State) })
}

// How often, and how long apart, a transaction without an owner is looked at again.
const (
	looks    = 3
	lookWait = 500 * time.Millisecond
)

// lookAgain tells transactions that nobody ends from those of a pipeline that is alive and not in our group: it begins a
// new one soon.
func (g *gathering) lookAgain(ctx context.Context) {
	var orphans []int
	var ids []string
	for i, t := range g.s.Transactions.Open {
		id, ours := txn.ParseID(g.s.Prefix, t.ID)
		if _, lives := g.s.Group.holder(id.Instance); ours && !lives && g.s.Group.Err == nil {
			orphans, ids = append(orphans, i), append(ids, t.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	tick := time.NewTicker(lookWait)
	defer tick.Stop()
	for range looks {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := map[string]int64{}
		for _, d := range g.transaction(ctx, ids) {
			now[d.TxnID] = d.StartTimestamp
		}
		if ctx.Err() != nil {
			return
		}
		for _, i := range orphans {
			t := &g.s.Transactions.Open[i]
			start, still := now[t.ID]
			t.Moved = t.Moved || still && start != t.start
			t.Ended = !still && !t.Moved
		}
	}
}

// hanging looks for transactions that are open on our partitions and unknown to their coordinators. What it takes for
// one was open before and after the coordinator was asked, from the same offset.
func (g *gathering) hanging(ctx context.Context) {
	set := kadm.TopicsSet{}
	for _, name := range g.s.there(g.s.all()) {
		t := g.s.Topics[name]
		if !slices.Contains(t.Operations, kmsg.ACLOperationRead) {
			continue // DescribeProducers asks for it
		}
		for i, p := range t.Partitions {
			if p.Leader >= 0 {
				set.Add(name, int32(i)) //nolint:gosec // a partition's number
			}
		}
	}
	if len(set) == 0 {
		return
	}
	before, err := g.producers(ctx, set)
	g.s.Transactions.LateErr = err
	if len(before) == 0 {
		return
	}
	unknown := g.unknown(ctx, before)
	after, err := g.producers(ctx, set)
	if err != nil {
		g.s.Transactions.LateErr = err
	}
	for _, l := range unknown {
		if slices.ContainsFunc(after, func(a Late) bool {
			return a.Partition == l.Partition && a.ProducerID == l.ProducerID && a.StartOffset == l.StartOffset
		}) {
			g.s.Transactions.Late = append(g.s.Transactions.Late, l)
		}
	}
}

// producers lists the open transactions of partitions.
func (g *gathering) producers(ctx context.Context, set kadm.TopicsSet) ([]Late, error) {
	described, err := g.adm.DescribeProducers(ctx, set)
	var found []Late
	for _, d := range described.SortedProducers() {
		if d.CurrentTxnStartOffset < 0 {
			continue
		}
		found = append(found, Late{
			Partition: offsets.TopicPartition{Topic: d.Topic, Partition: d.Partition}, StartOffset: d.CurrentTxnStartOffset,
			ProducerID: d.ProducerID, ProducerEpoch: d.ProducerEpoch, Age: time.Since(time.UnixMilli(d.LastTimestamp)),
		})
	}
	return found, err
}

// unknown keeps those that the coordinators do not tell of.
func (g *gathering) unknown(ctx context.Context, opened []Late) []Late {
	var producers []int64
	for _, l := range opened {
		producers = append(producers, l.ProducerID)
	}
	listed, err := g.adm.ListTransactions(ctx, producers, nil)
	if err != nil {
		g.s.Transactions.LateErr = err
		return nil
	}
	byProducer := map[int64]string{}
	for _, t := range listed.Sorted() {
		byProducer[t.ProducerID] = t.TxnID
	}
	most, known := g.s.Broker.duration("transaction.max.timeout.ms")
	if !known {
		most = 15 * time.Minute // Kafka's default
	}
	var left []Late
	for _, l := range opened {
		id, visible := byProducer[l.ProducerID]
		if !visible {
			// A record keeps the time it came with, so this may be a transaction of a moment ago. It is not said for sure.
			if l.Age > most+5*time.Minute {
				left = append(left, l)
			}
			continue
		}
		described, err := g.adm.DescribeTransactions(ctx, id)
		d, answered := described[id]
		if err != nil || !answered || d.Err != nil {
			continue
		}
		if !open(d.State) || !d.Topics.Lookup(l.Partition.Topic, l.Partition.Partition) {
			l.Proven = true
			left = append(left, l)
		}
	}
	return left
}
