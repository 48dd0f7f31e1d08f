package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// fuzzSecret is in a variable of its own in each run; no output may show it.
const fuzzSecret = "hunter2-correct-horse"

// FuzzLoad reads configurations made of arbitrary variables, one NAME=value per line. Whatever they are, Load answers a
// configuration that its own settings describe in full, or problems of one line each, and shows no secret.
func FuzzLoad(f *testing.F) {
	f.Add("BRIDGE_EPOCH_INTERVAL=1s\nBRIDGE_EPOCH_TIMEOUT=10s")
	f.Add("BRIDGE_INPUT_TOPICS=/a,b|c/\nBRIDGE_EPOCH_MAX_BYTES=1536KiB\nBRIDGE_HTTP_ADDR=off")
	f.Add("BRIDGE_TXN_TIMEOUT=-1s\nBRIDGE_MEMORY_LIMIT=1\nBRIDGE_LANES=0\nBRIDGE_DELIVERY=twice")
	f.Add("KAFKA_SECURITY_PROTOCOL=SASL_SSL\nKAFKA_SASL_MECHANISM=SCRAM-SHA-256\nKAFKA_SASL_USERNAME=u")
	f.Add("BRIDGE_INSTANCE_ID=a.b\nBRIDGE_GROUP_ID=\nBRIDGE_SESION_TIMEOUT=1s\nBRIDGE_START=2026-01-01T00:00:00Z")
	f.Add("BRIDGE_OUTPUT_TOPIC={topic}\nBRIDGE_INPUT_TOPICS=a,b\nBRIDGE_PARTITIONING=key\nBRIDGE_PROVENANCE=maybe")
	f.Fuzz(func(t *testing.T, lines string) {
		environ := with("KAFKA_SASL_PASSWORD", fuzzSecret)
		for line := range strings.Lines(lines) {
			name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !ok || strings.HasSuffix(name, "_FILE") { // reads what the machine has
				continue
			}
			environ[name] = value
		}
		c, err := Load(environ, "pod-0")
		if err != nil {
			checkProblems(t, err)
			return
		}
		again := map[string]string{}
		for _, s := range c.Settings() {
			if strings.Contains(s.Value, fuzzSecret) {
				t.Errorf("%s shows a secret", s.Name)
			}
			again[s.Name] = s.Value
		}
		if environ["KAFKA_SASL_PASSWORD"] != "" {
			again["KAFKA_SASL_PASSWORD"] = environ["KAFKA_SASL_PASSWORD"]
		}
		for name, value := range again {
			if value == "***" { // another secret than ours
				again[name] = environ[name]
			}
		}
		second, err := Load(again, "pod-0")
		if err != nil {
			t.Fatalf("its own settings are refused: %v", err)
		}
		c.settings, second.settings = nil, nil
		if !reflect.DeepEqual(c, second) {
			t.Errorf("its own settings read as another configuration:\ngot  %+v\nwant %+v", second, c)
		}
	})
}

func checkProblems(t *testing.T, err error) {
	t.Helper()
	var problems *Problems
	if !errors.As(err, &problems) || len(problems.List) == 0 {
		t.Fatalf("no list of problems: %v", err)
	}
	for _, p := range problems.List {
		if p.Variable == "" || p.Message == "" || strings.ContainsAny(p.Message, "\n\r") {
			t.Errorf("problem %q: %q", p.Variable, p.Message)
		}
	}
	if strings.Contains(err.Error(), fuzzSecret) {
		t.Errorf("a secret is shown: %v", err)
	}
}
