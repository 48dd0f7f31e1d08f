//go:build !linux

package link

func setLowWater(uintptr, int) {}
