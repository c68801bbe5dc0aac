// Package logins slows down and logs failed logins, by the address that they come from.
package logins

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// free is how many failures of a network are answered at once; one more is allowed every regain.
	free   = 10
	regain = time.Second
	// Delay is how long the answer to any further failure waits.
	Delay = time.Second
	// networksMax bounds the table: with more networks than that at once some of them are forgotten.
	networksMax = 1024
	// quiet is the least time between two lines of the log about a network, lineEvery about any.
	quiet     = 10 * time.Second
	lineEvery = time.Second
)

// Failures are the failed logins of all listeners. Its methods may be called concurrently, and of a nil Failures, which slows down
// and logs nothing.
type Failures struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex // guards what follows
	networks map[netip.Prefix]*network
	next     time.Time // of a line
	others   int       // failures since the last line
}

// network is a /24 of IPv4 or a /64 of IPv6: what one attacker usually has.
type network struct {
	empty time.Time // when its allowance is full again, less free*regain
	next  time.Time // of a line about it
}

// New returns Failures that log to log. now is the clock, nil for the machine's.
func New(log *slog.Logger, now func() time.Time) *Failures {
	if now == nil {
		now = time.Now
	}
	return &Failures{log: log, now: now, networks: map[netip.Prefix]*network{}}
}

// Failed notes a failed login at a listener and returns how long its answer has to wait. A login with the right key is not to be
// asked about: it never waits, whatever else comes from its network.
func (f *Failures) Failed(listener, remote string) (wait time.Duration) {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	n := f.networkLocked(prefixOf(remote), now)
	n.empty = later(n.empty, now.Add(-free*regain)).Add(regain)
	if n.empty.After(now) {
		n.empty, wait = now, Delay
	}
	if now.Before(n.next) || now.Before(f.next) {
		f.others++
		return wait
	}
	n.next, f.next = now.Add(quiet), now.Add(lineEvery)
	f.log.Warn("failed login", "listener", listener, "remote", remote, "delay", wait, "others_before", f.others)
	f.others = 0
	return wait
}

// networkLocked finds or makes the entry of a network.
func (f *Failures) networkLocked(p netip.Prefix, now time.Time) *network {
	if n := f.networks[p]; n != nil {
		return n
	}
	if len(f.networks) >= networksMax {
		for old, n := range f.networks {
			if !n.next.After(now) && !n.empty.After(now.Add(-free*regain)) {
				delete(f.networks, old)
			}
		}
		for old := range f.networks {
			if len(f.networks) < networksMax {
				break
			}
			delete(f.networks, old)
		}
	}
	n := &network{}
	f.networks[p] = n
	return n
}

// prefixOf is the network of a remote address; all that cannot be read are one.
func prefixOf(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 24
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
