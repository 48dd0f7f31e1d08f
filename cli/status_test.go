package cli

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/bridge"
	"github.com/eosbridge/eosbridge/config"
)

// answering is a server that answers as a bridge in that state does.
func answering(t *testing.T, report bridge.Report) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/status", func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(report); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if !report.Live {
			http.Error(w, "[-]loop failed: no progress for 31s, allowed are 30s", http.StatusServiceUnavailable)
			return
		}
		if _, err := w.Write([]byte("ok\n")); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func readyReport() bridge.Report {
	return bridge.Report{
		Status: bridge.Status{
			Version: "v1", State: bridge.StateRunning, Group: "orders-bridge", Instance: "bridge-0", Delivery: "exactly-once",
			Assigned: map[string][]int32{"orders": {0, 1}, "payments": {3}}, Epoch: 43, IntervalSeconds: 0.1,
			LastCommitted: bridge.LastCommitted{Epoch: 42, At: time.Now()}, Lag: bridge.LagStatus{At: time.Now(), Total: 12_345},
		},
		Live: true, Ready: true, Verdict: "Ready", Counters: bridge.Totals{Committed: 1042, RecordsIn: 4_000_000},
	}
}

func TestStatus(t *testing.T) {
	ready := answering(t, readyReport())
	failing := readyReport()
	failing.Ready, failing.Verdict, failing.Problems, failing.Advice = false, "Failing", []string{"commit: no commit for 20s: \x1b[31mnope"}, "look at the brokers"
	failing.LastError = &bridge.Failure{Class: "aborted", Err: "two\nlines", At: time.Now()}
	notReady := answering(t, failing)
	failing.Live = false
	dead := answering(t, failing)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	foreign := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(foreign.Close)
	for _, tc := range []struct {
		line string
		code int
		want string // of both outputs
	}{
		{"status --addr " + ready, exitOK, "3 partitions: orders (2), payments (1)\n"},
		{"status --addr " + ready, exitOK, "1,042 committed, 0 aborted, 0 carried\n"},
		{"status --addr " + ready + "/", exitOK, "12,345 records"},
		{"status --addr " + strings.TrimPrefix(ready, "http://"), exitOK, "Ready\n"},
		{"status --json --addr " + ready, exitOK, `"verdict":"Ready"`},
		{"status --addr " + notReady, exitFailure, "commit: no commit for 20s: \uFFFD[31mnope\n"},
		{"status --addr " + notReady, exitFailure, "two lines\n"},
		{"status --addr " + notReady, exitFailure, "look at the brokers\n"},
		{"status --json --addr " + notReady, exitFailure, `"verdict":"Failing"`},
		{"status --addr " + gone.URL, exitUnavailable, "is the bridge running there?"},
		{"status --addr " + foreign.URL, exitUnavailable, "not as a bridge does"},
		{"status --healthcheck --addr " + ready, exitOK, "ok\n"},
		{"status --healthcheck --addr " + notReady, exitOK, "ok\n"},
		{"status --healthcheck --addr " + dead, exitFailure, "[-]loop failed"},
		{"status --healthcheck --addr " + gone.URL, exitFailure, "is the bridge running there?"},
		{"status --addr ftp://x", exitUsage, "write http://host:port"},
		{"status --addr http://", exitUsage, "write http://host:port"},
		{"status --json --healthcheck", exitUsage, "exclude each other"},
		{"status x", exitUsage, "unexpected argument"},
	} {
		code, stdout, stderr := runMain(nil, strings.Fields(tc.line)...)
		if code != tc.code || !strings.Contains(stdout+stderr, tc.want) {
			t.Errorf("%s: status %d, want %d with %q\n%s%s", tc.line, code, tc.code, tc.want, stdout, stderr)
		}
	}
}

// Where the bridge is asked: where its configuration lets it listen.
func TestStatusAddress(t *testing.T) {
	for listens, want := range map[string]string{
		"": "http://127.0.0.1:9464", ":9464": "http://127.0.0.1:9464", "0.0.0.0:80": "http://127.0.0.1:80", "[::]:80": "http://[::1]:80",
		"10.0.0.1:9": "http://10.0.0.1:9", "host:9": "http://host:9", "off": "", "nonsense": "",
	} {
		got, err := statusURL("", listens)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q %v, want %q", listens, got, err, want)
		}
		if err != nil && (exitCode(err) != exitConfig || !strings.Contains(err.Error(), "BRIDGE_HTTP_ADDR")) {
			t.Errorf("%q: %v", listens, err)
		}
	}
	cfg, err := config.Load(leastEnviron(), "pod-0")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := statusURL("", ""); got != "http://"+string(cfg.Bridge.HTTPAddr) {
		t.Errorf("asked at %s, listens on %s", got, cfg.Bridge.HTTPAddr)
	}
}

// The bridge, and so its page, gets the settings with the secrets masked.
func TestSettingsForThePage(t *testing.T) {
	cfg, err := config.Load(leastEnviron(
		"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_MECHANISM", "SCRAM-SHA-256", "KAFKA_SASL_USERNAME", "someone", "KAFKA_SASL_PASSWORD", "hunter2",
	), "pod-0")
	if err != nil {
		t.Fatal(err)
	}
	o, err := bridgeOptions(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	masked := false
	for _, s := range o.Settings {
		if strings.Contains(s.Value, "hunter2") {
			t.Errorf("%s is shown", s.Name)
		}
		masked = masked || s == bridge.Setting{Name: "KAFKA_SASL_PASSWORD", Value: "***"}
	}
	if !masked || len(o.Settings) != len(cfg.Settings()) {
		t.Errorf("settings %v", o.Settings)
	}
}
