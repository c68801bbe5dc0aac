package monitor

import "github.com/sebbroker/seb/driplang/internal/form"

// covers is whether frame a of a THEN makes frame b needless: in every wanted aspect, whatever happens, a has at least
// what b has. This is what keeps the number of frames small: of two that wait for the same thing the one with the
// later end is enough, of two that wait for its absence the one with the earlier. It may miss cases.
func (m *Monitor) covers(wanted aspect, r *region, a, b *frame) bool {
	for _, look := range []aspect{aspectTrue, aspectPossible, aspectCompletes} {
		if wanted&look != 0 && !m.coversNode(look, r.root, a, b) {
			return false
		}
	}
	return true
}

// coversNode is whether, at any time from now on, if the node is true (possible, completing) in b then it is so in a.
func (m *Monitor) coversNode(look aspect, n *node, a, b *frame) bool {
	switch {
	case n.op == form.And || n.op == form.Or:
		for _, k := range n.kids {
			if !m.coversNode(look, k, a, b) {
				return false
			}
			if n.op == form.And && look == aspectCompletes && !m.coversNode(aspectTrue, k, a, b) {
				return false
			}
		}
		return true
	case !n.not:
		return m.coversPlain(look, n, a, b)
	case look != aspectCompletes: // what is absent in b must be absent in a
		return m.coversHappening(look.swapped(), n, b, a)
	case !n.bounded:
		return true // it completed at its start
	}
	_, endA := n.window(a)
	_, endB := n.window(b)
	return m.passed(endB) || endA == endB && m.coversHappening(aspectPossible, n, b, a)
}

// coversHappening is coversNode for what a node is the NOT of.
func (m *Monitor) coversHappening(look aspect, n *node, a, b *frame) bool {
	if n.op == form.Not {
		return m.coversNode(look, n.kids[0], a, b)
	}
	return m.coversPlain(look, n, a, b)
}

// coversPlain is coversNode for a leaf or THEN, without its NOT.
func (m *Monitor) coversPlain(look aspect, n *node, a, b *frame) bool {
	if n.op == form.Then {
		return m.coversThen(look, n, a, b)
	}
	if look != aspectCompletes && n.hit(a) {
		return true
	}
	_, hi := n.window(b)
	if m.passed(hi) && (look == aspectCompletes || !n.hit(b)) {
		return true // nothing to cover
	}
	if n.cell >= 0 && a.cells[n.cell].n < b.cells[n.cell].n {
		return false
	}
	if look == aspectPossible && !m.coversAbsent(n, a, b) {
		return false
	}
	for i, g := range n.region.guards {
		if n.guards&(1<<i) != 0 && !m.coversNode(aspectTrue, g, a, b) {
			return false
		}
	}
	return m.coversWindow(n, a, b)
}

// coversWindow is whether every event that is still to come and counts for b counts for a.
func (m *Monitor) coversWindow(n *node, a, b *frame) bool {
	loA, hiA := n.window(a)
	loB, hiB := n.window(b)
	return loA <= max(loB, m.now) && hiA >= hiB
}

// coversAbsent is whether a is pending, of itself, for as long as b.
func (m *Monitor) coversAbsent(n *node, a, b *frame) bool {
	loA, hiA := n.window(a)
	loB, hiB := n.window(b)
	if hiB < ever {
		return m.passed(hiB) || hiA < ever && hiA >= hiB
	}
	return m.passed(loB) || hiA == ever && loA >= loB
}

func (m *Monitor) coversThen(look aspect, n *node, a, b *frame) bool {
	ca, cb := &a.cells[n.cell], &b.cells[n.cell]
	if look != aspectCompletes {
		switch {
		case ca.n > 0:
			return true
		case cb.n > 0:
			return false
		}
	}
	if look == aspectPossible && !m.coversAbsent(n, a, b) {
		return false
	}
	if !m.coversLater(look, n, a, b) {
		return false
	}
	for _, rb := range cb.rights {
		covered := false
		for _, ra := range ca.rights {
			if covered = m.coversNode(look, n.right.root, ra, rb); covered {
				break
			}
		}
		if !covered {
			return false
		}
	}
	return true
}

// coversLater is coversThen for the frames that are still to come.
func (m *Monitor) coversLater(look aspect, n *node, a, b *frame) bool {
	_, hiA := n.window(a)
	_, hiB := n.window(b)
	if m.passed(hiB) || m.never(aspectCompletes, n.left, b, 0) {
		return true
	}
	if hiA < hiB || !m.coversNode(aspectCompletes, n.left, a, b) {
		return false
	}
	fa, fb := m.future(n, a), m.future(n, b)
	ok := fa.lo == fb.lo && fa.hi == fb.hi || m.coversNode(look, n.right.root, fa, fb)
	m.put(fa)
	m.put(fb)
	return ok
}

// future is a frame that stands for all those that a THEN will spawn: the windows within it are those that it
// inherits, since what is measured from its own anchor is the same for both of a pair.
func (m *Monitor) future(n *node, f *frame) *frame {
	r := m.get(n.right)
	r.lo, r.hi = n.window(f)
	r.symbolic = true
	return r
}
