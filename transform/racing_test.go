//go:build race

package transform

// racing: the race detector, which makes everything many times as slow, looks for races and not for one record more.
const racing = true
