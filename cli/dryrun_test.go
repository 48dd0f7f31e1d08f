package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dryBed is an embedded broker (kfake, not Apache Kafka) with 50 records in each of two partitions, of which the group has
// read 20 of the first. It notes which requests are made.
type dryBed struct {
	*kfake.Cluster
	environ map[string]string

	mu    sync.Mutex
	asked map[kmsg.Key]int
}

func newDryBed(t *testing.T) *dryBed {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "orders-clean"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for i := range 50 {
		value := fmt.Appendf(nil, `{"id":%d,"region":%q}`, i, []string{"eu", "us"}[i%2])
		if i == 40 {
			value = []byte("no JSON")
		}
		records := []*kgo.Record{{Topic: "orders", Partition: 0, Value: value}, {Topic: "orders", Partition: 1, Key: []byte("k"), Value: value, Headers: []kgo.RecordHeader{{Key: "h"}}}}
		if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var at kadm.Offsets
	at.AddOffset("orders", 0, 20, -1)
	if _, err := kadm.NewClient(cl).CommitOffsets(t.Context(), "orders-bridge", at); err != nil {
		t.Fatal(err)
	}
	b := &dryBed{Cluster: c, asked: map[kmsg.Key]int{}, environ: leastEnviron(
		"KAFKA_BOOTSTRAP_SERVERS", strings.Join(c.ListenAddrs(), ","),
		"BRIDGE_TRANSFORM", `filter(value.id != 41) | set(value.tier = "gold") | route_if(orders-eu: value.region == "eu")`,
	)}
	c.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.asked[kmsg.Key(r.Key())]++
		return nil, nil, false
	})
	return b
}

// harmless are the requests that change nothing.
var harmless = []kmsg.Key{
	kmsg.ApiVersions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.OffsetFetch, kmsg.ListOffsets, kmsg.Fetch, kmsg.OffsetForLeaderEpoch,
	kmsg.DescribeConfigs, kmsg.DescribeGroups, kmsg.SASLHandshake, kmsg.SASLAuthenticate,
	kmsg.GetTelemetrySubscriptions, kmsg.PushTelemetry, // the client's own metrics
}

// untouched fails if the dry run has asked for anything that changes something.
func (b *dryBed) untouched(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, n := range b.asked {
		if !slices.Contains(harmless, key) {
			t.Errorf("%d requests %s", n, key.Name())
		}
	}
	if b.asked[kmsg.Fetch] == 0 {
		t.Error("nothing was fetched, or no request was seen")
	}
	for p := range int32(2) {
		if end := b.PartitionInfo("orders-clean", p).HighWatermark; end != 0 {
			t.Errorf("the output's partition %d ends at %d", p, end)
		}
	}
}

func (b *dryBed) position(t *testing.T) int64 {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	all, err := kadm.NewClient(cl).FetchOffsets(t.Context(), "orders-bridge")
	if err != nil || len(all.Offsets().Sorted()) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	at, _ := all.Lookup("orders", 0)
	return at.At
}

// TestDryRun: it reads from the group's positions and from BRIDGE_START where there are none, and changes nothing.
func TestDryRun(t *testing.T) {
	b := newDryBed(t)
	code, stdout, stderr := runMain(b.environ, "run", "--dry-run", "--for", "2m", "--until-end", "--json", "--sample", "2")
	b.untouched(t)
	var got dryTally
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("status %d, %s, %v: %s", code, stderr, err, stdout)
	}
	// 30 records of partition 0 and, for the topic has been started, all 50 of partition 1.
	if code != exitFailure || got.Read != 80 || got.Partitions != 2 || got.Positioned != 1 || got.Failed != 2 || got.Dropped != 2 || got.Changed != 76 || got.Unchanged != 0 || got.Out != 76 {
		t.Errorf("status %d, %s, %+v", code, stderr, got)
	}
	if len(got.Classes) != 1 || got.Classes[0].Class != "filter (stage 1)" || got.Classes[0].Count != 2 || !strings.HasPrefix(got.Classes[0].First, "orders/") || !strings.Contains(got.Classes[0].Error, "not JSON") {
		t.Errorf("classes %+v", got.Classes)
	}
	if got.Outputs["orders-eu"] != 38 || got.Outputs["orders-clean"] != 38 {
		t.Errorf("outputs %v", got.Outputs)
	}
	fates := map[string]int{}
	for _, s := range got.Samples {
		fates[s.Fate]++
		before, err := decodeRecord(s.Before)
		if err != nil || s.Fate == fateChanged && len(s.After) != 1 {
			t.Errorf("%v, %+v", err, before)
		}
	}
	if len(fates) != 3 || fates[fateChanged] != 2 || fates[fateDropped] != 2 || fates[fateFailed] != 2 {
		t.Errorf("samples %v", fates)
	}
	if at := b.position(t); at != 20 {
		t.Errorf("the position is now %d", at)
	}
}

