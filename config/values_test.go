package config

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "1": 1, "65536": 65536, "12B": 12, "64MiB": 64 << 20, "64mib": 64 << 20, "64 MiB": 64 << 20, "512MB": 512e6,
		"3kB": 3000, "2KiB": 2048, "1GB": 1e9, "1GiB": 1 << 30, "2TB": 2e12, "1TiB": 1 << 40, "9223372036854775807": math.MaxInt64,
	} {
		var got Bytes
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "is not a size", "MiB": "is not a size", "-1": "is not a size", "1.5GiB": "unknown unit", "1M": "unknown unit", "1e3": "unknown unit",
		"9223372036854775808": "too large", "9000000TiB": "too large", "٣": "is not a size",
	} {
		got := Bytes(7)
		err := got.UnmarshalText([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if got != 7 {
			t.Errorf("%q: changed the value to %d", text, got)
		}
	}
	for size, want := range map[Bytes]string{0: "0", 1: "1", 1000: "1000", 1024: "1KiB", 1536: "1536", 3 << 19: "1536KiB", 1 << 40: "1TiB", 5 << 50: "5120TiB", math.MaxInt64: "9223372036854775807"} {
		if got := size.String(); got != want {
			t.Errorf("%d: %q, want %q", int64(size), got, want)
		}
	}
}

func FuzzBytes(f *testing.F) {
	for _, seed := range []string{"64MiB", "1", "0B", "9223372036854775807", "8388607TiB", " 7 kb "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var first, second Bytes
		if first.UnmarshalText([]byte(text)) != nil {
			return
		}
		if first < 0 {
			t.Fatalf("%q is negative: %d", text, first)
		}
		if err := second.UnmarshalText([]byte(first.String())); err != nil || first != second {
			t.Fatalf("%q: %d prints as %q, which reads as %d, %v", text, int64(first), first, int64(second), err)
		}
	})
}

func TestTopics(t *testing.T) {
	for text, want := range map[string]struct {
		names   []string
		pattern string
	}{
		"a":           {[]string{"a"}, ""},
		" a , b.c ,,": {[]string{"a", "b.c"}, ""},
		"/a/":         {nil, "^(?:a)$"},
		"/a|b,c{1,}/": {nil, "^(?:a|b,c{1,})$"},
		" /(?i)x/ ":   {nil, "^(?:(?i)x)$"},
		"/^a$/":       {nil, "^(?:^a$)$"},
	} {
		var got Topics
		if err := got.UnmarshalText([]byte(text)); err != nil || !slices.Equal(got.Names(), want.names) || got.Pattern() != want.pattern {
			t.Errorf("%q: names %q, pattern %q, %v", text, got.Names(), got.Pattern(), err)
		}
		var again Topics
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again.String() != got.String() {
			t.Errorf("%q prints as %q, which reads as %q, %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{
		"//":                              "empty regular expression",
		"/(/":                             "not a regular expression in RE2 syntax",
		"/a(?=b)/":                        "not a regular expression in RE2 syntax",
		"/a/,/b/":                         "", // one expression, odd but valid
		"a,/b/":                           "a regular expression is written between slashes, alone",
		"/":                               "a regular expression is written between slashes, alone",
		"a,a":                             "names a twice",
		"..":                              "does not permit",
		"a,.":                             "does not permit",
		"ä":                               "the character 'ä'",
		strings.Repeat("x", 250):          "250 characters, Kafka permits 249",
		"a,__transaction_state":           "internal topic",
		strings.Repeat("x", 249) + ",a*b": "the character '*'",
	} {
		var got Topics
		err := got.UnmarshalText([]byte(text))
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	var got Topics
	if err := got.UnmarshalText([]byte("a,b")); err != nil {
		t.Fatal(err)
	}
	got.Names()[0] = "changed"
	if got.String() != "a,b" {
		t.Error("the list can be altered from outside")
	}
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]Address{"off": "", "OFF": "", ":9464": ":9464", "[::1]:0": "[::1]:0", "127.0.0.1:65535": "127.0.0.1:65535"} {
		var got Address
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		var again Address
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%q prints as %q, which reads as %q, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "9464", "a", "a:b", ":65536", ":-1", "::1", "http://x:1"} {
		var got Address
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was accepted as %q", text, got)
		}
	}
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", time.Second: "1s", time.Minute: "1m", 90 * time.Second: "1m30s", time.Hour: "1h", time.Hour + time.Minute: "1h1m", time.Hour + time.Second: "1h0m1s", 100 * time.Millisecond: "100ms", 10 * time.Minute: "10m"} {
		got := durationText(d)
		if got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
		if back, err := time.ParseDuration(got); err != nil || back != d {
			t.Errorf("%q reads as %v, %v", got, back, err)
		}
	}
}
