package cli

import "syscall"

// demoProcess ties a child of the demo to its parent. Its own process group
// keeps a Ctrl-C at the terminal from reaching it: the demo alone decides how
// its children end. The death signal ends it even when the demo is killed.
//
// The kernel sends that signal when the *thread* that started the child ends;
// Go ends a thread only when a goroutine locked to it returns, and the demo
// locks none.
func demoProcess() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
