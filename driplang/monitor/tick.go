package monitor

import "github.com/sebbroker/seb/driplang/internal/form"

// runTimers passes the deadlines, up to and including at, at which a left side of a THEN completes.
// Other deadlines need no action, because values are computed from the time.
func (m *Monitor) runTimers(at int64) {
	if !m.program.timers {
		return
	}
	for {
		due := m.nextTimer(m.program.root, m.root)
		if due > at {
			return
		}
		m.now, m.done = due, true
		m.witness = m.witness[:0]
		m.tickFrame(m.program.root, m.root)
	}
}

// nextTimer returns the next deadline at which a node completes by time; maxInstant if there is
// none.
func (m *Monitor) nextTimer(r *region, f *frame) int64 {
	due := m.nodeTimer(r.root, f)
	for _, g := range r.guards {
		due = min(due, m.nodeTimer(g, f))
	}
	return due
}

func (m *Monitor) nodeTimer(n *node, f *frame) int64 {
	due := int64(maxInstant)
	if n.completesByTime() && !n.hit(f) {
		if _, hi := n.window(f); !m.passed(hi) {
			due = hi
		}
	}
	for _, k := range n.kids {
		due = min(due, m.nodeTimer(k, f))
	}
	if n.op == form.Then {
		due = min(due, m.nodeTimer(n.left, f))
		for _, r := range f.cells[n.cell].rights {
			due = min(due, m.nextTimer(n.right, r))
		}
	}
	return due
}

// tickFrame applies the deadlines of the current instant and reports whether the region completes.
func (m *Monitor) tickFrame(r *region, f *frame) bool {
	for _, g := range r.guards {
		m.tick(g, f)
	}
	return m.tick(r.root, f)
}

func (m *Monitor) tick(n *node, f *frame) bool {
	completed, from := false, len(m.witness)
	switch n.op {
	case form.Then:
		return m.tickThen(n, f)
	case form.Leaf:
		return m.ends(n, f)
	case form.Not:
		m.tick(n.kids[0], f)
		m.witness = m.witness[:from]
		return m.ends(n, f)
	}
	for _, k := range n.kids {
		mark := len(m.witness)
		if m.tick(k, f) {
			if completed && n.op == form.Or {
				m.witness = m.witness[:mark]
			}
			completed = true
		}
	}
	return completed && m.completes(n, f, from)
}

// ends reports whether an absence completes now, by the end of its window.
func (m *Monitor) ends(n *node, f *frame) bool {
	if !n.completesByTime() {
		return false
	}
	_, hi := n.window(f)
	return hi == m.now && m.value(n, f) == True
}

func (m *Monitor) tickThen(n *node, f *frame) bool {
	completed, from := false, len(m.witness)
	for _, r := range f.cells[n.cell].rights {
		mark := len(m.witness)
		if m.tickFrame(n.right, r) {
			completed = m.keepWitness(r, mark, completed)
		}
	}
	mark := len(m.witness)
	if m.tick(n.left, f) {
		completed = m.spawn(n, f, mark, completed)
	}
	m.prune(n, f)
	if completed && !n.not && n.aspects&aspectCompletes != 0 {
		return true
	}
	m.witness = m.witness[:from]
	return m.ends(n, f)
}
