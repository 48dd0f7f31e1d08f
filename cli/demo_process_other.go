//go:build !linux

package cli

import "syscall"

// demoProcess has nothing to tie a child to its parent with outside Linux: the
// broker notices the end of its standard input, the bridge is left to the user
// when the demo itself is killed.
func demoProcess() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
