package cli

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestThrottleIsCounted: quotas are visible from the start, and of each client.
func TestThrottleIsCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	consumer := newClientMetrics("consumer", registry)
	newClientMetrics("producer", registry)
	var hook kgo.HookBrokerThrottle = consumer
	hook.OnBrokerThrottle(kgo.BrokerMetadata{}, 250*time.Millisecond, true)
	hook.OnBrokerThrottle(kgo.BrokerMetadata{}, 500*time.Millisecond, false)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]float64{}
	for _, f := range families {
		seen[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
	}
	for name, want := range map[string]float64{"eosbridge_kafka_consumer_throttle_seconds_total": 0.75, "eosbridge_kafka_producer_throttle_seconds_total": 0} {
		if got, ok := seen[name]; !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
		}
	}
}

// TestBytesBesideTheClientAreCounted: what is passed through goes past kgo, and not past its counters.
func TestBytesBesideTheClientAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	consumer := newClientMetrics("consumer", registry)
	cl, err := kgo.NewClient(kgo.WithHooks(consumer))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	consumer.beside(3, 10, 0)
	consumer.beside(3, 0, 2000)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == "3" {
					seen[f.GetName()] = m.GetCounter().GetValue()
				}
			}
		}
	}
	if seen["eosbridge_kafka_consumer_write_bytes_total"] != 10 || seen["eosbridge_kafka_consumer_read_bytes_total"] != 2000 {
		t.Errorf("counted for node 3: %v", seen)
	}
}
