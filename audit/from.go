package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eosbridge/eosbridge/offsets"
)

// From says where the bridge began. The zero value says nothing.
type From struct {
	start   offsets.Start
	offsets map[offsets.TopicPartition]int64
}

// ParseFrom reads "earliest", a time as of RFC 3339, or a list of topic/partition=offset.
func ParseFrom(text string) (From, error) {
	if text == "" {
		return From{}, nil
	}
	if !strings.Contains(text, "=") {
		start, err := offsets.ParseStart(text)
		if err != nil || start.Kind == offsets.StartLatest {
			return From{}, fmt.Errorf("%q is neither earliest, nor a time such as 2026-01-31T00:00:00Z, nor a list such as orders/0=1200,orders/1=0", text)
		}
		return From{start: start}, nil
	}
	from := From{offsets: map[offsets.TopicPartition]int64{}}
	for one := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(one), "=")
		topic, partition, ok := strings.Cut(name, "/")
		p, err := strconv.ParseInt(partition, 10, 32)
		offset, err2 := strconv.ParseInt(number, 10, 64)
		if !ok || topic == "" || err != nil || err2 != nil || p < 0 || offset < 0 {
			return From{}, fmt.Errorf("%q is not of the form topic/partition=offset", one)
		}
		from.offsets[offsets.TopicPartition{Topic: topic, Partition: int32(p)}] = offset
	}
	return from, nil
}

// resolve gives the offsets of the partitions that From speaks of.
func (f From) resolve(ctx context.Context, adm *kadm.Client, inputs []string) (map[offsets.TopicPartition]int64, error) {
	known := map[offsets.TopicPartition]int64{}
	for tp, at := range f.offsets {
		known[tp] = at
	}
	if f.start.Kind == offsets.StartUnset {
		return known, nil
	}
	at, err := offsets.Resolve(ctx, adm, f.start, inputs)
	if err != nil {
		return nil, fmt.Errorf("resolve --from: %w", err)
	}
	for tp, p := range at {
		known[tp] = p.Offset
	}
	return known, nil
}
