package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/eosbridge/eosbridge/config"
	"github.com/eosbridge/eosbridge/transform"
)

// registryOf is a client of the registry at a URL; its log goes to the buffer.
func registryOf(t *testing.T, url string, patience time.Duration, pairs ...string) (*schemaRegistry, *bytes.Buffer) {
	t.Helper()
	cfg, err := config.Load(leastEnviron(append([]string{"SCHEMA_REGISTRY_URL", url}, pairs...)...), "host")
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	s, err := newSchemaRegistry(cfg, false, patience, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

func fakeRegistry(t *testing.T, opts ...srfake.Option) *srfake.Registry {
	t.Helper()
	r := srfake.New(opts...)
	t.Cleanup(r.Close)
	return r
}

func TestSchemaQuestions(t *testing.T) {
	fake := fakeRegistry(t)
	fake.SeedSchema("a/b-value", 1, 7, sr.Schema{Schema: `"int"`})
	fake.SeedSchema("x", 3, 6, sr.Schema{Schema: `message X {}`, Type: sr.TypeProtobuf})
	fake.SeedSchema("p", 1, 8, sr.Schema{Schema: `message M {}`, Type: sr.TypeProtobuf, References: []sr.SchemaReference{{Name: "x.proto", Subject: "x", Version: 3}}})
	fake.SeedSchema("p", 2, 9, sr.Schema{Schema: `message N {}`, Type: sr.TypeProtobuf})
	s, log := registryOf(t, fake.URL(), time.Minute)
	for name, question := range map[string]struct {
		ask  func() (transform.Schema, error)
		want string
	}{
		"by id":           {func() (transform.Schema, error) { return s.ByID(t.Context(), 7) }, `{7 AVRO "int" []}`},
		"references":      {func() (transform.Schema, error) { return s.ByID(t.Context(), 8) }, `{8 PROTOBUF message M {} [{x.proto x 3}]}`},
		"by version":      {func() (transform.Schema, error) { return s.ByVersion(t.Context(), "p", 1) }, `{8 PROTOBUF message M {} [{x.proto x 3}]}`},
		"latest":          {func() (transform.Schema, error) { return s.ByVersion(t.Context(), "p", 0) }, `{9 PROTOBUF message N {} []}`},
		"odd subject":     {func() (transform.Schema, error) { return s.ByVersion(t.Context(), "a/b-value", 1) }, `{7 AVRO "int" []}`},
		"no such id":      {func() (transform.Schema, error) { return s.ByID(t.Context(), 5) }, "code 40403"},
		"no such subject": {func() (transform.Schema, error) { return s.ByVersion(t.Context(), "q", 0) }, "code 40401"},
		"no such version": {func() (transform.Schema, error) { return s.ByVersion(t.Context(), "p", 5) }, "code 40402"},
	} {
		got, err := question.ask()
		if strings.HasPrefix(question.want, "code") {
			if !errors.Is(err, transform.ErrNoSchema) || !strings.Contains(err.Error(), question.want) || !strings.Contains(err.Error(), fake.URL()) {
				t.Errorf("%s: got %v, want %s", name, err, question.want)
			}
			continue
		}
		if err != nil || fmt.Sprint(got) != question.want {
			t.Errorf("%s: got %v, %v, want %s", name, got, err, question.want)
		}
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", log)
	}
}

func TestSchemaRegister(t *testing.T) {
	fake := fakeRegistry(t)
	var posts atomic.Int32
	fake.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/versions") {
			posts.Add(1)
		}
		return false
	})
	s, _ := registryOf(t, fake.URL(), time.Minute)
	schema := transform.Schema{Type: transform.SchemaAvro, Text: `{"type":"fixed","name":"F","size":1}`}
	id, version, err := s.Register(t.Context(), "s", schema)
	if err != nil || version != 1 {
		t.Fatalf("%d, %d, %v", id, version, err)
	}
	other := transform.Schema{Type: transform.SchemaAvro, Text: `{"type":"array","items":"F"}`, References: []transform.SchemaReference{{Name: "F", Subject: "s", Version: 1}}}
	if _, _, err := s.Register(t.Context(), "other", other); err != nil {
		t.Fatal(err)
	}
	again, version, err := s.Register(t.Context(), "s", schema)
	if again != id || version != 1 || err != nil || posts.Load() != 2 {
		t.Errorf("%d, %d, %v after %d registrations", again, version, err, posts.Load())
	}
	if kept, found := fake.GetSchema("other", 1); !found || len(kept.References) != 1 || kept.References[0].Name != "F" {
		t.Errorf("%+v", kept)
	}
	fake.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/versions") {
			answerWith(w, http.StatusConflict, `{"error_code":409,"message":"incompatible with an earlier schema"}`)
			return true
		}
		return false
	})
	_, _, err = s.Register(t.Context(), "s", transform.Schema{Type: transform.SchemaAvro, Text: `"int"`})
	if away := new(transform.UnavailableError); err == nil || errors.As(err, &away) || !strings.Contains(err.Error(), "refuses it (code 409): incompatible with") {
		t.Errorf("got %v", err)
	}
}

