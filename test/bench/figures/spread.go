package figures

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Spread is what is reported of repeated figures.
type Spread struct {
	Median, Min, Max float64
	Runs             int
}

// SpreadOf sums up values; none are a Spread of 0 Runs.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Median: Quantile(values, 0.5), Min: slices.Min(values), Max: slices.Max(values), Runs: len(values)}
}

// Quantile interpolates between the two nearest values; 0 if there are none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := int(math.Floor(at))
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

// Set is the runs of a part, or some of them.
type Set []Run

// Of are the runs of one workload, point and variant.
func (s Set) Of(workload, point, variant string) (some Set) {
	for _, r := range s {
		if r.Workload == workload && r.Point == point && r.Variant == variant {
			some = append(some, r)
		}
	}
	return some
}

// Values are the figures of one name, in the order of the runs; runs without it are left out.
func (s Set) Values(name string) (values []float64) {
	for _, r := range s {
		if v, ok := r.Values[name]; ok {
			values = append(values, v)
		}
	}
	return values
}

// Spread sums up the values of one name.
func (s Set) Spread(name string) Spread { return SpreadOf(s.Values(name)) }

// Workloads are the names that occur, in the order of their first run.
func (s Set) Workloads() []string { return s.names(func(r Run) string { return r.Workload }) }

// Points are the points of one workload: by size where they are numbers, else in the order of their first run.
func (s Set) Points(workload string) []string {
	points := s.workload(workload).names(func(r Run) string { return r.Point })
	slices.SortStableFunc(points, func(a, b string) int {
		x, okX := size(a)
		y, okY := size(b)
		if !okX || !okY {
			return 0
		}
		return cmp.Compare(x, y)
	})
	return points
}

// size is the number that a point begins with: "1,000", "+5 ms", "64 MiB".
func size(point string) (n int, ok bool) {
	first, unit, _ := strings.Cut(point, " ")
	n, err := strconv.Atoi(strings.ReplaceAll(strings.TrimPrefix(first, "+"), ",", ""))
	return n, err == nil && !strings.HasSuffix(unit, "records")
}

// Variants are those of one workload, or of all if it is "": ours first, then the client library's, then the peers.
func (s Set) Variants(workload string) []string {
	if workload != "" {
		s = s.workload(workload)
	}
	names := s.names(func(r Run) string { return r.Variant })
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	return names
}

// rank is the order of variants in tables: ours, the client library's, the peers.
func rank(variant string) int {
	order := []string{"bridge", "seeded", "bridge 5 ms", "raw", "session", "session 5 ms", "plain"}
	if i := slices.Index(order, variant); i >= 0 {
		return i
	}
	return len(order)
}

func (s Set) workload(name string) (some Set) {
	for _, r := range s {
		if r.Workload == name {
			some = append(some, r)
		}
	}
	return some
}

func (s Set) names(of func(Run) string) (names []string) {
	for _, r := range s {
		if name := of(r); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Ratios divides, round by round, what the one variant needed by what the other did: what disturbs a round disturbs
// both.
func (s Set) Ratios(workload, point, over, under, name string) []float64 {
	return Paired(s.Of(workload, point, over), s.Of(workload, point, under), name)
}

// Paired divides the values of runs of the same round.
func Paired(over, under Set, name string) (values []float64) {
	for _, a := range over {
		for _, b := range under {
			x, okX := a.Values[name]
			y, okY := b.Values[name]
			if okX && okY && y != 0 && a.Round == b.Round {
				values = append(values, x/y)
			}
		}
	}
	return values
}

// Across divides what a variant needed at one point of a curve by what it did at another, round by round.
func (s Set) Across(workload, over, under, variant, name string) []float64 {
	return Paired(s.Of(workload, over, variant), s.Of(workload, under, variant), name)
}

// Turn rotates the order of n things from round to round (from 0), so that none is always the one after another.
func Turn(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (i + round) % n
	}
	return order
}
