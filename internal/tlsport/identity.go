package tlsport

import (
	"io/fs"
	"syscall"
)

// identity identifies the file itself, where the system supports that.
func identity(info fs.FileInfo) any {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return [2]uint64{uint64(s.Dev), s.Ino} //nolint:unconvert // Dev is signed elsewhere
	}
	return nil
}
