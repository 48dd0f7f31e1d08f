package bridge

import (
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// How the memory limit M of the process is shared out. kgo bounds fetches in compressed bytes and producers in
// payload bytes, so the shares leave room for what neither of them counts: decompression, record structs,
// request buffers and the garbage collector's head start (collectorLimit in package cli).
//
//	M/16  batches between poll and acknowledgement (budget), 16 MiB at most; where M is large, M/32; raw ones two
//	      responses; up to M/16 if the broker is far away
//	M/32  one fetch response, 1 to 4 MiB; where M is large, M/128, at most 16 MiB, and up to M/64 from a broker that is far
//	      away. Decoded it waits for its poll
//	M/16  payload buffered by each of the two producers, at least 8 MiB; it is the memory of the batches above,
//	      seen from the other end, and new memory only for what transforms add. No record may be larger
//
// More is not better: what is in flight has to be marked by each garbage collection and to pass through the
// processor's cache. With half of these shares CPU time per record is the same, with the double of them it is
// 5 to 10 % higher. A fetch is an exception, see fetchSlack.
const (
	batchShare     = 16
	batchShareHigh = 32
	fetchShare     = 32
	fetchShareHigh = 128
	fetchShareFar  = 64
	produceShare   = 16
)

const mebibyte = 1 << 20

// fetchSlack makes a fetch of n MiB hold n batches of the size that clients and brokers stop at: 1 MiB and a header
// for the broker, 1,000,000 bytes and the like for producers. A broker cuts a response off at the limit of the fetch
// and what is cut off is sent again: fetches of 3,000,000 bytes would bring two batches of 1,000,012 bytes, not three,
// and throw away a third of what the broker sends. For that reason small fetches cost more than their number tells.
const fetchSlack = 64 << 10

// budgetBytes is the budget of batches, decoded ones or raw ones, if the way to the broker and back takes so long.
//
// What is in flight should still be in the processor's cache when it is produced: reading 3 GB of 1 KB records with 32 MiB
// in flight took 5.4 CPU seconds, with 16 MiB 4.4; raw, where copies between memory and sockets are all there is, 3.4
// with 32 MiB and 2.6 with 8 MiB, two answers. What is on a long way is in no cache.
func budgetBytes(memory int64, away time.Duration, raw bool) int64 {
	near := max(min(memory/batchShare, 16*mebibyte), memory/batchShareHigh)
	if raw {
		near = 2 * int64(fetchBytes(memory, away))
	}
	return max(min(near+2*farBytes*away.Microseconds(), memory/batchShare), mebibyte)
}

// farBytes is how much one response of a broker has at least for each microsecond that the way there and back takes. A
// client has one request for records on its way to each broker, and the next one leaves when the answer was taken: at
// 200 bytes a microsecond, which is much for a bridge, it then waits for the way a fifth of the time.
const farBytes = 800

// fetchBytes is the size of one response, in compressed bytes, if the way to the broker and back takes so long.
func fetchBytes(memory int64, away time.Duration) int32 {
	n := max(min(memory/fetchShare, 4*mebibyte), memory/fetchShareHigh)
	n = max(n, min(away.Microseconds()*farBytes, memory/fetchShareFar)/mebibyte*mebibyte)
	return int32(min(max(n, mebibyte), 16*mebibyte)) + fetchSlack //nolint:gosec // bounded
}

// partitionBytes is a partition's share of a response, when so many are read. Were it all of it, a response would hold one
// partition, and of one lane: the others would have nothing to do until the next one.
func partitionBytes(fetch int32, partitions int) int32 {
	share := fetch / int32(max(partitions, 1)) //nolint:gosec // a cluster has fewer
	return min(max(share, mebibyte+fetchSlack), fetch, 4*mebibyte+fetchSlack)
}

// shareFetches shares the next responses among the partitions that are ours now.
func (s *session) shareFetches() {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	fetch := fetchBytes(s.opts.Memory, time.Duration(s.away.Load()))
	s.cl.UpdateFetchMaxBytes(fetch, partitionBytes(fetch, s.assigned.size()))
	if s.raw {
		s.fetcher.maxBytes.Store(fetch)
		s.fetcher.pool.Keep(3 * int64(fetch))
	}
	s.budget.resize(budgetBytes(s.opts.Memory, time.Duration(s.away.Load()), s.raw))
}

// OnBrokerE2E implements kgo.HookBrokerE2E: it learns how far away the brokers are from requests that they answer at once.
// The shortest time is the one without anything else in it.
func (s *session) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, took kgo.BrokerE2E) {
	if !slices.Contains([]kmsg.Key{kmsg.Metadata, kmsg.FindCoordinator, kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat}, kmsg.Key(key)) {
		return
	}
	d := took.DurationE2E()
	for before := s.away.Load(); took.Err() == nil && (before == 0 || int64(d) < before); before = s.away.Load() {
		if !s.away.CompareAndSwap(before, int64(d)) {
			continue
		}
		if closed(s.made) && fetchBytes(s.opts.Memory, d) != fetchBytes(s.opts.Memory, time.Duration(before)) {
			s.shareFetches()
		}
		return
	}
}

