package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/audit"
	"github.com/eosbridge/eosbridge/cli"
	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/proof"
	"github.com/eosbridge/eosbridge/transform"
)

// audited runs the command audit and answers its status and report.
func audited(ctx context.Context, t *testing.T, environ []string, args ...string) (int, *audit.Report, error) {
	t.Helper()
	cmd := exec.CommandContext(ctx, bridgeBinary(t), append([]string{"audit", "--json"}, args...)...)
	cmd.Env = environ
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, nil, err
	}
	var r audit.Report
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, nil, fmt.Errorf("%w: %q, %s", err, out, stderr.String())
	}
	return cmd.ProcessState.ExitCode(), &r, nil
}

// audit wants a status of an audit of the rig's pipeline.
func (r *rig) audit(t *testing.T, status int, settings map[string]string, args ...string) *audit.Report {
	t.Helper()
	got, report, err := audited(within(t, patience), t, r.environ("audit", settings), args...)
	if err != nil {
		t.Fatal(err)
	}
	if got != status {
		t.Errorf("the audit ended with status %d, want %d: %+v", got, status, report)
	}
	return report
}

// awaitPositions waits until the group has a position of each partition: before, an audit has nothing to go by.
func (r *rig) awaitPositions(ctx context.Context, t *testing.T) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for p := int32(0); p < int32(r.plan.in); {
		if r.position(t, p) >= 0 {
			p++
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// audits runs one audit after the other until it is stopped; then answers how many there were, and how many records
// the last one saw. Each must be a pass: nothing is wrong, and nothing is hidden for longer than it waits.
func (r *rig) audits(t *testing.T) (stopAudits func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() { // ends with the function that is answered, or with the test
		n := 0
		r.awaitPositions(ctx, t)
		for ctx.Err() == nil {
			status, report, err := audited(ctx, t, r.environ("audit", nil), "--wait", "10m")
			switch {
			case ctx.Err() != nil:
			case err != nil:
				t.Errorf("audit %d: %v", n, err)
				cancel()
			case status != 0:
				t.Errorf("audit %d beside the bridge: status %d, %+v", n, status, report)
				cancel()
			default:
				n++
			}
		}
		done <- n
	}()
	t.Cleanup(cancel)
	return func() int {
		cancel()
		return <-done
	}
}

// TestAuditLive audits a pipeline again and again while its bridge is killed again and again: each audit is a pass.
func TestAuditLive(t *testing.T) {
	t.Parallel()
	plans := map[string]plan{
		"preserve": {in: 2, out: 2, preserve: true},
		"key":      {in: 2, out: 3},
	}
	if *long {
		plans["provenance"] = plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_PROVENANCE": "true"}}
	}
	for name, p := range plans {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kafka.Shared(t, kafka.V44)
			proxy := distant(t, c)
			r := newRig(t, c, p)
			r.plan.settings = maps.Clone(p.settings)
			k := newKiller(seeded(t), proxy)
			r.plan.address = proxy.Addr()
			r.start(t, "a") // the group's first positions
			awaitRunning(t, r.lives[0].Process)
			feed := r.feed(t, 2000)
			stopAudits := r.audits(t)
			kill(t, r.lives[0].Process)
			for k.kills < size(3, 30) {
				k.kill(t, r.start(t, "a"))
			}
			feed.finish(t)
			last := r.start(t, "a")
			awaitRunning(t, last)
			r.settle(t)
			audits := stopAudits()
			stop(t, last)
			report := r.audit(t, 0, nil)
			var records int64
			for _, s := range report.Sources {
				records += s.Records
				if s.Verified != s.Committed {
					t.Errorf("verified up to %d of %d", s.Verified, s.Committed)
				}
			}
			if records != r.input.Acked() {
				t.Errorf("%d records were audited, %d were fed", records, r.input.Acked())
			}
			t.Logf("%d audits beside %d kills, %d records", audits, k.kills, records)
			proof.Record(t, proof.Result{Broker: proof.V44, Kills: int64(k.kills), Records: records, Scenarios: int64(audits), Note: "audits beside the bridge, each a pass"})
		})
	}
}

