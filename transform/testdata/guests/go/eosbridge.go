//go:build wasip1

package main

import (
	"encoding/binary"
	"unsafe"
)

// What a guest in Go needs of eosbridge's interface: copy this file, it changes with the version
// in the names only.

// record is a record as docs/wasm.md describes it. Its parts lie in the memory that the host has
// written, and may be used for results.
type record struct {
	timestamp, offset int64
	partition         int32
	source, target    []byte
	key, value        []byte // nil is null
	headers           []header
}

type header struct{ name, value []byte }

//go:wasmimport eosbridge_v1 emit
func hostEmit(at unsafe.Pointer, length uint32)

//go:wasmimport eosbridge_v1 refuse
func hostRefuse(at unsafe.Pointer, length uint32)

// input keeps the record alive until the call has ended.
var input []byte

//go:wasmexport eosbridge_v1_alloc
func alloc(size uint32) unsafe.Pointer {
	input = make([]byte, size)
	return unsafe.Pointer(unsafe.SliceData(input))
}

//go:wasmexport eosbridge_v1_transform
func run(_ unsafe.Pointer, _ uint32) int32 {
	transform(read(input))
	return 0
}

// refuse ends the work on the record with an error.
func refuse(why string) { hostRefuse(unsafe.Pointer(unsafe.StringData(why)), uint32(len(why))) }

func length(b []byte) int { return int(int32(binary.LittleEndian.Uint32(b))) }

func cut(b *[]byte, n int) []byte {
	if n < 0 {
		return nil
	}
	part := (*b)[:n:n]
	*b = (*b)[n:]
	return part
}

func read(b []byte) *record {
	r := &record{
		timestamp: int64(binary.LittleEndian.Uint64(b)),
		offset:    int64(binary.LittleEndian.Uint64(b[8:])),
		partition: int32(binary.LittleEndian.Uint32(b[16:])),
	}
	head, rest := b[:40], b[40:]
	r.source, r.target = cut(&rest, length(head[20:])), cut(&rest, length(head[24:]))
	r.key, r.value = cut(&rest, length(head[28:])), cut(&rest, length(head[32:]))
	if n := length(head[36:]); n > 0 {
		r.headers = make([]header, n)
		for i := range r.headers {
			head, rest = rest[:8], rest[8:]
			r.headers[i].name, r.headers[i].value = cut(&rest, length(head)), cut(&rest, length(head[4:]))
		}
	}
	return r
}

// emit writes a result.
func emit(r *record) {
	size := 40 + len(r.target) + len(r.key) + len(r.value)
	for _, h := range r.headers {
		size += 8 + len(h.name) + len(h.value)
	}
	b := make([]byte, 0, size)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.timestamp))
	b = append(b, make([]byte, 16)...) // offset, partition and source are the input's
	b = appendLength(b, r.target, false)
	b = appendLength(b, r.key, r.key == nil)
	b = appendLength(b, r.value, r.value == nil)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.headers)))
	b = append(append(append(b, r.target...), r.key...), r.value...)
	for _, h := range r.headers {
		b = appendLength(appendLength(b, h.name, false), h.value, h.value == nil)
		b = append(append(b, h.name...), h.value...)
	}
	hostEmit(unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b)))
}

func appendLength(b, part []byte, null bool) []byte {
	if null {
		return binary.LittleEndian.AppendUint32(b, 1<<32-1)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(len(part)))
}
