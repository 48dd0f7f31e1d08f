//go:build !linux

package kafka

import "syscall"

// processAttributes has no parent-death signal to ask for here: a broker may
// outlive a test that is killed.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
