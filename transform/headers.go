package transform

// arenaChunk is how many headers are allocated at once. It trades allocations for memory
// that is held too long: a chunk lives as long as the last record with headers in it, and
// every header of the chunk keeps the batch alive that its bytes were read in. 64 makes
// an allocation rare (one in about twenty records with three headers each) at 2.5 KiB.
const arenaChunk = 64

// arena hands out header slices cut from a chunk. A slice is never handed out twice, since
// its record lives until the broker has acknowledged it; the garbage collector frees the
// chunks. The zero value is ready.
type arena struct{ free []Header }

// take returns an empty slice with room for exactly n headers, so that an append beyond
// them cannot reach the next record's.
func (a *arena) take(n int) []Header {
	if n > arenaChunk/2 {
		return make([]Header, 0, n)
	}
	if len(a.free) < n {
		a.free = make([]Header, arenaChunk)
	}
	taken := a.free[:0:n]
	a.free = a.free[n:]
	return taken
}

// countHeaders returns how many headers have the name and where the last one is, or -1.
func countHeaders(headers []Header, name string) (count, last int) {
	last = -1
	for i := range headers {
		if headers[i].Key == name {
			count, last = count+1, i
		}
	}
	return count, last
}

// withHeader returns the headers with exactly one of the name: in the place of the first
// one there was, or at the end.
func withHeader(headers []Header, set Header, memory *arena) []Header {
	repeats, _ := countHeaders(headers, set.Key)
	result := memory.take(len(headers) - repeats + 1)
	placed := false
	for i := range headers {
		switch {
		case headers[i].Key != set.Key:
			result = append(result, headers[i])
		case !placed:
			result = append(result, set)
			placed = true
		}
	}
	if !placed {
		result = append(result, set)
	}
	return result
}
