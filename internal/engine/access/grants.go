package access

import (
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
)

// Grants are the rules of one principal, arranged for fast decisions. They are immutable. The nil
// Grants allow nothing.
type Grants struct {
	allow, deny map[ResourceType]*patterns
	local       []Rule // rules for one host
}

// patterns are the operations that rules name, by the pattern of the resource.
type patterns struct {
	any     operations
	exact   map[string]operations
	prefix  map[string]operations
	lengths []int // of the prefixes, ascending
}

// operations is a set: bit n is Operation n.
type operations uint16

func setOf(ops ...Operation) (s operations) {
	for _, o := range ops {
		s |= 1 << o
	}
	return s
}

// implying is the set of permissions that include an operation, as in Kafka.
func implying(o Operation) operations {
	switch o {
	case Describe:
		return setOf(All, Describe, Read, Write, Delete, Alter)
	case DescribeConfigs:
		return setOf(All, DescribeConfigs, AlterConfigs)
	}
	return setOf(All, o)
}

// denying is the set of denials that exclude an operation.
func denying(o Operation) operations { return setOf(All, o) }

// Request is one operation on one resource.
type Request struct {
	Operation Operation
	Resource  ResourceType
	Name      string
	// Internal: the resource is a topic of Seb itself. Only rules with its exact name match it.
	Internal bool
}

func compile(rules ...map[Rule]struct{}) *Grants {
	g := &Grants{allow: map[ResourceType]*patterns{}, deny: map[ResourceType]*patterns{}}
	for _, set := range rules {
		for r := range set { //tidy:unordered sets of bits; local rules are sorted below
			if r.Host != Any {
				g.local = append(g.local, r)
				continue
			}
			of := g.allow
			if r.Deny {
				of = g.deny
			}
			if of[r.Resource] == nil {
				of[r.Resource] = &patterns{exact: map[string]operations{}, prefix: map[string]operations{}}
			}
			of[r.Resource].add(&r)
		}
	}
	sorting.Sort(g.local, Rule.Compare)
	return g
}

func (p *patterns) add(r *Rule) {
	bit := setOf(r.Operation)
	switch {
	case r.Prefix:
		p.prefix[r.Name] |= bit
		if i, known := slices.BinarySearch(p.lengths, len(r.Name)); !known {
			p.lengths = slices.Insert(p.lengths, i, len(r.Name))
		}
	case r.Name == Any:
		p.any |= bit
	default:
		p.exact[r.Name] |= bit
	}
}

// of returns the operations that the patterns name for a resource.
func (p *patterns) of(name string, internal bool) operations {
	if p == nil {
		return 0
	}
	ops := p.exact[name]
	if internal {
		return ops
	}
	ops |= p.any
	for _, n := range p.lengths {
		if n > len(name) {
			break
		}
		ops |= p.prefix[name[:n]]
	}
	return ops
}

// matches reports whether the rule's pattern matches a resource of its type.
func (r *Rule) matches(q *Request) bool {
	switch {
	case r.Resource != q.Resource:
		return false
	case q.Internal:
		return !r.Prefix && r.Name == q.Name
	case r.Prefix:
		return strings.HasPrefix(q.Name, r.Name)
	}
	return r.Name == Any || r.Name == q.Name
}

// Allow reports whether a client at an IP address may perform an operation.
func (g *Grants) Allow(q Request, host string) bool {
	if g == nil {
		return false
	}
	allow, deny := g.allow[q.Resource].of(q.Name, q.Internal), g.deny[q.Resource].of(q.Name, q.Internal)
	for i := range g.local {
		if r := &g.local[i]; r.Host == host && r.matches(&q) {
			if r.Deny {
				deny |= setOf(r.Operation)
			} else {
				allow |= setOf(r.Operation)
			}
		}
	}
	return deny&denying(q.Operation) == 0 && allow&implying(q.Operation) != 0
}

