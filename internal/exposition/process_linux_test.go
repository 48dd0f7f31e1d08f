package exposition

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
)

// TestProcessIsWhatOthersGive: names, types, help and values of client_golang's collector, which reads more files for them. The
// traffic of the process is left out: the kernel counts that of all in its network namespace.
func TestProcessIsWhatOthersGive(t *testing.T) {
	families := func(c prometheus.Collector) map[string]*dto.MetricFamily {
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(c)
		gathered, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]*dto.MetricFamily{}
		for _, f := range gathered {
			out[f.GetName()] = f
		}
		return out
	}
	value := func(f *dto.MetricFamily) float64 {
		return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
	}
	theirs := families(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ours := families(Process())
	near := map[string]float64{ // how much it may change between the two
		"process_cpu_seconds_total": 10, "process_open_fds": 5, "process_resident_memory_bytes": 64 << 20, "process_virtual_memory_bytes": 1 << 30,
	}
	for name, want := range theirs {
		if strings.HasPrefix(name, "process_network_") {
			continue
		}
		got, ok := ours[name]
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		if got.GetType() != want.GetType() || got.GetHelp() != want.GetHelp() {
			t.Errorf("%s: %s %q, want %s %q", name, got.GetType(), got.GetHelp(), want.GetType(), want.GetHelp())
		}
		if diff := math.Abs(value(got) - value(want)); diff > near[name] || value(got) <= 0 {
			t.Errorf("%s = %v, want about %v", name, value(got), value(want))
		}
		delete(ours, name)
	}
	if len(ours) > 0 {
		t.Errorf("and besides %v", ours)
	}
}

func TestProcessFiles(t *testing.T) {
	proc := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(proc, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if at := started(proc); at != 0 {
		t.Errorf("started at %v, although nothing says so", at)
	}
	write("self/stat", "7 (a) (b) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 12345 1000 25 0\n")
	if at := started(proc); at != 0 { // systemd's ProcSubset=pid
		t.Errorf("started at %v, although /proc/stat is hidden", at)
	}
	write("stat", "cpu  1 2 3\nctxt 5\nbtime 1700000000\nprocesses 9\n")
	if at := started(proc); at != 1_700_000_123.45 {
		t.Errorf("started at %v, want 1700000123.45", at)
	}
	write("self/stat", "7 (a) S 1\n")
	if at := started(proc); at != 0 {
		t.Errorf("started at %v, of a line that is cut off", at)
	}

	write("statm", "1000 25 3 4 0 5 0\n")
	if size, resident, ok := pages(filepath.Join(proc, "statm")); size != 1000 || resident != 25 || !ok {
		t.Errorf("pages %v %v %t", size, resident, ok)
	}
	for _, text := range []string{"", "1000", "x 25", "1000 x"} {
		write("statm", text)
		if _, _, ok := pages(filepath.Join(proc, "statm")); ok {
			t.Errorf("pages of %q", text)
		}
	}

	// A folder of the kernel whose size is not known, as that of fd before Linux 6.2.
	entries, err := os.ReadDir("/proc/self/ns")
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := descriptors("/proc/self/ns"); n != int64(len(entries))-1 || !ok {
		t.Errorf("%d entries %t, want one less than %d", n, ok, len(entries))
	}
	if _, ok := descriptors(filepath.Join(proc, "none")); ok {
		t.Error("entries of a folder that is not there")
	}
}
