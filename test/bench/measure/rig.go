// Package measure runs programs on a real broker and measures them: copies of loaded topics, a steady load, idling,
// starts and kills. Every output is read back and checked record by record.
package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/bench/variant"
	"github.com/eosbridge/eosbridge/test/kafka"
)

// Rig is the broker and what talks to it for the benchmark's own purposes. One run at a time.
type Rig struct {
	cluster *kafka.Cluster
	cl      *kgo.Client
	adm     *kadm.Client
	log     io.Writer
	dir     string
	// Timeout ends a run that takes longer than that beyond its measured time.
	Timeout time.Duration
	// Profiles is a folder for CPU profiles of the steady state of each copy, and of all that it has allocated; empty = none.
	Profiles string
}

// KafkaOptions make of the tests' broker one that is fit for measuring: the optimizing compiler, and the collector and
// heap that Kafka's own scripts choose.
func KafkaOptions() kafka.Options {
	return kafka.Options{
		Version: kafka.V44,
		JVM: []string{
			"-server", "-Xms1g", "-Xmx1g", "-XX:TieredStopAtLevel=4",
			"-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		},
		// Outputs are deleted after every run: disk and page cache get them back at once, before they are written
		// out. Small segments would cost the broker time.
		Properties: map[string]string{"log.segment.delete.delay.ms": "100", "message.max.bytes": "16777216"},
	}
}

// NewRig makes a rig of a cluster of one node. dir is a folder for what programs leave behind.
func NewRig(c *kafka.Cluster, dir string, log io.Writer) (*Rig, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()))
	if err != nil {
		return nil, err
	}
	return &Rig{cluster: c, cl: cl, adm: kadm.NewClient(cl), log: log, dir: dir, Timeout: 2 * time.Minute}, nil
}

// Close leaves the cluster as it is.
func (r *Rig) Close() { r.cl.Close() }

func (r *Rig) say(format string, args ...any) { fmt.Fprintf(r.log, format+"\n", args...) }

// serial counts topics, groups and folders, and goes on from one rig to the next: of a topic that is deleted and made anew
// a broker takes the old one for a moment, and acknowledges what is produced to that.
var serial atomic.Int64

// Topic makes a new topic and waits until it can be used.
func (r *Rig) Topic(ctx context.Context, stem string, partitions int) (string, error) {
	name := fmt.Sprintf("%s-%d", stem, serial.Add(1))
	if _, err := r.adm.CreateTopic(ctx, int32(partitions), 1, nil, name); err != nil { //nolint:gosec // a small number
		return "", fmt.Errorf("create topic %s: %w", name, err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := r.ends(ctx, name, partitions)
		if err == nil {
			return name, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("create topic %s: %w; last: %w", name, context.Cause(ctx), err)
		}
	}
}

// Drop deletes topics; that it failed only costs disk.
func (r *Rig) Drop(topics ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := r.adm.DeleteTopics(ctx, topics...); err != nil {
		r.say("delete %v: %v", topics, err)
	}
}

// ends are the last stable offsets of a topic: what a read_committed reader may see.
func (r *Rig) ends(ctx context.Context, topic string, partitions int) ([]int64, error) {
	return r.offsets(ctx, topic, partitions, 1)
}

// patience is how long the markers of an answered commit may take to reach all partitions.
const patience = 15 * time.Second

// stableEnds are the ends of a topic once all its transactions are decided: the markers of a commit reach the partitions
// after its answer. A transaction that nobody will end is not waited for.
func (r *Rig) stableEnds(ctx context.Context, topic string, partitions int) ([]int64, error) {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		stable, err := r.offsets(ctx, topic, partitions, 1)
		if err != nil {
			return nil, err
		}
		all, err := r.offsets(ctx, topic, partitions, 0)
		if err != nil || slices.Equal(stable, all) || time.Now().After(deadline) {
			return stable, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// offsets are the ends of a topic at an isolation level: 0 read_uncommitted, 1 read_committed.
func (r *Rig) offsets(ctx context.Context, topic string, partitions int, isolation int8) ([]int64, error) {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for p := range partitions {
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp = int32(p), -1 //nolint:gosec // a small number
		t.Partitions = append(t.Partitions, one)
	}
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID, request.IsolationLevel = -1, isolation
	request.Topics = append(request.Topics, t)
	response, err := request.RequestWith(ctx, r.cl)
	if err != nil {
		return nil, err
	}
	ends := make([]int64, partitions)
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("offsets of %s partition %d: %w", topic, p.Partition, err)
			}
			ends[p.Partition] = p.Offset
		}
	}
	return ends, nil
}

// positions are what a group has committed of a topic, once that is decided; 0 where it has nothing.
func (r *Rig) positions(ctx context.Context, group, topic string, partitions int) ([]int64, error) {
	offsets, err := r.adm.FetchOffsets(kadm.RequireStable(ctx), group)
	if err != nil {
		return nil, fmt.Errorf("positions of %s: %w", group, err)
	}
	at := make([]int64, partitions)
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic && o.Err == nil && int(o.Partition) < partitions {
			at[o.Partition] = max(0, o.At)
		}
	})
	return at, nil
}

func (r *Rig) node() int { return r.cluster.Node(0).Pid() }

// folder makes an empty folder for one run.
func (r *Rig) folder() (string, error) {
	dir := filepath.Join(r.dir, fmt.Sprintf("run-%d", serial.Add(1)))
	return dir, os.MkdirAll(dir, 0o755)
}

// child is one running program.
type child struct {
	*process
	variant variant.Variant
	face    face   // of a program that has one
	dir     string // of its run
	pprof   face   // if profiles are asked for
	history history
}

// start launches a program for a piece of work. Its environment is what the variant gives it and no more.
func (r *Rig) start(v variant.Variant, w variant.Work) (*child, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	w.HTTP = addr
	if r.Profiles != "" {
		if w.Pprof, err = freeAddr(); err != nil {
			return nil, err
		}
	}
	command, err := v.Command(w)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	c := &child{variant: v, history: history{}, face: face{addr: addr}, dir: w.Dir, pprof: face{addr: w.Pprof}}
	c.process, err = launch(command.Env, command.Path, command.Args...)
	return c, err
}

// end stops the program in order and answers the CPU time of its whole life.
func (c *child) end(ctx context.Context) (time.Duration, error) {
	return c.stop(ctx, c.variant.Stop, c.variant.AnyStatus)
}

// wait waits, and fails if the child ends meanwhile.
func (c *child) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.exited:
		return c.ended()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errTimeout ends a run that takes too long.
var errTimeout = errors.New("the run took too long")
