//go:build !linux

package machine

// Scheduling returns "" on this system.
func Scheduling() string { return "" }

// WithDefaultScheduling calls f.
func WithDefaultScheduling(f func() error) error { return f() }
