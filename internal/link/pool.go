package link

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Pool keeps the memory of answers that are done with, for the next ones. Its zero value keeps nothing.
type Pool struct {
	keep atomic.Int64

	mu   sync.Mutex
	free [][]byte // the one that was used last is the last
	kept int64
}

// Keep sets how many bytes may lie unused.
func (p *Pool) Keep(bytes int64) { p.keep.Store(bytes) }

// Buffer is the memory of one answer. It is released as often as it was retained, and once more. A Buffer that is
// not released is the collector's like any other slice, which is what becomes of it after a failure: a request may
// still be reading it. A nil Buffer may be retained and released.
type Buffer struct {
	bytes  []byte
	pool   *Pool
	poison bool
	users  atomic.Int32
}

// Retain asks for one more Release.
func (b *Buffer) Retain() {
	if b != nil {
		b.users.Add(1)
	}
}

// Release gives the memory back when everybody has. Nothing of the answer may be looked at any more.
func (b *Buffer) Release() {
	if b == nil || b.users.Add(-1) != 0 {
		return
	}
	if b.poison {
		for i := range b.bytes {
			b.bytes[i] = 0xDB
		}
	}
	b.pool.give(b.bytes)
}

// smallest is the size from which on a slice is worth keeping.
const smallest = 64 << 10

// take answers a Buffer of a size. A slice of up to half as much again may be taken for it.
func (p *Pool) take(size int) *Buffer {
	b := &Buffer{pool: p}
	b.users.Store(1)
	if p == nil || size < smallest {
		b.bytes, b.pool = make([]byte, size), nil
		return b
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range slices.Backward(p.free) {
		if cap(s) >= size && cap(s) <= size+size/2 {
			p.free = slices.Delete(p.free, i, i+1)
			p.kept -= int64(cap(s))
			b.bytes = s[:size]
			return b
		}
	}
	b.bytes = make([]byte, size, size+size/8) // the next answer is hardly ever of the same size
	return b
}

// give keeps a slice, in place of those that were not used for longest.
func (p *Pool) give(s []byte) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := p.keep.Load()
	p.free = append(p.free, s)
	p.kept += int64(cap(s))
	for p.kept > keep {
		p.kept -= int64(cap(p.free[0]))
		p.free = slices.Delete(p.free, 0, 1)
	}
}
