package monitor

import (
	"slices"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// Witness adds to dst the events, by the numbers that Step was given, because of which the expression is true: of every
// event that had to happen the one that was used, of a count the one that completed it, of a left side that needed more
// than 16 the latest 16. Sorted, each once; nothing if the expression is not true. What is true because something did not
// happen has no event to show.
func (m *Monitor) Witness(dst []uint64) []uint64 {
	if m.Value() != True {
		return dst
	}
	from := len(dst)
	dst = m.appendWitness(dst, m.program.root.root, m.root, false)
	slices.Sort(dst[from:])
	return dst[:from+len(slices.Compact(dst[from:]))]
}

// distinct is refs in order, each once, and of too many the latest. It reuses the slice.
func distinct(refs []uint64) []uint64 {
	slices.Sort(refs)
	refs = slices.Compact(refs)
	return refs[max(0, len(refs)-maxRefs):]
}

// appendWitness adds the events that make a node true; it is true, and if lasting for good, whatever happens.
func (m *Monitor) appendWitness(dst []uint64, n *node, f *frame, lasting bool) []uint64 {
	reason := func(n *node, f *frame) bool {
		return m.value(n, f) == True && (!lasting || m.always(aspectTrue, n, f))
	}
	switch {
	case n.op == form.And:
		for _, k := range n.kids {
			dst = m.appendWitness(dst, k, f, lasting)
		}
	case n.op == form.Or:
		for _, k := range n.kids {
			if reason(k, f) {
				return m.appendWitness(dst, k, f, lasting)
			}
		}
	case n.not:
	case n.op == form.Leaf:
		if n.cell >= 0 {
			dst = append(dst, f.cells[n.cell].refs...)
		}
	default:
		c := &f.cells[n.cell]
		if c.n > 0 {
			return append(dst, c.refs...)
		}
		for _, r := range c.rights {
			if reason(n.right.root, r) {
				return m.appendWitness(append(dst, r.refs...), n.right.root, r, lasting)
			}
		}
	}
	return dst
}
