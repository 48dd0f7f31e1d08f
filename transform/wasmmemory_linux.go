package transform

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// wasmCompiles tells whether code can be made and executed here: wazero compiles for two
// architectures, and a process whose memory may not become executable (systemd's
// MemoryDenyWriteExecute, PR_SET_MDWE) has to interpret.
var wasmCompiles = sync.OnceValue(func() bool { //nolint:gochecknoglobals // a property of the process
	if runtime.GOARCH != "arm64" && (runtime.GOARCH != "amd64" || !cpu.X86.HasSSE41) {
		return false
	}
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return false
	}
	defer freeMemory(page)
	return unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC) == nil
})

// reserveMemory takes address space outside of Go's heap: it takes room where it is touched, and
// the garbage collector does not count it.
func reserveMemory(size int) ([]byte, error) {
	buf, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of memory for the guest: %w", size, err)
	}
	return buf, nil
}

// zeroMemory gives the pages back to the system.
func zeroMemory(buf []byte) {
	if unix.Madvise(buf, unix.MADV_DONTNEED) != nil {
		clear(buf)
	}
}

func freeMemory(buf []byte) { _ = unix.Munmap(buf) }
