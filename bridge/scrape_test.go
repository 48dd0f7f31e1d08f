package bridge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/eosbridge/eosbridge/internal/exposition"
	"github.com/eosbridge/eosbridge/offsets"
)

// scraped are the routes of a bridge with so many partitions, and with the metrics of its process.
func scraped(t testing.TB, partitions int) http.Handler {
	t.Helper()
	from, _ := sampleSources(t)
	reg := exposition.New(testLog(t))
	from.metrics = reg
	m := mustMetrics(t, reg, from.board)
	for _, s := range sampleEpochs() {
		m.epoch(s)
	}
	reg.MustRegister(collectors.NewGoCollector(), exposition.Process())
	var assigned []int32
	var lags []offsets.Lag
	for p := range int32(partitions) { //nolint:gosec // small
		assigned, lags = append(assigned, p), append(lags, lagOf("orders", p, 12_345))
	}
	from.board.assign(map[string][]int32{"orders": assigned})
	from.board.lag(lags)
	return adminRoutes(from)
}

func TestScrapeOfManyPartitions(t *testing.T) {
	answer := ask(t, scraped(t, 1000), http.MethodGet, "/metrics").Body.String()
	for _, name := range []string{"lag_records", "last_stable_offset", "unstable_records"} {
		if n := strings.Count(answer, "\neosbridge_"+name+"{"); n != 1000 {
			t.Errorf("%d series of %s, want 1000", n, name)
		}
		if n := strings.Count(answer, "# TYPE eosbridge_"+name+" "); n != 1 {
			t.Errorf("%d types of %s, want 1", n, name)
		}
	}
	if line := "\neosbridge_lag_records{partition=\"999\",topic=\"orders\"} 12345\n"; !strings.Contains(answer, line) {
		t.Errorf("no line %q", line)
	}
}

// BenchmarkScrape is what /metrics costs without the network and without anyone else who wants the cores; make bench-scrape
// has both.
func BenchmarkScrape(b *testing.B) {
	for _, partitions := range []int{8, 1000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			routes := scraped(b, partitions)
			bytes := 0
			b.ReportAllocs()
			for b.Loop() {
				answer := httptest.NewRecorder()
				routes.ServeHTTP(answer, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", http.NoBody))
				if answer.Code != http.StatusOK {
					b.Fatal(answer.Code)
				}
				bytes = answer.Body.Len()
			}
			b.ReportMetric(float64(bytes), "bytes")
		})
	}
}
