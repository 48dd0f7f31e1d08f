package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eosbridge/eosbridge/transform"
	"github.com/eosbridge/eosbridge/txn"
)

// topicRules are what a broker asks of a record for a topic, as far as it can be known before: an output that the topic
// refuses is found in its lane, and costs no epoch. The rules are LogValidator's and LogConfig's
// (org.apache.kafka.storage.internals.log).
type topicRules struct {
	largest  int32 // max.message.bytes
	buffered int64 // what the client buffers: a larger record never fits
	// before and after bound a record's time, seen from the broker's clock; 0 = any (KIP-937).
	before, after time.Duration
	appended      bool // the broker sets the time
	compacted     bool
}

// maxMillis is Kafka's "any" for a number of milliseconds.
const maxMillis = math.MaxInt64

// clockMargin is how far the broker's clock may be from ours: a time that is beyond a bound by less is for the broker to
// judge.
const clockMargin = 5 * time.Minute

// refuse answers the class of failure of an output that the topic certainly refuses, and why; else an empty class. extra
// is how many bytes will be added to it.
func (r topicRules) refuse(out *transform.Record, extra int, now func() time.Time) (class string, err error) {
	payload := len(out.Key) + len(out.Value)
	for i := range out.Headers {
		payload += len(out.Headers[i].Key) + len(out.Headers[i].Value)
	}
	if whole := payload + extra; whole+batchHeader > int(r.largest) || int64(whole) > r.buffered {
		return failedTooLarge, fmt.Errorf("the record has %d bytes (key %d, value %d, headers %d); the topic takes batches of %d bytes (max.message.bytes), the client records of %d (BRIDGE_MEMORY_LIMIT)",
			whole, len(out.Key), len(out.Value), whole-len(out.Key)-len(out.Value), r.largest, r.buffered)
	}
	if r.compacted && out.Key == nil {
		return failedNoKey, errNoKey
	}
	if r.appended || out.Timestamp.IsZero() || r.before == 0 && r.after == 0 || out.Timestamp.UnixMilli() == -1 {
		return "", nil
	}
	switch age := now().Sub(out.Timestamp); {
	case r.before != 0 && age > r.before && age-r.before > clockMargin:
		return failedTimestamp, fmt.Errorf("the record's time is %s; the topic takes times of the last %s (message.timestamp.before.max.ms)", instant(out.Timestamp), r.before)
	case r.after != 0 && -age > r.after && -age-r.after > clockMargin:
		return failedTimestamp, fmt.Errorf("the record's time is %s; the topic takes times of the next %s (message.timestamp.after.max.ms)", instant(out.Timestamp), r.after)
	}
	return "", nil
}

var errNoKey = errors.New("the record has no key, and the topic is compacted (cleanup.policy)")

func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// batchHeader is the size of a batch without records, and the least that a record takes besides its payload.
const batchHeader = header + 7

// topicRulesOf reads the rules in a topic's configuration. What is missing is not asked for: max.message.bytes has
// Kafka's default then.
func topicRulesOf(configs []kadm.Config, buffered int64) topicRules {
	r := topicRules{largest: ordinaryBatch, buffered: buffered}
	var either time.Duration // before and after, up to Kafka 3.9
	for _, c := range configs {
		if c.Value == nil {
			continue
		}
		switch c.Key {
		case "max.message.bytes":
			var n int32
			if _, err := fmt.Sscan(*c.Value, &n); err == nil {
				r.largest = min(max(n, 1024), 64<<20)
			}
		case "message.timestamp.before.max.ms":
			r.before = millisOf(*c.Value)
		case "message.timestamp.after.max.ms":
			r.after = millisOf(*c.Value)
		case "message.timestamp.difference.max.ms":
			either = millisOf(*c.Value)
		case "message.timestamp.type":
			r.appended = *c.Value == "LogAppendTime"
		case "cleanup.policy":
			r.compacted = strings.Contains(*c.Value, "compact")
		}
	}
	if either != 0 && r.before == 0 && r.after == 0 {
		r.before, r.after = either, either
	}
	return r
}

