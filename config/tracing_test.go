package config

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const collector = "http://127.0.0.1:4318"

// TestTracingIsOff unless there is an endpoint, and by the words of OpenTelemetry; then its variables are not judged.
func TestTracingIsOff(t *testing.T) {
	for name, pairs := range map[string][]string{
		"by default":       nil,
		"no endpoint":      {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_SERVICE_NAME", "x", "OTEL_EXPORTER_OTLP_HEADERS", "broken"},
		"disabled":         {"OTEL_EXPORTER_OTLP_ENDPOINT", "no URL", "OTEL_SDK_DISABLED", "TRUE", "OTEL_RESOURCE_ATTRIBUTES", "broken"},
		"without exporter": {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector, "OTEL_TRACES_EXPORTER", "None"},
		"foreign names":    {"OTEL_TRACES_SAMPLER", "always_off", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", collector},
	} {
		c := load(t, with(pairs...))
		if c.Traced() || c.Tracing() != nil {
			t.Errorf("%s: on", name)
		}
		for _, s := range c.Settings() {
			if strings.HasPrefix(s.Name, "OTEL_") {
				t.Errorf("%s: shows %s", name, s.Name)
			}
		}
	}
}

func TestTracing(t *testing.T) {
	ca := file(t, "x")
	for name, test := range map[string]struct {
		pairs []string
		want  Tracing
	}{
		"base":             {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", collector}, Tracing{URL: collector + "/v1/traces", Timeout: 10 * time.Second}},
		"base with a path": {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", collector + "/otlp/"}, Tracing{URL: collector + "/otlp/v1/traces", Timeout: 10 * time.Second}},
		"as it is":         {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector + "/x"}, Tracing{URL: collector + "/x", Timeout: 10 * time.Second}},
		"no path":          {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector}, Tracing{URL: collector + "/", Timeout: 10 * time.Second}},
		"traces win": {
			[]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT", "http://other:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://a/t",
				"OTEL_EXPORTER_OTLP_TIMEOUT", "1", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "250",
				"OTEL_EXPORTER_OTLP_COMPRESSION", "none", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "GZIP",
				"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf",
				"OTEL_EXPORTER_OTLP_CERTIFICATE", ca, "OTEL_EXPORTER_OTLP_HEADERS", "a=b",
			},
			Tracing{
				URL: "https://a/t", Timeout: 250 * time.Millisecond, Gzip: true, TLS: true, Protobuf: true, Headers: true,
				Certificate: NamedFile{"OTEL_EXPORTER_OTLP_CERTIFICATE", ca},
			},
		},
		"resource": {
			[]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT", collector, "OTEL_TRACES_EXPORTER", "otlp",
				"OTEL_RESOURCE_ATTRIBUTES", " team = orders , city=K%C3%B6ln%2C x,service.name=y", "OTEL_SERVICE_NAME", "z",
			},
			Tracing{
				URL: collector + "/v1/traces", Timeout: 10 * time.Second,
				Resource: []Pair{{"team", "orders"}, {"city", "Köln, x"}, {"service.name", "y"}, {"service.name", "z"}},
			},
		},
	} {
		got := load(t, with(test.pairs...)).Tracing()
		if !slices.Equal(got.Resource, test.want.Resource) {
			t.Errorf("%s: resource %v", name, got.Resource)
		}
		got.Resource, test.want.Resource = nil, nil
		if got.URL != test.want.URL || got.Timeout != test.want.Timeout || got.Gzip != test.want.Gzip || got.TLS != test.want.TLS ||
			got.Protobuf != test.want.Protobuf || got.Headers != test.want.Headers || got.Certificate != test.want.Certificate {
			t.Errorf("%s: got  %+v\nwant %+v", name, *got, test.want)
		}
	}
}

// TestTraceHeaders: they are secrets, and a file with them counts as it is at that moment.
func TestTraceHeaders(t *testing.T) {
	c := load(t, with("OTEL_EXPORTER_OTLP_ENDPOINT", collector, "OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic aHVudGVyMg==,x-tenant=%20a"))
	got, err := c.TraceHeaders()
	if want := []Pair{{"Authorization", "Basic aHVudGVyMg=="}, {"x-tenant", " a"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, s := range c.Settings() {
		if s.Name == "OTEL_EXPORTER_OTLP_HEADERS" && s.Value != "***" {
			t.Errorf("shown as %+v", s)
		}
	}
	path := file(t, "api-key=hunter1\n")
	c = load(t, with("OTEL_EXPORTER_OTLP_ENDPOINT", collector, "OTEL_EXPORTER_OTLP_HEADERS", "a=b", "OTEL_EXPORTER_OTLP_TRACES_HEADERS_FILE", path))
	for content, want := range map[string]string{"api-key=hunter1": "hunter1", "api-key=hunter2": "hunter2"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err = c.TraceHeaders(); err != nil || len(got) != 1 || got[0].Value != want {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	}
	if err := os.WriteFile(path, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = c.TraceHeaders(); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_TRACES_HEADERS") {
		t.Errorf("error %v", err)
	}
}

func TestTracingLaws(t *testing.T) {
	for _, test := range []struct{ variable, value, want string }{
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318", "not a URL with a host: write one such as"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://collector:4317", "not a URL with a host"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://u:hunter2@a/?key=hunter2", "holds credentials: move them to OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://a/?key=hunter2", "holds a query: move what is secret"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", `"grpc" is not spoken here: write http/json, and the collector's address for HTTP`},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "udp", `"udp" is not known: write http/json`},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", `"zstd" is not known: write gzip or none`},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "-1", "-1 is out of range: use 1 to"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "is not a whole number"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "hunter2", "no name and value in entry 1: write"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b,=hunter2", "no name and value in entry 2: write"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2%zz", "a percent sign that begins no encoded character: write"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2%0d%0ab:c", "a line break or another control character in the value of entry 1: remove"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a b=hunter2", "a name in entry 1 that no header can have: use"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem", "set, but traces go to a URL without TLS: use https"},
		{"OTEL_RESOURCE_ATTRIBUTES", "a", "no name and value in entry 1: write"},
		{"OTEL_TRACES_EXPORTER", "zipkin", `"zipkin" is not known: write otlp, or none`},
	} {
		got := problems(t, with("OTEL_EXPORTER_OTLP_ENDPOINT", collector, test.variable, test.value))
		if len(got) != 1 || got[0].Variable != test.variable || !strings.Contains(got[0].Message, test.want) || strings.Contains(got[0].Message, "hunter2") {
			t.Errorf("%s=%s: got %v\nwant …%s…", test.variable, test.value, got, test.want)
		}
	}
	path := file(t, "x")
	got := problems(t, with("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a", "OTEL_EXPORTER_OTLP_CLIENT_KEY", path, "OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent"))
	if len(got) != 2 || !strings.Contains(got[0].Message, "cannot be read") || !strings.Contains(got[1].Message, "belong together: set both or neither") {
		t.Errorf("files: got %v", got)
	}
}