func answerWith(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// TestSchemaUnavailability: what is an answer of the registry, and what is none.
func TestSchemaUnavailability(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		away   bool
	}{
		{404, `{"error_code":40403,"message":"Schema not found"}`, false},
		{404, `{"error_code":404,"message":"HTTP 404 Not Found"}`, true},
		{404, `<html>nothing here</html>`, true},
		{422, `{"error_code":42201,"message":"Invalid schema"}`, false},
		{409, `{"error_code":409,"message":"Incompatible"}`, false},
		{409, `a proxy's`, true},
		{401, `{"error_code":401,"message":"Unauthorized"}`, true},
		{403, `{"error_code":40301,"message":"Forbidden"}`, true},
		{400, `bad`, true},
		{429, `{"error_code":42901,"message":"Slow down"}`, true},
		{500, `{"error_code":50001,"message":"Error in the backend"}`, true},
		{503, ``, true},
		{200, `{"schema":`, true},
		{200, `{"schema":"` + strings.Repeat("x", maxSchemaAnswer) + `"}`, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerWith(w, test.status, test.body) }))
		s, _ := registryOf(t, server.URL, 200*time.Millisecond)
		_, err := s.ByID(t.Context(), 1)
		var away *transform.UnavailableError
		if err == nil || errors.As(err, &away) != test.away {
			t.Errorf("%d %.40s: %v", test.status, test.body, err)
		}
		if len(fmt.Sprint(err)) > 1000 {
			t.Errorf("%d: a message of %d bytes", test.status, len(err.Error()))
		}
		server.Close()
	}
}

// TestSchemaPatience: an attempt that is cut off by our own patience does not hide what the registry said before.
func TestSchemaPatience(t *testing.T) {
	fake := fakeRegistry(t)
	var asked atomic.Int32
	fake.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if asked.Add(1) == 1 {
			answerWith(w, http.StatusServiceUnavailable, `{"error_code":50302,"message":"not elected yet"}`)
		} else {
			<-r.Context().Done()
		}
		return true
	})
	s, _ := registryOf(t, fake.URL(), 2*time.Second)
	if _, err := s.ByID(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "not elected yet") || asked.Load() < 2 {
		t.Errorf("asked %d times, got %v", asked.Load(), err)
	}
}

// TestSchemaAwayAndBack: questions are repeated, the absence is told once, and so is its end.
func TestSchemaAwayAndBack(t *testing.T) {
	fake := fakeRegistry(t)
	fake.SeedSchema("s", 1, 7, sr.Schema{Schema: `"int"`})
	var asked atomic.Int32
	fake.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if asked.Add(1) > 3 {
			return false
		}
		answerWith(w, http.StatusServiceUnavailable, "")
		return true
	})
	s, log := registryOf(t, fake.URL(), time.Minute)
	if _, err := s.ByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "answers again") {
		t.Errorf("log: %s", log)
	}
	asked.Store(-1000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var away *transform.UnavailableError
	if _, err := s.ByID(ctx, 7); !errors.As(err, &away) {
		t.Errorf("got %v", err)
	}
}

