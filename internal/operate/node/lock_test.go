package node

import (
	"syscall"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// TestClosedFolderIsFree: a copy of the lock's file descriptor, as a child process has between fork
// and exec, does not keep the folder locked.
func TestClosedFolderIsFree(t *testing.T) {
	dir := t.TempDir()
	f := must.Get(openFolder(dir))(t)
	copied := must.Get(syscall.Dup(int(f.lock.Fd())))(t)
	defer syscall.Close(copied)
	must.NoError(t, f.close())
	again := must.Get(openFolder(dir))(t)
	must.NoError(t, again.close())
}
