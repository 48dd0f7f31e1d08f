package transform

import (
	"regexp"
	"strings"
	"testing"
)

// TestCounterparts: what the table names is registered, and found by Connect's name.
func TestCounterparts(t *testing.T) {
	names := regexp.MustCompile("`([a-z0-9_]+)")
	seen := map[string]bool{}
	for _, c := range counterparts {
		if seen[c.connect] {
			t.Errorf("%s stands there twice", c.connect)
		}
		seen[c.connect] = true
		named := names.FindAllStringSubmatch(c.ours, -1)
		if len(named) == 0 && !strings.Contains(c.ours, "does not apply") {
			t.Errorf("%s has no counterpart and no reason", c.connect)
		}
		for _, name := range named {
			if _, known := registered[name[1]]; !known {
				t.Errorf("the counterpart of %s, %s, is not registered", c.connect, name[1])
			}
		}
		for _, written := range []string{c.connect, "org.apache.kafka.connect.transforms." + c.connect} {
			if _, err := Parse(written + "(x)"); err == nil || !strings.Contains(err.Error(), "in place of Kafka Connect's "+c.connect) {
				t.Errorf("%s: %v", written, err)
			}
		}
	}
}
