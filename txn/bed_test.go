package txn

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/eosbridge/eosbridge/internal/batch"
	"github.com/eosbridge/eosbridge/internal/link"
	"github.com/eosbridge/eosbridge/offsets"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const group = "app"

// bed is a kfake cluster (in process; not Apache Kafka) with the topics "in" and "out", four partitions each,
// and what a test needs to look at both ends of the wire. kfake ends a transaction within EndTxn: it has
// neither the Prepare states nor markers that come later, and answers CONCURRENT_TRANSACTIONS only when told to.
type bed struct {
	*kfake.Cluster
	t       *testing.T
	ctx     context.Context
	wire    *wire
	cl      *kgo.Client // does not pass the wire
	adm     *kadm.Client
	version int16 // finalized transaction.version
	batches bool  // rings produce whole batches

	mu      sync.Mutex
	journal []seen
	present func() Credential
}

// seen is a request that has reached the broker, in the order of arrival.
type seen struct {
	kmsg.Request
	node int32
}

// watched are the requests that the journal keeps.
var watched = map[int16]bool{
	int16(kmsg.InitProducerID): true, int16(kmsg.AddPartitionsToTxn): true, int16(kmsg.AddOffsetsToTxn): true,
	int16(kmsg.TxnOffsetCommit): true, int16(kmsg.EndTxn): true, int16(kmsg.OffsetCommit): true,
	int16(kmsg.FindCoordinator): true, int16(kmsg.Produce): true,
}

func newBed(t *testing.T, opts ...kfake.Opt) *bed {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(4, "in", "out")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	b := &bed{Cluster: c, t: t, ctx: ctx, wire: &wire{}, version: 2}
	b.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		if watched[req.Key()] {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.journal = append(b.journal, seen{copyOf(req), b.CurrentNode()})
		}
		return nil, nil, false
	})
	if b.cl, err = kgo.NewClient(b.clientOptions()...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.cl.Close)
	b.adm = kadm.NewClient(b.cl)
	return b
}

// newOldBed is a cluster without the feature transaction.version.
func newOldBed(t *testing.T) *bed {
	t.Helper()
	b := newBed(t, kfake.MaxVersions(kversion.V3_7_0()))
	b.version, b.batches = 0, false
	return b
}

// newBatchBed is a cluster on which rings produce whole batches.
func newBatchBed(t *testing.T, opts ...kfake.Opt) *bed {
	t.Helper()
	b := newBed(t, opts...)
	b.batches = true
	return b
}

// onBoth runs a test with and without transaction.version 2, and with whole batches.
func onBoth(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	t.Run("transaction.version 2", func(t *testing.T) { test(t, newBed(t)) })
	t.Run("batches", func(t *testing.T) { test(t, newBatchBed(t)) })
	t.Run("before transaction.version", func(t *testing.T) { test(t, newOldBed(t)) })
}

// onEach runs a test with records and with whole batches.
func onEach(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Helper()
	t.Run("records", func(t *testing.T) { test(t, newBed(t)) })
	t.Run("batches", func(t *testing.T) { test(t, newBatchBed(t)) })
}

// copyOf keeps a request from what kfake does to it later. Only what is on the wire is copied.
func copyOf(req kmsg.Request) kmsg.Request {
	c := kmsg.RequestForKey(req.Key())
	c.SetVersion(req.GetVersion())
	if err := c.ReadFrom(req.AppendTo(nil)); err != nil {
		panic(err)
	}
	return c
}

func (b *bed) clientOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(b.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.ProducerLinger(0),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }),
	}
}

