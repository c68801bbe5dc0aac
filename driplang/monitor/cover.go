package monitor

import "github.com/sebbroker/seb/driplang/internal/form"

// covers reports whether frame a of a THEN makes frame b redundant: in every wanted aspect, for all
// future events, a has at least the value of b. This keeps the number of frames small. Of two
// frames that wait for the same event, the later end is enough; of two that wait for its absence,
// the earlier end. It may miss cases.
func (m *Monitor) covers(wanted aspect, r *region, a, b *frame) bool {
	for _, look := range []aspect{aspectTrue, aspectPossible, aspectCompletes} {
		if wanted&look != 0 && !m.coversNode(look, r.root, a, b) {
			return false
		}
	}
	return true
}

// coversNode reports whether, at all times from now on, the node is true (possible, completing) in
// a whenever it is so in b.
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
	case look != aspectCompletes: // an absence in b must also be an absence in a
		return m.coversOperand(look.swapped(), n, b, a)
	case !n.bounded:
		return true // it completed at its start
	}
	_, endA := n.window(a)
	_, endB := n.window(b)
	return m.passed(endB) || endA == endB && m.coversOperand(aspectPossible, n, b, a)
}

// coversOperand is coversNode for the operand of a NOT.
func (m *Monitor) coversOperand(look aspect, n *node, a, b *frame) bool {
	if n.op == form.Not {
		return m.coversNode(look, n.kids[0], a, b)
	}
	return m.coversPlain(look, n, a, b)
}

// coversPlain is coversNode for a leaf or THEN without its NOT.
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

// coversWindow reports whether every future event that counts for b counts for a.
func (m *Monitor) coversWindow(n *node, a, b *frame) bool {
	loA, hiA := n.window(a)
	loB, hiB := n.window(b)
	return loA <= max(loB, m.now) && hiA >= hiB
}

// coversAbsent reports whether a is pending at least as long as b.
func (m *Monitor) coversAbsent(n *node, a, b *frame) bool {
	loA, hiA := n.window(a)
	loB, hiB := n.window(b)
	if hiB < maxInstant {
		return m.passed(hiB) || hiA < maxInstant && hiA >= hiB
	}
	return m.passed(loB) || hiA == maxInstant && loA >= loB
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

// coversLater is coversThen for the frames that a THEN has not spawned yet.
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

// future returns a frame that represents all frames that a THEN will spawn. Its windows are the
// inherited ones, because windows from the frame's own anchor are the same for both frames of a
// comparison.
func (m *Monitor) future(n *node, f *frame) *frame {
	r := m.get(n.right)
	r.lo, r.hi = n.window(f)
	r.symbolic = true
	return r
}
