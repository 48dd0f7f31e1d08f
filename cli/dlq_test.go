package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDLQ: dead letters are listed, replayed into the input, and not replayed again. (kfake, not Apache Kafka)
func TestDLQ(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "orders-clean"), kfake.SeedTopics(1, "orders-dlq"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for i := range 20 {
		value := fmt.Sprintf(`{"n":%d}`, i)
		if i%5 == 1 {
			value = "no JSON"
		}
		r := &kgo.Record{Topic: "orders", Partition: int32(i % 2), Key: []byte("k"), Value: []byte(value), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("b")}}}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	environ := leastEnviron("KAFKA_BOOTSTRAP_SERVERS", strings.Join(c.ListenAddrs(), ","), "BRIDGE_TRANSFORM", "json_set(seen=true)",
		"BRIDGE_ON_ERROR", "dlq", "BRIDGE_DLQ_TOPIC", "orders-dlq", "BRIDGE_HTTP_ADDR", "off", "BRIDGE_EPOCH_INTERVAL", "10ms", "LOG_LEVEL", "error")
	expect := func(want string, args ...string) string {
		t.Helper()
		code, stdout, stderr := runMain(environ, args...)
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Fatalf("%v: status %d, %s%s, want %q", args, code, stdout, stderr, want)
		}
		return stdout
	}
	expect("", "run", "--until-end")
	expect("orders/1/0  transform  \"transform json_set (stage 1): the value is not JSON", "dlq", "list")
	lines := strings.Split(strings.TrimSpace(expect("", "dlq", "list", "--json")), "\n")
	var letter listedLetter
	if err := json.Unmarshal([]byte(lines[0]), &letter); err != nil || len(lines) != 4 || letter.Topic != "orders" || letter.Class != "transform" || string(letter.Key) != "k" || letter.Bytes != 7 {
		t.Errorf("%d lines, the first: %+v, %v", len(lines), letter, err)
	}
	if lines := strings.Split(strings.TrimSpace(expect("", "dlq", "list", "--json", "--limit", "2")), "\n"); len(lines) != 2 {
		t.Errorf("%d lines with --limit 2", len(lines))
	}
	expect("replayed 4 dead letters of topic orders-dlq", "dlq", "replay")
	expect("replayed 0 dead letters", "dlq", "replay")
	environ["BRIDGE_TRANSFORM"] = ""
	expect("", "run", "--until-end")
	count := func(topic string) (n int) {
		for _, p := range c.PartitionInfos(topic) {
			n += int(p.HighWatermark)
		}
		return n
	}
	if in, dead := count("orders"), count("orders-dlq"); in < 24 || dead < 4 { // with markers
		t.Errorf("%d in the input, %d dead letters", in, dead)
	}
	delete(environ, "BRIDGE_DLQ_TOPIC")
	delete(environ, "BRIDGE_ON_ERROR")
	if code, _, stderr := runMain(environ, "dlq", "replay"); code != exitConfig || !strings.Contains(stderr, "BRIDGE_DLQ_TOPIC is not set") {
		t.Errorf("without a topic: status %d, %s", code, stderr)
	}
	for _, args := range [][]string{{"dlq"}, {"dlq", "show"}, {"dlq", "list", "--limit", "-1"}, {"dlq", "replay", "x"}} {
		if code, _, _ := runMain(environ, args...); code != exitUsage {
			t.Errorf("%v: status %d", args, code)
		}
	}
}
