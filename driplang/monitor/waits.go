package monitor

import "github.com/sebbroker/seb/driplang/internal/form"

// Wait is an event that can still make a difference.
type Wait struct {
	Expr       string // the part of the expression, in canonical text form
	Absent     bool   // it must not come
	Have, Need int    // how many of it have come, and are needed (or are too many)
	// From and Until are the times at which it counts, both inclusive, in milliseconds since 1970; MinInt64 and MaxInt64
	// where there is no bound.
	From, Until int64
}

// Waits adds to dst, up to a length of most, the events that the expression looks at from now on, in no particular order,
// for people who ask what an entity is waiting for. None are left once the value is settled, or true for a reason that can
// not go away.
func (m *Monitor) Waits(dst []Wait, most int) []Wait {
	if m.Settled() {
		return dst
	}
	return m.waits(dst, most, m.program.root, m.root)
}

func (m *Monitor) waits(dst []Wait, most int, r *region, f *frame) []Wait {
	for _, g := range r.guards {
		dst = m.nodeWaits(dst, most, g, f)
	}
	return m.nodeWaits(dst, most, r.root, f)
}

func (m *Monitor) nodeWaits(dst []Wait, most int, n *node, f *frame) []Wait {
	for _, k := range n.kids {
		dst = m.nodeWaits(dst, most, k, f)
	}
	lo, hi := n.window(f)
	if m.passed(hi) && n.op == form.Leaf || n.hit(f) && n.aspects&aspectCompletes == 0 {
		return dst
	}
	switch n.op {
	case form.Leaf:
		if len(dst) >= most {
			return dst
		}
		w := Wait{Expr: n.from.String(), Absent: n.not, Need: int(n.need), From: lo, Until: hi}
		if n.cell >= 0 {
			w.Have = int(f.cells[n.cell].n)
		}
		dst = append(dst, w)
	case form.Then:
		c := &f.cells[n.cell]
		if c.n > 0 && n.inner&aspectCompletes == 0 {
			return dst
		}
		if !m.passed(hi) {
			dst = m.nodeWaits(dst, most, n.left, f)
		}
		for _, r := range c.rights {
			dst = m.waits(dst, most, n.right, r)
		}
	}
	return dst
}
