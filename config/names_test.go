package config

import (
	"strings"
	"testing"
)

func TestUnknownNames(t *testing.T) {
	for name, want := range map[string]string{
		"BRIDGE_INPUT_TOPIC":         "did you mean BRIDGE_INPUT_TOPICS?",
		"BRIDGE_IMPUT_TOPICS":        "did you mean BRIDGE_INPUT_TOPICS?",
		"BRIDGE_OUTPUT":              "did you mean BRIDGE_OUTPUT_TOPIC?",
		"BRIDGE_BOOTSTRAP_SERVERS":   "did you mean KAFKA_BOOTSTRAP_SERVERS?",
		"BRIDGE_SASL_PASSWORD_FILE":  "did you mean KAFKA_SASL_PASSWORD_FILE?",
		"BRIDGE_LOG_LEVEL":           "unknown variable",
		"BRIDGE_CHECKPOINT_INTERVAL": "unknown variable",
		"BRIDGE_XYZZY":               "unknown variable: unset it; 'eosbridge config docs' lists all",
		"bridge_group_id":            "did you mean BRIDGE_GROUP_ID?",
		"BRIDGE_":                    "unknown variable",
		"BRIDGE_GROUP_ID_FILE":       "did you mean BRIDGE_GROUP_ID?",
		"TARGET_KAFKA_RACK":          "not supported yet: input and output are topics of the same cluster",
		// These look like Kubernetes's, but it would not set such values.
		"BRIDGE_PORT":             "unknown variable",
		"BRIDGE_PORT_9464_SCTP":   "unknown variable",
		"BRIDGE_PORT_TCP":         "unknown variable",
		"BRIDGE_SERVICE_HOSTNAME": "unknown variable",
	} {
		got := problems(t, with(name, "9464"))
		if len(got) != 1 || got[0].Variable != name || !strings.Contains(got[0].Message, want) {
			t.Errorf("%s: got %v, want %q", name, got, want)
		}
	}
	// Even an empty one is a mistake worth hearing of.
	if got := problems(t, func() map[string]string { e := with(); e["BRIDGE_LANE"] = ""; return e }()); len(got) != 1 {
		t.Errorf("an empty unknown variable: %v", got)
	}
}

func TestUnknownValueIsNotShown(t *testing.T) {
	for _, p := range problems(t, with("BRIDGE_PASSWORD", "hunter2", "TARGET_KAFKA_SASL_PASSWORD", "hunter2", "BRIDGE_PORT", "hunter2://x")) {
		if strings.Contains(p.Message, "hunter2") {
			t.Errorf("%v", p)
		}
	}
}

// TestKubernetesServices uses what the kubelet sets for Services named bridge, bridge-metrics and kafka.
func TestKubernetesServices(t *testing.T) {
	if got := problems(t, with(
		"BRIDGE_SERVICE_HOST", "10.0.0.7", "BRIDGE_SERVICE_PORT", "9464", "BRIDGE_SERVICE_PORT_METRICS", "9464",
		"BRIDGE_PORT", "tcp://10.0.0.7:9464", "BRIDGE_PORT_9464_TCP", "tcp://10.0.0.7:9464", "BRIDGE_PORT_9464_TCP_PROTO", "tcp",
		"BRIDGE_PORT_9464_TCP_PORT", "9464", "BRIDGE_PORT_9464_TCP_ADDR", "10.0.0.7", "BRIDGE_PORT_53_UDP", "udp://10.0.0.7:53",
		"BRIDGE_METRICS_SERVICE_HOST", "10.0.0.8", "BRIDGE_METRICS_SERVICE_PORT_HTTP", "80", "BRIDGE_METRICS_PORT", "tcp://10.0.0.8:80",
		"BRIDGE_METRICS_PORT_80_TCP_ADDR", "10.0.0.8",
		"KAFKA_SERVICE_HOST", "10.0.0.9", "KAFKA_PORT", "tcp://10.0.0.9:9092",
	)); got != nil {
		t.Errorf("refused: %v", got)
	}
	// No variable of ours may have a name that passes for one of Kubernetes's.
	for _, v := range variables() {
		if injected(v.name, "tcp://x") {
			t.Errorf("%s could come from a Service", v.name)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"run", "demo", "config", "version", "transform"}
	for word, want := range map[string]string{
		"rum": "run", "dem": "demo", "cofnig": "config", "conf": "config", "versions": "version", "trans": "transform",
		"": "", "x": "", "xyz": "", "runner": "run", "bench": "",
	} {
		if got := Nearest(word, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := Nearest("x", nil); got != "" {
		t.Errorf("of none: %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
		if got := distance(test.b, test.a); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.b, test.a, got, test.want)
		}
	}
}