// options are those of the instance "me".
func (b *bed) options() Options {
	dialer := link.New(b.wire.dial)
	dialer.Smallest = 1
	return Options{
		Prefix: group, Instance: "me", Group: group,
		Client: func(opts ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(slices.Concat(b.clientOptions(), []kgo.Opt{kgo.Dialer(dialer.Dial)}, opts)...)
		},
		Link:  dialer,
		Admin: b.adm, Version: b.version, Batches: b.batches, Timeout: 40 * time.Second,
		Present: func() Credential {
			b.mu.Lock()
			present := b.present
			b.mu.Unlock()
			if present == nil {
				b.t.Error("the present credential was asked for")
				return Credential{}
			}
			return present()
		},
		TopicID: func(topic string) [16]byte { return b.TopicInfo(topic).TopicID },
		Log:     slog.New(slog.NewTextHandler(b.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func (b *bed) setPresent(present func() Credential) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.present = present
}

func (b *bed) open() *Ring {
	b.t.Helper()
	r, err := Open(b.ctx, b.options())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(r.Close)
	return r
}

// forget empties the journal.
func (b *bed) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journal = nil
}

// requests lists what has reached the broker, of these kinds; all kinds but look-ups without any.
func (b *bed) requests(keys ...kmsg.Key) []seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []seen
	for _, s := range b.journal {
		if key := kmsg.Key(s.Key()); slices.Contains(keys, key) || len(keys) == 0 && key != kmsg.FindCoordinator {
			all = append(all, s)
		}
	}
	return all
}

// expectCount wants so many requests of a kind to have reached the broker.
func (b *bed) expectCount(key kmsg.Key, want int) {
	b.t.Helper()
	if got := len(b.requests(key)); got != want {
		b.t.Errorf("%d %s requests have reached the broker, want %d", got, key.Name(), want)
	}
}

func (b *bed) txnOffsetCommits() []*kmsg.TxnOffsetCommitRequest {
	var all []*kmsg.TxnOffsetCommitRequest
	for _, s := range b.requests(kmsg.TxnOffsetCommit) {
		all = append(all, s.Request.(*kmsg.TxnOffsetCommitRequest))
	}
	return all
}

func (b *bed) offsetCommits() []*kmsg.OffsetCommitRequest {
	var all []*kmsg.OffsetCommitRequest
	for _, s := range b.requests(kmsg.OffsetCommit) {
		all = append(all, s.Request.(*kmsg.OffsetCommitRequest))
	}
	return all
}

// outsider is the credential of somebody who is not in the group: brokers take it while the group has no members.
func outsider() Credential { return Credential{Generation: -1} }

// join makes the instance a member of the group (classic protocol), or a member join again, and answers its
// credential. Nothing sends heartbeats for it; the session timeout outlives the test.
func (b *bed) join(instance, member string) Credential {
	b.t.Helper()
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{"in"}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.MemberID, join.InstanceID = group, member, &instance
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = 60_000, 60_000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: meta.AppendTo(nil)}}
	joined, err := join.RequestWith(b.ctx, b.cl)
	if err == nil {
		err = kerr.ErrorForCode(joined.ErrorCode)
	}
	if err != nil {
		b.t.Fatal("join:", err)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation, sync.InstanceID = group, joined.MemberID, joined.Generation, &instance
	kind, protocol := "consumer", "range"
	sync.ProtocolType, sync.Protocol = &kind, &protocol
	assignment := kmsg.NewConsumerMemberAssignment()
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: assignment.AppendTo(nil)}}
	synced, err := sync.RequestWith(b.ctx, b.cl)
	if err == nil {
		err = kerr.ErrorForCode(synced.ErrorCode)
	}
	if err != nil {
		b.t.Fatal("sync:", err)
	}
	return Credential{MemberID: joined.MemberID, Generation: joined.Generation}
}

// position is a place in the input.
func position(partition int32) offsets.TopicPartition {
	return offsets.TopicPartition{Topic: "in", Partition: partition}
}

// at are the positions of an epoch: partitions 0, 1, ... of the input at these offsets.
func at(offset ...int64) offsets.Positions {
	p := offsets.Positions{}
	for i, o := range offset {
		p[position(int32(i))] = offsets.Position{Offset: o, LeaderEpoch: int32(i) + 3}
	}
	return p
}

// outputs are records with these values, dealt to the partitions of "out" in turn.
func outputs(values ...string) []*kgo.Record {
	var records []*kgo.Record
	for i, v := range values {
		records = append(records, &kgo.Record{Topic: "out", Partition: int32(i % 4), Value: []byte(v)})
	}
	return records
}

// ignore is for tests that look at what PreCommit says.
func ignore(*kgo.Record, error) {}

// awaitReady waits until no client of the ring is being made anew, so that what a test does next meets none of it.
func (b *bed) awaitReady(r *Ring) error {
	r.renewals.Wait()
	for i := range r.free {
		err := <-r.free[i]
		if r.free[i] <- err; err != nil {
			return err
		}
	}
	return nil
}

// produce is Produce; a ring of batches gets one of each partition. done then names the first record of a batch that
// failed.
func (b *bed) produce(p Participant, n Epoch, records []*kgo.Record, done func(*kgo.Record, error)) {
	ring, ok := p.(*Ring)
	if !ok || !ring.opts.Batches {
		p.Produce(b.ctx, n, records, done)
		return
	}
	var order []offsets.TopicPartition
	dealt := map[offsets.TopicPartition][]*kgo.Record{}
	for _, r := range records {
		tp := offsets.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		if dealt[tp] == nil {
			order = append(order, tp)
		}
		dealt[tp] = append(dealt[tp], r)
	}
	e, err := batch.NewEncoder(1 << 20)
	if err != nil {
		b.t.Error(err)
	}
	var mu sync.Mutex
	var first error
	var failed *kgo.Record
	left := len(order)
	for _, tp := range order {
		ring.ProduceBatches(b.ctx, n, tp.Topic, tp.Partition, e.Encode(dealt[tp]), func(err error) {
			mu.Lock()
			left--
			if err != nil && first == nil {
				first, failed = err, dealt[tp][0]
			}
			last := left == 0
			mu.Unlock()
			if last {
				done(failed, first)
			}
		})
	}
}

