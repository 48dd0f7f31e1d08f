package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// TestMemoryLimit gives the bridge a backlog several times as large as the
// memory it may use: what the kernel counts of it stays below the limit.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const limit = 64 << 20
	large := func(f *oracle.Form) { *f = oracle.NewForm(7_500, 10_000) }
	r := newRig(t, kafka.Shared(t, kafka.V44), plan{in: 2, out: 3, form: large, settings: map[string]string{
		"BRIDGE_MEMORY_LIMIT": fmt.Sprint(limit),
		"BRIDGE_TRANSFORM":    "set_header(a=b) | drop_header(a)",
	}})
	r.feedNow(t, size[int64](15_000, 100_000)) // 110 or 750 MB
	p := r.start(t, "a")
	r.settle(t)
	peak := peakOf(t, p.cmd.Process.Pid)
	if peak > limit {
		t.Errorf("the process has used %d MiB, the limit is %d MiB", peak>>20, limit>>20)
	}
	stop(t, p)
	r.exact(t)
	note := fmt.Sprintf("at most %d MiB of %d MiB used", peak>>20, limit>>20)
	t.Log(note)
	r.record(t, note)
}

// peakOf is the largest resident memory of a process so far, in bytes.
func peakOf(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatal("the kernel tells no peak")
	return 0
}
