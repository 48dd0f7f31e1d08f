package copies

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/variant"
)

func TestOptions(t *testing.T) {
	w := variant.Work{
		Bootstrap: "h:1", In: "a", Out: "b", Group: "g", Instance: "i", Compression: "lz4", Interval: time.Second, Linger: time.Millisecond,
		Memory: 64 << 20,
	}
	want := options{
		bootstrap: "h:1", in: "a", out: "b", group: "g", instance: "i", compression: "lz4", interval: time.Second, linger: time.Millisecond,
		memory: 64 << 20,
	}
	got, err := parse("plain", arguments(w), io.Discard)
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if o, err := parse("plain", nil, io.Discard); err != nil || o.linger != 5*time.Millisecond || o.memory != 0 {
		t.Errorf("by default %+v, %v", o, err)
	}
	if _, err := got.client(); err != nil {
		t.Error(err)
	}
	got.compression = "brotli"
	if _, err := got.client(); err == nil || !strings.Contains(err.Error(), "brotli") {
		t.Errorf("brotli: %v", err)
	}
}

func TestVariants(t *testing.T) {
	for _, v := range Variants("/bin/bench") {
		if !Known(v.Name) || v.About == "" || v.ExactlyOnce != (v.Name == Session) {
			t.Errorf("%+v", v)
		}
		c, err := v.Command(variant.Work{Memory: 128 << 20})
		if err != nil || c.Path != "/bin/bench" || c.Args[0] != v.Name || !slices.Contains(c.Env, "GOGC=400") || !slices.Contains(c.Env, "GOMEMLIMIT=62914560") {
			t.Errorf("%s: %+v, %v: the bridge's settings of the collector", v.Name, c, err)
		}
		if c, err = v.Command(variant.Work{}); err != nil || len(c.Env) > 0 {
			t.Errorf("%s without a limit: %+v, %v", v.Name, c, err)
		}
	}
}

func TestReport(t *testing.T) {
	at := time.Unix(0, 0)
	got := intervals([]time.Time{at, at.Add(100 * time.Millisecond), at.Add(350 * time.Millisecond)})
	if len(got) != 2 || got[0] != 100 || got[1] != 250 {
		t.Errorf("intervals %v", got)
	}
	c := sessionCopy{began: []time.Time{at, at.Add(100 * time.Millisecond)}, ending: []float64{10, 30}, finished: at.Add(200 * time.Millisecond)}
	if r := c.report(); r.StallShare != 0.2 || r.Committed != 2 || r.Commit != 20 || r.Interval != 100 {
		t.Errorf("report %+v", r)
	}
	if r := (&sessionCopy{}).report(); r.StallShare != 0 {
		t.Errorf("stall of nothing: %v", r.StallShare)
	}
}
