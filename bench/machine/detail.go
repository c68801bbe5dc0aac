// Package machine describes the machine of a measurement in detail, and the resource usage and the
// scheduling of processes.
package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/machine"
)

// Detail is machine.Info with the conditions that affect latencies. Members that the system does not report
// are absent.
type Detail struct {
	machine.Info
	Governor   string `json:"governor,omitempty"`
	Hypervisor bool   `json:"hypervisor,omitempty"` // the CPU reports a virtual machine
	// load averages of 1, 5 and 15 minutes at the time of reading
	Load [3]float64 `json:"load"`
}

// HereInDetail describes this machine.
func HereInDetail() Detail {
	m := Detail{Info: machine.Here()}
	m.Hypervisor = slices.Contains(strings.Fields(text("/proc/cpuinfo")), "hypervisor")
	m.Governor = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	// Zeros mean that the file was not readable.
	_, _ = fmt.Sscanf(text("/proc/loadavg"), "%f %f %f", &m.Load[0], &m.Load[1], &m.Load[2])
	return m
}

// String returns one line for people.
func (m Detail) String() string {
	s := m.Info.String()
	if m.Hypervisor {
		s += ", virtual"
	}
	if m.Governor != "" {
		s += ", governor " + m.Governor
	}
	return s
}

// Filesystem describes the file system of a folder, such as "ext4 on /dev/vda1 (rw,noatime)".
func Filesystem(folder string) (string, error) {
	path, err := filepath.Abs(folder)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("file system of %s: %w", folder, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("file system of %s: %w", folder, err)
	}
	best, found := "", ""
	for line := range strings.Lines(string(mounts)) {
		if at, what, ok := mount(line); ok && below(path, at) && len(at) >= len(best) {
			best, found = at, what
		}
	}
	if found == "" {
		return "", fmt.Errorf("file system of %s: no mount found", folder)
	}
	return found, nil
}

// mount parses a line of mountinfo: "36 35 98:0 /root /at opts shared:1 - ext4 /dev/vda1 rw".
func mount(line string) (at, what string, ok bool) {
	left, right, ok := strings.Cut(line, " - ")
	l, r := strings.Fields(left), strings.Fields(right)
	if !ok || len(l) < 6 || len(r) < 2 {
		return "", "", false
	}
	at = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(l[4])
	return at, fmt.Sprintf("%s on %s (%s)", r[0], r[1], l[5]), true
}

func below(path, at string) bool {
	return at == "/" || path == at || strings.HasPrefix(path, at+"/")
}

// text returns the content of a file; "" if it cannot be read.
func text(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Status is the state and the resource usage of a process.
type Status struct {
	Name     string // of its program, at most 15 bytes
	Dead     bool   // a zombie, or worse, of which no thread runs
	Parent   int
	Session  int
	Born     uint64        // clock ticks from the boot of the machine to its start
	CPU      time.Duration // user and system, since its start
	Children time.Duration // that of its children that have ended
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
	var n [9]int64
	// session, utime, stime, starttime, rss in pages, num_threads, ppid, cutime, cstime
	for i, s := range []string{f[3], f[11], f[12], f[19], f[21], f[17], f[1], f[13], f[14]} {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return Status{}, errStat
		}
		n[i] = v
	}
	return Status{
		// While a process exits, its first thread can be a zombie before the others have closed its files.
		Name: stat[open+1 : end], Dead: (f[0] == "Z" || f[0] == "X") && n[5] <= 1, Parent: int(n[6]), Session: int(n[0]), Born: uint64(n[3]),
		CPU: time.Duration(n[1]+n[2]) * (time.Second / userHz), Children: time.Duration(n[7]+n[8]) * (time.Second / userHz), RSSBytes: n[4] * int64(os.Getpagesize()),
	}, nil
}

// TreeCPU returns the CPU time of a process and its children, also of those that have ended.
func TreeCPU(pid int) (time.Duration, error) {
	root, err := Process(pid)
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	all := map[int]Status{}
	for _, e := range entries {
		if one, err := strconv.Atoi(e.Name()); err == nil {
			if s, err := Process(one); err == nil { // else it has ended
				all[one] = s
			}
		}
	}
	cpu := root.CPU + root.Children
	for one := range all {
		for above := all[one].Parent; above > 1; above = all[above].Parent {
			if above == pid {
				cpu += all[one].CPU + all[one].Children
				break
			}
		}
	}
	return cpu, nil
}
