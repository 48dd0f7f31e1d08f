package audit

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/offsets"
)

// leaders knows where the partitions lead. The zero value is ready.
type leaders struct {
	mu    sync.Mutex
	known map[offsets.TopicPartition]int32
}

// of answers the leader of a partition, and asks the cluster if it is not known.
func (l *leaders) of(ctx context.Context, client *kgo.Client, tp offsets.TopicPartition) (int32, error) {
	l.mu.Lock()
	leader, ok := l.known[tp]
	l.mu.Unlock()
	if ok {
		return leader, nil
	}
	topics, err := kadm.NewClient(client).ListTopics(ctx, tp.Topic)
	if err != nil {
		return 0, fmt.Errorf("look up the leader of %s: %w", tp, err)
	}
	d := topics[tp.Topic]
	if d.Err != nil {
		return 0, d.Err
	}
	p, ok := d.Partitions[tp.Partition]
	switch {
	case !ok:
		return 0, kerr.UnknownTopicOrPartition
	case p.Err != nil:
		return 0, p.Err
	case p.Leader < 0:
		return 0, kerr.LeaderNotAvailable
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[offsets.TopicPartition]int32{}
	}
	l.known[tp] = p.Leader
	return p.Leader, nil
}

// forget asks anew next time.
func (l *leaders) forget(tp offsets.TopicPartition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, tp)
}
