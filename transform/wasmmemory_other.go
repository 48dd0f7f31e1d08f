//go:build !linux

package transform

import "runtime"

// wasmCompiles tells whether wazero has a compiler for this machine.
func wasmCompiles() bool { return runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" }

func reserveMemory(size int) ([]byte, error) { return make([]byte, size), nil }

func zeroMemory(buf []byte) { clear(buf) }

func freeMemory([]byte) {}
