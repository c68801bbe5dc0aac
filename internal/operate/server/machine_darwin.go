package server

import (
	"crypto/sha256"

	"golang.org/x/sys/unix"
)

// machineID identifies this machine since its start. It is 16 bytes of a hash; zero if it is unknown.
func machineID() (id [16]byte) {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil || boot == "" {
		return id
	}
	sum := sha256.Sum256([]byte(boot))
	return [16]byte(sum[:])
}
