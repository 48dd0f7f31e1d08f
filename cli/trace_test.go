package cli

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/eosbridge/eosbridge/bridge"
	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/test/collector"
)

// traceBed is an embedded broker (kfake, not Apache Kafka), a collector, and a bridge that is told of it.
type traceBed struct {
	*kfake.Cluster
	to      *collector.Collector
	environ map[string]string
}

func newTraceBed(t *testing.T, pairs ...string) *traceBed {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders-clean"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &traceBed{Cluster: c, to: collector.New(t)}
	b.environ = leastEnviron(append([]string{
		"KAFKA_BOOTSTRAP_SERVERS", strings.Join(c.ListenAddrs(), ","), "BRIDGE_HTTP_ADDR", "off", "BRIDGE_EPOCH_INTERVAL", "1ms",
		"BRIDGE_RESTART_MAX_DELAY", "10ms", "LOG_LEVEL", "debug", "LOG_FORMAT", "json",
		"OTEL_EXPORTER_OTLP_ENDPOINT", b.to.Serve(), "OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20hunter2",
	}, pairs...)...)
	return b
}

// run runs the bridge while it is fed ten times, each time after it has committed what it got before. It returns the log.
func (b *traceBed) run(t *testing.T) string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	signals := make(chan os.Signal, 1)
	var log bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- Main(Context{Args: []string{"run"}, Environ: b.environ, Signals: signals, Hostname: "pod-0", Stdin: strings.NewReader(""), Stdout: &log, Stderr: &log})
	}()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for round := range int64(10) {
		var records []*kgo.Record
		for i := range 20 {
			records = append(records, &kgo.Record{Topic: "orders", Value: fmt.Appendf(nil, "%d", i)})
		}
		if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for at := int64(-1); at < 20*(round+1); {
			select {
			case status := <-code:
				t.Fatalf("the bridge ended with status %d\n%s", status, &log)
			case <-tick.C:
			}
			committed, err := kadm.NewClient(cl).FetchOffsets(t.Context(), "orders-bridge")
			if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
				t.Fatal(err)
			}
			if o, ok := committed.Lookup("orders", 0); ok {
				at = o.At
			}
		}
	}
	signals <- syscall.SIGTERM
	if status := <-code; status != exitOK || strings.Contains(log.String(), "hunter2") {
		t.Fatalf("status %d, log\n%s", status, &log)
	}
	return log.String()
}

// endedEpochs are the epochs that a log tells of, by their number, with the outcome.
func endedEpochs(t *testing.T, log string) map[int64]string {
	t.Helper()
	all := map[int64]string{}
	for line := range strings.Lines(log) {
		var entry struct {
			Msg, Outcome string
			Epoch        int64
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch entry.Msg {
		case "epoch committed":
			all[entry.Epoch] = entry.Outcome
		case "epoch aborted":
			all[entry.Epoch] = bridge.OutcomeAborted
		}
	}
	return all
}

// tracesOf sorts spans by trace: the root first, then its steps.
func tracesOf(t *testing.T, spans []*trace.Span) [][]*trace.Span {
	t.Helper()
	byID := map[string][]*trace.Span{}
	var order []string
	for _, s := range spans {
		id := string(s.GetTraceId())
		if len(s.GetParentSpanId()) == 0 {
			order = append(order, id)
		}
		byID[id] = append(byID[id], s)
	}
	var list [][]*trace.Span
	for _, id := range order {
		list = append(list, byID[id])
	}
	if len(list) != len(byID) {
		t.Errorf("%d traces have %d roots", len(byID), len(list))
	}
	return list
}

// checkTrace demands what holds for every trace, and returns the attributes of its root.
func checkTrace(t *testing.T, spans []*trace.Span) map[string]any {
	t.Helper()
	root, ids := spans[0], map[string]bool{}
	for i, s := range spans {
		ids[string(s.GetSpanId())] = true
		if i > 0 && !bytes.Equal(s.GetParentSpanId(), root.GetSpanId()) {
			t.Errorf("%s is not below the epoch", s.GetName())
		}
		if s.GetStartTimeUnixNano() < root.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() > root.GetEndTimeUnixNano() || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			t.Errorf("%s [%d, %d] is not within the epoch [%d, %d]", s.GetName(), s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano(), root.GetStartTimeUnixNano(), root.GetEndTimeUnixNano())
		}
	}
	if len(ids) != len(spans) || root.GetName() != "epoch" {
		t.Errorf("%d spans with %d ids below %s", len(spans), len(ids), root.GetName())
	}
	attributes, err := collector.Attributes(root.GetAttributes())
	if err != nil {
		t.Error(err)
	}
	return attributes
}

