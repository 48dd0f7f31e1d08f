package e2e

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/proof"
)

// bare is a transactional producer without any guard, which sends the protocol's
// requests itself, one at a time, over one connection: what a client does that
// neither makes its producer anew nor keeps back an offset commit.
type bare struct {
	t     *testing.T
	c     *kafka.Cluster
	wire  *Courier
	topic string // one partition, for outputs and positions
	id    string
	pid   int64
	epoch int16
	seq   int32
	sent  map[kmsg.Key][]byte // the last frame of each kind
}

func newBare(t *testing.T, c *kafka.Cluster, topic, id string) *bare {
	t.Helper()
	wire, err := NewCourier(within(t, patience), c.Bootstrap())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wire.Close)
	b := &bare{t: t, c: c, wire: wire, topic: topic, id: topic + "." + id, sent: make(map[kmsg.Key][]byte)}
	b.fence()
	return b
}

// fence gives the id a new producer epoch, as a client made anew has it.
func (b *bare) fence() {
	b.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &b.id, 60_000, -1, -1
	resp := b.ask(req, 4, func(resp kmsg.Response) int16 { return resp.(*kmsg.InitProducerIDResponse).ErrorCode }).(*kmsg.InitProducerIDResponse)
	b.pid, b.epoch, b.seq = resp.ProducerID, resp.ProducerEpoch, 0
}

// tv2 says whether the broker moves the epoch with every transaction.
func (b *bare) tv2() bool { return b.c.Version() != kafka.V39 }

// group has no members: the protocol's other guard, the member's credential, is
// out of the way, as it is while member and generation stay what they were.
func (b *bare) group() string { return b.topic + "-group" }

// framed is a request as it is sent.
func framed(req kmsg.Request, version int16) []byte {
	req.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bare")).AppendRequest(nil, req, 1)
}

// notYet are the answers that ask to come again: an end is still being written, or
// the topic is too new.
var notYet = []error{
	kerr.ConcurrentTransactions, kerr.UnstableOffsetCommit, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress,
	kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition,
}

// ask sends until the answer is final, and wants it to be good.
func (b *bare) ask(req kmsg.Request, version int16, code func(kmsg.Response) int16) kmsg.Response {
	b.t.Helper()
	resp, err := b.asked(req, version, code)
	if err != nil {
		b.t.Fatalf("%s: %s: %v", b.id, kmsg.NameForKey(req.Key()), err)
	}
	return resp
}

