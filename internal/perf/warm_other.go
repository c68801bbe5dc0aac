//go:build !linux

package perf

// warm does nothing here.
func warm() error { return nil }
