package auth

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// Identity is an authenticated client. Its methods decide by the newest committed rules and may be
// called concurrently.
type Identity struct {
	a       *Authority
	id      string        // "" for the root key
	secret  uint64        // 0 with a certificate
	peer    *tlsport.Peer // the certificate; nil: the client has proved a secret
	vouched bool          // another broker has verified the certificate
	expires int64         // at the login, µs; 0: never
	host    string
	used    *atomic.Int64           // the last use; nil for the root key and certificates
	state   atomic.Pointer[granted] // cache of current
	last    atomic.Pointer[access.Check]
}

// granted is the state of a client in one table. A decision uses one granted from its beginning to
// its end. Otherwise a change between two looks at the table could allow the new rules of a principal
// to a secret that it no longer has.
type granted struct {
	in      *compiled
	known   bool  // the principal has the secret
	expires int64 // of the secret, µs; 0: never
	rules   atomic.Pointer[access.Grants]
	usual   atomic.Pointer[access.Request] // the first that was allowed: most clients repeat one
	meter   atomic.Pointer[Meter]          // of the client's quota; nil: it has none
}

// now returns the state of the client in the newest committed table.
func (i *Identity) current() *granted {
	c := i.a.current()
	g := i.state.Load()
	if g == nil || g.in.table != c.table {
		g = &granted{in: c}
		g.expires, g.known = i.endIn(c.table)
		if !i.Root() {
			g.meter.Store(i.a.meters.meter(i.id, c.table.QuotaFor(i.id)))
		}
		i.state.Store(g)
	}
	return g
}

// endIn returns when the client's secret ends by a table, or 0 if never. known: the table has the
// secret. A rotation shortens the life of the older secret. Tables know nothing of certificates.
func (i *Identity) endIn(t *access.Table) (expires int64, known bool) {
	if i.Root() || i.peer != nil || i.vouched {
		return i.expires, true
	}
	if p := t.Principal(i.id); p != nil {
		if s := p.Secret(i.secret); s != nil {
			return p.ExpiresAt(s), true
		}
	}
	return 0, false
}

// valid reports whether the client's secret or certificate has neither expired nor been revoked.
func (i *Identity) valid(g *granted) bool {
	return g.known && (i.peer == nil || !i.peer.Revoked()) && (g.expires == 0 || i.a.now().UnixMicro() < g.expires)
}

// grants returns the client's rules in the table of g.
func (i *Identity) grants(g *granted) *access.Grants {
	r := g.rules.Load()
	if r == nil {
		r = g.in.of(i.id)
		g.rules.Store(r)
	}
	return r
}

// allows reports whether the rules in the table of g allow a request.
func (i *Identity) allows(g *granted, q *access.Request) bool {
	usual := g.usual.Load()
	if usual != nil && *usual == *q {
		return true
	}
	if !i.grants(g).Allow(*q, i.host) {
		return false
	}
	if usual == nil {
		keep := *q
		keep.Name = strings.Clone(q.Name) // the name may be part of a large request
		g.usual.CompareAndSwap(nil, &keep)
	}
	return true
}

// Root reports whether the client has the root key.
func (i *Identity) Root() bool { return i.id == "" }

// ID is the principal's ID; "" for the root key.
func (i *Identity) ID() string { return i.id }

// Name is the principal's ID; access.RootID for the root key.
func (i *Identity) Name() string {
	if i.Root() {
		return access.RootID
	}
	return i.id
}

// Origin describes the client in audit records, without its request.
func (i *Identity) Origin() audit.Origin {
	return audit.Origin{Principal: i.Name(), Secret: i.secret}
}

// Expires is when the identity ends, as of its login; zero if it does not.
func (i *Identity) Expires() time.Time {
	if i.expires == 0 {
		return time.Time{}
	}
	return time.UnixMicro(i.expires)
}

// Valid reports whether the client's secret or certificate has neither expired nor been revoked.
func (i *Identity) Valid() bool { return i.Root() || i.valid(i.current()) }

// Err returns why the client's secret or certificate is not valid, or nil: an ErrUnauthenticated.
func (i *Identity) Err() error {
	if i.Root() {
		return nil
	}
	g := i.current()
	switch {
	case i.valid(g):
		return nil
	case i.peer != nil:
		return &loginError{errCertificateEnded}
	case g.known:
		return expired(i.id, g.expires)
	case i.expires != 0 && i.a.now().UnixMicro() >= i.expires:
		return expired(i.id, i.expires)
	}
	return &loginError{ErrRevoked}
}

// Allow reports whether the client may perform an operation on a resource now.
func (i *Identity) Allow(o access.Operation, t access.ResourceType, name string) bool {
	if i.Root() {
		return true
	}
	g, q := i.current(), i.request(o, t, name)
	return i.valid(g) && i.allows(g, &q)
}

func (i *Identity) request(o access.Operation, t access.ResourceType, name string) access.Request {
	return access.Request{Operation: o, Resource: t, Name: name, Internal: t == access.Topic && i.a.Internal(name)}
}

// Check is Allow for a request that waits to be stored. The broker examines the Check again when
// it fixes the request's slot; it is nil for the root key.
func (i *Identity) Check(o access.Operation, t access.ResourceType, name string) (*access.Check, bool) {
	if i.Root() {
		return nil, true
	}
	g, q := i.current(), i.request(o, t, name)
	if !i.valid(g) {
		return nil, false
	}
	if c := i.last.Load(); c != nil && c.Version == g.in.table.Version && c.Request == q {
		return c, true
	}
	if !i.allows(g, &q) {
		return nil, false
	}
	q.Name = strings.Clone(name)
	c := &access.Check{Principal: i.id, Secret: i.secret, Version: g.in.table.Version, Host: i.host, Request: q}
	i.last.Store(c)
	return c, true
}

// AllowSome reports whether the client may perform an operation on some resource of a type.
func (i *Identity) AllowSome(o access.Operation, t access.ResourceType) bool {
	if i.Root() {
		return true
	}
	g := i.current()
	return i.valid(g) && i.grants(g).AllowSome(o, t, i.host, i.a.Internal)
}

// AllowAll reports whether the client may perform an operation on every resource of a type, except
// internal topics.
func (i *Identity) AllowAll(o access.Operation, t access.ResourceType) bool {
	return i.covers(&access.Rule{Resource: t, Name: access.Any, Operation: o})
}

// Operations returns the operations on a resource that the client may perform, for the answers of
// Kafka that list them.
func (i *Identity) Operations(t access.ResourceType, name string) (all []access.Operation) {
	for _, o := range access.OperationsOf(t) {
		if i.Allow(o, t, name) {
			all = append(all, o)
		}
	}
	return all
}

// covers reports whether the client has everything that a rule allows.
func (i *Identity) covers(r *access.Rule) bool {
	if i.Root() {
		return true
	}
	g := i.current()
	return i.valid(g) && i.grants(g).Covers(r, i.a.Internal)
}
