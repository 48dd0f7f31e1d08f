package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/audit"
)

// auditBed is an embedded broker (kfake, not Apache Kafka) with 100 records and a copy of some of them.
func auditBed(t *testing.T, skip map[int]bool) (*kfake.Cluster, map[string]string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders-clean"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for i := range 100 {
		records := []*kgo.Record{{Topic: "orders", Value: fmt.Append(nil, i)}}
		if !skip[i] {
			records = append(records, &kgo.Record{Topic: "orders-clean", Value: fmt.Append(nil, i)})
		}
		for _, r := range records {
			r.Timestamp = r.Timestamp.AddDate(2020, 0, 0)
		}
		if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var at kadm.Offsets
	at.AddOffset("orders", 0, 100, -1)
	if _, err := kadm.NewClient(cl).CommitOffsets(t.Context(), "orders-bridge", at); err != nil {
		t.Fatal(err)
	}
	return c, leastEnviron("KAFKA_BOOTSTRAP_SERVERS", strings.Join(c.ListenAddrs(), ","))
}

// TestAuditReport: what is printed, for people and for programs, and the statuses.
func TestAuditReport(t *testing.T) {
	for _, row := range []struct {
		name   string
		skip   map[int]bool
		chain  string
		status int
		want   []string
	}{
		{"pass", nil, "", exitOK, []string{"VERDICT: PASS", "orders-clean 0 0 100 100 ", "orders 0 0 100 100 "}},
		{"finding", map[int]bool{70: true, 80: true}, "", exitFailure, []string{"VERDICT: FINDING", "missing: 2", " source orders/0/70", " 70 finding"}},
		{"cannot tell", nil, "set_header(a=b)", exitUndecided, []string{"VERDICT: CANNOT TELL", "cannot tell:", "BRIDGE_PROVENANCE=true"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, environ := auditBed(t, row.skip)
			environ["BRIDGE_TRANSFORM"] = row.chain
			status, stdout, stderr := runMain(environ, "audit")
			if status != row.status || stderr != "" {
				t.Errorf("status %d, want %d: %s", status, row.status, stderr)
			}
			plain := regexp.MustCompile(` +`).ReplaceAllString(stdout, " ")
			for _, want := range row.want {
				if !strings.Contains(plain, want) {
					t.Errorf("%q is missing in\n%s", want, stdout)
				}
			}
			status, stdout, _ = runMain(environ, "audit", "--json", "--examples", "1")
			var r audit.Report
			if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != row.status {
				t.Fatalf("status %d, %v: %s", status, err, stdout)
			}
			if r.Schema != "eosbridge.audit/1" || len(r.Examples) > 1 || string(r.Verdict) != row.name || r.Sources[0].Records != 100 {
				t.Errorf("%+v", r)
			}
			if got := digestOf(t, stdout); got != r.Digest {
				t.Errorf("digest %s, the report says %s", got, r.Digest)
			}
			if got := digestOf(t, strings.Replace(stdout, `"records": 100`, `"records": 101`, 1)); got == r.Digest {
				t.Error("the digest does not see a change")
			}
		})
	}
}

// digestOf computes the digest from the printed report alone, as docs/audit.md describes it.
func digestOf(t *testing.T, report string) string {
	t.Helper()
	var tree map[string]any
	decoder := json.NewDecoder(strings.NewReader(report))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	delete(tree, "digest")
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(tree); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(bytes.TrimSpace(text.Bytes()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestAuditRefuses(t *testing.T) {
	c, environ := auditBed(t, nil)
	for line, want := range map[string]string{
		"audit --from latest":  `--from: "latest" is neither earliest`,
		"audit --examples -1":  "--examples -1: use 0 to 10000",
		"audit --wait -1s":     "--wait -1s: use 0 or more",
		"audit orders":         `unexpected argument "orders"`,
		"audit --from orders=": `--from: "orders=" is not of the form`,
	} {
		if status, _, stderr := runMain(environ, strings.Fields(line)...); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", line, status, stderr)
		}
	}
	if status, _, stderr := runMain(nil, "audit"); status != exitConfig || !strings.Contains(stderr, "KAFKA_BOOTSTRAP_SERVERS") {
		t.Errorf("without configuration: status %d, %s", status, stderr)
	}
	environ["BRIDGE_OUTPUT_TOPIC"] = "nowhere"
	if status, _, stderr := runMain(environ, "audit"); status != exitFailure || !strings.Contains(stderr, `output topic "nowhere"`) {
		t.Errorf("without output: status %d, %s", status, stderr)
	}
	environ["BRIDGE_OUTPUT_TOPIC"] = "orders-clean"
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	if status, _, stderr := runMain(environ, "audit"); status != exitDenied || !strings.Contains(stderr, "--operation Describe --group 'orders-bridge'") {
		t.Errorf("denied: status %d, %s", status, stderr)
	}
}

func TestAuditUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	environ := leastEnviron("KAFKA_BOOTSTRAP_SERVERS", l.Addr().String(), "LOG_LEVEL", "error")
	if status, _, stderr := runMain(environ, "audit"); status != exitUnavailable || !strings.Contains(stderr, "brokers cannot be reached") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// TestAuditScreen: plain lines where there is no terminal, one line that is drawn again where there is one.
func TestAuditScreen(t *testing.T) {
	var out bytes.Buffer
	var p audit.Progress
	s := newAuditScreen(&out, &p)
	s.draw()
	p.Total.Store(1000)
	p.Read.Store(2000) // a second look counts again
	s.draw()
	if got := out.String(); !strings.Contains(got, "waiting for open transactions") || !strings.Contains(got, "1,000 of 1,000 offsets") || strings.Contains(got, "\r") {
		t.Errorf("%q", got)
	}
	out.Reset()
	s.terminal, s.columns = true, func() int { return 80 }
	p.Read.Store(500)
	s.draw()
	s.start()
	s.stop()
	for line := range strings.SplitSeq(out.String(), "\r") {
		if len(strings.TrimSuffix(line, "\x1b[K")) > 79 {
			t.Errorf("a line is too long: %q", line)
		}
	}
	if got := out.String(); !strings.Contains(got, "[#") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("%q", got)
	}
}