func (b *bare) asked(req kmsg.Request, version int16, code func(kmsg.Response) int16) (kmsg.Response, error) {
	b.t.Helper()
	ctx := within(b.t, patience)
	f := framed(req, version)
	b.sent[kmsg.Key(req.Key())] = f
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		resp, err := b.wire.Deliver(ctx, f)
		if err != nil {
			return nil, err
		}
		err = kerr.ErrorForCode(code(resp))
		if !slices.ContainsFunc(notYet, func(target error) bool { return errors.Is(err, target) }) {
			return resp, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// produce appends one record to the transaction.
func (b *bare) produce(value string) {
	b.t.Helper()
	version := int16(12) // the broker adds the partition to the transaction
	if !b.tv2() {
		version = 11
		b.addPartition()
	}
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &b.id, -1, 10_000
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = b.batch(value)
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = b.topic, append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	b.ask(req, version, func(resp kmsg.Response) int16 { return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode })
	b.seq++
}

func (b *bare) addPartition() {
	b.t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = b.id, b.pid, b.epoch
	topic := kmsg.NewAddPartitionsToTxnRequestTopic()
	topic.Topic, topic.Partitions = b.topic, []int32{0}
	req.Topics = append(req.Topics, topic)
	b.ask(req, 3, func(resp kmsg.Response) int16 {
		return resp.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode
	})
}

// batch is a batch of one record of this producer.
func (b *bare) batch(value string) []byte {
	record := kmsg.NewRecord()
	record.Value = []byte(value)
	record.Length = int32(len(record.AppendTo(nil))) - 1 // without the length itself, of one byte
	now := time.Now().UnixMilli()
	batch := kmsg.NewRecordBatch()
	batch.PartitionLeaderEpoch, batch.Magic = -1, 2
	batch.Attributes = 0x10 // transactional
	batch.FirstTimestamp, batch.MaxTimestamp = now, now
	batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = b.pid, b.epoch, b.seq
	batch.NumRecords, batch.Records = 1, record.AppendTo(nil)
	const beforeLength, beforeSum = 12, 21 // bytes of the batch that its length and its sum do not cover
	batch.Length = int32(len(batch.AppendTo(nil))) - beforeLength
	out := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(out[beforeSum-4:], crc32.Checksum(out[beforeSum:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// positions puts a position into the transaction.
func (b *bare) positions(at int64) {
	b.t.Helper()
	version := int16(5) // the broker adds the group to the transaction
	if !b.tv2() {
		version = 4
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = b.id, b.pid, b.epoch, b.group()
		b.ask(req, 3, func(resp kmsg.Response) int16 { return resp.(*kmsg.AddOffsetsToTxnResponse).ErrorCode })
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = b.id, b.group(), b.pid, b.epoch
	req.Generation = -1
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = at
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = b.topic, append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	b.ask(req, version, func(resp kmsg.Response) int16 {
		return resp.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	})
}

// end commits or aborts the transaction.
func (b *bare) end(commit bool) {
	b.t.Helper()
	version := int16(4)
	if b.tv2() {
		version = 5
	}
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = b.id, b.pid, b.epoch, commit
	resp := b.ask(req, version, func(resp kmsg.Response) int16 { return resp.(*kmsg.EndTxnResponse).ErrorCode }).(*kmsg.EndTxnResponse)
	if b.tv2() {
		b.pid, b.epoch, b.seq = resp.ProducerID, resp.ProducerEpoch, 0
	}
}

// copy delivers what was sent earlier once more, over another connection.
func (b *bare) copy(frame []byte) string {
	b.t.Helper()
	answer, err := DeliverCopy(within(b.t, patience), b.c.Bootstrap(), frame)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

// visible is what a read_committed reader sees once nothing is open any more.
func (b *bare) visible() []string {
	b.t.Helper()
	ctx, adm := within(b.t, patience), b.c.Admin(b.t)
	var end int64
	eventually(b.t, "the end of all transactions", func() bool {
		stable, err1 := adm.ListCommittedOffsets(ctx, b.topic)
		ends, err2 := adm.ListEndOffsets(ctx, b.topic)
		if err := errors.Join(err1, err2, stable.Error(), ends.Error()); err != nil {
			b.t.Fatal(err)
		}
		at, _ := stable.Lookup(b.topic, 0)
		last, _ := ends.Lookup(b.topic, 0)
		end = last.Offset
		return at.Offset == end
	})
	reader := b.c.Client(b.t, kgo.ConsumeTopics(b.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	var values []string
	for next := int64(0); next < end; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			b.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if next = r.Offset + 1; !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
		})
	}
	return values
}

// at is the group's position, once it is stable. The partition is asked for by
// name: in the list of all, one whose first commit is pending is left out.
func (b *bare) at() int64 {
	b.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = b.group(), true
	topic := kmsg.NewOffsetFetchRequestTopic()
	topic.Topic, topic.Partitions = b.topic, []int32{0}
	req.Topics = append(req.Topics, topic)
	resp := b.ask(req, 7, func(resp kmsg.Response) int16 {
		return resp.(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].ErrorCode
	})
	return resp.(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].Offset
}

// unguarded is what a late copy does to a client without guards.
type unguarded struct {
	name string
	// run does it and returns the broker's answer to the copy.
	run func(b *bare) (answer string)
	// What came of it, by transaction.version: the answer, the position, the
	// visible records.
	tv1, tv2 outcome
}

type outcome struct {
	answer  string
	at      int64
	visible []string
}

// unguardeds are the model's runs d1, m9 and e3. A transaction t reads position
// t*100-100 and commits position t*100. The values that are wrong say so.
var unguardeds = []unguarded{{
	// Two ids in turn; the offsets of t2 are sent before t1 has ended, and then a
	// late copy of t1's arrives. Hold t2's offsets back, and it cannot (invariant 2).
	name: "d1: copy of TxnOffsetCommit(1) behind TxnOffsetCommit(2), both commit",
	run: func(b *bare) string {
		other := newBare(b.t, b.c, b.topic, "1")
		b.produce("t1")
		b.positions(100)
		other.produce("t2")
		other.positions(200)
		answer := b.copy(b.sent[kmsg.TxnOffsetCommit])
		b.end(true)
		other.end(true)
		return answer
	},
	tv1: outcome{"NONE", 100, []string{"t1", "t2"}}, // WRONG: t2 is visible and will be read again
	tv2: outcome{"NONE", 100, []string{"t1", "t2"}}, // WRONG: the same; a new epoch per transaction is no help
}, {
	name: "d1 guarded: TxnOffsetCommit(2) waits for EndTxn(1) and its markers",
	run: func(b *bare) string {
		other := newBare(b.t, b.c, b.topic, "1")
		b.produce("t1")
		b.positions(100)
		late := b.sent[kmsg.TxnOffsetCommit]
		other.produce("t2")
		b.end(true)
		if err := marked(b.t, b.c.Admin(b.t), b.id); err != nil {
			b.t.Error(err)
		}
		other.positions(200)
		answer := b.copy(late)
		other.end(true)
		return answer
	},
	tv1: outcome{"TRANSACTION_ABORTABLE", 200, []string{"t1", "t2"}},
	tv2: outcome{"INVALID_PRODUCER_EPOCH", 200, []string{"t1", "t2"}},
}, {
	// A copy of t1's commit while t2 is open under the same id, not yet with its
	// positions; then t2's process dies.
	name: "m9: copy of EndTxn(1, commit) while t2 is open, then a crash",
	run: func(b *bare) string {
		b.produce("t1")
		b.positions(100)
		b.end(true)
		late := b.sent[kmsg.EndTxn]
		b.produce("t2")
		answer := b.copy(late)
		b.fence() // the next start, which reads from position 100
		return answer
	},
	tv1: outcome{"NONE", 100, []string{"t1", "t2"}}, // WRONG: t2 is visible and will be read again
	tv2: outcome{"PRODUCER_FENCED", 100, []string{"t1"}},
}, {
	// The mirror image: a copy of t1's abort ends t2, whose client goes on.
	name: "m9 mirrored: copy of EndTxn(1, abort) while t2 is open, which then commits",
	run: func(b *bare) string {
		b.produce("t1")
		b.end(false)
		late := b.sent[kmsg.EndTxn]
		b.produce("t1 again")
		answer := b.copy(late)
		b.positions(100)
		b.end(true)
		return answer
	},
	tv1: outcome{"NONE", 100, nil}, // WRONG: t1 is lost
	tv2: outcome{"PRODUCER_FENCED", 100, []string{"t1 again"}},
}, {
	// A copy of t1's offsets lands in t2, behind t2's own.
	name: "e3: copy of TxnOffsetCommit(1) behind TxnOffsetCommit(2), same id",
	run: func(b *bare) string {
		b.produce("t1")
		b.positions(100)
		late := b.sent[kmsg.TxnOffsetCommit]
		b.end(true)
		b.produce("t2")
		b.positions(200)
		answer := b.copy(late)
		b.end(true)
		return answer
	},
	tv1: outcome{"NONE", 100, []string{"t1", "t2"}}, // WRONG: t2 is visible and will be read again
	tv2: outcome{"INVALID_PRODUCER_EPOCH", 200, []string{"t1", "t2"}},
}, {
	// The same after a fence: the copy's epoch is old and it is refused. But the
	// group coordinator of 3.9.1, while it refuses, drops what it holds pending for
	// that producer id: t2's positions. Until the next commit, or a start of the
	// broker, the position is the old one. No epoch helps, the producer id is the
	// same; what helps is that no copy exists (Broker.Request never sends again), and
	// that an original which is given up belongs to a member that is gone.
	name: "e3 half guarded: the client is made anew between t1 and t2",
	run: func(b *bare) string {
		b.produce("t1")
		b.positions(100)
		late := b.sent[kmsg.TxnOffsetCommit]
		b.end(true)
		b.fence()
		b.produce("t2")
		b.positions(200)
		answer := b.copy(late)
		b.end(true)
		return answer
	},
	tv1: outcome{"INVALID_PRODUCER_EPOCH", 100, []string{"t1", "t2"}}, // WRONG: t2 is visible and will be read again
	tv2: outcome{"INVALID_PRODUCER_EPOCH", 200, []string{"t1", "t2"}},
}, {
	name: "e3 guarded, copy before TxnOffsetCommit(2)",
	run: func(b *bare) string {
		b.produce("t1")
		b.positions(100)
		late := b.sent[kmsg.TxnOffsetCommit]
		b.end(true)
		b.fence()
		b.produce("t2")
		answer := b.copy(late)
		b.positions(200)
		b.end(true)
		return answer
	},
	tv1: outcome{"INVALID_PRODUCER_EPOCH", 200, []string{"t1", "t2"}},
	tv2: outcome{"INVALID_PRODUCER_EPOCH", 200, []string{"t1", "t2"}},
}, {
	name: "m9 guarded: the client is made anew between t1 and t2",
	run: func(b *bare) string {
		b.produce("t1")
		b.positions(100)
		b.end(true)
		late := b.sent[kmsg.EndTxn]
		b.fence()
		b.produce("t2")
		answer := b.copy(late)
		b.fence()
		return answer
	},
	tv1: outcome{"PRODUCER_FENCED", 100, []string{"t1"}},
	tv2: outcome{"PRODUCER_FENCED", 100, []string{"t1"}},
}}

// TestLateCopiesUnguarded shows what the guards are for: what a late copy does on
// a real broker to a client that has none of them. Only d1 needs one with
// transaction.version 2, too.
func TestLateCopiesUnguarded(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for _, u := range unguardeds {
			t.Run(u.name, func(t *testing.T) {
				b := newBare(t, c, c.Topic(t, 1), "0")
				want := u.tv1
				if b.tv2() {
					want = u.tv2
				}
				answer := u.run(b)
				got := outcome{answer, b.at(), b.visible()}
				if got.answer != want.answer || got.at != want.at || !slices.Equal(got.visible, want.visible) {
					t.Errorf("got %+v, want %+v", got, want)
				}
				t.Logf("the copy is answered %s; position %d, visible %q", got.answer, got.at, got.visible)
			})
		}
		proof.Record(t, proof.Result{
			Broker: c.Version(), Scenarios: int64(len(unguardeds)),
			Note: "what late copies do to a client without guards",
		})
	})
}

// TestLateCopyBeforeMarkers holds back the markers of a commit that is answered: until
// its marker is written, a partition's transaction goes on for late requests, also
// with transaction.version 2. So EndTxn(1)'s answer is no end of d1: a copy of
// TxnOffsetCommit(1) may still arrive behind TxnOffsetCommit(2). That nothing
// sends a TxnOffsetCommit twice is what invariant 2 rests on. It needs brokers of
// its own, so it is part of the long run only.
func TestLateCopyBeforeMarkers(t *testing.T) {
	if !*long {
		return
	}
	t.Parallel()
	for name, version := range map[string]string{"TV2": kafka.V44, "TV1": kafka.V39} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var proxy *Proxy // between the broker and itself: markers take that way, too
			c := kafka.Start(t, kafka.Options{Version: version, Advertised: func(addr string) string {
				var err error
				if proxy, err = StartProxy(addr); err != nil {
					t.Fatal(err)
				}
				return proxy.Addr()
			}})
			t.Cleanup(proxy.Close)
			topic := c.Topic(t, 1)
			one, two := newBare(t, c, topic, "0"), newBare(t, c, topic, "1")
			one.produce("t1")
			one.positions(100)
			late := one.sent[kmsg.TxnOffsetCommit]
			two.produce("t2")

			held, goOn := make(chan struct{}, 16), make(chan struct{})
			proxy.Tap(func(p Passing) {
				if p.Key == kmsg.WriteTxnMarkers.Int16() && p.Answer == nil {
					held <- struct{}{}
					<-goOn
				}
			})
			one.end(true)
			select {
			case <-held:
			case <-within(t, patience).Done():
				t.Fatal("no markers were sent")
			}
			two.positions(200)
			answer := one.copy(late)
			close(goOn)
			two.end(true)
			got, want := outcome{answer, one.at(), one.visible()}, outcome{"NONE", 100, []string{"t1", "t2"}}
			if got.answer != want.answer || got.at != want.at || !slices.Equal(got.visible, want.visible) {
				t.Errorf("got %+v, want %+v: the copy overtakes, t2 is visible and will be read again", got, want)
			}
		})
	}
}
