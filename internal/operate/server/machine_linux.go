package server

import (
	"crypto/sha256"
	"os"
	"strings"
)

// machineID identifies this machine since its start, and the network namespace of this process: processes with
// the same ID reach each other on loopback addresses. It is 16 bytes of a hash; zero if it is unknown.
func machineID() (id [16]byte) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return id
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(boot)) + " " + network))
	return [16]byte(sum[:])
}
