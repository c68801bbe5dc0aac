package server

import (
	"io/fs"
	"os"
	"syscall"
)

// openFiles returns the limit of open files of the process; 0 if it is unknown.
func openFiles() int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int(min(r.Cur, 1<<30))
}

// ownFile reports whether the user of this process owns a file.
func ownFile(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(s.Uid) == int64(os.Geteuid())
}
