package auth

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/access"
)

// Identity is an authenticated client. Its methods decide by the newest committed rules and may be
// called concurrently.
type Identity struct {
	a       *Authority
	id      string // "" for the root key
	secret  uint64
	expires int64 // µs; 0: never
	host    string
	used    *atomic.Int64           // the last use; nil for the root key
	rules   atomic.Pointer[granted] // cache of grants
	last    atomic.Pointer[access.Check]
}

// granted are the rules of a principal in one table.
type granted struct {
	table *access.Table
	*access.Grants
}

// grants returns the newest committed rules, arranged for decisions.
func (i *Identity) grants() *granted {
	c := i.a.current()
	g := i.rules.Load()
	if g == nil || g.table != c.table {
		g = &granted{c.table, c.of(i.id)}
		i.rules.Store(g)
	}
	return g
}

// Root reports whether the client has the root key.
func (i *Identity) Root() bool { return i.id == "" }

// Name is the principal's ID; access.RootID for the root key.
func (i *Identity) Name() string {
	if i.Root() {
		return access.RootID
	}
	return i.id
}

// Expires is when the identity ends; zero if it does not.
func (i *Identity) Expires() time.Time {
	if i.expires == 0 {
		return time.Time{}
	}
	return time.UnixMicro(i.expires)
}

// Valid reports whether the client's secret has neither expired nor been revoked.
func (i *Identity) Valid() bool {
	if i.Root() {
		return true
	}
	if i.expires != 0 && i.a.now().UnixMicro() >= i.expires {
		return false
	}
	p := i.a.b.Access().Principal(i.id)
	if p == nil {
		return false
	}
	s := p.Secret(i.secret)
	if s == nil {
		return false
	}
	e := p.ExpiresAt(s) // a rotation shortens the life of the older secret
	return e == 0 || i.a.now().UnixMicro() < e
}

// Err returns why the client's secret is not valid, or nil: an ErrUnauthenticated.
func (i *Identity) Err() error {
	switch {
	case i.Valid():
		return nil
	case i.expires != 0 && i.a.now().UnixMicro() >= i.expires:
		return expired(i)
	}
	return &loginError{ErrRevoked}
}

// Allow reports whether the client may perform an operation on a resource now.
func (i *Identity) Allow(o access.Operation, t access.ResourceType, name string) bool {
	return i.Root() || i.Valid() && i.grants().Allow(i.request(o, t, name), i.host)
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
	if !i.Valid() {
		return nil, false
	}
	g, q := i.grants(), i.request(o, t, name)
	if c := i.last.Load(); c != nil && c.Version == g.table.Version && c.Request == q {
		return c, true // most clients repeat one request
	}
	if !g.Allow(q, i.host) {
		return nil, false
	}
	q.Name = strings.Clone(name) // the name may be part of a large request
	c := &access.Check{Principal: i.id, Secret: i.secret, Version: g.table.Version, Host: i.host, Request: q}
	i.last.Store(c)
	return c, true
}

// AllowSome reports whether the client may perform an operation on some resource of a type.
func (i *Identity) AllowSome(o access.Operation, t access.ResourceType) bool {
	return i.Root() || i.Valid() && i.grants().AllowSome(o, t, i.host, i.a.Internal)
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
	return i.Root() || i.Valid() && i.grants().Covers(r, i.a.Internal)
}
