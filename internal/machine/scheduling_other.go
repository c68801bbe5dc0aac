//go:build !linux

package machine

// Scheduling is how the kernel schedules the calling thread; "" here.
func Scheduling() string { return "" }

// Ordinarily calls f.
func Ordinarily(f func() error) error { return f() }
