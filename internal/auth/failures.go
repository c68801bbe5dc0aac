package auth

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

const (
	// freeFailures is the number of failures of a network that are answered at once; the allowance
	// grows by one per regain.
	freeFailures = 10
	regain       = time.Second
	// FailureDelay is the delay of the answer to further failures.
	FailureDelay = time.Second
	// networksMax bounds the table. Beyond it some networks are forgotten.
	networksMax = 1024
	// networkLogInterval is the minimum interval between log lines about a network, logInterval
	// between any.
	networkLogInterval = 10 * time.Second
	logInterval        = time.Second
)

// Failures tracks the failed logins of all listeners. Its methods may be called concurrently. A nil
// Failures neither delays nor logs.
type Failures struct {
	log *slog.Logger
	now func() time.Time
	// Audit, if not nil, is called with each failure, the client's address and its network. It must
	// not block. Set it before the first failure.
	Audit func(listener, remote, network string)

	mu       sync.Mutex // guards the following fields
	networks map[netip.Prefix]*network
	next     time.Time // time of the next line
	others   int       // failures since the last line
}

// network is a /24 of IPv4 or a /64 of IPv6, the usual network of one attacker.
type network struct {
	empty time.Time // time at which its allowance is full again, less freeFailures*regain
	next  time.Time // time of the next line about it
}

// NewFailures returns Failures that log to log. now is the clock; nil uses the machine's.
func NewFailures(log *slog.Logger, now func() time.Time) *Failures {
	if now == nil {
		now = time.Now
	}
	return &Failures{log: log, now: now, networks: map[netip.Prefix]*network{}}
}

// Failed records a failed login at a listener and returns the delay of its answer. Do not call it
// for a valid login, which never waits, whatever else comes from its network.
func (f *Failures) Failed(listener, remote string) (wait time.Duration) {
	if f == nil {
		return 0
	}
	network := prefixOf(remote)
	if f.Audit != nil {
		f.Audit(listener, remote, network.String())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	n := f.networkLocked(network, now)
	n.empty = later(n.empty, now.Add(-freeFailures*regain)).Add(regain)
	if n.empty.After(now) {
		n.empty, wait = now, FailureDelay
	}
	if now.Before(n.next) || now.Before(f.next) {
		f.others++
		return wait
	}
	n.next, f.next = now.Add(networkLogInterval), now.Add(logInterval)
	f.log.Warn("failed login", "listener", listener, "remote", remote, "delay", wait, "others_before", f.others)
	f.others = 0
	return wait
}

// networkLocked returns the entry of a network, and creates a missing one.
func (f *Failures) networkLocked(p netip.Prefix, now time.Time) *network {
	if n := f.networks[p]; n != nil {
		return n
	}
	if len(f.networks) >= networksMax {
		for old, n := range f.networks {
			if !n.next.After(now) && !n.empty.After(now.Add(-freeFailures*regain)) {
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

// prefixOf returns the network of a remote address; all invalid addresses share one.
func prefixOf(remote string) netip.Prefix {
	a, err := netip.ParseAddr(hostOf(remote))
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
