package bridge

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eosbridge/eosbridge/transform"
)

// config is a topic's configuration from names and values in turn.
func config(pairs ...string) []kadm.Config {
	var all []kadm.Config
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, kadm.Config{Key: pairs[i], Value: &pairs[i+1]})
	}
	return all
}

// TestTopicRules: what a topic's configuration refuses is found before, and what is not certain is left to the broker.
func TestTopicRules(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	at := func(d time.Duration) transform.Record {
		return transform.Record{Key: []byte("k"), Timestamp: now.Add(d)}
	}
	sized := func(n int) transform.Record {
		return transform.Record{Value: make([]byte, n-10), Headers: []transform.Header{{Key: "12345", Value: []byte("67890")}}, Timestamp: now}
	}
	const hour = "3600000"
	for _, tc := range []struct {
		name   string
		config []kadm.Config
		out    transform.Record
		extra  int
		class  string
		says   string
	}{
		{"nothing known", nil, at(-1e6 * time.Hour), 0, "", ""},
		{"default size", nil, sized(ordinaryBatch - batchHeader), 0, "", ""},
		{"above the default size", nil, sized(ordinaryBatch - batchHeader + 1), 0, failedTooLarge, "max.message.bytes"},
		{"as large as it may be", config("max.message.bytes", "2000"), sized(2000 - batchHeader), 0, "", ""},
		{"too large", config("max.message.bytes", "2000"), sized(2001 - batchHeader), 0, failedTooLarge, "takes batches of 2000 bytes"},
		{"too large with more headers", config("max.message.bytes", "2000"), sized(1900 - batchHeader), 101, failedTooLarge, "headers 111"},
		{"larger than the client buffers", config("max.message.bytes", "50000000"), sized(9_000_000), 0, failedTooLarge, "BRIDGE_MEMORY_LIMIT"},
		{"a key, compacted", config("cleanup.policy", "compact"), at(0), 0, "", ""},
		{"no key, compacted", config("cleanup.policy", "compact,delete"), transform.Record{Timestamp: now}, 0, failedNoKey, "compacted"},
		{"an empty key, compacted", config("cleanup.policy", "compact"), transform.Record{Key: []byte{}, Timestamp: now}, 0, "", ""},
		{"no key", config("cleanup.policy", "delete"), transform.Record{Timestamp: now}, 0, "", ""},
		{"just in the future", config("message.timestamp.after.max.ms", hour), at(time.Hour), 0, "", ""},
		{"for the broker to judge", config("message.timestamp.after.max.ms", hour), at(time.Hour + clockMargin), 0, "", ""},
		{"too far in the future", config("message.timestamp.after.max.ms", hour), at(time.Hour + clockMargin + time.Second), 0, failedTimestamp, "2026-05-04T04:07:02.000Z"},
		{"old", config("message.timestamp.before.max.ms", hour), at(-time.Hour - time.Second), 0, "", ""},
		{"too old", config("message.timestamp.before.max.ms", hour), at(-time.Hour - 2*clockMargin), 0, failedTimestamp, "message.timestamp.before.max.ms"},
		{"too old up to Kafka 3.9", config("message.timestamp.before.max.ms", "9223372036854775807", "message.timestamp.after.max.ms", "9223372036854775807", "message.timestamp.difference.max.ms", hour), at(-2 * time.Hour), 0, failedTimestamp, ""},
		{"the broker's time", config("message.timestamp.after.max.ms", hour, "message.timestamp.type", "LogAppendTime"), at(100 * time.Hour), 0, "", ""},
		{"no time", config("message.timestamp.before.max.ms", hour), transform.Record{Timestamp: time.UnixMilli(-1)}, 0, "", ""},
		{"any time", config("message.timestamp.after.max.ms", "9223372036854775807"), at(1e6 * time.Hour), 0, "", ""},
		{"what cannot be read", config("max.message.bytes", "many", "message.timestamp.after.max.ms", "some"), at(100 * time.Hour), 0, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			class, err := topicRulesOf(tc.config, 8<<20).refuse(&tc.out, tc.extra, func() time.Time { return now })
			if class != tc.class {
				t.Fatalf("class %q, want %q (%v)", class, tc.class, err)
			}
			if class != "" && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q is missing in: %v", tc.says, err)
			}
		})
	}
}

// TestDeadLetter: a letter is the input and the reasons, the same each time, and bounded.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	in := &transform.Record{
		Topic: "in", Partition: 3, Offset: 41, Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 10), Timestamp: time.UnixMilli(1_700_000_000_123),
		Headers: append(make([]transform.Header, 0, 50), transform.Header{Key: "a"}, transform.Header{Key: headerLetter, Value: []byte("of another bridge")}),
	}
	failed := func(text string) failure {
		return failureOf(&transform.Error{Transform: "json_set", Stage: 2, Err: errorText(text)})
	}
	letter := deadLetter(in, tpOf("in", 3), failed("no"), sender{"g", "1.2"})
	want := []string{
		"a=", "eosbridge.dlq.topic=of another bridge", "eosbridge.dlq.topic=in", "eosbridge.dlq.partition=3", "eosbridge.dlq.offset=41",
		"eosbridge.dlq.timestamp=1700000000123", "eosbridge.dlq.class=transform", "eosbridge.dlq.message=transform json_set (stage 2): no",
		"eosbridge.dlq.transform=json_set", "eosbridge.dlq.stage=2", "eosbridge.dlq.attempts=1", "eosbridge.dlq.group=g", "eosbridge.dlq.version=1.2",
	}
	if got := headerTexts(letter.Headers); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("headers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !bytes.Equal(letter.Key, in.Key) || !bytes.Equal(letter.Value, in.Value) || !letter.Timestamp.Equal(in.Timestamp) {
		t.Errorf("the record has changed: %+v", letter)
	}
	if spare := in.Headers[:3]; spare[2].Key != "" {
		t.Error("the input's spare capacity was written to")
	}
	long := deadLetter(in, tpOf("in", 3), failed(strings.Repeat("é", 5000)+"\xff"), sender{"g", "1.2"})
	if message := string(long.Headers[7].Value); len(message) > messageBytes || !strings.HasSuffix(message, "é…") {
		t.Errorf("a message of %d bytes: %.100q", len(message), message)
	}
}

type errorText string

func (e errorText) Error() string { return string(e) }

func headerTexts(headers []transform.Header) []string {
	var all []string
	for _, h := range headers {
		all = append(all, h.Key+"="+string(h.Value))
	}
	return all
}
