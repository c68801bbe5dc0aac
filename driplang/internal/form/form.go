// Package form is the normal form of an expression, between the parsed language and the program of
// a monitor. NOT occurs only at leaves and THENs. WITHIN and AFTER are windows of leaves and THENs,
// measured from the form's anchor (the completion of the nearest THEN to the left). No left side of
// a THEN is a guard.
package form

import (
	"bytes"
	"encoding/json"
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

// Property is a property of an event's data.
type Property struct {
	Path []string // members of objects, outermost first
	JSON string   // its value
}

// Document returns an object with properties in their order; nil if there are none. The first of two
// that exclude each other is in it.
func Document(list []Property) []byte {
	if len(list) == 0 {
		return nil
	}
	var root member
	for _, p := range list {
		at := &root
		for _, name := range p.Path {
			at = at.add(name)
		}
		if at.raw == "" && len(at.kids) == 0 {
			at.raw = p.JSON
		}
	}
	var b bytes.Buffer
	root.write(&b)
	return b.Bytes()
}

type member struct {
	name, raw string
	kids      []*member
}

func (m *member) add(name string) *member {
	for _, k := range m.kids {
		if k.name == name {
			return k
		}
	}
	m.kids = append(m.kids, &member{name: name})
	return m.kids[len(m.kids)-1]
}

func (m *member) write(b *bytes.Buffer) {
	if m.raw != "" || len(m.kids) == 0 {
		b.WriteString(m.raw)
		return
	}
	for i, k := range m.kids {
		b.WriteByte("{,"[min(i, 1)])
		name, _ := json.Marshal(k.name)
		b.Write(append(name, ':'))
		k.write(b)
	}
	b.WriteByte('}')
}

// Expand moves all guards to leaves. It is the last step.
func (b *Builder) Expand(f *Form) *Form { return b.expand(f, nil, Window{}) }

// guard is a guard that must be attached to the first event.
type guard struct {
	before *Form // for an event: no end
	beside *Form // for an absence: it ends when the window does
}

// expand returns f, restricted to w, with guards before the first event that it consumes. If it
// consumes none, the guards must be true together with it.
func (b *Builder) expand(f *Form, guards []guard, w Window) *Form {
	if b.Full() {
		return f
	}
	g := *f
	switch {
	case f.Op == guarded:
		return b.expandGuarded(f, guards, w)
	case len(guards) > 0 && pure(f):
		g = Form{Op: And, Kids: []*Form{b.expand(f, nil, w)}, From: f.From}
		for _, g2 := range guards {
			g.Kids = append(g.Kids, g2.beside)
		}
		return b.Make(g)
	case f.Op == And && len(guards) > 0:
		return b.expandAnd(f, guards, w)
	}
	all := f.window().and(w)
	g.After, g.Within, g.Kids = all.After, all.Within, nil
	switch f.Op {
	case Leaf:
		g.Guards = nil
		for _, g2 := range guards {
			g.Guards = append(g.Guards, g2.before)
		}
	case Then:
		open := make([]guard, len(guards))
		for i, g2 := range guards {
			open[i] = guard{g2.before, g2.before}
		}
		g.Kids = []*Form{b.expand(f.Kids[0], open, Window{After: w.After}), b.Expand(f.Kids[1])}
	default:
		for _, k := range f.Kids {
			g.Kids = append(g.Kids, b.expand(k, guards, w))
		}
	}
	return b.Make(g)
}

func (b *Builder) expandGuarded(f *Form, guards []guard, w Window) *Form {
	w = f.window().and(w)
	guards = guards[:len(guards):len(guards)]
	for _, g := range f.Guards {
		before := b.expand(g, nil, Window{After: w.After})
		beside := before
		if w.Within > 0 {
			beside = b.expand(g, nil, w)
		}
		guards = append(guards, guard{before, beside})
	}
	return b.expand(f.Kids[0], guards, w)
}

// expandAnd gives the guards to the operand that comes first: one alternative per operand that
// consumes events.
func (b *Builder) expandAnd(f *Form, guards []guard, w Window) *Form {
	either := Form{Op: Or, From: f.From}
	for i, first := range f.Kids {
		if pure(first) {
			continue
		}
		all := Form{Op: And, From: f.From}
		for j, k := range f.Kids {
			if j == i {
				all.Kids = append(all.Kids, b.expand(first, guards, w))
			} else {
				all.Kids = append(all.Kids, b.expand(k, nil, w))
			}
		}
		either.Kids = append(either.Kids, b.Make(all))
	}
	if len(either.Kids) == 1 {
		return either.Kids[0]
	}
	return b.Make(either)
}