func TestSchemaPassword(t *testing.T) {
	fake := fakeRegistry(t, srfake.WithAuth("Basic dTpodW50ZXIy")) // u:hunter2
	fake.SeedSchema("s", 1, 7, sr.Schema{Schema: `"int"`})
	secret := writeFile(t, "password", "hunter2\n")
	s, _ := registryOf(t, fake.URL(), time.Minute, "SCHEMA_REGISTRY_USERNAME", "u", "SCHEMA_REGISTRY_PASSWORD_FILE", secret, "SCHEMA_REGISTRY_ALLOW_PLAINTEXT", "true")
	if _, err := s.ByID(t.Context(), 7); err != nil {
		t.Error(err)
	}
	s, _ = registryOf(t, fake.URL(), time.Minute, "SCHEMA_REGISTRY_USERNAME", "u", "SCHEMA_REGISTRY_PASSWORD", "wrong", "SCHEMA_REGISTRY_ALLOW_PLAINTEXT", "true")
	_, err := s.ByID(t.Context(), 7)
	if !schemaDenied(err) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("got %v", err)
	}
}

func TestSchemaTLS(t *testing.T) {
	fake := fakeRegistry(t)
	fake.SeedSchema("s", 1, 7, sr.Schema{Schema: `"int"`})
	server := httptest.NewTLSServer(fake.Handler())
	t.Cleanup(server.Close)
	s, _ := registryOf(t, server.URL, 3*time.Second)
	if _, err := s.ByID(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger was trusted: %v", err)
	}
	ca := writeFile(t, "ca.pem", pemText("CERTIFICATE", server.Certificate().Raw))
	s, _ = registryOf(t, server.URL, time.Minute, "SCHEMA_REGISTRY_TLS_CA_FILE", ca)
	if _, err := s.ByID(t.Context(), 7); err != nil {
		t.Error(err)
	}
	broken := writeFile(t, "broken.pem", "x")
	problems := problemsOf(t, leastEnviron("TARGET_SCHEMA_REGISTRY_URL", server.URL, "TARGET_SCHEMA_REGISTRY_TLS_CA_FILE", broken))
	if len(problems) != 1 || problems[0].Variable != "TARGET_SCHEMA_REGISTRY_TLS_CA_FILE" {
		t.Errorf("problems %+v", problems)
	}
}

// TestSchemaProblems: a chain that asks a registry which is not configured is refused, before anything runs.
func TestSchemaProblems(t *testing.T) {
	problems := problemsOf(t, leastEnviron("BRIDGE_TRANSFORM", "schema_map_id"))
	if len(problems) != 2 || problems[0].Variable != "SCHEMA_REGISTRY_URL" || problems[1].Variable != "TARGET_SCHEMA_REGISTRY_URL" {
		t.Errorf("problems %+v", problems)
	}
}

// TestSchemaTryOut: a chain that asks a registry is tried with the registry of the environment, of which nothing else has to be
// there, and without one it is refused.
func TestSchemaTryOut(t *testing.T) {
	fake := fakeRegistry(t)
	fake.SeedSchema("s", 1, 7, sr.Schema{Schema: `"int"`})
	for name, test := range map[string]struct {
		chain   string
		environ map[string]string
		status  int
		said    string
	}{
		"decoded":      {"schema_decode", map[string]string{"SCHEMA_REGISTRY_URL": fake.URL()}, exitOK, `"value":"1"`},
		"no registry":  {"schema_decode", nil, exitConfig, "SCHEMA_REGISTRY_URL"},
		"no URL":       {"schema_decode", map[string]string{"SCHEMA_REGISTRY_URL": "://"}, exitConfig, "SCHEMA_REGISTRY_URL"},
		"no subject":   {"schema_encode(subject: none)", map[string]string{"SCHEMA_REGISTRY_URL": fake.URL()}, exitConfig, "subject none"},
		"would change": {"schema_map_id", map[string]string{"SCHEMA_REGISTRY_URL": fake.URL(), "TARGET_SCHEMA_REGISTRY_URL": fake.URL()}, exitConfig, "changes nothing"},
	} {
		var out, errOut bytes.Buffer
		status := Main(Context{
			Args: []string{"transform", "run", "--chain", test.chain}, Environ: test.environ, Hostname: "host",
			Stdin: strings.NewReader(`{"value_base64":"AAAAAAcC"}`), Stdout: &out, Stderr: &errOut,
		})
		if status != test.status || !strings.Contains(out.String()+errOut.String(), test.said) || strings.Contains(errOut.String(), "KAFKA_") {
			t.Errorf("%s: status %d, %s%s", name, status, &out, &errOut)
		}
	}
}

