// Package machine says what a run was measured on, and what processes used meanwhile.
package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Info is the machine of a result. What the system does not tell is left out.
type Info struct {
	CPU         string     `json:"cpu,omitempty"`
	Cores       int        `json:"cores"` // that this process may use
	Governor    string     `json:"governor,omitempty"`
	MemoryBytes int64      `json:"memory_bytes,omitempty"`
	System      string     `json:"system"` // as in linux/amd64
	Kernel      string     `json:"kernel,omitempty"`
	Hypervisor  bool       `json:"hypervisor,omitempty"` // the CPU says that it is a virtual one
	Load        [3]float64 `json:"load"`                 // load averages of 1, 5 and 15 minutes, when this was read
}

// Here describes the machine this runs on.
func Here() Info {
	m := Info{Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	m.CPU = field("/proc/cpuinfo", "model name")
	m.Hypervisor = strings.Contains(" "+field("/proc/cpuinfo", "flags")+" ", " hypervisor ")
	m.Governor = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	var kib int64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kib); err == nil {
		m.MemoryBytes = kib << 10
	}
	// Zeros say that there was nothing to read.
	_, _ = fmt.Sscanf(text("/proc/loadavg"), "%f %f %f", &m.Load[0], &m.Load[1], &m.Load[2])
	return m
}

// String is one line for people.
func (m Info) String() string {
	s := fmt.Sprintf("%s, %d cores, %.1f GiB, %s, kernel %s", m.CPU, m.Cores, float64(m.MemoryBytes)/(1<<30), m.System, m.Kernel)
	if m.Hypervisor {
		s += ", virtual"
	}
	if m.Governor != "" {
		s += ", governor " + m.Governor
	}
	return s
}

// Filesystem says what a folder lies on, as in "ext4 on /dev/vda1 (rw,noatime)".
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
		return "", fmt.Errorf("file system of %s: no mount holds it", folder)
	}
	return found, nil
}

// mount reads a line of mountinfo: "36 35 98:0 /root /at opts shared:1 - ext4 /dev/vda1 rw".
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

// field is the first value of a field in a file of /proc; "" where there is none.
func field(file, name string) string {
	for line := range strings.Lines(text(file)) {
		if key, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// text is what a file holds; "" if it is not there.
func text(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
