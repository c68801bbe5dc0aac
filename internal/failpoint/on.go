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

// Enabled says whether failpoints are in the program.
const Enabled = true

// point is a failpoint at which something is to happen.
type point struct {
	action string
	left   atomic.Int64 // hits until then
	every  int64        // of slow: hits from one time to the next
	sleep  time.Duration
}

// Hurried says whether SEB_HURRY is set: on a folder, snapshots come by the number of commit objects then, as on S3, and not
// every 16 MiB. Few brokers of a campaign live as long as that takes, and without snapshots nothing is deleted.
func Hurried() bool { return os.Getenv("SEB_HURRY") != "" }

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
			return fmt.Errorf("%q: %q is no number of hits", one, parts[1])
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

// Hit does what SEB_FAILPOINTS says for this place. The name must be one of Names.
func Hit(name string) {
	if !slices.Contains(Names, name) {
		panic("failpoint: no name for " + name)
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

// HurriedGroups says whether SEB_HURRY_GROUPS is set: consumer groups do not wait for more members then, and take session timeouts of half
// a second.
func HurriedGroups() bool { return os.Getenv("SEB_HURRY_GROUPS") != "" }
