package auth

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
)

// Password is a user's password for one mechanism, as Kafka's AlterUserScramCredentials sends it.
type Password struct {
	User       string
	Mechanism  access.Mechanism
	Iterations uint32
	Salt       []byte
	Salted     []byte // the salted password
}

// ErrNoPassword: the user has no password for the mechanism.
var ErrNoPassword = errors.New("no such SCRAM credential")

// SetPassword sets a user's password for one mechanism. A user that does not exist is created, with
// the rules that name it. Errors: *state.InvalidError, ErrBeyondIssuer, and those of ChangeAccess.
func (a *Authority) SetPassword(ctx context.Context, by *Identity, w Password) error {
	switch {
	case !access.ValidID(w.User):
		return invalid("user", "%.80q: want 1 to %d printable characters without space * , = : \" \\, and not %q", w.User, access.IDMax, access.RootID)
	case w.Iterations < access.IterationsMin || w.Iterations > access.IterationsMax:
		return invalid("iterations", "%d: want %d to %d", w.Iterations, access.IterationsMin, access.IterationsMax)
	case len(w.Salt) == 0 || len(w.Salt) > 128:
		return invalid("salt", "%d bytes: want 1 to 128", len(w.Salt))
	case len(w.Salted) != hashOf(w.Mechanism)().Size():
		return invalid("salted password", "%d bytes: want %d", len(w.Salted), hashOf(w.Mechanism)().Size())
	}
	return a.b.ChangeAccess(ctx, func(t *access.Table) (access.Change, error) {
		p := t.Principal(w.User)
		if p == nil {
			p = &access.Principal{ID: w.User, Created: a.now().UnixMicro()}
			p.Expires, _ = by.endIn(t)
			if !by.Root() {
				p.Issuer = by.id
			}
		}
		if err := coversPrincipal(by, t, p); err != nil {
			return access.Change{}, err
		}
		p, s := withoutPassword(p, w.Mechanism)
		var number [8]byte
		_, _ = rand.Read(number[:])
		s.ID, s.Created = max(1, binary.LittleEndian.Uint64(number[:])), a.now().UnixMicro() // ends sessions of the old password
		s.Scram = append(s.Scram, verifier(w.Mechanism, slices.Clone(w.Salt), w.Iterations, w.Salted))
		p.Secrets = append(p.Secrets, s)
		return access.Change{Put: []access.Principal{*p}}, nil
	})
}

// DeletePassword deletes a user's password for one mechanism. A user without any secret is deleted;
// its rules and its quota stay, as in Kafka. Errors: ErrNoPassword, and those of ChangeAccess.
func (a *Authority) DeletePassword(ctx context.Context, user string, m access.Mechanism) error {
	return a.b.ChangeAccess(ctx, func(t *access.Table) (access.Change, error) {
		p := t.Principal(user)
		if p == nil || passwordOf(p, m) == nil {
			return access.Change{}, ErrNoPassword
		}
		p, s := withoutPassword(p, m)
		if len(s.Scram) > 0 {
			p.Secrets = append(p.Secrets, s)
		}
		if len(p.Secrets) == 0 {
			return access.Change{Delete: []string{user}}, nil
		}
		return access.Change{Put: []access.Principal{*p}}, nil
	})
}

// Passwords returns the verifiers of a principal's password.
func Passwords(p *access.Principal) []access.Scram {
	for i := range p.Secrets {
		if !p.Secrets[i].IsToken() {
			return p.Secrets[i].Scram
		}
	}
	return nil
}

func passwordOf(p *access.Principal, m access.Mechanism) *access.Scram {
	for i := range p.Secrets {
		if s := &p.Secrets[i]; !s.IsToken() {
			return s.Verifier(m)
		}
	}
	return nil
}

// withoutPassword returns a copy of a principal without its password, and the password without a
// mechanism.
func withoutPassword(p *access.Principal, m access.Mechanism) (rest *access.Principal, password access.Secret) {
	rest = p.Clone()
	if i := slices.IndexFunc(rest.Secrets, func(s access.Secret) bool { return !s.IsToken() }); i >= 0 {
		password = rest.Secrets[i]
		rest.Secrets = slices.Delete(rest.Secrets, i, i+1)
		password.Scram = slices.DeleteFunc(password.Scram, func(c access.Scram) bool { return c.Mechanism == m })
	}
	return rest, password
}

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