// tamper copies the output topic to another one, record by record, with what change makes of each partition.
func (r *rig) tamper(t *testing.T, change func(partition int32, list []*kgo.Record) []*kgo.Record) string {
	t.Helper()
	topic := r.cluster.Topic(t, r.plan.out)
	cl := r.cluster.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	byPartition := readCommitted(t, r.cluster, r.out)
	for p, list := range byPartition {
		for _, x := range change(p, list) {
			cl.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: p, Key: x.Key, Value: x.Value, Headers: x.Headers, Timestamp: x.Timestamp}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	if err := cl.Flush(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	return topic
}

// readCommitted reads a topic that nobody writes to any more.
func readCommitted(t *testing.T, c *kafka.Cluster, topic string) map[int32][]*kgo.Record {
	t.Helper()
	ctx := within(t, patience)
	ends, err := c.Admin(t).ListCommittedOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	for p, end := range ends[topic] {
		if end.Offset > 0 {
			left[p] = end.Offset
		}
	}
	cl := c.Client(t, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	found := map[int32][]*kgo.Record{}
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(x *kgo.Record) {
			if !x.Attrs.IsControl() {
				found[x.Partition] = append(found[x.Partition], x)
			}
			if x.Offset+1 >= left[x.Partition] {
				delete(left, x.Partition)
			}
		})
	}
	return found
}

// TestAuditFaults plants one fault of each kind into a copy of the output; the audit finds exactly those.
func TestAuditFaults(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]plan{
		"preserve":   {in: 2, out: 2, preserve: true},
		"key":        {in: 2, out: 3},
		"provenance": {in: 2, out: 3, settings: map[string]string{"BRIDGE_PROVENANCE": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, kafka.Shared(t, kafka.V44), p)
			r.feedNow(t, 6000)
			exits(t, r.start(t, "a", "--until-end"), 0)
			r.audit(t, 0, nil)
			whole := r.tamper(t, func(_ int32, list []*kgo.Record) []*kgo.Record { return list })
			r.audit(t, 0, map[string]string{"BRIDGE_OUTPUT_TOPIC": whole})
			topic := r.tamper(t, func(p int32, list []*kgo.Record) []*kgo.Record {
				if p != 1 {
					return list
				}
				altered := *list[700]
				altered.Timestamp = altered.Timestamp.Add(1)
				altered.Value = []byte("altered")
				list[700] = &altered
				list = slices.Insert(list, 600, &kgo.Record{Key: []byte("nobody's"), Value: []byte("from nowhere"), Timestamp: altered.Timestamp})
				swap(list, 500)
				list = slices.Insert(list, 400, list[300])
				return slices.Delete(list, 200, 201)
			})
			report := r.audit(t, 1, map[string]string{"BRIDGE_OUTPUT_TOPIC": topic})
			want := map[audit.Kind]int64{audit.Missing: 1, audit.Duplicated: 1, audit.OutOfOrder: 1, audit.Orphaned: 1, audit.Altered: 1}
			if p.settings != nil { // a record without provenance among others that have it
				want[audit.Orphaned] = report.Counts[audit.Orphaned]
			}
			if !maps.Equal(report.Counts, want) {
				t.Errorf("found %v, want %v: %v", report.Counts, want, report.Examples)
			}
			proof.Record(t, proof.Result{Broker: proof.V44, Records: 6000, Scenarios: 5, Note: "faults planted into a copy of the output, each found"})
		})
	}
}

// swap exchanges the first record from i on with the next one of its source partition.
func swap(list []*kgo.Record, i int) {
	source := func(x *kgo.Record) string { // "topic/partition/number"
		for _, h := range x.Headers {
			if h.Key == "origin" {
				return string(h.Value[:bytes.LastIndexByte(h.Value, '/')])
			}
		}
		return ""
	}
	k := i + 1
	for source(list[k]) != source(list[i]) {
		k++
	}
	list[i], list[k] = list[k], list[i]
}

func init() {
	transform.Register(transform.Definition{
		Name: "audit_split", Usage: "audit_split", Doc: "For tests: drops some records, multiplies others.", Example: "audit_split",
		New: func(string) (transform.Transform, error) { return split{}, nil },
	})
}

