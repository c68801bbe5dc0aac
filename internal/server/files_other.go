//go:build !unix

package server

import "io/fs"

// openFiles returns the limit of open files of the process; 0 if it is unknown.
func openFiles() int { return 0 }

// ownFile is not known on this system.
func ownFile(fs.FileInfo) bool { return false }
