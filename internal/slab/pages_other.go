//go:build unix && !linux

package slab

// hugePages is a wish that only Linux takes.
func hugePages([]byte) {}
