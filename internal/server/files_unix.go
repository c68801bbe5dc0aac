//go:build unix

package server

import "syscall"

// openFiles returns the limit of open files of the process; 0 if it is unknown.
func openFiles() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int(min(r.Cur, 1<<30))
}