// millisOf reads a number of milliseconds; 0 is one that bounds nothing, or cannot be read.
func millisOf(text string) time.Duration {
	var n int64
	if _, err := fmt.Sscan(text, &n); err != nil || n < 0 || n > int64(math.MaxInt64/time.Millisecond) {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// provenanceBytes is the least that the provenance headers of an output take; see stamp.
func provenanceBytes(topic string) int {
	const digits = 3 // of partition, offset and epoch
	names := len(headerTopic) + len(headerPartition) + len(headerOffset) + len(headerEpoch) + len(headerOutput)
	return names + len(topic) + digits + len("1/1")
}

// readRules learns what the outputs take, so that the client refuses no record that the broker would take, and so that
// the error policy finds those that it would not. Without the right to read it Kafka's defaults are assumed. It warns once
// of outputs in which records do not keep their times.
func (s *session) readRules(ctx context.Context, topics []string) error {
	rules := map[string]topicRules{}
	if known := s.rules.Load(); known != nil {
		maps.Copy(rules, *known) // of topics that were assigned before
	}
	configs, err := s.admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		s.log.Debug("topic configurations not read, Kafka's defaults are taken for granted", "err", err)
	}
	for _, c := range configs {
		if c.Err != nil {
			continue
		}
		r := topicRulesOf(c.Configs, s.buffered())
		rules[c.Name] = r
		if r.appended && c.Name != s.opts.DLQ && s.timed.CompareAndSwap(false, true) {
			s.log.Warn("the output topic gives records new times: message.timestamp.type=LogAppendTime", "topic", c.Name)
		}
	}
	s.rules.Store(&rules)
	return s.checkLetters()
}

// checkLetters demands of the topic for dead letters that it takes whatever the input takes, as far as that can be told.
func (s *session) checkLetters() error {
	if s.opts.OnError != DeadLetter {
		return nil
	}
	r := s.rulesOf(s.opts.DLQ)
	if r.compacted {
		return txn.Fatalf(txn.StatusConfig, "topic %q for dead letters (BRIDGE_DLQ_TOPIC) is compacted: it would refuse those without a key, and forget older ones of a key: "+
			"kafka-configs.sh --bootstrap-server … --alter --topic %s --add-config cleanup.policy=delete", s.opts.DLQ, s.opts.DLQ)
	}
	if !r.appended && (r.before != 0 || r.after != 0) && s.lettersTold.CompareAndSwap(false, true) {
		s.log.Warn("the topic for dead letters refuses some times, and a dead letter has the time of its record: one that it refuses ends the bridge; "+
			"set message.timestamp.before.max.ms and message.timestamp.after.max.ms to 9223372036854775807", "topic", s.opts.DLQ)
	}
	return nil
}

// ordinaryBatch is Kafka's default of max.message.bytes.
const ordinaryBatch = 1_048_588

// rulesOf is what a topic asks of records.
func (s *session) rulesOf(topic string) topicRules {
	if rules := s.rules.Load(); rules != nil {
		if r, ok := (*rules)[topic]; ok {
			return r
		}
	}
	return topicRules{largest: ordinaryBatch, buffered: s.buffered()}
}

// topicLimit is the largest batch that a topic takes.
func (s *session) topicLimit(topic string) int32 { return s.rulesOf(topic).largest }

// batchLimit is the largest batch that we make for a topic. A topic that takes more gets more only once there is a record
// that needs it: batches of many megabytes are no use to ordinary records, and the client's buffers grow with them
// (W1 of the benchmark, with a limit of 16 MiB: 2.7 CPU seconds for a million records instead of 1.1).
func (s *session) batchLimit(topic string) int32 {
	if s.large.Load() || s.opts.Delivery == AtMostOnce { // which would lose an epoch to the first such record
		return s.topicLimit(topic)
	}
	return min(s.topicLimit(topic), ordinaryBatch)
}

// enlarge reports whether a record that the client has refused may come again: the topic takes larger batches than the
// client was made for. The next session's client is made for them.
func (s *session) enlarge(topic string) bool {
	return s.topicLimit(topic) > s.batchLimit(topic) && s.large.CompareAndSwap(false, true)
}
