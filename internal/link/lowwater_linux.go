package link

import "syscall"

// setLowWater makes the socket readable, for poll and epoll, only when so many bytes are there, or the end. Without
// it, which a kernel may refuse, the reader is woken more often.
func setLowWater(fd uintptr, bytes int) {
	_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, bytes) //nolint:gosec // a descriptor
}
