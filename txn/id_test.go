package txn

import (
	"strings"
	"testing"
)

func TestParseID(t *testing.T) {
	for _, test := range []struct {
		prefix, s string
		want      ID // zero: foreign
	}{
		{"app", "app.host-1.0", ID{"app", "host-1", 0}},
		{"app", "app.host-1.1", ID{"app", "host-1", 1}},
		{"app", "app.host-1.9", ID{"app", "host-1", 9}},
		{"app", "app.0.0", ID{"app", "0", 0}},
		{"app", "app.A_b-9.0", ID{"app", "A_b-9", 0}},
		{"team.app.v2", "team.app.v2.host.0", ID{"team.app.v2", "host", 0}},
		{"a..b", "a..b.host.0", ID{"a..b", "host", 0}},
		{".", "..host.0", ID{".", "host", 0}},
		{"app.host", "app.host.host.0", ID{"app.host", "host", 0}},

		// Another prefix, in particular one that begins like ours or that ours begins like.
		{"app1", "app10.host.0", ID{}},
		{"app10", "app1.host.0", ID{}},
		{"app", "app.sub.host.0", ID{}},
		{"app.sub", "app.host.0", ID{}},
		{"app", "App.host.0", ID{}},
		{"app", "my.app.host.0", ID{}},
		{"app", "xapp.host.0", ID{}},
		{"app", "appx.host.0", ID{}},
		{"app", "app..host.0", ID{}},
		// Not our shape.
		{"app", "", ID{}},
		{"app", "app", ID{}},
		{"app", "app.", ID{}},
		{"app", "app.0", ID{}},
		{"app", "app.host", ID{}},
		{"app", "app..0", ID{}},
		{"app", "app.host.", ID{}},
		{"app", "app.host.10", ID{}},
		{"app", "app.host.00", ID{}},
		{"app", "app.host.-1", ID{}},
		{"app", "app.host.+1", ID{}},
		{"app", "app.host.x", ID{}},
		{"app", "app.host.٣", ID{}}, // a digit, but not one of ours
		{"app", "app.host.0 ", ID{}},
		{"app", " app.host.0", ID{}},
		{"app", "app.ho st.0", ID{}},
		{"app", "app.höst.0", ID{}},
		{"app", "app-host-0", ID{}},
		{"app", "app." + strings.Repeat("x", 250) + ".0", ID{}},
		// An empty prefix would own ids of everybody.
		{"", ".host.0", ID{}},
		{"", "host.0", ID{}},
	} {
		got, ok := ParseID(test.prefix, test.s)
		if got != test.want || ok != (test.want != ID{}) {
			t.Errorf("ParseID(%q, %q) = %+v, %v, want %+v", test.prefix, test.s, got, ok, test.want)
		}
	}
}

func TestIDString(t *testing.T) {
	if got, want := (ID{"team.app", "host-1", 1}).String(), "team.app.host-1.1"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

func TestValidInstance(t *testing.T) {
	for _, name := range []string{"a", "0", "-", "_", "host-1", "Pod_7", strings.Repeat("x", 249)} {
		if err := ValidInstance(name); err != nil {
			t.Errorf("ValidInstance(%q) = %v", name, err)
		}
	}
	for name, why := range map[string]string{
		"":                       "empty",
		".":                      "dot",
		"host.example.org":       "first label",
		"a b":                    "' '",
		"a/b":                    "'/'",
		"a\x00":                  `'\x00'`,
		"höst":                   "'ö'",
		"a\xff":                  "'\uFFFD'",
		"a\n":                    `'\n'`,
		strings.Repeat("x", 250): "at most 249",
	} {
		if err := ValidInstance(name); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("ValidInstance(%q) = %v, want it to say %q", name, err, why)
		}
	}
}

// FuzzParseID: what is parsed prints as what was read, what is printed parses as what was meant, and no id belongs
// to two prefixes.
func FuzzParseID(f *testing.F) {
	f.Add("app", "app.host.0", "host", 0)
	f.Add("app1", "app10.host.0", "host", 9)
	f.Add("a.b", "a.b.c.0", "c", 1)
	f.Add("", "..0", "", 0)
	f.Fuzz(func(t *testing.T, prefix, s, instance string, slot int) {
		if id, ok := ParseID(prefix, s); ok {
			if id.String() != s || id.Prefix != prefix || ValidInstance(id.Instance) != nil || id.Slot < 0 || id.Slot > 9 {
				t.Errorf("ParseID(%q, %q) = %+v", prefix, s, id)
			}
			for i := range len(s) {
				if other, ok := ParseID(s[:i], s); ok && other != id {
					t.Errorf("%q belongs to prefix %q and to %q", s, prefix, s[:i])
				}
			}
		} else if id != (ID{}) {
			t.Errorf("ParseID(%q, %q) refuses with %+v", prefix, s, id)
		}

		meant := ID{prefix, instance, slot}
		valid := prefix != "" && ValidInstance(instance) == nil && 0 <= slot && slot <= 9
		if got, ok := ParseID(prefix, meant.String()); ok != valid || valid && got != meant {
			t.Errorf("ParseID(%q, %q) = %+v, %v, want %v", prefix, meant, got, ok, valid)
		}
	})
}
