package bridge

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// How the memory limit M of the process is shared out. kgo bounds fetches in compressed bytes and producers in
// payload bytes, so the shares leave room for what neither of them counts: decompression, record structs,
// request buffers and the garbage collector's head start.
//
//	M/8   decoded batches between poll and acknowledgement (budget)
//	M/64  one fetch response, at most 16 MiB; one more may be decoded and waiting for its poll
//	M/16  payload buffered by each of the two producers; it is the memory of the batches above, seen from the
//	      other end, and new memory only for what transforms add
const (
	batchShare   = 8
	fetchShare   = 64
	produceShare = 16
)

const mebibyte = 1 << 20

func batchBudget(memory int64) int64 { return max(memory/batchShare, mebibyte) }

func (s *session) fetchLimits() []kgo.Opt {
	fetch := int32(min(max(s.opts.Memory/fetchShare, mebibyte), 16*mebibyte)) //nolint:gosec // bounded
	return []kgo.Opt{
		kgo.FetchMaxBytes(fetch),
		kgo.FetchMaxPartitionBytes(min(fetch, 4*mebibyte)),
		kgo.BrokerMaxReadBytes(max(4*fetch, 100*mebibyte)), // a single larger record still arrives
		kgo.MaxDecompressBatchBytes(int(min(max(batchBudget(s.opts.Memory), 64*mebibyte), math.MaxInt32))), // kgo refuses more
		kgo.MaxConcurrentFetches(8),
		kgo.FetchMaxWait(500 * time.Millisecond),
	}
}

func (s *session) producerOptions() []kgo.Opt {
	buffered := max(s.opts.Memory/produceShare, mebibyte)
	opts := append([]kgo.Opt{}, s.opts.Client...)
	opts = append(opts, s.opts.Producing...)
	return append(opts,
		kgo.RecordPartitioner(partitioner(s.opts.ByKey)),
		kgo.MaxBufferedBytes(int(buffered)),
		kgo.MaxBufferedRecords(int(min(max(buffered/256, 10_000), 1_000_000))),
		kgo.ProducerBatchMaxBytesFn(s.batchLimit),
		kgo.BrokerMaxWriteBytes(100*mebibyte),
		kgo.ProducerLinger(lingerFor(s.interval)),
		kgo.MetadataMaxAge(30*time.Second),
		// No RecordDeliveryTimeout: kgo measures it from the record's timestamp, which is the source's and may be
		// years old. The epoch timeout bounds the wait.
	)
}

// lingerFor gives batches a little time to fill, a small part of the epoch. Flush does not linger.
func lingerFor(interval time.Duration) time.Duration {
	return min(5*time.Millisecond, interval/20)
}
