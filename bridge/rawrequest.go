package bridge

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

// fetchRequest is a request to one broker, and whose partitions it names.
type fetchRequest struct {
	node   int32
	broker *fetchBroker
	*kmsg.FetchRequest
	topics map[[16]byte]string
	lives  map[offsets.TopicPartition]*life
}

func (f *fetcher) newRequest(node int32, b *fetchBroker) *fetchRequest {
	r := &fetchRequest{
		node: node, broker: b, FetchRequest: kmsg.NewPtrFetchRequest(),
		topics: map[[16]byte]string{}, lives: map[offsets.TopicPartition]*life{},
	}
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes = int32(f.wait.Milliseconds()), f.minBytes, f.maxBytes.Load() //nolint:gosec // below an hour
	r.IsolationLevel, r.Rack = 1, f.rack                                                                  // read_committed
	return r
}

func (r *fetchRequest) add(l *life, leaderEpoch int32, id [16]byte, maxBytes int32) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.PartitionMaxBytes = l.tp.Partition, leaderEpoch, maxBytes
	p.FetchOffset, p.LastFetchedEpoch, p.LogStartOffset = l.next.Offset, l.next.LeaderEpoch, -1
	i := slices.IndexFunc(r.Topics, func(t kmsg.FetchRequestTopic) bool { return t.Topic == l.tp.Topic })
	if i < 0 {
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = l.tp.Topic, id
		i, r.Topics = len(r.Topics), append(r.Topics, t)
		r.topics[id] = l.tp.Topic
	}
	r.Topics[i].Partitions = append(r.Topics[i].Partitions, p)
	r.lives[l.tp] = l
	l.busy = true
}

// partitions are those of an answer that were asked for, each once.
func (r *fetchRequest) partitions(answer *kmsg.FetchResponse) map[*life]*kmsg.FetchResponseTopicPartition {
	all := make(map[*life]*kmsg.FetchResponseTopicPartition, len(r.lives))
	for i := range answer.Topics {
		t := &answer.Topics[i]
		topic := t.Topic
		if answer.Version >= 13 {
			topic = r.topics[t.TopicID]
		}
		for k := range t.Partitions {
			if l := r.lives[offsets.TopicPartition{Topic: topic, Partition: t.Partitions[k].Partition}]; l != nil {
				all[l] = &t.Partitions[k]
			}
		}
	}
	return all
}
