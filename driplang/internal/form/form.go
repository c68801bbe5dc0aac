// Package form is the normal form of an expression, between the language that people write and the program that a
// monitor runs. NOT stands only at leaves and THENs, WITHIN and AFTER are windows of leaves and THENs, all measured from
// the form's anchor (what the nearest THEN to the left of it completed with), and no left side of a THEN is a guard.
package form

import (
	"fmt"
	"slices"
)

// MaxNodes bounds the size of a form: guards are written before each event that they may meet.
const MaxNodes = 4096

// maxForms bounds the work: a form may be made several times until it is finished.
const maxForms = 8 * MaxNodes

// Op is what a form consists of.
type Op uint8

// A Leaf is at least Need events of a kind, a Then has a left and a right side, and Not is of an Or that was a THEN.
const (
	Leaf Op = iota + 1
	And
	Or
	Then
	Not
	guarded // a form before the first event of which some guards must be true; until it is expanded
)

// Form is a node. Forms are immutable and may be shared.
type Form struct {
	Op            Op
	Not           bool    // Leaf, Then, Not: what is meant is that it does not happen
	Kind          int     // Leaf: index into Expression.Kinds
	Need          int     // Leaf: how many events
	After, Within int64   // Leaf, Then, Not: in milliseconds from the anchor; 0 is none
	Kids          []*Form // Then: left and right
	Guards        []*Form // Leaf: what must be true just before an event counts
	From          fmt.Stringer

	whole bool // Or: a THEN written out, which NOT takes as a whole
	size  int  // of the tree, shared parts counted as often as they are used
}

// Kind is a name and what the event's data must be like.
type Kind struct {
	Name  string
	Where Filter // nil: anything
}

// Filter decides whether an event's data is as wanted.
type Filter interface {
	// Matches is the same each time for the same bytes, whatever they are. It does not keep data.
	Matches(data []byte) bool
}

// Expression is a whole in normal form.
type Expression struct {
	Root  *Form
	Kinds []Kind
}

// Builder makes forms and counts them. The zero value is ready for use.
type Builder struct {
	forms int
}

// Full is whether the form has become too large. What was built is then of no use.
func (b *Builder) Full() bool { return b.forms > maxForms }

// Make adds a form made of finished ones.
func (b *Builder) Make(f Form) *Form {
	if f.measure(); f.size > MaxNodes {
		b.forms = maxForms
	}
	if b.forms++; b.Full() { // cut short, to come to an end
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

// Negate is NOT f.
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

// Restrict takes a window down to all that has the same anchor. The left side of a THEN has a beginning but no end.
func (b *Builder) Restrict(f *Form, w Window) *Form {
	if w == (Window{}) || b.Full() {
		return f
	}
	g := *f
	all := f.window().and(w)
	g.After, g.Within = all.After, all.Within
	switch f.Op {
	case guarded: // its window is applied when it is expanded
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

// pure is whether f is an absence: nothing but NOTs.
func pure(f *Form) bool {
	switch f.Op {
	case Leaf, Then, Not:
		return f.Not
	}
	return !slices.ContainsFunc(f.Kids, func(k *Form) bool { return !pure(k) })
}

// plain is whether a THEN, or what is guarded, has no window of its own.
func plain(f *Form) bool { return f.window() == Window{} }
