package monitor

import "github.com/sebbroker/seb/driplang/internal/form"

// swapped returns the aspect for the operand of a NOT: true and possible are exchanged.
func (a aspect) swapped() aspect { return a ^ (aspectTrue | aspectPossible) }

// deadGuards returns the guards of a frame that stay false.
func (m *Monitor) deadGuards(r *region, f *frame) uint64 {
	dead := uint64(0)
	for i, g := range r.guards {
		if m.never(aspectTrue, g, f, 0) {
			dead |= 1 << i
		}
	}
	return dead
}

// never reports whether, for all future events, a node is never true, always false, or never
// completes. It may miss cases, but a positive result is exact.
func (m *Monitor) never(a aspect, n *node, f *frame, dead uint64) bool {
	switch n.op {
	case form.Or:
		for _, k := range n.kids {
			if !m.never(a, k, f, dead) {
				return false
			}
		}
		return true
	case form.And:
		return m.neverAll(a, n, f, dead)
	case form.Not:
		_, hi := n.window(f)
		if a == aspectCompletes {
			return !n.bounded || m.passed(hi) || m.always(aspectPossible, n.kids[0], f)
		}
		return m.always(a.swapped(), n.kids[0], f)
	}
	if n.not {
		if a != aspectCompletes {
			return m.alwaysPlain(a.swapped(), n, f)
		}
		_, hi := n.window(f)
		return !n.bounded || m.passed(hi) || m.alwaysPlain(aspectPossible, n, f)
	}
	return m.neverPlain(a, n, f, dead)
}

// neverAll is never for an AND, which completes with one of its operands if all are true.
func (m *Monitor) neverAll(a aspect, n *node, f *frame, dead uint64) bool {
	must := a
	if a == aspectCompletes {
		must = aspectTrue
	}
	for _, k := range n.kids {
		if m.never(must, k, f, dead) {
			return true
		}
	}
	if a != aspectCompletes {
		return false
	}
	for _, k := range n.kids {
		if !m.never(a, k, f, dead) {
			return false
		}
	}
	return true
}

// neverPlain is never for a leaf or THEN without its NOT.
func (m *Monitor) neverPlain(a aspect, n *node, f *frame, dead uint64) bool {
	lo, hi := n.window(f)
	over := m.passed(hi)
	if n.op == form.Leaf {
		blocked := n.guards&dead != 0
		switch a {
		case aspectTrue:
			return !n.hit(f) && (over || blocked)
		case aspectPossible:
			return !n.hit(f) && (over || blocked && hi == maxInstant && m.passed(lo))
		}
		return over || blocked
	}
	c := &f.cells[n.cell]
	if a != aspectCompletes && c.n > 0 {
		return false
	}
	if !over && !m.never(aspectCompletes, n.left, f, dead) {
		return false
	}
	if a == aspectPossible && !over && (hi < maxInstant || !m.passed(lo)) {
		return false
	}
	for _, r := range c.rights {
		if !m.never(a, n.right.root, r, m.deadGuards(n.right, r)) {
			return false
		}
	}
	return true
}

// always reports whether, for all future events, a node is always true, or never false.
func (m *Monitor) always(a aspect, n *node, f *frame) bool {
	switch n.op {
	case form.And:
		for _, k := range n.kids {
			if !m.always(a, k, f) {
				return false
			}
		}
		return true
	case form.Or:
		for _, k := range n.kids {
			if m.always(a, k, f) {
				return true
			}
		}
		return false
	case form.Not:
		return m.never(a.swapped(), n.kids[0], f, 0)
	}
	if n.not {
		return m.neverPlain(a.swapped(), n, f, 0)
	}
	return m.alwaysPlain(a, n, f)
}

// alwaysPlain is always for a leaf or THEN without its NOT.
func (m *Monitor) alwaysPlain(a aspect, n *node, f *frame) bool {
	if n.op == form.Leaf {
		return n.hit(f)
	}
	c := &f.cells[n.cell]
	if c.n > 0 {
		return true
	}
	for _, r := range c.rights {
		if m.always(a, n.right.root, r) {
			return true
		}
	}
	return false
}
