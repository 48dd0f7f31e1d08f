package transform

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// Behind the memory of a guest lies a map, a byte for each dirtyPage bytes of the memory: the
// guest, rewritten, sets it after each store, and the host where it writes. To set the memory
// back is then to copy what was written to, a few microseconds for most records. To map the memory
// privately from a file and to drop its pages (MADV_DONTNEED) needs no map, but the page faults
// that follow have cost ten times as much (a Go guest 98 us for each record, in place of 13).

const (
	dirtyShift = 12
	dirtyPage  = 1 << dirtyShift

	// storeMost is how far a store may reach into the next page, in bytes, and more.
	storeMost = 16

	// releaseAfter is how many pages a record may have written to before the memory is given
	// back to the system instead: 4 MiB.
	releaseAfter = 1024
)

var errWASMBeyond = errors.New("the guest writes behind the end of its memory")

// mapPages is how many pages of WebAssembly the map of a memory takes: for the memory, for
// itself, and one entry more for what reaches to the very end.
func mapPages(limit uint32) uint32 {
	const entries = wasmPage / dirtyPage // for one page
	pages := (limit*entries + wasmPage - 1) / wasmPage
	return (limit*entries + pages*entries + 1 + wasmPage - 1) / wasmPage
}

// wasmMemory is the memory of one instance: what the guest may have, and the map.
type wasmMemory struct {
	buf   []byte
	limit int // where the map begins
	image []byte
}

// openWASMMemory reserves memory whose content is the image, and zeros behind it.
func openWASMMemory(limit uint32, image []byte) (*wasmMemory, error) {
	buf, err := reserveMemory(int(limit+mapPages(limit)) * wasmPage)
	if err != nil {
		return nil, err
	}
	return &wasmMemory{buf: buf, limit: int(limit) * wasmPage, image: image}, nil
}

// fill writes the image into memory that is all zeros, save what the guest's data has there.
func (m *wasmMemory) fill() {
	for at := 0; at < len(m.image); at += dirtyPage {
		to := min(at+dirtyPage, len(m.image))
		if !isZero(m.image[at:to]) || !isZero(m.buf[at:to]) {
			copy(m.buf[at:to], m.image[at:to])
		}
	}
}

func isZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// wrote marks what the host writes to.
func (m *wasmMemory) wrote(at, length uint64) {
	for page := at >> dirtyShift; length > 0 && page <= (at+length-1)>>dirtyShift; page++ {
		m.buf[uint64(m.limit)+page] = 1
	}
}

// beyond tells whether the guest has written to the map itself, which only a guest that has gone
// wild does. It cannot hide it: each store is marked after it was made.
func (m *wasmMemory) beyond() bool {
	return bytes.IndexByte(m.buf[m.limit+m.limit>>dirtyShift:m.limit+len(m.buf)>>dirtyShift+1], 1) >= 0
}

// reset makes the memory the image again.
func (m *wasmMemory) reset() {
	if m.beyond() {
		m.release()
		return
	}
	dirty := m.buf[m.limit : m.limit+m.limit>>dirtyShift]
	for at, pages := 0, 0; ; at++ {
		next := bytes.IndexByte(dirty[at:], 1)
		if next < 0 {
			return
		}
		if pages++; pages > releaseAfter {
			m.release()
			return
		}
		at += next
		dirty[at] = 0
		m.restore(at*dirtyPage, min((at+1)*dirtyPage+storeMost, m.limit))
	}
}

func (m *wasmMemory) restore(from, to int) {
	copied := 0
	if from < len(m.image) {
		copied = copy(m.buf[from:to], m.image[from:])
	}
	clear(m.buf[from+copied : to])
}

// release gives all of the memory back and begins anew.
func (m *wasmMemory) release() {
	zeroMemory(m.buf)
	m.fill()
}

// Reallocate implements experimental.LinearMemory: the memory does not move.
func (m *wasmMemory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.buf)) {
		return nil
	}
	return m.buf[:size]
}

// Free implements experimental.LinearMemory.
func (m *wasmMemory) Free() {
	if m.buf != nil {
		freeMemory(m.buf)
		m.buf = nil
	}
}