func namesOf(spans []*trace.Span) (names []string) {
	for _, s := range spans {
		names = append(names, s.GetName())
	}
	return names
}

// TestTraces: each epoch of a bridge has one trace, an aborted one too, whose times are those of the epoch.
func TestTraces(t *testing.T) {
	b := newTraceBed(t, "OTEL_SERVICE_NAME", "orders", "OTEL_RESOURCE_ATTRIBUTES", "team=a%20b", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	var commits atomic.Int64
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.UnknownServerError, When: func(kmsg.Request) bool { return commits.Add(1) == 3 }})
	begin := time.Now()
	want := endedEpochs(t, b.run(t))
	traces := tracesOf(t, b.to.Spans())
	if len(traces) != len(want) || len(want) < 10 {
		t.Errorf("%d traces of %d epochs", len(traces), len(want))
	}
	records, aborted := int64(0), 0
	for _, spans := range traces {
		about := checkTrace(t, spans)
		n, _ := about["eosbridge.epoch"].(int64)
		if about["eosbridge.outcome"] != want[n] {
			t.Errorf("epoch %d: %v, the log has %s", n, about["eosbridge.outcome"], want[n])
		}
		delete(want, n)
		if about["messaging.system"] != "kafka" || about["messaging.consumer.group.name"] != "orders-bridge" || about["eosbridge.transactional_id"] != fmt.Sprintf("orders-bridge.pod-0.%d", n%2) || about["eosbridge.generation"] == int64(0) {
			t.Errorf("epoch %d: attributes %v", n, about)
		}
		root := spans[0]
		if root.GetStartTimeUnixNano() < uint64(begin.UnixNano()) || root.GetEndTimeUnixNano() > uint64(time.Now().UnixNano()) {
			t.Errorf("epoch %d: from %d to %d", n, root.GetStartTimeUnixNano(), root.GetEndTimeUnixNano())
		}
		if about["eosbridge.outcome"] == bridge.OutcomeAborted {
			aborted++
			last := spans[len(spans)-1]
			for _, s := range []*trace.Span{root, last} {
				if s.GetStatus().GetCode() != trace.Status_STATUS_CODE_ERROR || s.GetStatus().GetMessage() == "" {
					t.Errorf("epoch %d: status of %s %v", n, s.GetName(), s.GetStatus())
				}
			}
			if about["error.type"] != bridge.ClassInDoubt && about["error.type"] != bridge.ClassAborted {
				t.Errorf("epoch %d: class %v", n, about["error.type"])
			}
			continue
		}
		records += about["eosbridge.records_out"].(int64)
		if names := namesOf(spans); !slices.Equal(names, []string{"epoch", "transform", "flush", "send offsets", "end transaction"}) || root.GetStatus() != nil || about["messaging.batch.message_count"] != about["eosbridge.records_in"] {
			t.Errorf("epoch %d: spans %v, status %v, %v", n, names, root.GetStatus(), about)
		}
	}
	if records != 200 || aborted == 0 || len(want) > 0 {
		t.Errorf("%d records in committed epochs, %d aborted, no trace of %v", records, aborted, want)
	}
	request := b.to.Taken()[0]
	resource, err := collector.Attributes(request.Traces.GetResourceSpans()[0].GetResource().GetAttributes())
	if err != nil || resource["service.name"] != "orders" || resource["service.instance.id"] != "pod-0" || resource["team"] != "a b" || resource["service.version"] == nil {
		t.Errorf("resource %v, %v", resource, err)
	}
	if request.Path != "/v1/traces" || request.Header.Get("Authorization") != "Bearer hunter2" {
		t.Errorf("request to %s with %v", request.Path, request.Header)
	}
}

