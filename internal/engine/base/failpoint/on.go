//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Enabled reports whether the program has failpoints.
const Enabled = true

// point is an active failpoint.
type point struct {
	action string
	left   atomic.Int64 // hits until the action
	every  int64        // of slow: hits between two actions
	sleep  time.Duration
}

// FrequentSnapshots reports whether SEB_HURRY is set: on a folder, snapshots then depend on the
// number of commit objects, as on S3, instead of every 16 MiB. Brokers of a campaign are usually
// killed before 16 MiB, and nothing is deleted without snapshots.
func FrequentSnapshots() bool { return os.Getenv("SEB_HURRY") != "" }

// UnknownMachine reports whether SEB_HURRY_ALONE is set: no other broker then reaches one with loopback
// listeners. Brokers of a campaign depose each other, instead of standing by.
func UnknownMachine() bool { return os.Getenv("SEB_HURRY_ALONE") != "" }

var points = map[string]*point{}

func init() {
	if err := parse(os.Getenv("SEB_FAILPOINTS")); err != nil {
		fmt.Fprintln(os.Stderr, "SEB_FAILPOINTS:", err)
		os.Exit(2)
	}
}

func parse(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		if one == "" {
			continue
		}
		name, what, _ := strings.Cut(one, "=")
		parts := strings.Split(what, ":")
		if !slices.Contains(Names, name) || len(parts) < 2 {
			return fmt.Errorf("%q: want a known name, \"=\", an action, \":\" and a number of hits", one)
		}
		n, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("%q: %q is not a number of hits", one, parts[1])
		}
		p := &point{action: parts[0], every: n}
		p.left.Store(n)
		switch p.action {
		case "kill", "stop":
		case "sleep", "slow":
			if len(parts) != 3 {
				return fmt.Errorf("%q: want %s, hits and a time", one, p.action)
			}
			if p.sleep, err = time.ParseDuration(parts[2]); err != nil {
				return fmt.Errorf("%q: %w", one, err)
			}
		default:
			return fmt.Errorf("%q: want kill, stop, sleep or slow", one)
		}
		points[name] = p
	}
	return nil
}

// Hit runs the action of SEB_FAILPOINTS for a name, which must be in Names.
func Hit(name string) {
	if !slices.Contains(Names, name) {
		panic("failpoint: unknown name " + name)
	}
	p := points[name]
	if p == nil {
		return
	}
	left := p.left.Add(-1)
	if p.action == "slow" && left < 0 && -left%p.every == 0 {
		time.Sleep(p.sleep)
	}
	if left != 0 {
		return
	}
	fmt.Fprintln(os.Stderr, "failpoint", name, p.action)
	switch p.action {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "sleep", "slow":
		time.Sleep(p.sleep)
	}
}

// JournalFileBytes is the size of journal files that SEB_HURRY_JOURNAL sets, at least 256 KiB; 0:
// their usual sizes.
func JournalFileBytes() int64 {
	n, err := strconv.ParseInt(os.Getenv("SEB_HURRY_JOURNAL"), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 256<<10)
}

// FastGroups reports whether SEB_HURRY_GROUPS is set: consumer groups then do not wait for more
// members, and accept session timeouts of half a second.
func FastGroups() bool { return os.Getenv("SEB_HURRY_GROUPS") != "" }
