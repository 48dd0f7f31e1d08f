package oracle

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Following says whose transactions are followed.
type Following struct {
	Brokers []string
	Outputs []string // topics
	// Group, if set, is the one whose positions are committed together with the
	// output. Its records are read where a broker keeps them; kfake keeps none.
	Group string
}

// checkEvery is how often a follower judges what has been decided meanwhile.
const checkEvery = 500 * time.Millisecond

// Follower reads everything that transactions write, markers included and
// whatever becomes of them, and keeps the account.
type Follower struct {
	*Transactions
	reader *Reader
	kept   Source // where the group's positions are

	checking sync.Mutex // one at a time
	running  sync.WaitGroup
	cancel   context.CancelFunc
}

// Follow starts a follower; Close it. Output is followed from its start,
// positions from now on: start it before the bridge.
func Follow(ctx context.Context, what Following, checker *Checker) (*Follower, error) {
	opts := []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadUncommitted())}
	var kept Source
	var from int64
	if what.Group != "" {
		var err error
		if kept, from, err = keptAt(ctx, what.Brokers, what.Group); err != nil {
			return nil, err
		}
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			kept.Topic: {kept.Partition: kgo.NewOffset().At(from)},
		}))
	}
	reader, err := newReader(what.Brokers, what.Outputs, opts...)
	if err != nil {
		return nil, err
	}
	f := &Follower{Transactions: NewTransactions(checker, what.Group), reader: reader, kept: kept}
	reader.each = f.Observe
	if what.Group != "" {
		reader.positions[kept] = from
	}
	reader.start(ctx)
	ctx, f.cancel = context.WithCancel(ctx)
	f.running.Go(func() { f.run(ctx) }) // ended by Close, which waits for it
	return f, nil
}

// keptAt is the partition that holds a group's positions, and its end.
func keptAt(ctx context.Context, brokers []string, group string) (Source, int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return Source{}, 0, fmt.Errorf("follower: %w", err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, positionsTopic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return Source{}, 0, fmt.Errorf("follower: end of %s: %w", positionsTopic, err)
	}
	kept := Source{Topic: positionsTopic, Partition: partitionOfGroup(group, len(ends[positionsTopic]))}
	end, ok := ends.Lookup(kept.Topic, kept.Partition)
	if !ok {
		return Source{}, 0, fmt.Errorf("follower: there is no %s", kept)
	}
	return kept, end.Offset, nil
}

// partitionOfGroup is the partitionFor of Kafka's group coordinator: the absolute
// value (org.apache.kafka.common.utils.Utils.abs) of Java's hash of the group's
// name, over the partitions.
func partitionOfGroup(group string, partitions int) int32 {
	var hash int32
	for _, unit := range utf16.Encode([]rune(group)) {
		hash = 31*hash + int32(unit)
	}
	if hash == math.MinInt32 {
		hash = 0
	}
	return max(hash, -hash) % int32(max(partitions, 1))
}

// Close stops following.
func (f *Follower) Close() {
	f.cancel()
	f.running.Wait()
	f.reader.Close()
}

func (f *Follower) run(ctx context.Context) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = f.Check(ctx) // what has no answer now is looked at again
		}
	}
}

// Check judges everything that is decided by now. The error says that the broker
// gave no answer.
func (f *Follower) Check(ctx context.Context) error {
	f.checking.Lock()
	defer f.checking.Unlock()
	m := f.mark()
	if err := f.catchUp(ctx); err != nil {
		return err
	}
	f.judge(m)
	return nil
}

// Rest is the check of a bridge that has come to rest ([Quiescent]): no
// transaction may be open in any partition.
func (f *Follower) Rest(ctx context.Context) error {
	if err := f.Check(ctx); err != nil {
		return err
	}
	// What the first one has observed is judged now.
	if err := f.Check(ctx); err != nil {
		return err
	}
	f.rest()
	return nil
}

// catchUp waits until everything that is in the partitions now was observed.
func (f *Follower) catchUp(ctx context.Context) error {
	topics := f.reader.topics
	if f.group != "" {
		topics = append(slices.Clone(topics), positionsTopic)
	}
	ends, err := f.reader.adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return fmt.Errorf("follower: end offsets: %w", err)
	}
	maps.DeleteFunc(ends[positionsTopic], func(p int32, _ kadm.ListedOffset) bool { return p != f.kept.Partition })
	return f.reader.Reach(ctx, ends)
}