// TestTracesCostNoEpoch: whatever a collector does, the bridge does its work, ends in order, and shows no secret.
func TestTracesCostNoEpoch(t *testing.T) {
	for name, how := range map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"fails": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, `{"message":"`+r.Header.Get("Authorization")+`"}`, http.StatusInternalServerError)
		},
		"throttles": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTraceBed(t, "OTEL_EXPORTER_OTLP_TIMEOUT", "100", "LOG_LEVEL", "info")
			b.to.Refuse(how)
			log := b.run(t)
			if strings.Count(log, "traces cannot be delivered") != 1 {
				t.Errorf("log\n%s", log)
			}
			if b.to.Refused() == 0 {
				t.Error("the collector was not asked")
			}
		})
	}
}

// offTheWire makes the traces of epochs and returns them as a collector got them.
func offTheWire(t *testing.T, o bridge.Options, epochs ...bridge.EpochSummary) [][]*trace.Span {
	t.Helper()
	to := collector.New(t)
	server := httptest.NewTLSServer(to)
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(leastEnviron("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/x", "OTEL_EXPORTER_OTLP_CERTIFICATE", ca), "host")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	o.Registerer, o.Log = registry, slog.New(slog.NewTextHandler(t.Output(), nil))
	tracing, err := newTracing(cfg, &o)
	if err != nil {
		t.Fatal(err)
	}
	stop := tracing.start(t.Context())
	for _, e := range epochs {
		o.Ended(e)
	}
	stop()
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "eosbridge_traced_epochs_total" || families[0].GetMetric()[0].GetCounter().GetValue() != float64(len(epochs)) {
		t.Errorf("metrics %v, %v", families, err)
	}
	return tracesOf(t, to.Spans())
}

// TestTraceOfEachKind: which steps a trace has, and which one failed. It goes to a collector with TLS.
func TestTraceOfEachKind(t *testing.T) {
	const ms = time.Millisecond
	triggered := time.Now().Add(-time.Second)
	epoch := func(aligned, flushed, sent, committed time.Duration, outcome, class string) bridge.EpochSummary {
		e := bridge.EpochSummary{
			Epoch: 7, Slot: 1, Opened: triggered.Add(-100 * ms), Triggered: triggered, Aligned: aligned, Flushed: flushed, OffsetsSent: sent, Committed: committed,
			Outcome: outcome, Class: class,
		}
		if class != "" {
			e.Err = "why"
		}
		return e
	}
	const good, bad, carried = bridge.OutcomeCommitted, bridge.OutcomeAborted, bridge.OutcomeCarried
	rows := []struct {
		delivery bridge.Delivery
		epoch    bridge.EpochSummary
		want     string // step[from,to] in milliseconds since the barrier; ! = failed
	}{
		{bridge.ExactlyOnce, epoch(1*ms, 5*ms, 7*ms, 9*ms, good, ""), "epoch[-100,9] transform[-100,1] flush[1,5] send offsets[5,7] end transaction[7,9]"},
		{bridge.ExactlyOnce, epoch(1*ms, 5*ms, 3*ms, 9*ms, good, ""), "epoch[-100,9] transform[-100,1] flush[1,5] send offsets[1,3] end transaction[5,9]"},
		{bridge.ExactlyOnce, epoch(1*ms, 5*ms, 0, 6*ms, carried, ""), "epoch[-100,6] transform[-100,1] flush[1,5]"},
		{bridge.ExactlyOnce, epoch(0, 0, 0, 0, bad, "aborted"), "epoch![-100,end] transform![-100,end]"},
		{bridge.ExactlyOnce, epoch(1*ms, 0, 0, 0, bad, "aborted"), "epoch![-100,end] transform[-100,1] flush![1,end]"},
		{bridge.ExactlyOnce, epoch(1*ms, 0, 3*ms, 0, bad, "aborted"), "epoch![-100,end] transform[-100,1] send offsets[1,3] flush![1,end]"},
		{bridge.ExactlyOnce, epoch(1*ms, 5*ms, 0, 0, bad, "in doubt"), "epoch![-100,end] transform[-100,1] flush[1,5] send offsets![5,end]"},
		{bridge.ExactlyOnce, epoch(1*ms, 5*ms, 7*ms, 0, bad, "in doubt"), "epoch![-100,end] transform[-100,1] flush[1,5] send offsets[5,7] end transaction![7,end]"},
		{bridge.AtLeastOnce, epoch(1*ms, 5*ms, 7*ms, 7*ms, good, ""), "epoch[-100,7] transform[-100,1] flush[1,5] send offsets[5,7]"},
		{bridge.AtLeastOnce, epoch(1*ms, 5*ms, 0, 0, bad, "aborted"), "epoch![-100,end] transform[-100,1] flush[1,5] send offsets![5,end]"},
		{bridge.AtMostOnce, epoch(1*ms, 0, 7*ms, 7*ms, good, ""), "epoch[-100,7] transform[-100,1] send offsets[1,7]"},
		{bridge.AtMostOnce, epoch(1*ms, 0, 0, 0, bad, "aborted"), "epoch![-100,end] transform[-100,1] send offsets![1,end]"},
	}
	for _, row := range rows {
		o := bridge.Options{Delivery: row.delivery, Group: "g", Prefix: "p", Instance: "i", Output: "{topic}-x"}
		spans := offTheWire(t, o, row.epoch)[0]
		about := checkTrace(t, spans)
		var steps []string
		for _, s := range spans {
			at := func(nanos uint64) string {
				d := time.Duration(int64(nanos) - triggered.UnixNano())
				if d > 500*ms {
					return "end"
				}
				return fmt.Sprint(d.Milliseconds())
			}
			sign := ""
			if s.GetStatus() != nil {
				sign = "!"
			}
			steps = append(steps, fmt.Sprintf("%s%s[%s,%s]", s.GetName(), sign, at(s.GetStartTimeUnixNano()), at(s.GetEndTimeUnixNano())))
		}
		if got := strings.Join(steps, " "); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.delivery, got, row.want)
		}
		id := any("p.i.1")
		if row.delivery != bridge.ExactlyOnce || row.epoch.Outcome == carried {
			id = nil
		}
		if about["eosbridge.transactional_id"] != id || (about["error.type"] == nil) != (row.epoch.Class == "") {
			t.Errorf("%s, %s: attributes %v", row.delivery, row.want, about)
		}
	}
}

