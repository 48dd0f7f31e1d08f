package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// secretBed is an embedded broker (kfake, not Apache Kafka) that asks for TLS, a certificate and a password, and the
// environments of a pipeline on it, each with marked secrets.
type secretBed struct {
	environ map[string]string
	marks   map[string]string // what must not be shown, by what it is
}

func newSecretBed(t *testing.T) *secretBed {
	t.Helper()
	ca, dir := newAuthority(t, "ours"), t.TempDir()
	server := ca.server()
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	server.ClientCAs.AddCert(ca.cert)
	cert, key := ca.sign(dir, "bridge")
	keyText, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	b := &secretBed{marks: map[string]string{
		"password": "marked-password", "registry password": "marked-registry", "target registry password": "marked-target", "header of traces": "marked-header",
		"key": strings.Split(string(keyText), "\n")[1],
	}}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders-clean", "__consumer_offsets", "__transaction_state"),
		kfake.TLS(server), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", b.marks["password"]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	b.environ = leastEnviron(
		"KAFKA_BOOTSTRAP_SERVERS", c.ListenAddrs()[0], "KAFKA_SECURITY_PROTOCOL", "SASL_SSL",
		"KAFKA_TLS_CA_FILE", ca.file, "KAFKA_TLS_CERT_FILE", cert, "KAFKA_TLS_KEY_FILE", key,
		"KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD_FILE", writeFile(t, "password", b.marks["password"]+"\n"),
		"SCHEMA_REGISTRY_URL", "https://127.0.0.1:1", "SCHEMA_REGISTRY_USERNAME", "r", "SCHEMA_REGISTRY_PASSWORD", b.marks["registry password"],
		"TARGET_SCHEMA_REGISTRY_URL", "https://127.0.0.1:1", "TARGET_SCHEMA_REGISTRY_USERNAME", "r",
		"TARGET_SCHEMA_REGISTRY_PASSWORD_FILE", writeFile(t, "target", b.marks["target registry password"]),
		"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS", "authorization="+b.marks["header of traces"],
		"LOG_LEVEL", "debug", "BRIDGE_HTTP_ADDR", free.Addr().String(),
	)
	return b
}

// with is the environment with other values; an empty one unsets.
func (b *secretBed) with(pairs ...string) map[string]string {
	environ := maps.Clone(b.environ)
	for i := 0; i < len(pairs); i += 2 {
		environ[pairs[i]] = pairs[i+1]
	}
	return environ
}

// discreet fails the test if text, which a printer has written, holds a marked secret.
func (b *secretBed) discreet(t *testing.T, printer, text string) {
	t.Helper()
	for what, mark := range b.marks {
		if strings.Contains(text, mark) {
			t.Errorf("%s shows the %s:\n%s", printer, what, text)
		}
	}
}

// TestNoPrinterShowsSecrets has a password, the password of two registries and a private key in force, with which the bridge
// and every command work, and looks for them in all that is printed, logged or served.
func TestNoPrinterShowsSecrets(t *testing.T) {
	b := newSecretBed(t)
	for _, row := range []struct {
		args  []string
		shows string // so that the row has looked at something
	}{
		{[]string{"config"}, "***"},
		{[]string{"config", "--json"}, "***"},
		{[]string{"config", "docs"}, "KAFKA_SASL_PASSWORD"},
		{[]string{"check"}, "PASS    broker.reachable"},
		{[]string{"check", "--json"}, "broker.reachable"},
		{[]string{"txn", "list"}, ""},
		{[]string{"txn", "list", "--json"}, "transactions"},
		{[]string{"run", "--dry-run", "--until-end"}, "records"},
		{[]string{"run", "--dry-run", "--until-end", "--json"}, "samples"},
		{[]string{"run", "--until-end"}, "epoch"},
		{[]string{"audit"}, ""},
		{[]string{"audit", "--json"}, ""},
		{[]string{"dlq", "list"}, ""},
		{[]string{"transform", "list"}, ""},
		{[]string{"version"}, ""},
		{[]string{"nonsense"}, "nonsense"},
	} {
		status, stdout, stderr := runMain(b.environ, row.args...)
		if printed := stdout + stderr; !strings.Contains(printed, row.shows) || printed == "" {
			t.Errorf("%q: status %d, %s", row.args, status, printed)
		}
		b.discreet(t, strings.Join(row.args, " "), stdout+stderr)
	}
	for _, cmd := range commands() {
		_, stdout, stderr := runMain(b.environ, cmd.name, "--help")
		b.discreet(t, cmd.name+" --help", stdout+stderr)
	}
}

