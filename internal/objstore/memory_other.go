//go:build unix && !linux

package objstore

// hugePages is a wish that only Linux takes.
func hugePages([]byte) {}
