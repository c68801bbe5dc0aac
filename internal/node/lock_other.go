//go:build !unix

package node

import "os"

// lockFile takes no lock: there is no portable one that ends with a killed process.
func lockFile(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
}
