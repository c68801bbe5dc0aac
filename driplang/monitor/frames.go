package monitor

import (
	"slices"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// get returns an empty frame of a region.
func (m *Monitor) get(r *region) *frame {
	var f *frame
	if last := len(m.spare) - 1; last >= 0 {
		f, m.spare = m.spare[last], m.spare[:last]
	} else {
		f = &frame{}
	}
	n := len(r.cells)
	f.cells = slices.Grow(f.cells[:0], n)[:n]
	for i := range f.cells { // an earlier use leaves capacity, not content
		c := &f.cells[i]
		c.n, c.refs, c.rights = 0, c.refs[:0], c.rights[:0]
	}
	f.at, f.lo, f.hi, f.symbolic, f.refs = 0, 0, 0, false, f.refs[:0]
	return f
}

// spareMax bounds the unused frames of a monitor, so that an entity with many instances does not
// enlarge it permanently.
const spareMax = 128

// put returns an unreferenced frame, and the frames below it, to the pool.
func (m *Monitor) put(f *frame) {
	m.wipe(f)
	if len(m.spare) < spareMax {
		m.spare = append(m.spare, f)
	}
}

// take returns an empty frame that counts as an instance, until drop.
func (m *Monitor) take(r *region) *frame {
	m.live++
	m.cells += len(r.cells)
	return m.get(r)
}

func (m *Monitor) drop(f *frame) {
	m.live--
	m.cells -= len(f.cells)
	m.put(f)
}

// full reports whether one more instance of a region would exceed the limits.
func (m *Monitor) full(r *region) bool {
	most := MaxInstances
	if !m.program.monotonic {
		most = MaxNonMonotonic
	}
	return m.live >= most || m.cells+len(r.cells) > maxCells
}

// wipe empties a frame's cells.
func (m *Monitor) wipe(f *frame) {
	for i := range f.cells {
		m.wipeCell(&f.cells[i])
	}
}

func (m *Monitor) wipeCell(c *cell) {
	for _, r := range c.rights {
		m.drop(r)
	}
	c.n, c.refs, c.rights = 0, c.refs[:0], c.rights[:0]
}

// remove removes one of the frames of a THEN.
func (m *Monitor) remove(c *cell, i int) {
	m.drop(c.rights[i])
	c.rights = slices.Delete(c.rights, i, i+1)
}

// copyTo copies f, and all frames below it, to g, a frame of the same region.
func (m *Monitor) copyTo(g *frame, r *region, f *frame) {
	g.at, g.lo, g.hi, g.refs = f.at, f.lo, f.hi, append(g.refs, f.refs...)
	for i := range f.cells {
		from, to := &f.cells[i], &g.cells[i]
		to.n, to.refs = from.n, append(to.refs, from.refs...)
		for _, right := range from.rights {
			child := m.take(r.cells[i].right)
			m.copyTo(child, r.cells[i].right, right)
			to.rights = append(to.rights, child)
		}
	}
}

// pruneFrame drops all irrelevant frames below a frame, at the current time.
func (m *Monitor) pruneFrame(r *region, f *frame) {
	for _, n := range r.cells {
		if n.op == form.Then {
			for _, right := range f.cells[n.cell].rights {
				m.pruneFrame(n.right, right)
			}
			m.prune(n, f)
		}
	}
}

// prune drops irrelevant frames of a THEN: frames that stay false, redundant frames, and all frames
// once one stays true.
func (m *Monitor) prune(n *node, f *frame) {
	c := &f.cells[n.cell]
	if len(c.rights) == 0 {
		return
	}
	if c.n == 0 {
		m.latch(n, f, c)
	}
	wanted := n.wanted(c)
	for i := len(c.rights) - 1; i >= 0; i-- {
		r := c.rights[i]
		switch last := i+1 == len(c.rights); {
		case m.useless(wanted, n.right, r):
			m.remove(c, i)
		case last:
		case m.covers(wanted, n.right, r, c.rights[i+1]):
			m.remove(c, i+1)
		case m.covers(wanted, n.right, c.rights[i+1], r):
			m.remove(c, i)
		}
	}
}

// wanted returns the aspects of a THEN's frames that still matter.
func (n *node) wanted(c *cell) aspect {
	if c.n > 0 {
		return n.inner & aspectCompletes
	}
	return n.inner
}

// latch records that the THEN stays true, or stays not false, depending on its aspects.
func (m *Monitor) latch(n *node, f *frame, c *cell) {
	look := aspectTrue
	if n.inner&aspectTrue == 0 {
		look = aspectPossible
	}
	if n.inner&look == 0 {
		return
	}
	for _, r := range c.rights {
		if !m.always(look, n.right.root, r) {
			continue
		}
		refs := c.refs[:0]
		if look == aspectTrue {
			refs = distinct(m.appendWitness(append(refs, r.refs...), n.right.root, r, true))
		}
		if n.inner&aspectCompletes == 0 {
			m.wipeCell(c)
			m.wipeNode(n.left, f)
		}
		c.n, c.refs = 1, refs
		return
	}
}

// wipeNode clears the state of a node and of the nodes below it in its frame.
func (m *Monitor) wipeNode(n *node, f *frame) {
	if n.cell >= 0 {
		m.wipeCell(&f.cells[n.cell])
	}
	for _, k := range n.kids {
		m.wipeNode(k, f)
	}
	if n.left != nil {
		m.wipeNode(n.left, f)
	}
}

// add adds a frame to a THEN, unless another frame covers it.
func (m *Monitor) add(n *node, f *frame, r *frame) {
	c := &f.cells[n.cell]
	wanted := n.wanted(c)
	for i := len(c.rights) - 1; i >= 0; i-- {
		switch {
		case m.covers(wanted, n.right, c.rights[i], r):
			m.drop(r)
			return
		case m.covers(wanted, n.right, r, c.rights[i]):
			m.remove(c, i)
		}
	}
	c.rights = append(c.rights, r)
}

// useless reports whether a frame cannot contribute to the maximum of its THEN's frames: in every
// wanted aspect it stays at the lowest value.
func (m *Monitor) useless(wanted aspect, r *region, f *frame) bool {
	dead := m.deadGuards(r, f)
	for _, a := range []aspect{aspectTrue, aspectPossible, aspectCompletes} {
		if wanted&a != 0 && !m.never(a, r.root, f, dead) {
			return false
		}
	}
	return true
}
