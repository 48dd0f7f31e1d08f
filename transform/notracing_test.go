//go:build !race

package transform

const racing = false
