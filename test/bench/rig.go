package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// rig is the broker and what talks to it for the benchmark's own purposes.
type rig struct {
	options *options
	cluster *kafka.Cluster
	cl      *kgo.Client
	adm     *kadm.Client
	log     io.Writer
	serial  int // of topics and groups
}

// kafkaOptions make of the tests' broker one that is fit for measuring: the
// optimizing compiler, and the collector and heap that Kafka's own scripts choose.
func kafkaOptions() kafka.Options {
	return kafka.Options{
		Version: kafka.V44,
		JVM: []string{
			"-server", "-Xms1g", "-Xmx1g", "-XX:TieredStopAtLevel=4",
			"-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		},
		// Outputs are deleted after every run: the disk gets them back soon.
		Properties: map[string]string{"log.segment.delete.delay.ms": "1000"},
	}
}

func newRig(o *options, c *kafka.Cluster, log io.Writer) (*rig, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()))
	if err != nil {
		return nil, err
	}
	return &rig{options: o, cluster: c, cl: cl, adm: kadm.NewClient(cl), log: log}, nil
}

func (r *rig) close() { r.cl.Close() }

func (r *rig) say(format string, args ...any) { fmt.Fprintf(r.log, format+"\n", args...) }

// topic makes a new topic and waits until it can be used.
func (r *rig) topic(ctx context.Context, stem string) (string, error) {
	r.serial++
	name := fmt.Sprintf("%s-%d", stem, r.serial)
	if _, err := r.adm.CreateTopic(ctx, partitions, 1, nil, name); err != nil {
		return "", fmt.Errorf("create topic %s: %w", name, err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := r.ends(ctx, name)
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

// drop deletes topics; that it failed only costs disk.
func (r *rig) drop(topics ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := r.adm.DeleteTopics(ctx, topics...); err != nil {
		r.say("delete %v: %v", topics, err)
	}
}

// ends are the last stable offsets of a topic: what a read_committed reader may see.
func (r *rig) ends(ctx context.Context, topic string) (ends [partitions]int64, err error) {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for p := range int32(partitions) {
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp = p, -1
		t.Partitions = append(t.Partitions, one)
	}
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID, request.IsolationLevel = -1, 1
	request.Topics = append(request.Topics, t)
	response, err := request.RequestWith(ctx, r.cl)
	if err != nil {
		return ends, err
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return ends, fmt.Errorf("offsets of %s partition %d: %w", topic, p.Partition, err)
			}
			ends[p.Partition] = p.Offset
		}
	}
	return ends, nil
}

// settled says whether the group has committed the input up to the given ends.
func (r *rig) settled(ctx context.Context, group, topic string, ends [partitions]int64) (bool, error) {
	offsets, err := r.adm.FetchOffsets(ctx, group)
	if err != nil {
		return false, fmt.Errorf("positions of %s: %w", group, err)
	}
	var at [partitions]int64
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic && o.Err == nil && o.Partition < partitions {
			at[o.Partition] = o.At
		}
	})
	return reached(at, ends), nil
}

func (r *rig) node() int { return r.cluster.Node(0).Pid() }

// child is one running variant.
type child struct {
	*process
	variant string
	face    face // of the bridge
	pprof   face // if profiles are asked for
	history history
}

// start launches a variant. Its environment is what we give it and no more.
func (r *rig) start(variant, bootstrap, in, out, group string) (*child, error) {
	c := &child{variant: variant, history: history{}}
	var err error
	if r.options.profiles != "" {
		if c.pprof.addr, err = freeAddr(); err != nil {
			return nil, err
		}
	}
	if variant != variantBridge {
		o := copyOptions{
			bootstrap: bootstrap, in: in, out: out, group: group,
			compression: r.options.compression, interval: r.options.interval, pprof: c.pprof.addr,
		}
		c.process, err = launch(r.options.env[variant], r.options.self, append([]string{variant}, o.arguments()...)...)
		return c, err
	}
	if c.face.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	environ := []string{
		"KAFKA_BOOTSTRAP_SERVERS=" + bootstrap,
		"BRIDGE_INPUT_TOPICS=" + in,
		"BRIDGE_OUTPUT_TOPIC=" + out,
		"BRIDGE_GROUP_ID=" + group,
		"BRIDGE_INSTANCE_ID=bench",
		"BRIDGE_COMPRESSION=" + r.options.compression,
		"BRIDGE_EPOCH_INTERVAL=" + r.options.interval.String(),
		"BRIDGE_HTTP_ADDR=" + c.face.addr,
		"LOG_LEVEL=info", "LOG_FORMAT=text",
	}
	if c.pprof.addr != "" {
		environ = append(environ, "BRIDGE_PPROF_ADDR="+c.pprof.addr)
	}
	c.process, err = launch(append(environ, r.options.env[variant]...), r.options.bridge)
	return c, err
}

// finish stops the child and fills in what it reports of itself. wall is the time in
// which it worked, since a moment; stalled its seconds of stall in that time.
func (c *child) finish(ctx context.Context, m *measurement, since time.Time, wall time.Duration, stalled float64) (cpu time.Duration, err error) {
	if c.variant == variantBridge {
		if err := c.history.collect(ctx, c.face); err != nil {
			return 0, err
		}
		m.Epochs = c.history.summary(since)
		if wall > 0 {
			share := stalled / (wall.Seconds() * float64(lanes()))
			m.StallShare = &share
		}
	}
	if cpu, err = c.stop(ctx); err != nil {
		return 0, err
	}
	if c.variant == variantSession {
		var report childReport
		if err := json.Unmarshal([]byte(c.stdout.String()), &report); err != nil {
			return 0, fmt.Errorf("report of %s: %w", c.variant, err)
		}
		m.Epochs, m.StallShare = report.Epochs, &report.StallShare
	}
	return cpu, nil
}

// stalledSeconds are the bridge's; 0 for the others.
func (c *child) stalledSeconds(ctx context.Context) (float64, error) {
	if c.variant != variantBridge {
		return 0, nil
	}
	return c.face.stalled(ctx)
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
var errTimeout = errors.New("the run took longer than -timeout")