// TestTracingIsOff: without an endpoint there is nothing, not even a metric.
func TestTracingIsOff(t *testing.T) {
	cfg, err := config.Load(leastEnviron(), "host")
	if err != nil {
		t.Fatal(err)
	}
	o := bridge.Options{}
	if tracing, err := newTracing(cfg, &o); tracing != nil || err != nil || o.Ended != nil {
		t.Errorf("%v, %v", tracing, err)
	}
	var off *tracing
	off.start(t.Context())()
}

// TestTracingWarns: what is sent in another form, or without protection.
func TestTracingWarns(t *testing.T) {
	for _, row := range []struct {
		endpoint, headers, protocol string
		want                        string
	}{
		{"http://localhost:4318", "a=hunter2", "http/json", ""},
		{"http://[::1]:4318", "a=hunter2", "", ""},
		{"https://collector", "a=hunter2", "", ""},
		{"http://collector:4318", "", "", ""},
		{"http://collector:4318", "a=hunter2", "", "the headers of traces are sent without encryption"},
		{"http://collector:4318", "", "http/protobuf", "traces are sent as json, not as protobuf"},
	} {
		cfg, err := config.Load(leastEnviron("OTEL_EXPORTER_OTLP_ENDPOINT", row.endpoint, "OTEL_EXPORTER_OTLP_HEADERS", row.headers, "OTEL_EXPORTER_OTLP_PROTOCOL", row.protocol), "host")
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		warnOfTracing(cfg.Tracing(), slog.New(slog.NewTextHandler(&log, nil)))
		if text := log.String(); row.want == "" && text != "" || !strings.Contains(text, row.want) || strings.Contains(text, "hunter2") {
			t.Errorf("%+v: log %q", row, text)
		}
	}
}

// TestTracingFiles: what is wrong with a certificate is found before the start.
func TestTracingFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runMain(leastEnviron("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector", "OTEL_EXPORTER_OTLP_CERTIFICATE", path), "config")
	if code != exitConfig || !strings.Contains(stderr, "OTEL_EXPORTER_OTLP_CERTIFICATE: ") || !strings.Contains(stderr, "holds no certificate") {
		t.Errorf("status %d, %s", code, stderr)
	}
}
