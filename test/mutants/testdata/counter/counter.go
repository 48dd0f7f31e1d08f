// Package counter is what the mutants' own test breaks.
package counter

// Count counts.
func Count(n int) int { return n + 1 }