// beginWith begins an epoch and waits until these outputs of it are acknowledged.
func (b *bed) beginWith(p Participant, n Epoch, values ...string) {
	b.t.Helper()
	if err := p.Begin(b.ctx, n); err != nil {
		b.t.Fatal(err)
	}
	acked := make(chan struct{})
	b.produce(p, n, outputs(values...), func(*kgo.Record, error) { close(acked) })
	b.await(acked)
}

// precommit takes an epoch to the end of PreCommit. No values: an epoch without output.
func (b *bed) precommit(p Participant, n Epoch, values ...string) error {
	if err := p.Begin(b.ctx, n); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if len(values) > 0 {
		b.produce(p, n, outputs(values...), ignore)
	}
	if err := p.PreCommit(b.ctx, n); err != nil {
		return fmt.Errorf("pre-commit: %w", err)
	}
	return nil
}

// epoch takes an epoch from Begin to the end of Commit.
func (b *bed) epoch(p Participant, cp Checkpoint, values ...string) (Steps, error) {
	if err := b.precommit(p, cp.Epoch, values...); err != nil {
		return Steps{}, err
	}
	return p.Commit(b.ctx, cp)
}

func (b *bed) mustEpoch(p Participant, cp Checkpoint, values ...string) Steps {
	b.t.Helper()
	steps, err := b.epoch(p, cp, values...)
	if err != nil {
		b.t.Fatalf("epoch %d: %v", cp.Epoch, err)
	}
	return steps
}

// expectPositions wants exactly these offsets to be stable at the broker, of partitions 0, 1, ...; -1 is none.
func (b *bed) expectPositions(want ...int64) {
	b.t.Helper()
	got, err := offsets.Committed(b.ctx, b.adm, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		b.t.Fatal(err)
	}
	wanted := offsets.Positions{}
	for i, o := range want {
		if o >= 0 {
			wanted[position(int32(i))] = offsets.Position{Offset: o, LeaderEpoch: int32(i) + 3}
		}
	}
	if !maps.Equal(got, wanted) {
		b.t.Errorf("the broker's positions are %v, want %v", got, wanted)
	}
}

// expectOutput wants a read_committed reader of "out" to see exactly these values, whatever their order.
func (b *bed) expectOutput(want ...string) {
	b.t.Helper()
	got := b.output()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("a read_committed reader sees %q, want %q", got, want)
	}
}

// output reads "out" with read_committed up to the last stable offset of each partition.
func (b *bed) output() []string {
	b.t.Helper()
	start, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for _, p := range b.PartitionInfos("out") {
		start[p.Partition] = kgo.NewOffset().AtStart()
		if p.LastStableOffset > 0 {
			left[p.Partition] = p.LastStableOffset
		}
	}
	cl, err := kgo.NewClient(append(b.clientOptions(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"out": start}))...)
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	var values []string
	for len(left) > 0 {
		fetches := cl.PollFetches(b.ctx)
		if err := fetches.Err(); err != nil {
			b.t.Fatal("read the output:", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return values
}

// expectReleased wants no open transaction to hold readers of "out" up.
func (b *bed) expectReleased() {
	b.t.Helper()
	for _, p := range b.PartitionInfos("out") {
		if p.LastStableOffset != p.HighWatermark {
			b.t.Errorf("partition %d of out is held up at offset %d of %d", p.Partition, p.LastStableOffset, p.HighWatermark)
		}
	}
}

// expectClass wants an error of exactly one class, this one.
func expectClass(t *testing.T, err, want error) {
	t.Helper()
	if got := classes(err); len(got) != 1 || !errors.Is(got[0], want) {
		t.Errorf("the classes of %q are %v, want %v", fmt.Sprint(err), got, want)
	}
}

// classes lists the classes that an error wraps.
func classes(err error) []error {
	var got []error
	for _, class := range []error{ErrAborted, ErrInDoubt, ErrFenced, ErrFatal} {
		if errors.Is(err, class) {
			got = append(got, class)
		}
	}
	return got
}

// expectBroken wants the answer to a call out of order: exit status 70 and these words.
func expectBroken(t *testing.T, err error, words ...string) {
	t.Helper()
	expectClass(t, err, ErrFatal)
	var fatal *FatalError
	if !errors.As(err, &fatal) || fatal.ExitCode() != StatusBroken {
		t.Errorf("exit status of %q is not %d", fmt.Sprint(err), StatusBroken)
	}
	for _, w := range words {
		if !strings.Contains(fmt.Sprint(err), w) {
			t.Errorf("%q does not say %q", fmt.Sprint(err), w)
		}
	}
}
