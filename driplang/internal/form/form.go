// Package form is the normal form of an expression, between the parsed language and the program of
// a monitor. NOT occurs only at leaves and THENs. WITHIN and AFTER are windows of leaves and THENs,
// measured from the form's anchor (the completion of the nearest THEN to the left). No left side of
// a THEN is a guard.
package form

import (
	"fmt"
	"slices"
)

// MaxNodes bounds the size of a form, because guards are copied to each event that they may
// precede.
const MaxNodes = 4096

// maxForms bounds the work, because a form may be built several times until it is finished.
const maxForms = 8 * MaxNodes

// Op is the operation of a form.
type Op uint8

// A Leaf requires at least Need events of a kind, a Then has a left and a right side, and Not
// negates an Or that was a THEN.
const (
	Leaf Op = iota + 1
	And
	Or
	Then
	Not
	guarded // a form whose first event requires some guards to be true; removed by Expand
)

// Form is a node. Forms are immutable and may be shared.
type Form struct {
	Op            Op
	Not           bool    // Leaf, Then, Not: negated
	Kind          int     // Leaf: index into Expression.Kinds
	Need          int     // Leaf: required number of events
	After, Within int64   // Leaf, Then, Not: in milliseconds from the anchor; 0 is none
	Kids          []*Form // Then: left and right
	Guards        []*Form // Leaf: must be true just before an event counts
	From          fmt.Stringer

	whole bool // Or: an expanded THEN, which NOT negates as a whole
	size  int  // of the tree; shared parts count each time
}

// Kind is an event name and a filter on the event's data.
type Kind struct {
	Name  string
	Where Filter // nil: no filter
}

// Filter is a condition on an event's data.
type Filter interface {
	// Matches is deterministic for any bytes. It does not keep data.
	Matches(data []byte) bool
	// Examples returns data that matches (nil if none was found), and data that does not, with few
	// differences.
	Examples() (match []Property, misses [][]Property)
}

// Expression is a complete normal form.
type Expression struct {
	Root  *Form
	Kinds []Kind
}

// Builder makes forms and counts them. The zero value is ready for use.
type Builder struct {
	forms int
}

// Full reports whether the form exceeds the limit. Its result is then invalid.
func (b *Builder) Full() bool { return b.forms > maxForms }

// Make adds a form with finished parts.
func (b *Builder) Make(f Form) *Form {
	if f.measure(); f.size > MaxNodes {
		b.forms = maxForms
	}
	if b.forms++; b.Full() { // return early, to end the recursion
		return &Form{Op: Leaf, Need: 1, From: f.From, size: 1}
	}
	return &f
}

func (f *Form) measure() {
	f.size = 1
	for _, k := range f.Kids {
		f.size += k.size
	}
	for _, g := range f.Guards {
		f.size += g.size
	}
}

// Negate returns NOT f.
func (b *Builder) Negate(f *Form) *Form {
	g := *f
	switch f.Op {
	case Leaf, Then:
		g.Not = !f.Not
		return b.Make(g)
	case Not:
		return f.Kids[0]
	}
	if f.whole || f.Op == guarded {
		return b.Make(Form{Op: Not, Not: true, Kids: []*Form{f}, After: f.After, Within: f.Within, From: f.From})
	}
	g.Op = And + Or - f.Op
	g.Kids = make([]*Form, len(f.Kids))
	for i, k := range f.Kids {
		g.Kids[i] = b.Negate(k)
	}
	return b.Make(g)
}

// Window is a restriction in time; 0 is none.
type Window struct {
	After, Within int64
}

func (w Window) and(v Window) Window {
	w.After = max(w.After, v.After)
	if v.Within > 0 && (w.Within == 0 || v.Within < w.Within) {
		w.Within = v.Within
	}
	return w
}

func (f *Form) window() Window { return Window{f.After, f.Within} }

// Restrict applies a window to all parts with the same anchor. The left side of a THEN gets its
// beginning but not its end.
func (b *Builder) Restrict(f *Form, w Window) *Form {
	if w == (Window{}) || b.Full() {
		return f
	}
	g := *f
	all := f.window().and(w)
	g.After, g.Within = all.After, all.Within
	switch f.Op {
	case guarded: // Expand applies its window
	case Then:
		g.Kids = []*Form{b.Restrict(f.Kids[0], Window{After: w.After}), f.Kids[1]}
	default:
		g.Kids = nil
		for _, k := range f.Kids {
			g.Kids = append(g.Kids, b.Restrict(k, w))
		}
	}
	return b.Make(g)
}

// pure reports whether f is an absence: only NOTs.
func pure(f *Form) bool {
	switch f.Op {
	case Leaf, Then, Not:
		return f.Not
	}
	return !slices.ContainsFunc(f.Kids, func(k *Form) bool { return !pure(k) })
}

// plain reports whether a THEN or guarded form has no window.
func plain(f *Form) bool { return f.window() == Window{} }

// Each calls do for f and all its parts.
func (f *Form) Each(do func(*Form)) {
	do(f)
	for _, k := range f.Kids {
		k.Each(do)
	}
	for _, g := range f.Guards {
		g.Each(do)
	}
}
