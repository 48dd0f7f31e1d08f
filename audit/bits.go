package audit

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
)

// pageBits is how many offsets one page of an offset set covers: 8 KiB.
const pageBits = 1 << 16

type page [pageBits / 64]uint64

// offsetSet is a set of offsets: one bit each, in pages that are made when the first of their offsets comes.
type offsetSet struct {
	pages map[int64]*page
	last  int64 // number of the page looked at last
	hot   *page
}

func (s *offsetSet) page(offset int64, create bool) *page {
	n := offset / pageBits
	if s.hot != nil && s.last == n {
		return s.hot
	}
	p := s.pages[n]
	if p == nil {
		if !create {
			return nil
		}
		if s.pages == nil {
			s.pages = make(map[int64]*page)
		}
		p = new(page)
		s.pages[n] = p
	}
	s.last, s.hot = n, p
	return p
}

// add answers false if the offset was there.
func (s *offsetSet) add(offset int64) bool {
	word, bit := &s.page(offset, true)[offset%pageBits/64], uint64(1)<<(offset%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

func (s *offsetSet) has(offset int64) bool {
	p := s.page(offset, false)
	return p != nil && p[offset%pageBits/64]&(1<<(offset%64)) != 0
}

// remove answers whether the offset was there.
func (s *offsetSet) remove(offset int64) bool {
	if !s.has(offset) {
		return false
	}
	s.page(offset, false)[offset%pageBits/64] &^= 1 << (offset % 64)
	return true
}

// all goes through the set in order.
func (s *offsetSet) all() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, n := range slices.Sorted(maps.Keys(s.pages)) {
			for i, word := range s.pages[n] {
				for ; word != 0; word &= word - 1 {
					if !yield(n*pageBits + int64(i)*64 + int64(bits.TrailingZeros64(word))) {
						return
					}
				}
			}
		}
	}
}