// TestSchemaStart: what a chain encodes with has to be there at the start.
func TestSchemaStart(t *testing.T) {
	fake := fakeRegistry(t)
	server := httptest.NewServer(fake.Handler())
	environ := leastEnviron("BRIDGE_TRANSFORM", "schema_encode(subject: none)", "SCHEMA_REGISTRY_URL", server.URL, "BRIDGE_EPOCH_TIMEOUT", "300ms")
	if status, _, stderr := runMain(environ, "run"); status != exitConfig || !strings.Contains(stderr, "subject none") {
		t.Errorf("no such subject: status %d, %s", status, stderr)
	}
	fake.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		answerWith(w, http.StatusForbidden, `{"error_code":40301,"message":"no"}`)
		return true
	})
	if status, _, stderr := runMain(environ, "run"); status != exitDenied {
		t.Errorf("denied: status %d, %s", status, stderr)
	}
	server.Close()
	if status, _, stderr := runMain(environ, "run"); status != exitUnavailable || !strings.Contains(stderr, server.URL) {
		t.Errorf("away: status %d, %s", status, stderr)
	}
}

// TestSchemaRunExactly: the whole command decodes Avro on kfake (not Apache Kafka) while the registry goes away for so
// long that epochs are aborted, comes back, and goes again. Each record comes out once, in order, and none is skipped.
func TestSchemaRunExactly(t *testing.T) {
	fake := fakeRegistry(t)
	const schemas, each = 12, 10
	for id := 1; id <= schemas; id++ {
		fake.SeedSchema(fmt.Sprint("s", id), 1, id, sr.Schema{Schema: fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"n","type":"long"},{"name":"of","type":["null","string"]}]}`, id)})
	}
	var asked atomic.Int32
	fake.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		n := asked.Add(1)
		if n > 3 && n < 16 || n > 18 && n < 30 {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil { // as where nobody listens
				_ = conn.Close()
			}
			return true
		}
		return false
	})
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "orders-clean"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	seeds := kgo.SeedBrokers(c.ListenAddrs()...)
	cl, err := kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for i := range schemas * each {
		body := binary.AppendVarint(binary.BigEndian.AppendUint32([]byte{0}, uint32(i/each+1)), int64(i))
		body = append(body, 2, 2, 'x')
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: int32(i % 2), Value: body}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	status, _, stderr := runMain(leastEnviron(
		"KAFKA_BOOTSTRAP_SERVERS", strings.Join(c.ListenAddrs(), ","), "SCHEMA_REGISTRY_URL", fake.URL(),
		"BRIDGE_TRANSFORM", `schema_decode | filter(value.of == "x")`,
		"BRIDGE_EPOCH_INTERVAL", "20ms", "BRIDGE_EPOCH_TIMEOUT", "600ms", "BRIDGE_RESTART_MAX_DELAY", "50ms", "BRIDGE_HTTP_ADDR", "off"), "run", "--until-end")
	if status != exitOK {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if !strings.Contains(stderr, "schema registry at") || !strings.Contains(stderr, "epoch aborted") {
		t.Errorf("no epoch was aborted: %s", stderr)
	}
	reader, err := kgo.NewClient(seeds, kgo.ConsumeTopics("orders-clean"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	next := map[int32]int{0: 0, 1: 1}
	for seen := 0; seen < schemas*each; {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			want, _ := json.Marshal(struct {
				N  int    `json:"n"`
				Of string `json:"of"`
			}{next[r.Partition], "x"})
			if string(r.Value) != string(want) {
				t.Errorf("partition %d: %s, want %s", r.Partition, r.Value, want)
			}
			next[r.Partition] += 2
			seen++
		})
	}
}
