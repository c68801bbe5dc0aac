package monitor

import "github.com/sebbroker/seb/driplang/internal/form"

// stepFrame applies the current event and reports whether the region completes. Guards have their
// values before the event.
func (m *Monitor) stepFrame(r *region, f *frame, event uint64) bool {
	guards := ^uint64(0)
	for i, g := range r.guards {
		if m.value(g, f) != True {
			guards &^= 1 << i
		}
	}
	for _, g := range r.guards {
		m.step(g, f, event, guards)
	}
	return m.step(r.root, f, event, guards)
}

// step applies the current event to a node and reports whether the node completes. If so, it
// appends the matched events to m.witness.
func (m *Monitor) step(n *node, f *frame, event, guards uint64) bool {
	switch n.op {
	case form.Leaf:
		return m.stepLeaf(n, f, event, guards)
	case form.Then:
		return m.stepThen(n, f, event, guards)
	case form.Not:
		mark := len(m.witness)
		m.step(n.kids[0], f, event, guards)
		m.witness = m.witness[:mark]
		return false
	}
	completed, from := false, len(m.witness)
	for _, k := range n.kids {
		mark := len(m.witness)
		if m.step(k, f, event, guards) {
			if completed && n.op == form.Or {
				m.witness = m.witness[:mark] // one reason is enough
			}
			completed = true
		}
	}
	return completed && m.completes(n, f, from)
}

func (m *Monitor) stepLeaf(n *node, f *frame, event, guards uint64) bool {
	if event&n.kinds == 0 || n.guards&^guards != 0 {
		return false
	}
	if lo, hi := n.window(f); m.now < lo || m.now > hi {
		return false
	}
	if n.cell >= 0 {
		c := &f.cells[n.cell]
		if c.n < n.need {
			if c.n++; c.n == n.need && !n.not {
				c.refs = append(c.refs[:0], m.ref)
			}
		}
		if c.n < n.need {
			return false
		}
	}
	if n.not || n.aspects&aspectCompletes == 0 {
		return false
	}
	m.witness = append(m.witness, m.ref)
	return true
}

func (m *Monitor) stepThen(n *node, f *frame, event, guards uint64) bool {
	c := &f.cells[n.cell]
	if c.n > 0 && n.inner&aspectCompletes == 0 {
		return false
	}
	completed, from := false, len(m.witness)
	for _, r := range c.rights {
		mark := len(m.witness)
		if m.stepFrame(n.right, r, event) {
			completed = m.keepWitness(r, mark, completed)
		}
	}
	mark := len(m.witness)
	if m.step(n.left, f, event, guards) {
		completed = m.spawn(n, f, mark, completed)
	}
	m.prune(n, f)
	if completed && !n.not && n.aspects&aspectCompletes != 0 {
		return true
	}
	m.witness = m.witness[:from]
	return false
}

// keepWitness appends the frame's own events to those of its completion, or drops them if an
// earlier frame completed.
func (m *Monitor) keepWitness(r *frame, mark int, before bool) bool {
	if before {
		m.witness = m.witness[:mark]
	} else {
		m.witness = append(m.witness, r.refs...)
	}
	return true
}

// completes reports whether a node completes after one of its operands has. Its matched events
// start at from.
func (m *Monitor) completes(n *node, f *frame, from int) bool {
	ok := n.aspects&aspectCompletes != 0 && (n.op == form.Or || m.value(n, f) == True)
	switch {
	case !ok:
		m.witness = m.witness[:from]
	case n.op == form.And:
		m.witness = m.appendWitness(m.witness, n, f, false)
	}
	return ok
}

// spawn handles a completion of the left side, whose matched events start at from. It reports
// whether the whole THEN has completed.
func (m *Monitor) spawn(n *node, f *frame, from int, completed bool) bool {
	refs := m.witness[from:]
	lo, hi := n.window(f)
	if m.now > hi || !m.room(n, f) {
		m.witness = m.witness[:from]
		return completed
	}
	r := m.take(n.right)
	r.lo, r.hi = lo, hi
	if n.right.timed {
		r.at = m.now
	}
	r.refs = append(r.refs, distinct(refs)...)
	m.witness = m.witness[:from]

	started := m.starts(n.right.root, r)
	if m.done && m.tickFrame(n.right, r) {
		started = true
	}
	if started {
		completed = m.keepWitness(r, len(m.witness), completed)
	}
	m.add(n, f, r)
	return completed
}

// starts reports whether a region completes at its own anchor, as an absence without an end does.
func (m *Monitor) starts(n *node, f *frame) bool {
	if n.aspects&aspectCompletes == 0 {
		return false
	}
	switch n.op {
	case form.Leaf, form.Then, form.Not:
		return n.not && !n.bounded
	}
	for _, k := range n.kids {
		if m.starts(k, f) {
			return n.op == form.Or || m.value(n, f) == True
		}
	}
	return false
}

// room makes room for one more frame of a THEN. It drops the middle frame if necessary.
func (m *Monitor) room(n *node, f *frame) bool {
	if !m.full(n.right) {
		return true
	}
	m.degraded = true
	c := &f.cells[n.cell]
	if len(c.rights) < 2 {
		return false
	}
	m.remove(c, len(c.rights)/2)
	return !m.full(n.right)
}

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