func (s *session) fetchLimits() []kgo.Opt {
	fetch := fetchBytes(s.opts.Memory, 0)
	return []kgo.Opt{
		kgo.FetchMaxBytes(fetch),
		kgo.FetchMaxPartitionBytes(partitionBytes(fetch, 1)), // see shareFetches
		kgo.BrokerMaxReadBytes(100 * mebibyte),               // a single larger record still arrives
		kgo.MaxDecompressBatchBytes(int(min(max(s.opts.Memory/batchShare, 64*mebibyte), math.MaxInt32))), // kgo refuses more
		kgo.MaxConcurrentFetches(8),
		kgo.FetchMaxWait(500 * time.Millisecond),
	}
}

// buffered is how much a producer buffers, in bytes of payload. No record may be larger.
func (b *Bridge) buffered() int64 { return max(b.opts.Memory/produceShare, 8*mebibyte) }

func (s *session) producerOptions() []kgo.Opt {
	buffered := s.buffered()
	opts := append([]kgo.Opt{}, s.opts.Client...)
	opts = append(opts, s.opts.Producing...)
	return append(opts,
		kgo.RecordPartitioner(partitioner(s.opts.ByKey, s.opts.DLQ)),
		kgo.MaxBufferedBytes(int(buffered)),
		kgo.MaxBufferedRecords(int(min(max(buffered/256, 10_000), 1_000_000))),
		kgo.ProducerBatchMaxBytesFn(s.batchLimit),
		kgo.BrokerMaxWriteBytes(s.requestBytes()),
		kgo.ProducerLinger(lingerFor(s.interval)),
		kgo.MetadataMaxAge(30*time.Second),
		// No RecordDeliveryTimeout: kgo measures it from the record's timestamp, which is the source's and may be
		// years old. The epoch timeout bounds the wait.
	)
}

// requestBytes is the size of a request that produces. kgo writes requests into buffers that it keeps only until the
// collector has run twice, and a new one grows by quarters: some five times its size is allocated and copied. Where little
// memory is, and the collector runs often, requests of several batches hardly ever find their buffer again; those of one
// batch do, for many of them go out between two collections.
func (s *session) requestBytes() int32 {
	if s.opts.Memory >= fewCollections || s.large.Load() || s.opts.Delivery == AtMostOnce { // see batchLimit
		return 100 * mebibyte
	}
	return ordinaryBatch + fetchSlack
}

// fewCollections is a memory limit from which on the collector's runs do not matter to requestBytes.
const fewCollections = 192 * mebibyte

// lingerFor gives batches a little time to fill. Flush does not linger, so an epoch that is as short waits for nothing more:
// its outputs go out in one request and not in several, each of which enlists partitions of its own.
func lingerFor(interval time.Duration) time.Duration {
	return min(5*time.Millisecond, interval)
}
