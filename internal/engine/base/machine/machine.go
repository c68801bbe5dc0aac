// Package machine describes the machine of a measurement and the resource usage of this process.
// Every result includes it.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cores is GOMAXPROCS before AddProcessor: the cores, or the CPU limit of a container if it is lower.
var cores = runtime.GOMAXPROCS(0)

// Cores returns the number of cores that this process may use.
func Cores() int { return cores }

// AddProcessor gives the Go scheduler one processor more than cores, unless the environment sets
// GOMAXPROCS. A goroutine that flushes a file keeps its processor until the runtime's monitor takes
// it away, which can last 10 ms. On one core nothing else would run meanwhile.
func AddProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(cores + 1)
	}
}

// CPUTime returns the CPU time of this process, user and system; 0 if it is unknown.
func CPUTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// RSSMax returns the peak memory of this process in bytes; 0 if it is unknown.
func RSSMax() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(u.Maxrss) // bytes on this system, KiB on others
	}
	return int64(u.Maxrss) << 10
}

// Info describes the machine of a result.
type Info struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory_bytes"`
	System string `json:"system"`
	Kernel string `json:"kernel"`
}

// String returns one line for people.
func (m Info) String() string {
	return fmt.Sprintf("%s, %d cores, %.1f GiB, %s, kernel %s", m.CPU, m.Cores, float64(m.Memory)/(1<<30), m.System, m.Kernel)
}

// Here describes this machine. Unknown fields are zero or "unknown CPU".
func Here() Info {
	m := Info{CPU: "unknown CPU", Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if v := field("/proc/cpuinfo", "model name"); v != "" {
		m.CPU = v
	}
	var kib int64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kib); err == nil {
		m.Memory = kib << 10
	}
	return m
}

// field returns the first value of a field in a file of /proc; "" if there is none.
func field(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
