package form

import (
	"fmt"
	"slices"
)

// MaybeGuard reports whether an alternative of a left side is a guard, so that the right side has
// no instant to measure from.
//
// A guard is an absence without an end. It has no instant, so the right side keeps the anchor, and
// the guard must be true at the first event that the right side consumes.
func MaybeGuard(f *Form) bool {
	if f.Op == Or {
		return slices.ContainsFunc(f.Kids, MaybeGuard)
	}
	return guardOf(f) != nil
}

// Chain returns left THEN right.
func (b *Builder) Chain(left, right *Form, from fmt.Stringer) *Form {
	switch {
	case b.Full():
		return left
	case left.Op == guarded && plain(left): // (G THEN X) THEN Y = G THEN (X THEN Y)
		return b.guarded(left.Guards, b.Chain(left.Kids[0], right, from), from)
	case !endsInGuard(left):
		return b.Make(Form{Op: Then, Kids: []*Form{left, right}, From: from})
	case left.Op == Or:
		return b.distribute(left, right, from)
	case left.Op == Then && !left.Not: // (X THEN Y) THEN Z = X THEN (Y THEN Z)
		return b.Chain(left.Kids[0], b.Chain(left.Kids[1], right, from), from)
	}
	g := b.guarded([]*Form{guardOf(left)}, right, from)
	if !hasInstant(left) {
		return g
	}
	// One alternative of the left side has an instant, another has none.
	instant := b.Make(Form{Op: Then, Kids: []*Form{left, right}, From: from})
	return b.Make(Form{Op: Or, whole: true, Kids: []*Form{instant, g}, From: from})
}

func (b *Builder) guarded(guards []*Form, f *Form, from fmt.Stringer) *Form {
	return b.Make(Form{Op: guarded, Guards: guards, Kids: []*Form{f}, From: from})
}

// distribute returns (X OR Y) THEN Z = (X THEN Z) OR (Y THEN Z), for alternatives that end in a
// guard.
func (b *Builder) distribute(left, right *Form, from fmt.Stringer) *Form {
	either := Form{Op: Or, whole: true, From: from}
	instants := Form{Op: Or, From: left.From}
	for _, k := range left.Kids {
		if endsInGuard(k) {
			either.Kids = append(either.Kids, b.Chain(k, right, from))
		} else {
			instants.Kids = append(instants.Kids, k)
		}
	}
	if len(instants.Kids) > 0 {
		f := instants.Kids[0]
		if len(instants.Kids) > 1 {
			f = b.Make(instants)
		}
		either.Kids = append(either.Kids, b.Chain(f, right, from))
	}
	return b.Make(either)
}

// hasInstant reports whether a part of f can complete at an instant: an event, or the end of a
// window.
func hasInstant(f *Form) bool {
	switch f.Op {
	case Leaf, Then, Not:
		return !f.Not || f.Within > 0
	}
	return slices.ContainsFunc(f.Kids, hasInstant)
}

// endsInGuard reports whether some completion of f has no instant.
func endsInGuard(f *Form) bool {
	switch {
	case f.Op == Then && !f.Not:
		return plain(f) && endsInGuard(f.Kids[1])
	case f.Op == guarded:
		return plain(f) || guardOf(f) != nil
	case f.Op == Or:
		return slices.ContainsFunc(f.Kids, endsInGuard)
	}
	return guardOf(f) != nil
}

// guardOf returns the guard of f: f is the guard OR another form. nil if there is none.
func guardOf(f *Form) *Form {
	g := Form{Op: f.Op, From: f.From, size: 1}
	switch f.Op {
	case Leaf, Then, Not:
		if f.Not && f.Within == 0 {
			return f
		}
		return nil
	case guarded: // G THEN R with an absence R is G AND R
		part := guardOf(f.Kids[0])
		if f.Within > 0 || part == nil {
			return nil
		}
		g = *f
		g.Kids = []*Form{part}
		g.measure()
		return &g
	}
	for _, k := range f.Kids {
		switch part := guardOf(k); {
		case part != nil:
			g.Kids = append(g.Kids, part)
		case f.Op != Or:
			return nil
		}
	}
	switch len(g.Kids) {
	case 0:
		return nil
	case 1:
		return g.Kids[0]
	}
	g.measure()
	return &g
}
