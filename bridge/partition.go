package bridge

import "github.com/twmb/franz-go/pkg/kgo"

// partitioner chooses the output partition from the record and, for "preserve", from the source partition that
// the lane left in Record.Partition. It runs inside the client, which knows the number of partitions.
//
// A dead letter keeps the partition of its input, modulo the number of partitions that dlq has: those of one partition
// stay in their order, and any number of partitions will do.
func partitioner(byKey bool, dlq string) kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		switch {
		case topic == dlq: // never "", which is no topic
			return func(r *kgo.Record, n int) int { return int(r.Partition) % n }
		case !byKey:
			return func(r *kgo.Record, _ int) int { return int(r.Partition) }
		}
		return func(r *kgo.Record, n int) int {
			if r.Key == nil {
				// Kafka's producers would pick any partition; a replayed epoch must pick the same one again.
				return int(r.Partition) % n
			}
			return int(murmur2(r.Key)&0x7fffffff) % n
		}
	})
}

// murmur2 is the hash of Kafka's default partitioner (org.apache.kafka.common.utils.Utils.murmur2): 32 bits,
// seed 0x9747b28c, little-endian words.
func murmur2(data []byte) uint32 {
	const (
		seed uint32 = 0x9747b28c
		m    uint32 = 0x5bd1e995
		r           = 24
	)
	h := seed ^ uint32(len(data)) //nolint:gosec // Kafka's keys are below 2 GiB
	for len(data) >= 4 {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
		data = data[4:]
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
