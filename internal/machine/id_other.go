//go:build !linux && !darwin

package machine

// ID is not known on this system.
func ID() (id [16]byte) { return id }
