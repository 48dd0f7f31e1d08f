//go:build unix

package cli

import (
	"syscall"
	"time"
)

// cpuTime is what the process has computed so far, the collector's share included: it holds on a busy machine, where the
// time on the clock does not.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
