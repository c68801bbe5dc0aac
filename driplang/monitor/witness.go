package monitor

import (
	"slices"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// MatchedEvents appends to dst the refs of the events that made the expression true: the used event
// of every required one, the completing event of a count, and the latest 16 events of a left side
// that needed more. They are sorted, without duplicates. There are none if the expression is not
// true. An absence contributes no event.
func (m *Monitor) MatchedEvents(dst []uint64) []uint64 {
	if m.Value() != True {
		return dst
	}
	from := len(dst)
	dst = m.appendWitness(dst, m.program.root.root, m.root, false)
	slices.Sort(dst[from:])
	return dst[:from+len(slices.Compact(dst[from:]))]
}

// distinct returns refs sorted and without duplicates, at most the latest maxRefs. It reuses the
// slice.
func distinct(refs []uint64) []uint64 {
	slices.Sort(refs)
	refs = slices.Compact(refs)
	return refs[max(0, len(refs)-maxRefs):]
}

// appendWitness appends the matched events of a true node. With lasting, it uses only operands that
// stay true for all future events.
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
