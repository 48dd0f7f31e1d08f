package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/config"
)

const (
	demoInstance    = "demo"
	demoReadyTime   = 20 * time.Second // new topics need leaders
	demoSettleTime  = 10 * time.Second // markers of the last transaction
	demoCleanUpTime = 10 * time.Second
	demoPollPeriod  = 50 * time.Millisecond
)

// demoNames are what the demo creates on a cluster; no two runs share any.
type demoNames struct{ input, output, group string }

func newDemoNames() demoNames {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	prefix := "eosbridge-demo-" + hex.EncodeToString(random)
	return demoNames{input: prefix + "-in", output: prefix + "-out", group: prefix}
}

// demoCluster is the cluster the demo runs on, as the demo itself uses it: to
// create and delete, to feed and to look. The bridge has its own connections.
type demoCluster struct {
	names   demoNames
	address string
	options []kgo.Opt // to reach the cluster
	client  *kgo.Client
	admin   *kadm.Client
}

// openDemoCluster reaches for the cluster as the bridge will, by the bridge's
// own environment. Kafka is not asked yet.
func openDemoCluster(environ map[string]string, names demoNames) (*demoCluster, error) {
	cfg, err := config.Load(environ, demoInstance, checkTLS)
	if err != nil {
		return nil, err
	}
	options, err := kafkaOptions(cfg, slog.New(slog.DiscardHandler)) // the bridge's log tells the same
	if err != nil {
		return nil, err
	}
	options = append(options, kgo.ClientID("eosbridge-demo"))
	client, err := kgo.NewClient(append(slices.Clone(options),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.RecordDeliveryTimeout(demoStallTime),
	)...)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	address := strings.Join(cfg.Kafka.BootstrapServers, ",")
	return &demoCluster{names: names, address: address, options: options, client: client, admin: kadm.NewClient(client)}, nil
}

func (c *demoCluster) close() { c.client.Close() }

// create makes both topics with the cluster's default replication factor and
// returns when every partition has a leader. After an error nothing is left.
func (c *demoCluster) create(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoReadyTime, fmt.Errorf("no answer within %v", demoReadyTime))
	defer cancel()
	created, err := c.admin.CreateTopics(ctx, demoPartitions, -1, nil, c.names.input, c.names.output)
	if err != nil {
		return fmt.Errorf("create the demo's topics on %s: %w", c.address, demoCause(ctx, err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.removeTopics(context.WithoutCancel(ctx)))
		}
	}()
	if err := created.Error(); err != nil {
		return fmt.Errorf("create the demo's topics on %s: %w", c.address, err)
	}
	return demoPoll(ctx, func() error {
		ends, err := c.admin.ListEndOffsets(ctx, c.names.input, c.names.output)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return fmt.Errorf("wait for leaders of the demo's topics: %w", err)
		}
		return nil
	})
}

// removeTopics deletes both topics, as far as they exist.
func (c *demoCluster) removeTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoCleanUpTime)
	defer cancel()
	deleted, err := c.admin.DeleteTopics(ctx, c.names.input, c.names.output)
	if err != nil {
		return fmt.Errorf("delete topics %s and %s: %w", c.names.input, c.names.output, err)
	}
	var failed []error
	for _, topic := range deleted.Sorted() {
		if topic.Err != nil && !errors.Is(topic.Err, kerr.UnknownTopicOrPartition) {
			failed = append(failed, fmt.Errorf("delete topic %s: %w", topic.Topic, topic.Err))
		}
	}
	return errors.Join(failed...)
}

// remove deletes the topics and the group. It goes on after an error: what can
// be removed is removed. The transactional ids go by themselves, after the
// cluster's transactional.id.expiration.ms (7 days by default).
func (c *demoCluster) remove(ctx context.Context) error {
	failed := c.removeTopics(ctx)
	ctx, cancel := context.WithTimeout(ctx, demoCleanUpTime)
	defer cancel()
	// A bridge that was killed is still a member of the group, which only an
	// empty group's deletion allows. No such member is no error worth a word.
	_, _ = c.admin.LeaveGroup(ctx, kadm.LeaveGroup(c.names.group).Reason("end of the demo").InstanceIDs(demoInstance))
	_, err := c.admin.DeleteGroup(ctx, c.names.group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		failed = errors.Join(failed, fmt.Errorf("delete group %s: %w", c.names.group, err))
	}
	return failed
}

