//go:build !unix

package cli

import "time"

var processStart = time.Now() //nolint:gochecknoglobals // the zero of cpuTime

// cpuTime is the time on the clock where the system does not tell what a process has computed.
func cpuTime() (time.Duration, error) { return time.Since(processStart), nil }