// split drops every third record and makes up to four of the others.
type split struct{}

// Apply implements transform.Transform.
func (split) Apply(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
	if in.Offset%3 == 0 {
		return out, nil
	}
	for i := range in.Offset%4 + 1 {
		r := *in
		r.Value = fmt.Appendf(nil, "part %d of %s", i, in.Value)
		out = append(out, r)
	}
	return out, nil
}

// command runs a command line in this process, which knows the transform.
func (r *rig) command(t *testing.T, settings map[string]string, args ...string) (status int, stdout string) {
	t.Helper()
	environ := map[string]string{}
	for _, pair := range r.environ("a", settings) {
		name, value, _ := strings.Cut(pair, "=")
		environ[name] = value
	}
	var out, stderr bytes.Buffer
	status = cli.Main(cli.Context{Args: args, Environ: environ, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &stderr})
	if status != 0 && out.Len() == 0 {
		t.Fatalf("%v ended with status %d: %s", args, status, stderr.String())
	}
	return status, out.String()
}

// TestAuditProvenance audits a pipeline that drops and multiplies: what was dropped cannot be told from what was lost,
// and everything else can.
func TestAuditProvenance(t *testing.T) {
	t.Parallel()
	r := newRig(t, kafka.Shared(t, kafka.V44), plan{in: 2, out: 2, preserve: true, settings: map[string]string{
		"BRIDGE_PROVENANCE": "true", "BRIDGE_TRANSFORM": "audit_split", "LOG_LEVEL": "error",
	}})
	r.reader.Close() // its checker knows no such transform
	r.feedNow(t, 3000)
	if status, out := r.command(t, nil, "run", "--until-end"); status != 0 {
		t.Fatalf("the bridge ended with status %d: %s", status, out)
	}
	judge := func(topic string, status int, args ...string) *audit.Report {
		t.Helper()
		got, out := r.command(t, map[string]string{"BRIDGE_OUTPUT_TOPIC": topic}, append([]string{"audit", "--json"}, args...)...)
		var report audit.Report
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatal(err)
		}
		if got != status {
			t.Errorf("the audit ended with status %d, want %d: %+v", got, status, report)
		}
		return &report
	}
	report := judge(r.out, 2)
	var silent int64
	for _, s := range report.Sources {
		for _, u := range s.Undecided {
			silent += u.Records
		}
	}
	if len(report.Counts) > 0 || silent != 1000 {
		t.Errorf("found %v, %d inputs without output, want none and 1000", report.Counts, silent)
	}
	if report := judge(r.out, 1, "--every"); !maps.Equal(report.Counts, map[audit.Kind]int64{audit.Missing: 1000}) {
		t.Errorf("with --every: %v", report.Counts)
	}
	topic := r.tamper(t, func(p int32, list []*kgo.Record) []*kgo.Record {
		if p != 0 {
			return list
		}
		several := func(from int) int { // an input with several outputs
			for !strings.HasSuffix(header(list[from], "eosbridge.output"), "/4") {
				from++
			}
			return from
		}
		nowhere := *list[900]
		nowhere.Headers = slices.Clone(nowhere.Headers)
		for i, h := range nowhere.Headers {
			if h.Key == "eosbridge.offset" {
				nowhere.Headers[i].Value = []byte("123456789")
			}
		}
		list = slices.Insert(list, 900, &nowhere)
		list = slices.Insert(list, 700, list[600])
		i := several(500)
		list[i], list[i+4] = list[i+4], list[i]
		i = several(300)
		return slices.Delete(list, i, i+1)
	})
	report = judge(topic, 1)
	if report.Counts[audit.Missing] != 1 || report.Counts[audit.Duplicated] != 1 || report.Counts[audit.Orphaned] != 1 || report.Counts[audit.OutOfOrder] < 1 {
		t.Errorf("found %v: %v", report.Counts, report.Examples)
	}
	proof.Record(t, proof.Result{Broker: proof.V44, Records: 3000, Scenarios: 4, Note: "a pipeline that drops and multiplies, audited by provenance"})
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
