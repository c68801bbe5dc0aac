package monitor

import "github.com/sebbroker/seb/driplang/internal/form"

// Wait is an event that can still make a difference.
type Wait struct {
	Expr       string // the part of the expression, in canonical text form
	Absent     bool   // it must not come
	Begins     bool   // it neither must nor must not come: it would begin, beside what has begun, what a THEN waits for
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
	w := waiting{Monitor: m, list: dst, most: most}
	w.region(m.program.root, m.root, side{})
	return w.list
}

// waiting is a list of Waits in the making.
type waiting struct {
	*Monitor
	list []Wait
	most int
}

// side is where a node stands: below a NOT, and to the left of a THEN that need not begin again.
type side struct{ not, begins bool }

func (w *waiting) region(r *region, f *frame, at side) {
	for _, g := range r.guards {
		w.node(g, f, at)
	}
	w.node(r.root, f, at)
}

func (w *waiting) node(n *node, f *frame, at side) {
	if n.op == form.Not {
		at.not = !at.not
	}
	for _, k := range n.kids {
		w.node(k, f, at)
	}
	lo, hi := n.window(f)
	if w.passed(hi) && n.op == form.Leaf || n.hit(f) && n.aspects&aspectCompletes == 0 {
		return
	}
	at.not = at.not != (n.not && n.op != form.Not)
	switch n.op {
	case form.Leaf:
		if len(w.list) >= w.most {
			return
		}
		x := Wait{Expr: n.from.String(), Absent: at.not && !at.begins, Begins: at.begins, Need: int(n.need), From: lo, Until: hi}
		if n.cell >= 0 {
			x.Have = int(f.cells[n.cell].n)
		}
		w.list = append(w.list, x)
	case form.Then:
		c := &f.cells[n.cell]
		if c.n > 0 && n.inner&aspectCompletes == 0 {
			return
		}
		if !w.passed(hi) {
			left := at
			left.begins = at.begins || at.not || len(c.rights) > 0
			w.node(n.left, f, left)
		}
		for _, r := range c.rights {
			w.region(n.right, r, at)
		}
	}
}
