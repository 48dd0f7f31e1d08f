package cli

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// clientMetrics counts what all clients of one role do, over all restarts. kprom by itself registers anew with
// every client, and would panic while an older one is still closing.
type clientMetrics struct {
	*kprom.Metrics
	once      sync.Once
	throttled prometheus.Counter
}

func newClientMetrics(role string, reg prometheus.Registerer) *clientMetrics {
	throttled := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "eosbridge", Subsystem: "kafka_" + role, Name: "throttle_seconds_total",
		Help: "Time for which brokers have delayed our requests because of a quota (KIP-219), summed over the requests.",
	})
	reg.MustRegister(throttled)
	return &clientMetrics{throttled: throttled, Metrics: kprom.NewMetrics("eosbridge", kprom.Subsystem("kafka_"+role),
		kprom.Registerer(withoutGauges{reg}))}
}

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (m *clientMetrics) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	m.throttled.Add(d.Seconds())
}

// beside counts bytes that went beside the client, see package link.
func (m *clientMetrics) beside(node int32, written, read int) {
	m.OnBrokerE2E(kgo.BrokerMetadata{NodeID: node}, 0, kgo.BrokerE2E{BytesWritten: written, BytesRead: read})
}

// OnNewClient implements kgo.HookNewClient.
func (m *clientMetrics) OnNewClient(cl *kgo.Client) { m.once.Do(func() { m.Metrics.OnNewClient(cl) }) }

// OnClientClosed implements kgo.HookClientClosed: the counters stay.
func (m *clientMetrics) OnClientClosed(*kgo.Client) {}

// withoutGauges leaves out kprom's gauges: they look into the first client only.
type withoutGauges struct{ prometheus.Registerer }

func (r withoutGauges) Register(c prometheus.Collector) error {
	if _, gauge := c.(prometheus.GaugeFunc); gauge {
		return nil
	}
	return r.Registerer.Register(c)
}

func (r withoutGauges) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}