// TestNoFailureShowsSecrets: nor does what goes wrong because of a secret, or with one in the wrong place. What a broker
// refuses is tried on Apache Kafka (test/e2e, TestSecureListeners).
func TestNoFailureShowsSecrets(t *testing.T) {
	b := newSecretBed(t)
	b.marks["wrong"] = "marked-wrong"
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":"invalid_client","error_description":"%s %s"}`, r.Header.Get("Authorization"), body)
	}))
	t.Cleanup(refusing.Close)
	unset := []string{"KAFKA_SASL_PASSWORD_FILE", "", "KAFKA_SASL_USERNAME", ""}
	for name, pairs := range map[string][]string{
		"both ways at once":             {"KAFKA_SASL_PASSWORD", "marked-wrong"},
		"password as path":              {"KAFKA_SASL_PASSWORD_FILE", "", "KAFKA_TLS_CA_FILE", b.environ["KAFKA_SASL_PASSWORD_FILE"], "KAFKA_SASL_PASSWORD", "marked-wrong"},
		"password of nobody":            {"KAFKA_SECURITY_PROTOCOL", "SSL", "KAFKA_SASL_MECHANISM", "", "KAFKA_SASL_USERNAME", "", "KAFKA_SASL_PASSWORD_FILE", "", "KAFKA_SASL_PASSWORD", "marked-wrong"},
		"key as certificate":            {"KAFKA_TLS_CERT_FILE", b.environ["KAFKA_TLS_KEY_FILE"]},
		"key as authority":              {"KAFKA_TLS_CA_FILE", b.environ["KAFKA_TLS_KEY_FILE"]},
		"credentials of a broker's URL": {"KAFKA_BOOTSTRAP_SERVERS", "kafka://u:marked-wrong@broker:9092"},
		"credentials before a broker":   {"KAFKA_BOOTSTRAP_SERVERS", "u:marked-wrong@broker:9092"},
		"credentials of a registry":     {"SCHEMA_REGISTRY_URL", "https://r:marked-wrong@registry:8081"},
		"a registry that is none":       {"SCHEMA_REGISTRY_URL", "r:marked-wrong@registry:8081"},
		"token endpoint": append(unset, "KAFKA_SASL_MECHANISM", "OAUTHBEARER", "KAFKA_SASL_ALLOW_PLAINTEXT", "true", "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", refusing.URL,
			"KAFKA_SASL_OAUTH_CLIENT_ID", "c", "KAFKA_SASL_OAUTH_CLIENT_SECRET", "marked-wrong", "BRIDGE_RESTART_LIMIT", "1"),
		"credentials of an endpoint": append(unset, "KAFKA_SASL_MECHANISM", "OAUTHBEARER", "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", "https://c:marked-wrong@login.example/token",
			"KAFKA_SASL_OAUTH_CLIENT_ID", "c", "KAFKA_SASL_OAUTH_CLIENT_SECRET", "marked-wrong"),
		"token": append(unset, "KAFKA_SASL_MECHANISM", "OAUTHBEARER", "KAFKA_SASL_OAUTH_TOKEN_FILE", writeFile(t, "token", "marked-wrong"), "BRIDGE_RESTART_LIMIT", "1"),
		"keys of AWS": append(unset, "KAFKA_SASL_MECHANISM", "AWS_MSK_IAM", "AWS_ACCESS_KEY_ID", "AKIA1", "AWS_SECRET_ACCESS_KEY", "marked-wrong", "AWS_SESSION_TOKEN", "marked-wrong",
			"BRIDGE_RESTART_LIMIT", "1"),
		"credentials of a collector": {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:marked-wrong@127.0.0.1:1"},
		"headers that are none":      {"OTEL_EXPORTER_OTLP_HEADERS", "marked-wrong"},
		"unknown variable":           {"BRIDGE_PASSWORD", "marked-wrong"},
		"registry asked":             {"BRIDGE_TRANSFORM", "schema_decode", "SCHEMA_REGISTRY_PASSWORD", "marked-wrong"},
		"no registry there":          {"BRIDGE_TRANSFORM", "schema_encode(orders)", "SCHEMA_REGISTRY_PASSWORD", "marked-wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environ := b.with(append(pairs, "BRIDGE_HTTP_ADDR", "off")...)
			for _, args := range [][]string{{"run", "--until-end"}, {"check", "--timeout", "2s"}, {"config"}, {"config", "--json"}} {
				_, stdout, stderr := runMain(environ, args...)
				if stdout+stderr == "" {
					t.Errorf("%q says nothing", args)
				}
				b.discreet(t, strings.Join(args, " "), stdout+stderr)
			}
		})
	}
	_, stdout, stderr := runMain(b.environ, "status", "--addr", "http://u:marked-wrong@127.0.0.1:1")
	b.discreet(t, "status", stdout+stderr)
}

// lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestNoPageShowsSecrets looks at all that a running bridge serves, and at what it logs at debug level meanwhile.
func TestNoPageShowsSecrets(t *testing.T) {
	b := newSecretBed(t)
	signals, ended := make(chan os.Signal, 1), make(chan int, 1)
	var log lockedBuffer
	go func() { // ended by the signal below
		ended <- Main(Context{Args: []string{"run"}, Environ: b.environ, Hostname: "pod-0", Stdout: &log, Stderr: &log, Signals: signals})
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	get := func(path string) (status int, body string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.environ["BRIDGE_HTTP_ADDR"]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, ""
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for status := 0; status != http.StatusOK; status, _ = get("/readyz") {
		select {
		case <-tick.C:
		case code := <-ended:
			t.Fatalf("the bridge ended with status %d: %s", code, log.String())
		case <-ctx.Done():
			t.Fatalf("the bridge is not ready: %s", log.String())
		}
	}
	for path, shows := range map[string]string{
		"/": "***", "/api/status": "ready", "/api/epochs": "epochs", "/readyz?verbose": "check passed", "/livez?verbose": "check passed",
		"/metrics": "eosbridge_", "/debug/pprof/": "", "/nonsense": "",
	} {
		status, body := get(path)
		if !strings.Contains(body, shows) {
			t.Errorf("%s: status %d, without %q: %s", path, status, shows, body)
		}
		if path == "/debug/pprof/" && status != http.StatusNotFound {
			t.Errorf("profiles are served at the address of the status, unasked: status %d", status)
		}
		b.discreet(t, path, body)
	}
	for _, args := range [][]string{{"status"}, {"status", "--json"}} {
		_, stdout, stderr := runMain(b.environ, args...)
		if stdout == "" {
			t.Errorf("%q: %s", args, stderr)
		}
		b.discreet(t, strings.Join(args, " "), stdout+stderr)
	}
	signals <- syscall.SIGTERM
	if code := <-ended; code != exitOK {
		t.Errorf("the bridge ended with status %d", code)
	}
	if said := log.String(); !strings.Contains(said, "state changed") {
		t.Errorf("logged %s", said)
	}
	b.discreet(t, "the log", log.String())
}
