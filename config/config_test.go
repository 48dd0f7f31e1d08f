package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
)

// with returns the least environment that loads, plus pairs of names and values; an empty value removes a name.
func with(pairs ...string) map[string]string {
	environ := map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": "kafka-1:9092",
		"BRIDGE_INPUT_TOPICS":     "orders",
		"BRIDGE_OUTPUT_TOPIC":     "orders-clean",
		"BRIDGE_GROUP_ID":         "orders-bridge",
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			delete(environ, pairs[i])
			continue
		}
		environ[pairs[i]] = pairs[i+1]
	}
	return environ
}

func load(t *testing.T, environ map[string]string) *Config {
	t.Helper()
	c, err := Load(environ, "pod-0.bridge.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems returns what is wrong with an environment.
func problems(t *testing.T, environ map[string]string, checks ...Check) []Problem {
	t.Helper()
	c, err := Load(environ, "pod-0.bridge.default.svc", checks...)
	if err == nil {
		return nil
	}
	if c != nil {
		t.Errorf("a configuration came with the error %v", err)
	}
	var all *Problems
	if !errors.As(err, &all) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	return all.List
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	c := load(t, with())
	want := Config{
		Kafka: Kafka{
			BootstrapServers: []string{"kafka-1:9092"},
			ClientID:         "eosbridge-pod-0",
			SecurityProtocol: ProtocolPlaintext,
		},
		AWS: AWS{Profile: "default"},
		Bridge: Bridge{
			InputTopics:  Topics{names: []string{"orders"}},
			OutputTopic:  "orders-clean",
			Partitioning: PartitioningPreserve,
			OnError:      OnErrorFail,
			ErrorLimit:   1000,
			PassThrough:  PassThroughAuto, Delivery: DeliveryExactlyOnce,
			GroupID:          "orders-bridge",
			InstanceID:       "pod-0",
			TxnPrefix:        "orders-bridge",
			GroupProtocol:    GroupProtocolClassic,
			EpochInterval:    100 * time.Millisecond,
			EpochMaxInterval: 100 * time.Millisecond,
			EpochTimeout:     15 * time.Second,
			EpochMaxRecords:  1_000_000,
			EpochMaxBytes:    64 << 20,
			TxnTimeout:       40 * time.Second,
			SessionTimeout:   45 * time.Second,
			RebalanceTimeout: time.Minute,
			StopTimeout:      20 * time.Second,
			LeaveOnStop:      true,
			Lanes:            runtime.GOMAXPROCS(0),
			Compression:      "lz4",
			RestartMaxDelay:  30 * time.Second,
			RestartLimit:     20,
			HTTPAddr:         "127.0.0.1:9464",
		},
		Log: Log{Level: "info", Format: LogFormatAuto},
	}
	c.settings = nil
	if !reflect.DeepEqual(*c, want) {
		t.Errorf("got  %+v\nwant %+v", *c, want)
	}
}

func TestEveryVariableIsRead(t *testing.T) {
	token := file(t, "token")
	environ := with(
		"KAFKA_BOOTSTRAP_SERVERS", " a:1, [::1]:2 ,,",
		"KAFKA_CLIENT_ID", "client", "KAFKA_RACK", "eu-1a",
		"KAFKA_SECURITY_PROTOCOL", "sasl_ssl", "KAFKA_SASL_MECHANISM", "oauthbearer",
		"KAFKA_SASL_OAUTH_TOKEN_FILE", token, "KAFKA_SASL_OAUTH_SCOPE", "a b",
		"KAFKA_TLS_CA_FILE", token, "KAFKA_TLS_CERT_FILE", token, "KAFKA_TLS_KEY_FILE", token,
		"KAFKA_TLS_SERVER_NAME", "kafka", "KAFKA_TLS_INSECURE_SKIP_VERIFY", "true",
		"BRIDGE_INPUT_TOPICS", "/in-.{1,3}/", "BRIDGE_OUTPUT_TOPIC", "{topic}-out",
		"BRIDGE_PARTITIONING", "Key", "BRIDGE_TRANSFORM", " a | b(c) ",
		"BRIDGE_INSTANCE_ID", "i-1", "BRIDGE_TXN_PREFIX", "t.x", "BRIDGE_GROUP_PROTOCOL", "consumer",
		"BRIDGE_START", "2026-01-31T00:00:00+01:00", "BRIDGE_DELIVERY", "at-least-once",
		"BRIDGE_EPOCH_INTERVAL", "0s", "BRIDGE_EPOCH_MAX_INTERVAL", "321ms", "BRIDGE_EPOCH_TIMEOUT", "1s", "BRIDGE_EPOCH_MAX_RECORDS", "7",
		"BRIDGE_EPOCH_MAX_BYTES", "512MB", "BRIDGE_EPOCH_MIN_PAUSE", "1ms",
		"BRIDGE_TXN_TIMEOUT", "5s", "BRIDGE_SESSION_TIMEOUT", "6s", "BRIDGE_REBALANCE_TIMEOUT", "7s",
		"BRIDGE_LEAVE_ON_STOP", "false", "BRIDGE_STOP_TIMEOUT", "3s", "BRIDGE_LANES", "9",
		"BRIDGE_COMPRESSION", "ZSTD", "BRIDGE_MEMORY_LIMIT", "1GiB",
		"BRIDGE_RESTART_MAX_DELAY", "2s", "BRIDGE_RESTART_LIMIT", "0",
		"BRIDGE_HTTP_ADDR", "off", "BRIDGE_PPROF_ADDR", ":0", "LOG_LEVEL", "DEBUG", "LOG_FORMAT", "Json",
	)
	c := load(t, environ)
	if got := c.Kafka.BootstrapServers; !slices.Equal(got, []string{"a:1", "[::1]:2"}) {
		t.Errorf("bootstrap servers %q", got)
	}
	if got := c.Bridge.InputTopics.Pattern(); got != "^(?:in-.{1,3})$" {
		t.Errorf("pattern %q", got)
	}
	for got, want := range map[any]any{
		c.Kafka.SecurityProtocol:           ProtocolSASLSSL,
		c.Kafka.SASLMechanism:              MechanismOAuthBearer,
		c.Kafka.TLSInsecureSkipVerify:      true,
		c.Bridge.Output("in-1"):            "in-1-out",
		c.Bridge.Partitioning:              PartitioningKey,
		c.Bridge.Transform:                 "a | b(c)",
		c.Bridge.EpochInterval:             time.Duration(0),
		c.Bridge.EpochMaxBytes:             Bytes(512e6),
		c.Bridge.MemoryLimit:               Bytes(1 << 30),
		c.Bridge.Compression:               "zstd",
		c.Bridge.LeaveOnStop:               false,
		c.Bridge.HTTPAddr:                  Address(""),
		c.Bridge.PprofAddr:                 Address(":0"),
		c.Bridge.RestartLimit:              0,
		c.Bridge.TxnPrefix:                 "t.x",
		c.Log.Level:                        "debug",
		c.Log.Format:                       LogFormatJSON,
		c.Bridge.Delivery:                  DeliveryAtLeastOnce,
		c.Bridge.EpochTimeout:              time.Second,
		c.Bridge.EpochMaxInterval:          321 * time.Millisecond,
		c.IsSet("BRIDGE_EPOCH_INTERVAL"):   true,
		c.Bridge.Start:                     "2026-01-31T00:00:00+01:00",
		c.Kafka.ClientID + c.Kafka.Rack:    "clienteu-1a",
		c.Kafka.TLSServerName:              "kafka",
		c.Bridge.EpochMaxRecords:           7,
		c.Bridge.SessionTimeout.Seconds():  6.0,
		c.Bridge.RebalanceTimeout.String(): "7s",
	} {
		if got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	// A variable nobody reads would show up here as a default.
	for _, s := range c.Settings() {
		if _, set := environ[s.Name]; set != (s.Origin == "environment") {
			t.Errorf("%s: origin %s", s.Name, s.Origin)
		}
	}
}

// TestHermetic shows that only the argument counts, even when it is nil: the parser would then turn to the
// process's environment by itself.
func TestHermetic(t *testing.T) {
	for name, value := range with("BRIDGE_LANES", "x", "KAFKA_RACK", "rack") {
		t.Setenv(name, value)
	}
	var missing []string
	for _, p := range problems(t, nil) {
		missing = append(missing, p.Variable)
	}
	if want := []string{"KAFKA_BOOTSTRAP_SERVERS", "BRIDGE_INPUT_TOPICS", "BRIDGE_OUTPUT_TOPIC", "BRIDGE_GROUP_ID"}; !slices.Equal(missing, want) {
		t.Errorf("problems with %v, want %v", missing, want)
	}
	if c := load(t, with()); c.Kafka.Rack != "" {
		t.Errorf("rack %q came from the process's environment", c.Kafka.Rack)
	}
}

func TestEnvironmentIsNotAltered(t *testing.T) {
	environ := with("KAFKA_SECURITY_PROTOCOL", "sasl_ssl", "KAFKA_SASL_MECHANISM", "plain", "KAFKA_SASL_USERNAME", " u ",
		"KAFKA_SASL_PASSWORD_FILE", file(t, "p\n"))
	before := maps.Clone(environ)
	load(t, environ)
	if !maps.Equal(environ, before) {
		t.Errorf("altered to %v", environ)
	}
}

func TestEmptyMeansUnset(t *testing.T) {
	environ := with()
	for _, v := range variables() {
		if _, set := environ[v.name]; !set {
			environ[v.name] = "  "
			if v.secret() {
				environ[v.name], environ[v.name+fileSuffix] = "", " "
			}
		}
	}
	environ["BRIDGE_ON_ERROR"], environ["BRIDGE_DLQ_TOPIC"], environ["TARGET_KAFKA_RACK"] = "", "", ""
	empty, plain := load(t, environ), load(t, with())
	if !reflect.DeepEqual(empty, plain) {
		t.Errorf("empty variables gave %+v\nnone gave %+v", empty, plain)
	}
}

func TestSecretFiles(t *testing.T) {
	sasl := []string{"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "u"}
	t.Run("trimmed", func(t *testing.T) {
		path := file(t, " hunter2\r\n\n")
		c := load(t, with(append(sasl, "KAFKA_SASL_PASSWORD_FILE", path)...))
		if got := c.Kafka.SASLPassword.Reveal(); got != "hunter2" {
			t.Errorf("password %q", got)
		}
		for _, s := range c.Settings() {
			if s.Name == "KAFKA_SASL_PASSWORD" && (s.Value != "***" || s.Origin != "file:"+path) {
				t.Errorf("shown as %+v", s)
			}
		}
		if !c.IsSet("KAFKA_SASL_PASSWORD") {
			t.Error("counts as not set")
		}
	})
	t.Run("a variable is not trimmed", func(t *testing.T) {
		c := load(t, with(append(sasl, "KAFKA_SASL_PASSWORD", " hunter2 ")...))
		if got := c.Kafka.SASLPassword.Reveal(); got != " hunter2 " {
			t.Errorf("password %q", got)
		}
	})
	for _, test := range []struct{ name, value, path, variable, want string }{
		{"both", "hunter2", file(t, "hunter2"), "KAFKA_SASL_PASSWORD", "set together with KAFKA_SASL_PASSWORD_FILE: unset one of them"},
		{"missing", "", "/nonexistent/secret", "KAFKA_SASL_PASSWORD_FILE", `"/nonexistent/secret" cannot be read (no such file or directory): correct the path`},
		{"folder", "", t.TempDir(), "KAFKA_SASL_PASSWORD_FILE", "cannot be read (is a directory): correct the path"},
		{"empty", "", file(t, " \n"), "KAFKA_SASL_PASSWORD_FILE", "is empty: write the secret into it"},
		{"too large", "", file(t, strings.Repeat("x", maxSecretFile+1)), "KAFKA_SASL_PASSWORD_FILE", "holds more than 65536 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := problems(t, with(append(sasl, "KAFKA_SASL_PASSWORD", test.value, "KAFKA_SASL_PASSWORD_FILE", test.path)...))
			if len(got) != 1 || got[0].Variable != test.variable || !strings.Contains(got[0].Message, test.want) {
				t.Fatalf("got %v, want %s: %s", got, test.variable, test.want)
			}
			if strings.Contains(got[0].Message, "hunter2") {
				t.Errorf("the message shows the secret: %v", got[0])
			}
		})
	}
}

// TestAllProblemsAtOnce holds one problem of every kind.
func TestAllProblemsAtOnce(t *testing.T) {
	got := problems(t, with(
		"KAFKA_BOOTSTRAP_SERVERS", "",
		"BRIDGE_EPOCH_TIMEOUT", "15", "BRIDGE_LANES", "two", "BRIDGE_LEAVE_ON_STOP", "maybe", "BRIDGE_EPOCH_MAX_BYTES", "64 potatoes",
		"BRIDGE_SESSION_TIMEOUT", "30s", "BRIDGE_GROUP_PROTOCOL", "clasic",
		"BRIDGE_INPUT_TOPIC", "x", "LOG_LEVEL", "loud", "KAFKA_SASL_PASSWORD_FILE", "/nonexistent/secret",
		"TARGET_KAFKA_BOOTSTRAP_SERVERS", "b:1",
	))
	var text strings.Builder
	for _, p := range got {
		text.WriteString(p.String() + "\n")
	}
	want := `KAFKA_SASL_PASSWORD_FILE: "/nonexistent/secret" cannot be read (no such file or directory): correct the path or the file's permissions
BRIDGE_GROUP_PROTOCOL: "clasic" is not known: write one of classic, consumer; did you mean classic?
BRIDGE_EPOCH_TIMEOUT: "15" is not a duration: write a number with a unit, such as 100ms, 15s or 1m
BRIDGE_EPOCH_MAX_BYTES: "64 potatoes" has an unknown unit: write a whole number of bytes, or one with a unit such as 512MB or 64MiB
BRIDGE_LEAVE_ON_STOP: "maybe" is not a yes or no: write true or false
BRIDGE_LANES: "two" is not a whole number in range: write one, such as 20
LOG_LEVEL: "loud" is not known: write one of debug, info, warn, error
KAFKA_BOOTSTRAP_SERVERS: not set: set it, for example KAFKA_BOOTSTRAP_SERVERS=kafka-1:9092,kafka-2:9092
BRIDGE_INPUT_TOPIC: unknown variable: did you mean BRIDGE_INPUT_TOPICS? Rename it or unset it
TARGET_KAFKA_BOOTSTRAP_SERVERS: not supported yet: input and output are topics of the same cluster; unset it
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

func TestProblemsText(t *testing.T) {
	one := &Problems{List: []Problem{{"A", "not set: set it"}}}
	if got, want := one.Error(), "bad configuration, 1 problem:\n  A: not set: set it"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	two := &Problems{List: []Problem{{"A", "x"}, {"B", "y"}}}
	if got, want := two.Error(), "bad configuration, 2 problems:\n  A: x\n  B: y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProblemStaysOnOneLine(t *testing.T) {
	for _, p := range problems(t, with("BRIDGE_START", "a\nb", "KAFKA_RACK", "x", "BRIDGE_EPOCH_MAX_BYTES", "1\r\nx", "BRIDGE_INPUT_TOPICS", "/a\n(/")) {
		if strings.ContainsAny(p.Message, "\r\n") {
			t.Errorf("more than one line: %q", p.Message)
		}
	}
}

func TestChecksRunWithTheLaws(t *testing.T) {
	check := func(c *Config) []Problem {
		return []Problem{{"BRIDGE_TRANSFORM", "transform " + c.Bridge.Transform + " is unknown"}}
	}
	got := problems(t, with("BRIDGE_TRANSFORM", "x", "BRIDGE_TXN_TIMEOUT", "1s"), check)
	if len(got) != 2 || got[1].Message != "transform x is unknown" {
		t.Errorf("got %v", got)
	}
	got = problems(t, with("BRIDGE_TRANSFORM", "x", "BRIDGE_LANES", "y"), check)
	if len(got) != 2 || got[0].Variable != "BRIDGE_LANES" || got[1].Variable != "BRIDGE_TRANSFORM" {
		t.Errorf("with a value that cannot be read: got %v", got)
	}
	got = problems(t, with("BRIDGE_TRANSFORM", "x", "BRIDGE_TXN_TIMEOUT", "1s"), check, func(*Config) []Problem {
		return []Problem{{"BRIDGE_TXN_TIMEOUT", "the same again"}}
	})
	if len(got) != 2 {
		t.Errorf("said twice: %v", got)
	}
	if got = problems(t, with(), func(*Config) []Problem { return nil }); got != nil {
		t.Errorf("a content check gave %v", got)
	}
}

// TestTags rules out mistakes in the struct's tags, which the compiler does not see.
func TestTags(t *testing.T) {
	params, err := env.GetFieldParamsWithOptions(&Config{}, env.Options{Environment: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	var parsed, known []string
	for _, p := range params {
		parsed = append(parsed, p.Key)
		if p.LoadFile || p.Expand || p.Required || p.Unset {
			t.Errorf("%s: options of the parser are not used here, ours say more in their messages", p.Key)
		}
	}
	for _, v := range variables() {
		known = append(known, v.name)
		switch {
		case v.doc == "":
			t.Errorf("%s has no doc", v.name)
		case !strings.HasSuffix(v.doc, "."):
			t.Errorf("%s: doc does not end with a full stop", v.name)
		case strings.Count(v.doc, "'")%2 != 0 && !strings.Contains(v.doc, "s' ") && !strings.Contains(v.doc, "'s "):
			t.Errorf("%s: quotes do not pair", v.name)
		case v.required && v.example == "":
			t.Errorf("%s is required and has no example", v.name)
		case v.required && v.literal != "":
			t.Errorf("%s is required and has a default", v.name)
		case v.literal != "" && v.derived != "":
			t.Errorf("%s has two defaults", v.name)
		case v.literal != "" && len(v.oneof) > 0 && !slices.Contains(v.oneof, v.literal):
			t.Errorf("%s: the default is not one of %v", v.name, v.oneof)
		}
	}
	if !slices.Equal(parsed, known) {
		t.Errorf("the parser reads %v\nwe know %v", parsed, known)
	}
	if slices.Sort(known); len(slices.Compact(slices.Clone(known))) != len(known) {
		t.Error("a name occurs twice")
	}
}

func TestSettings(t *testing.T) {
	c := load(t, with("BRIDGE_INPUT_TOPICS", "b, a", "BRIDGE_EPOCH_MAX_BYTES", "65536", "AWS_ACCESS_KEY_ID", "AKIA"))
	shown := map[string]Setting{}
	for _, s := range c.Settings() {
		shown[s.Name] = s
	}
	for _, want := range []Setting{
		{"KAFKA_BOOTSTRAP_SERVERS", "kafka-1:9092", "environment"},
		{"BRIDGE_INPUT_TOPICS", "b,a", "environment"},
		{"BRIDGE_EPOCH_MAX_BYTES", "64KiB", "environment"},
		{"BRIDGE_REBALANCE_TIMEOUT", "1m", "default"},
		{"BRIDGE_INSTANCE_ID", "pod-0", "default"},
		{"BRIDGE_TXN_PREFIX", "orders-bridge", "default"},
		{"BRIDGE_PPROF_ADDR", "off", "default"},
		{"KAFKA_SASL_PASSWORD", "", "default"},
	} {
		if shown[want.Name] != want {
			t.Errorf("got %+v, want %+v", shown[want.Name], want)
		}
	}
	if _, ok := shown["AWS_ACCESS_KEY_ID"]; ok {
		t.Error("AWS's variables are shown although they are not used")
	}
	if c.IsSet("BRIDGE_EPOCH_INTERVAL") || c.IsSet("NO_SUCH") || !c.IsSet("BRIDGE_INPUT_TOPICS") {
		t.Error("IsSet is wrong")
	}
}

// TestSettingsLoadAgain shows that what is printed can be loaded and means the same.
func TestSettingsLoadAgain(t *testing.T) {
	first := load(t, with("BRIDGE_INPUT_TOPICS", "/a,b|c/", "BRIDGE_EPOCH_MAX_BYTES", "1536KiB", "BRIDGE_HTTP_ADDR", "off", "BRIDGE_STOP_TIMEOUT", "1h"))
	again := map[string]string{}
	for _, s := range first.Settings() {
		again[s.Name] = s.Value
	}
	second := load(t, again)
	first.settings, second.settings = nil, nil
	if !reflect.DeepEqual(first, second) {
		t.Errorf("got  %+v\nwant %+v", second, first)
	}
}
