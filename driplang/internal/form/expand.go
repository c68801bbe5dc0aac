package form

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
