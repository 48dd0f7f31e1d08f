package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The kernel's figures about processes, from /proc. Where there is no /proc they
// are 0 and the report leaves them out.
//
// Peak memory is VmHWM and not the rusage's maxrss: a process inherits the latter
// from the one that started it, which here holds far more than its children.

// clockTick is the unit of times in /proc (USER_HZ, 100 on every platform that
// Go runs on).
const clockTick = 10 * time.Millisecond

// cpuTime is what a process has used so far, user and system.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return parseStat(string(text))
}

// parseStat reads fields 14 and 15 of /proc/<pid>/stat (proc_pid_stat(5)). The
// second field is a name in parentheses that may hold anything.
func parseStat(text string) time.Duration {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick
}

// peakMiB is the largest resident memory of a process so far, residentMiB what it is now, in MiB.
func peakMiB(pid int) float64     { return statusOf(pid, "VmHWM:") }
func residentMiB(pid int) float64 { return statusOf(pid, "VmRSS:") }

func statusOf(pid int, field string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return parseStatus(string(text), field)
}

func parseStatus(text, field string) float64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib / 1024
		}
	}
	return 0
}

// machineTime is how much CPU time all cores have had so far, and how much of it
// was used, by anybody.
func machineTime() (total, busy time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	return parseMachine(string(text))
}

// parseMachine reads the first line of /proc/stat (proc_stat(5)): user nice
// system idle iowait irq softirq steal. Stolen time is used by others.
func parseMachine(text string) (total, busy time.Duration) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0
	}
	for i, field := range fields[1:9] {
		n, _ := strconv.ParseInt(field, 10, 64)
		total += time.Duration(n) * clockTick
		if i != 3 && i != 4 {
			busy += time.Duration(n) * clockTick
		}
	}
	return total, busy
}

// usage is who used the machine up to a moment.
type usage struct {
	at                time.Time
	total, busy       time.Duration
	self, child, node time.Duration
}

// usageOf takes the children of a run together.
func usageOf(children []*child, node int) usage {
	u := usage{at: time.Now(), self: cpuTime(os.Getpid()), node: cpuTime(node)}
	for _, c := range children {
		u.child += cpuTime(c.pid())
	}
	u.total, u.busy = machineTime()
	return u
}

// others is the share of the machine that went to strangers since an earlier moment.
func (u usage) others(since usage) float64 {
	total := u.total - since.total
	if total <= 0 {
		return 0
	}
	ours := (u.self - since.self) + (u.child - since.child) + (u.node - since.node)
	return max(0, float64(u.busy-since.busy-ours)/float64(total))
}

// preciseTime is cpuTime in nanoseconds (proc_pid_schedstat: first field), summed over the threads there are now: for
// idle processes, whose whole use is a few ticks. Threads that end in between are missed; 0 if the kernel has no such
// figures.
func preciseTime(pid int) (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(first, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}
