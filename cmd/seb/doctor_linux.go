package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFilesMax returns the limit of open files; 0 if it is unknown.
func openFilesMax() int64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return int64(min(r.Cur, 1<<30))
}

// machineMemory returns the bytes that this process may use: those of the machine or of its control
// group; 0 if unknown.
func machineMemory() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return 0
	}
	total := int64(i.Totalram) * int64(i.Unit)
	own, _ := os.ReadFile("/proc/self/cgroup")
	_, group, _ := strings.Cut(strings.TrimSpace(string(own)), "0::")
	text, err := os.ReadFile("/sys/fs/cgroup" + group + "/memory.max")
	if limit, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil {
		total = min(total, limit)
	}
	return total
}

// diskSpace returns the free and the total bytes of dir's file system, for this user.
func diskSpace(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	err = unix.Statfs(dir, &s)
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, err
}

// clockSynchronized returns the kernel's status of the clock.
func clockSynchronized() (synchronized, known bool) {
	status, err := unix.Adjtimex(&unix.Timex{})
	return status != unix.TIME_ERROR, err == nil
}
