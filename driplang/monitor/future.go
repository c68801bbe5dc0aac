package monitor

import "github.com/sebbroker/seb/driplang/internal/form"

// futureTrue is the first instant from which a frame that is still to be spawned is true.
func (m *Monitor) futureTrue(n *node, f *frame) int64 {
	at := int64(ever)
	m.eachFuture(n, f, func(start int64, r *frame) {
		at = min(at, max(start, m.becomesTrue(n.right.root, r)))
	})
	return at
}

// eachFuture calls visit for every frame that a THEN will spawn if nothing happens any more, with the time at which that
// will be. The frame is only lent.
func (m *Monitor) eachFuture(n *node, f *frame, visit func(start int64, r *frame)) {
	if !n.wakes {
		return
	}
	lo, hi := n.window(f)
	m.eachCompletion(n.left, f, func(at int64) {
		if at > hi {
			return
		}
		r := m.get(n.right)
		r.lo, r.hi = lo, hi
		if n.right.timed {
			r.at = at
		}
		visit(at, r)
		m.put(r)
	})
}

// eachCompletion calls visit for every instant at which a node will complete if nothing happens any more; for some of them
// twice. It is for steady programs.
func (m *Monitor) eachCompletion(n *node, f *frame, visit func(at int64)) {
	if n.completesByTime() {
		if _, hi := n.window(f); !m.passed(hi) && m.becomesTrue(n, f) <= hi {
			visit(hi)
		}
		return
	}
	switch n.op {
	case form.Or:
		for _, k := range n.kids {
			m.eachCompletion(k, f, visit)
		}
	case form.And:
		for _, k := range n.kids {
			m.eachCompletion(k, f, func(at int64) {
				if m.becomesTrue(n, f) <= at {
					visit(at)
				}
			})
		}
	case form.Then:
		if n.not {
			return
		}
		for _, r := range f.cells[n.cell].rights {
			m.eachCompletion(n.right.root, r, visit)
		}
		m.eachFuture(n, f, func(start int64, r *frame) {
			if m.startsAt(n.right.root, r, start) {
				visit(start)
			}
			m.eachCompletion(n.right.root, r, visit)
		})
	}
}

// startsAt is starts for a frame that begins at a later time.
func (m *Monitor) startsAt(n *node, f *frame, at int64) bool {
	if n.aspects&aspectCompletes == 0 {
		return false
	}
	switch n.op {
	case form.Leaf, form.Then, form.Not:
		return n.not && !n.bounded
	}
	for _, k := range n.kids {
		if m.startsAt(k, f, at) {
			return n.op == form.Or || m.becomesTrue(n, f) <= at
		}
	}
	return false
}
