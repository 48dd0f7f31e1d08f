package exposition

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
)

// process has the metrics of the process that all Prometheus clients give, under their names and with their help. What never
// changes is read once, the rest with as few calls as there are: a call into the kernel that takes long costs the goroutine
// its core, and it waits for another.
type process struct {
	cpu, open, most, virtual, mostVirtual, resident, start *prometheus.Desc
	started                                                float64 // seconds since 1970; 0 = cannot be told
	page                                                   float64 // bytes
}

// Process collects what the kernel knows of this process. What it does not tell is left out.
func Process() prometheus.Collector {
	describe := func(name, help string) *prometheus.Desc { return prometheus.NewDesc("process_"+name, help, nil, nil) }
	return &process{
		cpu:         describe("cpu_seconds_total", "Total user and system CPU time spent in seconds."),
		open:        describe("open_fds", "Number of open file descriptors."),
		most:        describe("max_fds", "Maximum number of open file descriptors."),
		virtual:     describe("virtual_memory_bytes", "Virtual memory size in bytes."),
		mostVirtual: describe("virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes."),
		resident:    describe("resident_memory_bytes", "Resident memory size in bytes."),
		start:       describe("start_time_seconds", "Start time of the process since unix epoch in seconds."),
		started:     started("/proc"), page: float64(os.Getpagesize()),
	}
}

// Describe implements prometheus.Collector.
func (p *process) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.cpu, p.open, p.most, p.virtual, p.mostVirtual, p.resident, p.start} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p *process) Collect(out chan<- prometheus.Metric) {
	give := func(d *prometheus.Desc, kind prometheus.ValueType, value float64) {
		out <- prometheus.MustNewConstMetric(d, kind, value)
	}
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		give(p.cpu, prometheus.CounterValue, float64(usage.Utime.Nano()+usage.Stime.Nano())/1e9)
	}
	if virtual, resident, ok := pages("/proc/self/statm"); ok {
		give(p.virtual, prometheus.GaugeValue, virtual*p.page)
		give(p.resident, prometheus.GaugeValue, resident*p.page)
	}
	if n, ok := descriptors("/proc/self/fd"); ok {
		give(p.open, prometheus.GaugeValue, float64(n))
	}
	for d, resource := range map[*prometheus.Desc]int{p.most: syscall.RLIMIT_NOFILE, p.mostVirtual: syscall.RLIMIT_AS} {
		var limit syscall.Rlimit
		if syscall.Getrlimit(resource, &limit) == nil {
			give(d, prometheus.GaugeValue, float64(limit.Cur)) // none is 2^64-1, as with others
		}
	}
	if p.started > 0 {
		give(p.start, prometheus.GaugeValue, p.started)
	}
}

// pages reads the first two fields of statm (proc(5)): size and resident, in pages.
func pages(path string) (size, resident float64, ok bool) {
	data, err := os.ReadFile(path)
	fields := bytes.Fields(data)
	if err != nil || len(fields) < 2 {
		return 0, 0, false
	}
	size, err = strconv.ParseFloat(string(fields[0]), 64)
	if err != nil {
		return 0, 0, false
	}
	resident, err = strconv.ParseFloat(string(fields[1]), 64)
	return size, resident, err == nil
}

// descriptors counts the entries of a process' fd folder. Since Linux 6.2 the folder's size says it; before, it is 0.
func descriptors(path string) (int64, bool) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > 0 {
		return info.Size(), true
	}
	folder, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	return int64(len(names)) - 1, err == nil // one is folder itself
}

// started is when this process began, in seconds since 1970: so many ticks after the machine did. 0 if either is hidden.
func started(proc string) float64 {
	const ticks, field = 100, 22 // USER_HZ, on all architectures of Go; starttime in proc(5), counted from 1
	stat, err := os.ReadFile(proc + "/self/stat")
	if err != nil {
		return 0
	}
	// The second field is the program's name in brackets, which may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= field-3 {
		return 0
	}
	since, err := strconv.ParseFloat(string(fields[field-3]), 64)
	if err != nil {
		return 0
	}
	machine, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return 0
	}
	_, after, found := bytes.Cut(machine, []byte("\nbtime "))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	boot, err := strconv.ParseFloat(string(line), 64)
	if !found || err != nil || math.IsNaN(boot) {
		return 0
	}
	return boot + since/ticks
}
