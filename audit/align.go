package audit

import (
	"context"
	"errors"
	"io"
)

// Where two partitions do not begin with the same record, because retention has deleted from one of them or because
// the bridge began late, they are first brought into line: the first records of the one are searched in the other,
// and the other way round, by turns, for either may reach further back. What lies before is not compared.

// pattern is how many records have to agree.
const pattern = 64

// mostAlike is how many records of equal content a pattern may begin with: within such a run any place would fit.
const mostAlike = 4096

// begins reads enough of a partition to recognise its beginning: some records that are not all alike. It answers nil
// if there are too few of them.
func begins(ctx context.Context, next pull, below int64) ([]item, error) {
	var list []item
	differ := 0 // index of the first record that is not like the first
	for {
		chunk, err := next(ctx)
		if errors.Is(err, io.EOF) {
			if len(list) > 0 && (differ > 0 || len(list) == 1) {
				return list, nil
			}
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for k := range chunk {
			if chunk[k].offset >= below {
				if differ > 0 || len(list) == 1 {
					return list, nil
				}
				return nil, nil
			}
			list = append(list, chunk[k])
			if differ == 0 && chunk[k].hash != list[0].hash {
				differ = len(list) - 1
			}
			if differ > 0 && len(list) >= differ+pattern {
				return list, nil
			}
			if differ == 0 && len(list) > mostAlike {
				return nil, nil
			}
		}
	}
}

// scan searches a partition for the beginning of another.
type scan struct {
	next   pull
	want   []item
	equal  func(want, have *item) bool
	window []item
	passed int64 // records before the window
	ended  bool
}

// some reads on by one chunk. It answers where the pattern begins and how many records lie before it, as soon as
// it is found.
func (s *scan) some(ctx context.Context) (at, before int64, found bool, err error) {
	chunk, err := s.next(ctx)
	if errors.Is(err, io.EOF) {
		s.ended = true
		return 0, 0, false, nil
	}
	if err != nil {
		return 0, 0, false, err
	}
	s.window = append(s.window, chunk...)
	n := 0
	for ; n+len(s.want) <= len(s.window); n++ {
		if s.fits(n) {
			return s.window[n].offset, s.passed + int64(n), true, nil
		}
	}
	s.passed += int64(n)
	s.window = s.window[:copy(s.window, s.window[n:])]
	return 0, 0, false, nil
}

func (s *scan) fits(n int) bool {
	for k := range s.want {
		if !s.equal(&s.want[k], &s.window[n+k]) {
			return false
		}
	}
	return true
}

// alignment is where the comparison of two partitions can begin.
type alignment struct {
	found          bool
	source, target int64 // offsets
	// How many records lie before; one of the two is 0.
	sourceBefore, targetBefore int64
}

// align finds the beginning of one partition in the other.
func align(ctx context.Context, s *source, t *target) (alignment, error) {
	first, err := begins(ctx, s.open(s.begin), s.committed)
	if err != nil {
		return alignment{}, err
	}
	firstOut, err := begins(ctx, t.open(t.side.begin), nowhere)
	if err != nil {
		return alignment{}, err
	}
	inTarget := &scan{
		next: t.open(t.side.begin), want: first, ended: first == nil,
		equal: func(want, have *item) bool { return have.same(want) },
	}
	inSource := &scan{
		next: s.open(s.begin), want: firstOut, ended: firstOut == nil,
		equal: func(want, have *item) bool { return want.same(have) },
	}
	for !inTarget.ended || !inSource.ended {
		if !inTarget.ended {
			at, before, found, err := inTarget.some(ctx)
			if err != nil || found {
				return alignment{found: found, source: first0(first), target: at, targetBefore: before}, err
			}
		}
		if !inSource.ended {
			at, before, found, err := inSource.some(ctx)
			if err != nil || found {
				return alignment{found: found, source: at, target: first0(firstOut), sourceBefore: before}, err
			}
		}
	}
	return alignment{}, nil
}

func first0(list []item) int64 {
	if len(list) == 0 {
		return 0
	}
	return list[0].offset
}
