package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// seek looks for the leaders of outputs that have none, until each has one. The question is the sender's own:
// Client.PartitionLeader knows only topics that the client itself produces to, and kadm answers from a cache. By asking
// through the client the brokers' addresses become known to it.
func (s *sender) seek() {
	for {
		topics, pause := s.sought()
		if topics == nil {
			return
		}
		if pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-s.alive.Done():
				timer.Stop()
			case <-timer.C:
			}
		}
		found, err := s.describe(s.alive, topics)
		s.report(s.found(found, err))
	}
}

// sought lists the topics of the lost outputs, and how long to wait before the question: nothing unless something has
// failed. nil ends the search.
func (s *sender) sought() ([]string, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) == 0 {
		s.seeking = false
		return nil, 0
	}
	topics, tries := map[string]bool{}, 0
	for _, o := range s.lost {
		topics[o.topic] = true
		tries = max(tries, o.tries)
	}
	pause := time.Duration(0)
	if tries > 0 {
		pause = min(retryPause<<min(tries-1, 10), longestPause)
	}
	return slices.Sorted(maps.Keys(topics)), pause
}

// described is what the cluster says about a topic.
type described struct {
	id      [16]byte
	err     error
	leaders map[int32]int32 // by partition; those that have one
}

func (s *sender) describe(ctx context.Context, topics []string) (map[string]described, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return nil, fmt.Errorf("look for leaders: %w", err)
	}
	all := make(map[string]described, len(resp.Topics))
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		d := described{id: t.TopicID, err: kerr.ErrorForCode(t.ErrorCode), leaders: map[int32]int32{}}
		for _, p := range t.Partitions {
			if p.Leader >= 0 {
				d.leaders[p.Partition] = p.Leader
			}
		}
		all[*t.Topic] = d
	}
	return all, nil
}

// found sends what has a leader on its way, keeps the rest lost, and answers what has failed.
func (s *sender) found(topics map[string]described, failed error) []*consignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.lost
	s.lost = nil
	for _, o := range lost {
		d, ok := topics[o.topic]
		leader, led := d.leaders[o.partition]
		err := failed
		switch {
		case err != nil:
		case d.err != nil:
			err = d.err
		case !ok || !led:
			err = kerr.LeaderNotAvailable
		case o.topicID != [16]byte{} && o.topicID != d.id:
			// Half of the transaction would be in the old one.
			err = errRecreated
		}
		switch {
		case err == nil:
			o.leader, o.topicID = leader, d.id
			s.next(o)
		case sendAgain(err) && !errors.Is(err, errRecreated):
			o.tries++
			s.reason = fmt.Errorf("topic %s partition %d: %w", o.topic, o.partition, err)
			s.lost = append(s.lost, o) // seek goes on
		default:
			return s.fail(fmt.Errorf("topic %s partition %d: %w", o.topic, o.partition, err))
		}
	}
	return nil
}

var errRecreated = errors.New("the topic was deleted and made anew")
