package kafka

import (
	"fmt"
	"strings"
	"testing"
)

// verdict records what Require decides instead of obeying it.
type verdict struct {
	testing.TB
	skipped, failed string
}

func (v *verdict) Helper() {}

func (v *verdict) Skipf(format string, args ...any) { v.skipped += fmt.Sprintf(format, args...) }

func (v *verdict) Fatalf(format string, args ...any) { v.failed += fmt.Sprintf(format, args...) }

func TestRequireWithoutTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, row := range []struct {
		ci   string
		fail bool
	}{{"", false}, {"true", true}} {
		t.Setenv("CI", row.ci)
		v := &verdict{TB: t}
		Require(v)
		said := v.skipped
		if row.fail {
			said = v.failed
		}
		for _, want := range []string{"real Kafka cannot run", "java", "mvn", "install"} {
			if !strings.Contains(said, want) {
				t.Errorf("CI=%q: skipped %q, failed %q: no %q", row.ci, v.skipped, v.failed, want)
			}
		}
		if (v.failed != "") != row.fail || (v.skipped != "") == row.fail {
			t.Errorf("CI=%q: skipped %q, failed %q", row.ci, v.skipped, v.failed)
		}
	}
}
