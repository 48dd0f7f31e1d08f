package config

import (
	"strings"
	"testing"
)

// TestLaws breaks one law in each row and expects exactly one problem.
func TestLaws(t *testing.T) {
	readable, folder := file(t, "x"), t.TempDir()
	sasl := func(pairs ...string) []string {
		return append([]string{"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", "hunter2"}, pairs...)
	}
	oauth := func(pairs ...string) []string {
		return append([]string{"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_MECHANISM", "OAUTHBEARER"}, pairs...)
	}
	endpoint := func(url string, pairs ...string) []string {
		return oauth(append([]string{"KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", url, "KAFKA_SASL_OAUTH_CLIENT_ID", "id", "KAFKA_SASL_OAUTH_CLIENT_SECRET", "hunter2"}, pairs...)...)
	}
	msk := func(pairs ...string) []string {
		return append([]string{"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_MECHANISM", "AWS_MSK_IAM"}, pairs...)
	}
	for _, test := range []struct {
		name     string
		pairs    []string
		variable string
		want     string
	}{
		{"no port", []string{"KAFKA_BOOTSTRAP_SERVERS", "kafka"}, "KAFKA_BOOTSTRAP_SERVERS", `"kafka" has no port: write host:port, such as kafka:9092`},
		{"no host", []string{"KAFKA_BOOTSTRAP_SERVERS", ":9092"}, "KAFKA_BOOTSTRAP_SERVERS", "has no host"},
		{"port zero", []string{"KAFKA_BOOTSTRAP_SERVERS", "a:0"}, "KAFKA_BOOTSTRAP_SERVERS", `port "0": write a number from 1 to 65535`},
		{"port of letters", []string{"KAFKA_BOOTSTRAP_SERVERS", "a:kafka"}, "KAFKA_BOOTSTRAP_SERVERS", `port "kafka"`},
		{"bare IPv6", []string{"KAFKA_BOOTSTRAP_SERVERS", "::1"}, "KAFKA_BOOTSTRAP_SERVERS", "[IPv6 address]"},
		{"scheme", []string{"KAFKA_BOOTSTRAP_SERVERS", "SSL://a:9092"}, "KAFKA_BOOTSTRAP_SERVERS", "has a scheme: write host:port"},
		{"credentials", []string{"KAFKA_BOOTSTRAP_SERVERS", "u:hunter2@a:9092"}, "KAFKA_BOOTSTRAP_SERVERS", "holds an @: write host:port alone"},
		{"other product's name", []string{"KAFKA_BOOTSTRAP_SERVERS", "", "KAFKA_BROKERS", "a:1"}, "KAFKA_BOOTSTRAP_SERVERS", "(KAFKA_BROKERS is set, which is not read here)"},

		{"no mechanism", []string{"KAFKA_SECURITY_PROTOCOL", "SASL_SSL"}, "KAFKA_SASL_MECHANISM", "not set, but KAFKA_SECURITY_PROTOCOL=SASL_SSL authenticates"},
		{"mechanism without SASL", []string{"KAFKA_SASL_MECHANISM", "PLAIN"}, "KAFKA_SASL_MECHANISM", "KAFKA_SECURITY_PROTOCOL=PLAINTEXT does not authenticate"},
		{"password without SASL", []string{"KAFKA_SASL_PASSWORD", "hunter2", "KAFKA_SECURITY_PROTOCOL", "SSL"}, "KAFKA_SASL_PASSWORD", "KAFKA_SECURITY_PROTOCOL=SSL does not authenticate"},
		{"no username", sasl("KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", ""), "KAFKA_SASL_USERNAME", "KAFKA_SASL_MECHANISM=PLAIN needs it"},
		{"no password", sasl("KAFKA_SASL_MECHANISM", "SCRAM-SHA-256", "KAFKA_SASL_PASSWORD", ""), "KAFKA_SASL_PASSWORD", "KAFKA_SASL_PASSWORD_FILE"},
		{"plain without TLS", sasl("KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT"), "KAFKA_SECURITY_PROTOCOL", "KAFKA_SASL_ALLOW_PLAINTEXT=true"},
		{"bearer token without TLS", oauth("KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT", "KAFKA_SASL_OAUTH_TOKEN_FILE", readable), "KAFKA_SECURITY_PROTOCOL", "shows the credentials"},

		{"CA file without TLS", []string{"KAFKA_TLS_CA_FILE", readable}, "KAFKA_TLS_CA_FILE", "KAFKA_SECURITY_PROTOCOL=PLAINTEXT does not use TLS"},
		{"CA file missing", []string{"KAFKA_SECURITY_PROTOCOL", "SSL", "KAFKA_TLS_CA_FILE", "/nonexistent/ca"}, "KAFKA_TLS_CA_FILE", `"/nonexistent/ca" cannot be read (no such file or directory)`},
		{"CA file is a folder", []string{"KAFKA_SECURITY_PROTOCOL", "SSL", "KAFKA_TLS_CA_FILE", folder}, "KAFKA_TLS_CA_FILE", "is a directory"},
		{"certificate without key", []string{"KAFKA_SECURITY_PROTOCOL", "SSL", "KAFKA_TLS_CERT_FILE", readable}, "KAFKA_TLS_KEY_FILE", "set both or neither"},
		{"key without certificate", []string{"KAFKA_SECURITY_PROTOCOL", "SSL", "KAFKA_TLS_KEY_FILE", readable}, "KAFKA_TLS_CERT_FILE", "set both or neither"},

		{"no token", oauth(), "KAFKA_SASL_OAUTH_TOKEN_FILE", "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT"},
		{"token file missing", oauth("KAFKA_SASL_OAUTH_TOKEN_FILE", "/nonexistent/token"), "KAFKA_SASL_OAUTH_TOKEN_FILE", "cannot be read"},
		{"token file and endpoint", endpoint("https://a/t", "KAFKA_SASL_OAUTH_TOKEN_FILE", readable), "KAFKA_SASL_OAUTH_TOKEN_FILE", "set together with"},
		{"endpoint is no URL", endpoint("login"), "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", "not a URL with a host"},
		{"endpoint without TLS", endpoint("http://a/t"), "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", "use https"},
		{"endpoint with password", endpoint("https://u:hunter2@a/t"), "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", `"https://u:xxxxx@a/t" holds credentials`},
		{"endpoint broken with password", endpoint("https://u:hunter2@a:x/t"), "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", "not a URL"},
		{"no client id", endpoint("https://a/t", "KAFKA_SASL_OAUTH_CLIENT_ID", ""), "KAFKA_SASL_OAUTH_CLIENT_ID", "needs it"},
		{"no client secret", endpoint("https://a/t", "KAFKA_SASL_OAUTH_CLIENT_SECRET", ""), "KAFKA_SASL_OAUTH_CLIENT_SECRET", "needs it"},

		{"no access key", msk(), "AWS_ACCESS_KEY_ID", "AWS_SHARED_CREDENTIALS_FILE"},
		{"no secret key", msk("AWS_ACCESS_KEY_ID", "AKIA"), "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY_FILE"},
		{"two sources of keys", msk("AWS_ACCESS_KEY_ID", "AKIA", "AWS_SECRET_ACCESS_KEY", "hunter2", "AWS_SHARED_CREDENTIALS_FILE", readable), "AWS_SHARED_CREDENTIALS_FILE", "set together"},
		{"credentials file missing", msk("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent"), "AWS_SHARED_CREDENTIALS_FILE", "cannot be read"},

		{"registry is no URL", []string{"SCHEMA_REGISTRY_URL", "registry:8081"}, "SCHEMA_REGISTRY_URL", "not a URL with a host"},
		{"one registry of two is no URL", []string{"TARGET_SCHEMA_REGISTRY_URL", "https://a,ftp://b"}, "TARGET_SCHEMA_REGISTRY_URL", "not a URL with a host"},
		{"registry with password", []string{"SCHEMA_REGISTRY_URL", "https://u:hunter2@a"}, "SCHEMA_REGISTRY_URL", `"https://u:xxxxx@a" holds credentials: move them to SCHEMA_REGISTRY_USERNAME`},
		{"registry with query", []string{"SCHEMA_REGISTRY_URL", "https://a?b=hunter2"}, "SCHEMA_REGISTRY_URL", "holds a query"},
		{"registry's user alone", []string{"SCHEMA_REGISTRY_URL", "https://a", "SCHEMA_REGISTRY_USERNAME", "u"}, "SCHEMA_REGISTRY_PASSWORD", "belong together"},
		{"registry's password alone", []string{"SCHEMA_REGISTRY_URL", "https://a", "SCHEMA_REGISTRY_PASSWORD", "hunter2"}, "SCHEMA_REGISTRY_USERNAME", "belong together"},
		{"registry's password without TLS", []string{"SCHEMA_REGISTRY_URL", "https://a,http://b", "SCHEMA_REGISTRY_USERNAME", "u", "SCHEMA_REGISTRY_PASSWORD", "hunter2"}, "SCHEMA_REGISTRY_URL", "SCHEMA_REGISTRY_ALLOW_PLAINTEXT=true"},
		{"registry's user without registry", []string{"TARGET_SCHEMA_REGISTRY_USERNAME", "u"}, "TARGET_SCHEMA_REGISTRY_USERNAME", "TARGET_SCHEMA_REGISTRY_URL is not"},
		{"registry's CA without TLS", []string{"SCHEMA_REGISTRY_URL", "http://a", "SCHEMA_REGISTRY_TLS_CA_FILE", readable}, "SCHEMA_REGISTRY_TLS_CA_FILE", "does not use TLS"},
		{"registry's CA missing", []string{"SCHEMA_REGISTRY_URL", "https://a", "SCHEMA_REGISTRY_TLS_CA_FILE", "/nonexistent"}, "SCHEMA_REGISTRY_TLS_CA_FILE", "cannot be read"},
		{"registry's certificate without key", []string{"SCHEMA_REGISTRY_URL", "https://a", "SCHEMA_REGISTRY_TLS_CERT_FILE", readable}, "SCHEMA_REGISTRY_TLS_CERT_FILE", "set both or neither"},

		{"output is input", []string{"BRIDGE_OUTPUT_TOPIC", "orders"}, "BRIDGE_OUTPUT_TOPIC", "gives orders, which BRIDGE_INPUT_TOPICS lists as input"},
		{"expanded output is input", []string{"BRIDGE_INPUT_TOPICS", "a,b,a-x", "BRIDGE_OUTPUT_TOPIC", "{topic}-x"}, "BRIDGE_OUTPUT_TOPIC", `"{topic}-x" gives a-x`},
		{"output is the input by template", []string{"BRIDGE_INPUT_TOPICS", "/a.*/", "BRIDGE_OUTPUT_TOPIC", "{topic}"}, "BRIDGE_OUTPUT_TOPIC", "the topic it came from"},
		{"unknown placeholder", []string{"BRIDGE_OUTPUT_TOPIC", "{Topic}-x"}, "BRIDGE_OUTPUT_TOPIC", "the only one is {topic}"},
		{"output's characters", []string{"BRIDGE_OUTPUT_TOPIC", "a b"}, "BRIDGE_OUTPUT_TOPIC", `the character ' '`},
		{"internal output", []string{"BRIDGE_OUTPUT_TOPIC", "__consumer_offsets"}, "BRIDGE_OUTPUT_TOPIC", "internal topic"},
		{"expanded output too long", []string{"BRIDGE_INPUT_TOPICS", strings.Repeat("a", 249), "BRIDGE_OUTPUT_TOPIC", "{topic}-x"}, "BRIDGE_OUTPUT_TOPIC", "251 characters, Kafka permits 249"},
		{"dead letters without a topic", []string{"BRIDGE_ON_ERROR", "dlq"}, "BRIDGE_DLQ_TOPIC", "not set, but BRIDGE_ON_ERROR=dlq writes dead letters"},
		{"a topic for no dead letters", []string{"BRIDGE_ON_ERROR", "skip", "BRIDGE_DLQ_TOPIC", "d"}, "BRIDGE_DLQ_TOPIC", "BRIDGE_ON_ERROR=skip writes no dead letters"},
		{"dead letters into an input", []string{"BRIDGE_ON_ERROR", "dlq", "BRIDGE_DLQ_TOPIC", "orders"}, "BRIDGE_DLQ_TOPIC", `"orders" is an input`},
		{"dead letters into the output", []string{"BRIDGE_ON_ERROR", "dlq", "BRIDGE_DLQ_TOPIC", "out", "BRIDGE_OUTPUT_TOPIC", "out"}, "BRIDGE_DLQ_TOPIC", `"out" is an output`},
		{"dead letters into an expanded output", []string{"BRIDGE_ON_ERROR", "dlq", "BRIDGE_DLQ_TOPIC", "orders-x", "BRIDGE_OUTPUT_TOPIC", "{topic}-x"}, "BRIDGE_DLQ_TOPIC", `"orders-x" is an output`},
		{"topic of dead letters", []string{"BRIDGE_ON_ERROR", "dlq", "BRIDGE_DLQ_TOPIC", "a b"}, "BRIDGE_DLQ_TOPIC", `the character ' '`},
		{"internal topic of dead letters", []string{"BRIDGE_ON_ERROR", "dlq", "BRIDGE_DLQ_TOPIC", "__consumer_offsets"}, "BRIDGE_DLQ_TOPIC", "internal topic"},
		{"error limit", []string{"BRIDGE_ERROR_LIMIT", "-1"}, "BRIDGE_ERROR_LIMIT", "-1 is out of range: use 0 to"},
		{"start", []string{"BRIDGE_START", "yesterday"}, "BRIDGE_START", "write earliest, latest, or a time with its zone"},
		{"start without zone", []string{"BRIDGE_START", "2026-01-31T00:00:00"}, "BRIDGE_START", "a time with its zone"},

		{"instance with dot", []string{"BRIDGE_INSTANCE_ID", "a.b"}, "BRIDGE_INSTANCE_ID", `"a.b" holds a dot`},
		{"instance with slash", []string{"BRIDGE_INSTANCE_ID", "a/b"}, "BRIDGE_INSTANCE_ID", `the character '/'`},
		{"instance too long", []string{"BRIDGE_INSTANCE_ID", strings.Repeat("a", 250)}, "BRIDGE_INSTANCE_ID", "250 bytes"},
		{"group with space", []string{"BRIDGE_GROUP_ID", "a b"}, "BRIDGE_GROUP_ID", "a space"},
		{"prefix with control character", []string{"BRIDGE_TXN_PREFIX", "a\x01b"}, "BRIDGE_TXN_PREFIX", "unprintable"},
		{"prefix too long", []string{"BRIDGE_TXN_PREFIX", strings.Repeat("a", 250)}, "BRIDGE_TXN_PREFIX", "250 bytes"},

		{"negative interval", []string{"BRIDGE_EPOCH_INTERVAL", "-1s"}, "BRIDGE_EPOCH_INTERVAL", `"-1s" is out of range: use 0s to`},
		{"no epoch timeout", []string{"BRIDGE_EPOCH_TIMEOUT", "0s"}, "BRIDGE_EPOCH_TIMEOUT", "use 1ms to"},
		{"beyond the protocol", []string{"BRIDGE_REBALANCE_TIMEOUT", "600h"}, "BRIDGE_REBALANCE_TIMEOUT", "out of range"},
		{"no records", []string{"BRIDGE_EPOCH_MAX_RECORDS", "0"}, "BRIDGE_EPOCH_MAX_RECORDS", "0 is out of range: use 1 to 2147483647"},
		{"no bytes", []string{"BRIDGE_EPOCH_MAX_BYTES", "0"}, "BRIDGE_EPOCH_MAX_BYTES", "out of range"},
		{"negative lanes", []string{"BRIDGE_LANES", "-1"}, "BRIDGE_LANES", "out of range"},
		{"negative limit", []string{"BRIDGE_RESTART_LIMIT", "-1"}, "BRIDGE_RESTART_LIMIT", "out of range"},

		{
			"transaction too short",
			[]string{"BRIDGE_TXN_TIMEOUT", "30100ms"},
			"BRIDGE_TXN_TIMEOUT",
			"30.1s must be more than BRIDGE_EPOCH_INTERVAL + 2 × BRIDGE_EPOCH_TIMEOUT = 100ms + 2 × 15s = 30.1s: raise this to 31s or more, or lower BRIDGE_EPOCH_TIMEOUT",
		},
		{
			"transaction shorter than the longest interval",
			[]string{"BRIDGE_EPOCH_MAX_INTERVAL", "10s"},
			"BRIDGE_TXN_TIMEOUT",
			"40s must be more than BRIDGE_EPOCH_MAX_INTERVAL + 2 × BRIDGE_EPOCH_TIMEOUT = 10s + 2 × 15s = 40s: raise this to 41s or more",
		},
		{
			"longest interval below the interval",
			[]string{"BRIDGE_EPOCH_INTERVAL", "1s", "BRIDGE_EPOCH_MAX_INTERVAL", "500ms"},
			"BRIDGE_EPOCH_MAX_INTERVAL",
			"500ms must not be less than BRIDGE_EPOCH_INTERVAL = 1s: raise this, or unset it",
		},
		{
			"transaction shorter than the pause",
			[]string{"BRIDGE_EPOCH_MIN_PAUSE", "20s"},
			"BRIDGE_TXN_TIMEOUT",
			"40s must be more than BRIDGE_EPOCH_MIN_PAUSE + 2 × BRIDGE_EPOCH_TIMEOUT = 20s + 2 × 15s = 50s",
		},
		{
			"session too short",
			[]string{"BRIDGE_SESSION_TIMEOUT", "40s"},
			"BRIDGE_SESSION_TIMEOUT",
			"40s must be more than BRIDGE_TXN_TIMEOUT = 40s: raise this to 41s or more, or lower BRIDGE_TXN_TIMEOUT",
		},
		{
			"rebalance too short",
			[]string{"BRIDGE_REBALANCE_TIMEOUT", "44s"},
			"BRIDGE_REBALANCE_TIMEOUT",
			"44s must not be less than BRIDGE_SESSION_TIMEOUT = 45s",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := problems(t, with(test.pairs...))
			if len(got) != 1 || got[0].Variable != test.variable || !strings.Contains(got[0].Message, test.want) {
				t.Errorf("got %v\nwant %s: …%s…", got, test.variable, test.want)
			}
			for _, p := range got {
				if strings.Contains(p.Message, "hunter2") {
					t.Errorf("the message shows a secret: %v", p)
				}
				if !strings.Contains(p.Message, ":") {
					t.Errorf("the message names no remedy: %v", p)
				}
			}
		})
	}
}