// drained returns when the group has committed everything the input holds. The
// input must not grow any more.
func (c *demoCluster) drained(ctx context.Context) error {
	return demoPoll(ctx, func() error {
		ends, err := c.admin.ListEndOffsets(ctx, c.names.input)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return fmt.Errorf("read the end of %s: %w", c.names.input, err)
		}
		committed, err := c.admin.FetchOffsets(ctx, c.names.group)
		if err != nil {
			return fmt.Errorf("read the positions of group %s: %w", c.names.group, err)
		}
		for _, end := range ends[c.names.input] {
			at, found := committed.Lookup(c.names.input, end.Partition)
			if at.Err != nil {
				return fmt.Errorf("read the positions of group %s: %w", c.names.group, at.Err)
			}
			if end.Offset > 0 && (!found || at.At < end.Offset) {
				return fmt.Errorf("partition %d of %s is committed up to %d of %d", end.Partition, c.names.input, at.At, end.Offset)
			}
		}
		return nil
	})
}

// demoEnd is how the output was left.
type demoEnd struct {
	lastStable []int64 // for each output partition
	open       int     // transactions under the bridge's ids that have not ended
	held       int     // partitions with records behind the last stable offset
}

// settle looks at the output after the bridge has stopped. An acknowledged
// commit may still be on its way to the partitions, so it looks again for a
// while until nothing is open.
func (c *demoCluster) settle(ctx context.Context) (demoEnd, error) {
	var end demoEnd
	short, cancel := context.WithTimeout(ctx, demoSettleTime)
	defer cancel()
	errOpen := errors.New("transactions are open")
	err := demoPoll(short, func() error {
		var err error
		if end, err = c.look(short); err != nil {
			return err
		}
		if end.open > 0 || end.held > 0 {
			return errOpen
		}
		return nil
	})
	if err != nil && !errors.Is(err, errOpen) {
		return end, fmt.Errorf("look at the output after the bridge has stopped: %w", err)
	}
	return end, nil
}

func (c *demoCluster) look(ctx context.Context) (demoEnd, error) {
	end := demoEnd{lastStable: make([]int64, demoPartitions)}
	stable, err := c.admin.ListCommittedOffsets(ctx, c.names.output)
	if err == nil {
		err = stable.Error()
	}
	if err != nil {
		return end, err
	}
	high, err := c.admin.ListEndOffsets(ctx, c.names.output)
	if err == nil {
		err = high.Error()
	}
	if err != nil {
		return end, err
	}
	for p := range int32(demoPartitions) {
		last, _ := stable.Lookup(c.names.output, p)
		top, _ := high.Lookup(c.names.output, p)
		end.lastStable[p] = last.Offset
		if last.Offset < top.Offset {
			end.held++
		}
	}
	listed, err := c.admin.ListTransactions(ctx, nil, nil)
	if err != nil {
		return end, err
	}
	for _, txn := range listed {
		ours := strings.HasPrefix(txn.TxnID, c.names.group+"."+demoInstance+".")
		if ours && (txn.State == "Ongoing" || strings.HasPrefix(txn.State, "Prepare")) {
			end.open++
		}
	}
	return end, nil
}

// openReader starts a consumer that is shown what every read_committed consumer
// is shown, from the first record on, and the transaction markers besides.
func (c *demoCluster) openReader() (*kgo.Client, error) {
	reader, err := kgo.NewClient(append(slices.Clone(c.options),
		kgo.ConsumeTopics(c.names.output),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100*time.Millisecond),
	)...)
	if err != nil {
		return nil, fmt.Errorf("open the reader: %w", err)
	}
	return reader, nil
}

// addTo puts one record or marker into the tally.
func addTo(t *tally, r *kgo.Record) error {
	if !r.Attrs.IsControl() {
		t.record(r.Partition, r.Offset, r.Key, r.Value)
		return nil
	}
	var key kmsg.ControlRecordKey
	if err := key.ReadFrom(r.Key); err != nil {
		return fmt.Errorf("read the marker at offset %d of partition %d: %w", r.Offset, r.Partition, err)
	}
	t.marker(r.Partition, r.Offset, r.ProducerID, r.ProducerEpoch, key.Type == kmsg.ControlRecordKeyTypeCommit)
	return nil
}

// demoPoll calls look until it returns nil or ctx ends; then it returns look's last error.
func demoPoll(ctx context.Context, look func() error) error {
	ticker := time.NewTicker(demoPollPeriod)
	defer ticker.Stop()
	var last error
	for {
		err := look()
		if err == nil {
			return nil
		}
		// What a look says after the deadline is only that it was cut short.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-ticker.C:
		}
	}
}

// demoCause puts the reason of ctx's end in the place of "deadline exceeded".
func demoCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
