package machine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is the resource usage of a process.
type Usage struct {
	CPU      time.Duration // user and system, since its start
	RSSBytes int64         // current memory
}

// userHz is the number of ticks per second in /proc, on every platform of Go.
const userHz = 100

// Process returns the usage of a process on this machine, without its children.
func Process(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", pid, err)
	}
	u, err := parseStat(string(stat))
	if err != nil {
		return Usage{}, fmt.Errorf("usage of process %d: %w", pid, err)
	}
	return u, nil
}

var errStat = errors.New("unknown format of its stat file")

// parseStat parses /proc/PID/stat. The second field, the name, may have spaces and brackets.
func parseStat(stat string) (Usage, error) {
	i := strings.LastIndexByte(stat, ')')
	if i < 0 {
		return Usage{}, errStat
	}
	f := strings.Fields(stat[i+1:]) // f[0] is the third field
	if len(f) < 22 {
		return Usage{}, errStat
	}
	var n [3]int64
	for i, s := range []string{f[11], f[12], f[21]} { // utime, stime, rss in pages
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return Usage{}, errStat
		}
		n[i] = v
	}
	return Usage{CPU: time.Duration(n[0]+n[1]) * (time.Second / userHz), RSSBytes: n[2] * int64(os.Getpagesize())}, nil
}
