package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// look asks the leaders which producers have a transaction open in the partitions (DescribeProducers, KIP-664). It
// sends the request itself: kadm gives up a whole broker's answer because of one topic that is denied.
func (i *inspector) look(ctx context.Context, places []place) {
	for at, open := range i.producers(ctx, places) {
		i.open[at] = open
	}
}

func (i *inspector) producers(ctx context.Context, places []place) map[place][]openProducer {
	open := make(map[place][]openProducer, len(places))
	if len(places) == 0 {
		return open
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, at := range places {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != at.topic {
			t := kmsg.NewDescribeProducersRequestTopic()
			t.Topic = at.topic
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, at.partition)
	}
	for _, shard := range i.cl.RequestSharded(ctx, req) {
		resp, ok := shard.Resp.(*kmsg.DescribeProducersResponse)
		if shard.Err != nil || !ok {
			i.unseen(fmt.Sprintf("partitions led by broker %d", shard.Meta.NodeID), shard.Err, "Read", "topic", "*")
			continue
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					i.unseen("open transactions in topic "+t.Topic, err, "Read", "topic", t.Topic)
					continue
				}
				at := place{t.Topic, p.Partition}
				open[at] = openOf(at, p.ActiveProducers)
			}
		}
	}
	return open
}

// openOf keeps the producers that have a transaction open; the others have only been seen.
func openOf(at place, active []kmsg.DescribeProducersResponseTopicPartitionActiveProducer) []openProducer {
	open := []openProducer{}
	for _, a := range active {
		if a.CurrentTxnStartOffset >= 0 {
			open = append(open, openProducer{
				place: at, id: a.ProducerID, epoch: int16(a.ProducerEpoch), //nolint:gosec // an int16 in the log
				coordinatorEpoch: a.CoordinatorEpoch, first: a.CurrentTxnStartOffset, last: a.LastTimestamp,
			})
		}
	}
	return open
}

// lookAtDescribed looks at the partitions of described transactions that are in none of the topics.
func (i *inspector) lookAtDescribed(ctx context.Context) {
	var places []place
	for _, d := range i.described {
		if !isOpen(d.State) {
			continue
		}
		for _, t := range d.Topics.Sorted() {
			for _, partition := range t.Partitions {
				if _, ok := i.open[place{t.Topic, partition}]; !ok {
					places = append(places, place{t.Topic, partition})
				}
			}
		}
	}
	// Producers of other ids that show up there are left out: their ids were not described.
	for at, open := range i.producers(ctx, places) {
		i.open[at] = slices.DeleteFunc(open, func(p openProducer) bool {
			_, ok := i.described[i.byID[p.id]]
			return !ok
		})
	}
}

// listed reports whether the coordinator of the producer's transactional id knows that the partition is in its open
// transaction, and so ends it there.
func (i *inspector) listed(p openProducer) bool {
	d, ok := i.described[i.byID[p.id]]
	if !ok || d.ProducerID != p.id || !isOpen(d.State) {
		return false
	}
	_, ok = d.Topics[p.topic][p.partition]
	return ok
}

// strays judges the transactions that are open in a partition and that no coordinator lists.
func (i *inspector) strays(ctx context.Context) []Transaction {
	var found []openProducer
	var places []place
	for at, open := range i.open {
		for _, p := range open {
			if !i.listed(p) {
				found = append(found, p)
				places = append(places, at)
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmpPlace(a, b) })
	again := i.producers(ctx, slices.Compact(places))
	var all []Transaction
	for _, p := range found {
		still := slices.ContainsFunc(again[p.place], func(q openProducer) bool {
			return q.id == p.id && q.epoch == p.epoch && q.first == p.first
		})
		name := i.byID[p.id]
		d := i.described[name]
		quiet := time.Since(time.UnixMilli(p.last))
		j := stray{name: name, state: d.State, complete: i.complete, quiet: quiet, limit: i.longest, still: still}.judge()
		if j.kind == KindEnding {
			continue
		}
		t := Transaction{
			Name: fmt.Sprintf("%s/%d@%d", p.topic, p.partition, p.first), ID: name, Kind: j.kind, State: "open in the partition",
			Coordinator: -1, ProducerID: p.id, ProducerEpoch: p.epoch, Started: p.last, Age: max(0, quiet).Seconds(),
			Partitions: []HeldPartition{{Topic: p.topic, Partition: p.partition, First: p.first, coordinatorEpoch: p.coordinatorEpoch}},
			Safe:       j.safe, Because: j.because,
		}
		if name != "" && d.TxnID != "" {
			t.Coordinator = d.Coordinator
		}
		all = append(all, t)
	}
	return all
}

func cmpPlace(a, b place) int {
	if a.topic != b.topic {
		if a.topic < b.topic {
			return -1
		}
		return 1
	}
	return int(a.partition) - int(b.partition)
}

// held lists the topics in which something is open.
func (i *inspector) held() []string {
	topics := map[string]bool{}
	for at, open := range i.open {
		if len(open) > 0 {
			topics[at.topic] = true
		}
	}
	for _, d := range i.described {
		if isOpen(d.State) {
			for topic := range d.Topics {
				topics[topic] = true
			}
		}
	}
	return slices.Collect(maps.Keys(topics))
}

// measure learns the last stable offset and the high watermark of every partition of the topics.
func (i *inspector) measure(ctx context.Context, topics []string) {
	i.ends = map[place]HeldPartition{}
	if len(topics) == 0 {
		return // kadm reads an empty list as every topic of the cluster
	}
	// The stable offsets first: read after, an end could lie before them.
	stable, err := i.adm.ListCommittedOffsets(ctx, topics...)
	i.offsets(stable, err, func(h *HeldPartition, offset int64) { h.Stable = offset })
	ends, err := i.adm.ListEndOffsets(ctx, topics...)
	i.offsets(ends, err, func(h *HeldPartition, offset int64) { h.End = offset })
}

func (i *inspector) offsets(listed kadm.ListedOffsets, err error, set func(*HeldPartition, int64)) {
	if err != nil {
		i.unseen("offsets", err, "Describe", "topic", "*")
	}
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			if !errors.Is(o.Err, err) {
				i.unseen("offsets of topic "+o.Topic, o.Err, "Describe", "topic", o.Topic)
			}
			return
		}
		h := i.heldAt(place{o.Topic, o.Partition})
		set(&h, o.Offset)
		i.ends[place{o.Topic, o.Partition}] = h
	})
}

// heldAt is what is known of a partition's offsets.
func (i *inspector) heldAt(at place) HeldPartition {
	if h, ok := i.ends[at]; ok {
		return h
	}
	return HeldPartition{Topic: at.topic, Partition: at.partition, First: -1, Stable: -1, End: -1, coordinatorEpoch: -1}
}

// from adds the producer's first offset.
func (h HeldPartition) from(p openProducer) HeldPartition {
	h.First, h.coordinatorEpoch = p.first, p.coordinatorEpoch
	if h.End >= 0 {
		h.Held = max(0, h.End-h.First)
	}
	return h
}

// hold fills in the offsets of a transaction that no coordinator lists.
func (i *inspector) hold(t Transaction) Transaction {
	for n, p := range t.Partitions {
		at := openProducer{place: place{p.Topic, p.Partition}, first: p.First, coordinatorEpoch: p.coordinatorEpoch}
		t.Partitions[n] = i.heldAt(at.place).from(at)
		t.Held += t.Partitions[n].Held
	}
	return t
}
