//go:build race

package bridge

// raced says that the race detector looks on: the matrices try fewer rows then, for each takes ten times as long.
const raced = true
