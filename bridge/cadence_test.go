package bridge

import (
	"testing"
	"time"
)

func TestCadence(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	behind, even := reading{records: 100, unread: 100}, reading{records: 100, unread: 99}
	full := reading{records: 100, limited: true}
	for _, tc := range []struct {
		name        string
		least, most time.Duration
		epochs      []reading
		want        []time.Duration
	}{
		{
			"doubles while behind, and is back at once", 20 * ms, 100 * ms,
			[]reading{behind, behind, behind, behind, even, even, behind},
			[]time.Duration{40 * ms, 80 * ms, 100 * ms, 100 * ms, 20 * ms, 20 * ms, 40 * ms},
		},
		{
			"from nothing", 0, 100 * ms,
			[]reading{behind, behind, behind, behind, behind, behind, even},
			[]time.Duration{5 * ms, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 100 * ms, 0},
		},
		{"limits of an epoch count as behind", 5 * ms, 10 * ms, []reading{full, full, even}, []time.Duration{10 * ms, 10 * ms, 5 * ms}},
		{"equal values: nothing adapts", 100 * ms, 100 * ms, []reading{behind, full, even}, []time.Duration{100 * ms, 100 * ms, 100 * ms}},
		{"a maximum below the interval changes nothing", 100 * ms, 20 * ms, []reading{behind, even}, []time.Duration{100 * ms, 100 * ms}},
		{"little is left of little", 20 * ms, 100 * ms, []reading{{records: 1, unread: 0}, {records: 0, unread: 0}}, []time.Duration{20 * ms, 20 * ms}},
	} {
		c := newCadence(tc.least, tc.most)
		if c.interval != tc.least {
			t.Errorf("%s: begins with %s", tc.name, c.interval)
		}
		for i, r := range tc.epochs {
			if c.closed(r); c.interval != tc.want[i] {
				t.Errorf("%s: after epoch %d %s, want %s", tc.name, i, c.interval, tc.want[i])
			}
		}
	}
}

func TestRest(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tc := range []struct {
		name      string
		got       reading
		left, out time.Duration
	}{
		{"nothing came", reading{}, 80 * ms, 0},
		{"far from the barrier", reading{records: 1}, 100 * ms, 25 * ms},
		{"nearer", reading{records: 1}, 20 * ms, 12 * ms},
		{"near", reading{records: 1}, 4 * ms, ms},
		{"the barrier is not waited past", reading{records: 1}, 400 * time.Microsecond, 400 * time.Microsecond},
		{"due, but the epoch may not close", reading{records: 1}, -5 * ms, ms},
		{"an epoch of an hour", reading{records: 1}, time.Hour, 25 * ms},
		{"much came", reading{records: restBelow}, 80 * ms, 0},
		{"more is there", reading{records: 1, unread: 1}, 80 * ms, 0},
		{"the limit is near", reading{records: 1, limited: true}, 80 * ms, 0},
	} {
		if d := tc.got.rest(tc.left); d != tc.out {
			t.Errorf("%s: %s, want %s", tc.name, d, tc.out)
		}
	}
}