// AllowSome reports whether a client at an IP address may perform an operation on some resource of
// a type that exists or could exist, as Kafka's authorizeByResourceType does. A permission counts
// unless one denial excludes all that it matches. internal reports whether a topic is one of Seb
// itself.
func (g *Grants) AllowSome(o Operation, t ResourceType, host string, internal func(topic string) bool) bool {
	if g == nil {
		return false
	}
	some := func(name string, prefix bool, ops operations) bool {
		switch {
		case ops&implying(o) == 0:
			return false
		case !prefix && name != Any:
			return g.Allow(Request{Operation: o, Resource: t, Name: name, Internal: t == Topic && internal(name)}, host)
		case !prefix:
			name = "" // every name begins with it
		}
		return g.denials(t, name, host)&denying(o) == 0
	}
	for i := range g.local {
		if r := &g.local[i]; r.Host == host && r.Resource == t && !r.Deny && some(r.Name, r.Prefix, setOf(r.Operation)) {
			return true
		}
	}
	p := g.allow[t]
	if p == nil {
		return false
	}
	if some(Any, false, p.any) {
		return true
	}
	for name, ops := range p.exact { //tidy:unordered reports whether there is one
		if some(name, false, ops) {
			return true
		}
	}
	for name, ops := range p.prefix { //tidy:unordered reports whether there is one
		if some(name, true, ops) {
			return true
		}
	}
	return false
}

// denials returns the operations that rules deny on every resource whose name begins with prefix.
func (g *Grants) denials(t ResourceType, prefix, host string) (ops operations) {
	if p := g.deny[t]; p != nil {
		ops = p.any | p.prefixes(prefix)
	}
	for i := range g.local {
		r := &g.local[i]
		if r.Deny && r.Host == host && r.Resource == t && (r.Prefix && strings.HasPrefix(prefix, r.Name) || !r.Prefix && r.Name == Any) {
			ops |= setOf(r.Operation)
		}
	}
	return ops
}

// Covers reports whether the grants include everything that a permission allows: a principal can
// give away only what it has. Permissions for one host do not count, denials for any host do.
// internal reports whether a topic is one of Seb itself.
func (g *Grants) Covers(r *Rule, internal func(topic string) bool) bool {
	if g == nil {
		return false
	}
	q := Request{Operation: r.Operation, Resource: r.Resource, Name: r.Name, Internal: r.Resource == Topic && !r.Prefix && internal(r.Name)}
	literal := !r.Prefix && r.Name != Any
	var has operations
	switch p := g.allow[r.Resource]; {
	case p == nil:
		return false
	case r.Name == Any && !r.Prefix:
		has = p.any
	default: // of a prefix: the rules that match each of its names
		has = p.of(r.Name, q.Internal)
		if !literal {
			has &^= p.exact[r.Name] &^ (p.any | p.prefixes(r.Name))
		}
	}
	if has&implying(r.Operation) == 0 {
		return false
	}
	return !g.denies(r, &q, literal)
}

// prefixes returns the operations of rules whose prefix name begins with.
func (p *patterns) prefixes(name string) (ops operations) {
	for _, n := range p.lengths {
		if n <= len(name) {
			ops |= p.prefix[name[:n]]
		}
	}
	return ops
}

// denies reports whether a denial excludes any part of what a permission allows.
func (g *Grants) denies(r *Rule, q *Request, literal bool) bool {
	excluding := setOf(All) // denials of what the permission allows, implied operations included
	for _, o := range operationsOf[r.Resource] {
		if implying(o)&setOf(r.Operation) != 0 {
			excluding |= setOf(o)
		}
	}
	excludes := func(ops operations) bool { return ops&excluding != 0 }
	for i := range g.local {
		d := &g.local[i]
		if d.Deny && d.Resource == r.Resource && excludes(setOf(d.Operation)) && (!literal || d.matches(q)) {
			return true // of a pattern each denial counts, which is stricter than needed
		}
	}
	p := g.deny[r.Resource]
	if p == nil {
		return false
	}
	if literal {
		return excludes(p.of(r.Name, q.Internal))
	}
	if excludes(p.any) {
		return true
	}
	overlaps := func(name string, prefix bool) bool {
		if !r.Prefix {
			return true // Any
		}
		n := min(len(name), len(r.Name))
		return name[:n] == r.Name[:n] && (prefix || len(name) >= len(r.Name))
	}
	for name, ops := range p.exact { //tidy:unordered reports whether there is one
		if excludes(ops) && overlaps(name, false) {
			return true
		}
	}
	for name, ops := range p.prefix { //tidy:unordered reports whether there is one
		if excludes(ops) && overlaps(name, true) {
			return true
		}
	}
	return false
}
