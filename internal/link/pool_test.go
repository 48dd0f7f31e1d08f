package link_test

import (
	"testing"
	"unsafe"

	"github.com/eosbridge/eosbridge/internal/link"
)

func TestPool(t *testing.T) {
	t.Parallel()
	same := func(a, b *link.Buffer) bool { return unsafe.SliceData(a.Bytes()) == unsafe.SliceData(b.Bytes()) }
	var p link.Pool
	p.Keep(3 << 20)
	a := p.Take(1 << 20)
	a.Retain()
	a.Release()
	b := p.Take(1 << 20)
	if same(a, b) {
		t.Fatal("memory that somebody has was given to another")
	}
	a.Release()
	if c := p.Take(1<<20 + 1000); !same(a, c) {
		t.Error("a free slice of the right size is not used")
	}
	b.Release()
	for _, size := range []int{100_000, 3 << 20} {
		if c := p.Take(size); same(b, c) || len(c.Bytes()) != size {
			t.Errorf("1 MiB was taken for %d bytes", size)
		}
	}
	if c := p.Take(900_000); !same(b, c) {
		t.Error("a slice that is a little larger is not used")
	}
	first, second, third := p.Take(1<<20), p.Take(1<<20), p.Take(1<<20)
	for _, b := range []*link.Buffer{first, second, third} {
		b.Release() // 3.4 MiB with the spare
	}
	if x, y, z := p.Take(1<<20), p.Take(1<<20), p.Take(1<<20); !same(x, third) || !same(y, second) || same(z, first) {
		t.Error("more is kept than allowed, or the wrong slice")
	}
	small := p.Take(100)
	small.Release()
	if got := p.Take(100); same(got, small) {
		t.Error("small slices are kept")
	}
	var none *link.Pool
	none.Take(1 << 20).Release()
}
