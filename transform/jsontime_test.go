package transform

import (
	"testing"
	"time"
)

// TestTimeIgnoresTheMachine: a zone in letters, or none, means the same wherever the bridge runs.
func TestTimeIgnoresTheMachine(t *testing.T) {
	was := time.Local
	t.Cleanup(func() { time.Local = was })
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("CET", 3600), time.FixedZone("EST", -5*3600)} {
		time.Local = zone
		for expr, value := range map[string]string{
			`timestamp_from_json(at, "2006-01-02 15:04 MST")`:                                                  "2026-01-02 03:04 CET",
			`timestamp_from_json(at, "2006-01-02 15:04")`:                                                      "2026-01-02 03:04",
			`timestamp_from_json(at, rfc3339)`:                                                                 "2026-01-02T04:04:00+01:00",
			`json_time(at, rfc3339, "2006-01-02 15:04 MST") | timestamp_from_json(at, "2006-01-02 15:04 MST")`: "2026-01-02T04:04:00+01:00",
		} {
			out, err := chainOf(t, expr).Apply(&Record{Value: []byte(`{"at":"` + value + `"}`)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := out[0].Timestamp.UTC().Format(time.RFC3339); got != "2026-01-02T03:04:00Z" {
				t.Errorf("in %s, %s of %s gives %s", zone, expr, value, got)
			}
		}
	}
}

// TestTimeRoundTrip: what a format holds comes back through every other one that holds it.
func TestTimeRoundTrip(t *testing.T) {
	for _, at := range []string{"0", "1", "-1", "1767323045678901234", "-1767323045678901234", "9223372035999999999", "-9223372035000000000"} {
		for _, through := range []string{"rfc3339", `"2006-01-02T15:04:05.999999999Z07:00"`} {
			chain := chainOf(t, "json_time(at, unix_ns, "+through+") | json_time(at, "+through+", unix_ns)")
			doc := `{"at":` + at + `}`
			if out, err := chain.Apply(&Record{Value: []byte(doc)}, nil); err != nil || string(out[0].Value) != doc {
				t.Errorf("%s through %s: %v, %v", doc, through, values(out), err)
			}
		}
	}
}