// TestDryRunReport is what people see.
func TestDryRunReport(t *testing.T) {
	b := newDryBed(t)
	code, stdout, stderr := runMain(b.environ, "run", "--dry-run", "--for", "2m", "--records", "10", "--sample", "1")
	b.untouched(t)
	if code != exitOK || stderr != "" {
		t.Fatalf("status %d, %s", code, stderr)
	}
	for _, want := range []string{
		"dry run: nothing was produced, nothing committed, no group joined\n", "2 partitions, 1 of them from the positions of group orders-bridge\n",
		" changed\n  value: differs from byte ", "\n    was '{", "\n    is  '{", "read         10 records", "changed      10\n", "failed       0\n", "would go out 10 records\n", "    orders-clean: 5\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
}

// TestDryRunPattern: topics by a regular expression, without the bridge's own output and without positions.
func TestDryRunPattern(t *testing.T) {
	b := newDryBed(t)
	b.environ["BRIDGE_INPUT_TOPICS"] = "/orders.*/"
	b.environ["BRIDGE_GROUP_ID"] = "another"
	b.environ["BRIDGE_TRANSFORM"] = ""
	for start, want := range map[string]int64{"earliest": 100, "latest": 0, "1999-01-01T00:00:00Z": 100} {
		b.environ["BRIDGE_START"] = start
		code, stdout, stderr := runMain(b.environ, "run", "--dry-run", "--for", "2m", "--until-end", "--json")
		var got dryTally
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK || got.Read != want || got.Unchanged != want || got.Partitions != 2 {
			t.Errorf("%s: status %d, %s, %v, %+v", start, code, stderr, err, got)
		}
	}
}

// TestDryRunStops: a signal ends it with the report.
func TestDryRunStops(t *testing.T) {
	b := newDryBed(t)
	signals := make(chan os.Signal, 1)
	fetched := make(chan struct{})
	var once sync.Once
	b.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		once.Do(func() { close(fetched) })
		return nil, nil, false
	})
	go func() { // ends with the first fetch, which the command below makes
		<-fetched
		signals <- syscall.SIGINT
	}()
	var out, errOut bytes.Buffer
	code := Main(Context{
		Args: []string{"run", "--dry-run", "--for", "1h", "--records", "1000000"}, Environ: b.environ, Signals: signals, Hostname: "pod-0",
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut,
	})
	if code > exitFailure || errOut.Len() > 0 || !strings.Contains(out.String(), "would go out") {
		t.Errorf("status %d, %s\n%s", code, &errOut, &out)
	}
	b.untouched(t)
}

func TestDryRunRefuses(t *testing.T) {
	b := newDryBed(t)
	for line, want := range map[string]string{
		"run --records 5":                      "--records belongs to --dry-run",
		"run --json":                           "--json belongs to --dry-run",
		"run --dry-run --records 0":            "--records 0: use 1 or more",
		"run --dry-run --for 0s":               "--for 0s: use more than 0",
		"run --dry-run --sample -1":            "--sample -1: use 0 to 1000",
		"run --dry-run --records 1 --sample x": "invalid value",
	} {
		if code, _, stderr := runMain(b.environ, strings.Fields(line)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", line, code, stderr)
		}
	}
	b.environ["BRIDGE_INPUT_TOPICS"] = "nowhere"
	if code, _, stderr := runMain(b.environ, "run", "--dry-run"); code != exitConfig || !strings.Contains(stderr, `input topic "nowhere" does not exist`) {
		t.Errorf("status %d, %s", code, stderr)
	}
}

// TestDryRunTruncated: a position before the log's start is told.
func TestDryRunTruncated(t *testing.T) {
	b := newDryBed(t)
	if err := b.DeleteRecords("orders", 0, 30); err != nil {
		t.Fatal(err)
	}
	_, stdout, stderr := runMain(b.environ, "run", "--dry-run", "--for", "2m", "--until-end")
	if !strings.Contains(stdout, "the position 20 lies before the first record that is left, 30") || !strings.Contains(stdout, "read         70 records") {
		t.Errorf("%s\n%s", stderr, stdout)
	}
}
