package machine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Status is the state and the resource usage of a process.
type Status struct {
	Name     string // of its program, at most 15 bytes
	Dead     bool   // a zombie, or worse, of which no thread runs
	Session  int
	Born     uint64        // clock ticks from the boot of the machine to its start
	CPU      time.Duration // user and system, since its start
	RSSBytes int64         // current memory
}

// userHz is the number of ticks per second in /proc, on every platform of Go.
const userHz = 100

// Process returns the status of a process on this machine, without its children.
func Process(pid int) (Status, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Status{}, fmt.Errorf("status of process %d: %w", pid, err)
	}
	s, err := parseStat(string(stat))
	if err != nil {
		return Status{}, fmt.Errorf("status of process %d: %w", pid, err)
	}
	return s, nil
}

var errStat = errors.New("unknown format of its stat file")

// parseStat parses /proc/PID/stat. The second field, the name, is in brackets and may have spaces
// and brackets.
func parseStat(stat string) (Status, error) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return Status{}, errStat
	}
	f := strings.Fields(stat[end+1:]) // f[0] is field 3 of proc(5)
	if len(f) < 22 {
		return Status{}, errStat
	}
	var n [6]int64
	for i, s := range []string{f[3], f[11], f[12], f[19], f[21], f[17]} { // session, utime, stime, starttime, rss in pages, num_threads
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return Status{}, errStat
		}
		n[i] = v
	}
	return Status{
		// While a process exits, its first thread can be a zombie before the others have closed its files.
		Name: stat[open+1 : end], Dead: (f[0] == "Z" || f[0] == "X") && n[5] <= 1, Session: int(n[0]), Born: uint64(n[3]),
		CPU: time.Duration(n[1]+n[2]) * (time.Second / userHz), RSSBytes: n[4] * int64(os.Getpagesize()),
	}, nil
}