// TestLawsPermit holds what is near a law and inside it.
func TestLawsPermit(t *testing.T) {
	path := file(t, "x")
	for name, pairs := range map[string][]string{
		"txn timeout just enough":         {"BRIDGE_TXN_TIMEOUT", "30101ms"},
		"session just enough":             {"BRIDGE_SESSION_TIMEOUT", "40001ms"},
		"rebalance equal to session":      {"BRIDGE_REBALANCE_TIMEOUT", "45s"},
		"the broker has the session":      {"BRIDGE_GROUP_PROTOCOL", "consumer", "BRIDGE_SESSION_TIMEOUT", "1s"},
		"no transaction to bound":         {"BRIDGE_DELIVERY", "at-least-once", "BRIDGE_TXN_TIMEOUT", "1s"},
		"interval zero":                   {"BRIDGE_EPOCH_INTERVAL", "0s"},
		"zero without a unit":             {"BRIDGE_EPOCH_INTERVAL", "0"},
		"stop at once":                    {"BRIDGE_STOP_TIMEOUT", "0s"},
		"scram without TLS":               {"KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM", "scram-sha-512", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", "p"},
		"plain without TLS, by order":     {"KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT", "KAFKA_SASL_MECHANISM", "PLAIN", "KAFKA_SASL_USERNAME", "u", "KAFKA_SASL_PASSWORD", "p", "KAFKA_SASL_ALLOW_PLAINTEXT", "true"},
		"token endpoint without TLS":      {"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_MECHANISM", "OAUTHBEARER", "KAFKA_SASL_OAUTH_TOKEN_ENDPOINT", "http://a/t", "KAFKA_SASL_OAUTH_CLIENT_ID", "i", "KAFKA_SASL_OAUTH_CLIENT_SECRET", "s", "KAFKA_SASL_ALLOW_PLAINTEXT", "true"},
		"MSK with keys":                   {"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_MECHANISM", "AWS_MSK_IAM", "AWS_ACCESS_KEY_ID", "a", "AWS_SECRET_ACCESS_KEY", "s"},
		"MSK with a file":                 {"KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_MECHANISM", "AWS_MSK_IAM", "AWS_SHARED_CREDENTIALS_FILE", path},
		"AWS variables of someone else":   {"AWS_ACCESS_KEY_ID", "a", "AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", "AWS_REGION", "eu-west-1"},
		"the pattern matches the output":  {"BRIDGE_INPUT_TOPICS", "/orders.*/"},
		"a template over a pattern":       {"BRIDGE_INPUT_TOPICS", "/orders.*/", "BRIDGE_OUTPUT_TOPIC", "x.{topic}"},
		"two placeholders":                {"BRIDGE_OUTPUT_TOPIC", "{topic}.{topic}"},
		"prefix with dots":                {"BRIDGE_TXN_PREFIX", "a.b.c"},
		"start word in capitals":          {"BRIDGE_START", "LATEST"},
		"IPv6":                            {"KAFKA_BOOTSTRAP_SERVERS", "[fe80::1]:9092"},
		"trailing comma":                  {"KAFKA_BOOTSTRAP_SERVERS", "a:1,,"},
		"any free port":                   {"BRIDGE_HTTP_ADDR", "127.0.0.1:0"},
		"unknown variables of the client": {"KAFKA_HEAP_OPTS", "-Xmx1g", "LOG_DIR", "/tmp"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := problems(t, with(pairs...)); got != nil {
				t.Errorf("refused: %v", got)
			}
		})
	}
}

func TestInstanceFromHostName(t *testing.T) {
	for host, want := range map[string]string{"pod-0": "pod-0", "pod-0.bridge.svc": "pod-0", "A_b.": "A_b"} {
		c, err := Load(with(), host)
		if err != nil || c.Bridge.InstanceID != want {
			t.Errorf("host name %q: %+v, %v", host, c, err)
		}
	}
	for _, host := range []string{"", ".local", "bücher"} {
		if _, err := Load(with(), host); err == nil || !strings.Contains(err.Error(), "BRIDGE_INSTANCE_ID") {
			t.Errorf("host name %q: error %v", host, err)
		}
	}
	if c, err := Load(with("BRIDGE_INSTANCE_ID", "mine"), ""); err != nil || c.Kafka.ClientID != "eosbridge-mine" {
		t.Errorf("%+v, %v", c, err)
	}
}
