package e2e

import "syscall"

// processAttributes give the bridge a process group of its own, so that a signal
// to the test's group does not reach it first, and end it with the test.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
