package monitor

import (
	"slices"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// futureTrue returns the first instant at which a frame that a THEN will spawn is true, without
// further events. It requires a monotonic program.
func (m *Monitor) futureTrue(n *node, f *frame) int64 {
	first, from := int64(maxInstant), len(m.times)
	m.completions(n.left, f)
	for i := from; i < len(m.times); i++ {
		at := m.times[i]
		if r := m.spawnAt(n, f, at); r != nil {
			first = min(first, max(at, m.becomes(true, n.right.root, r)))
			m.put(r)
		}
	}
	m.times = m.times[:from]
	return first
}

// spawnAt returns the frame that a THEN will spawn at a later time; nil if that is too late.
func (m *Monitor) spawnAt(n *node, f *frame, at int64) *frame {
	lo, hi := n.window(f)
	if at > hi {
		return nil
	}
	r := m.get(n.right)
	r.lo, r.hi = lo, hi
	if n.right.timed {
		r.at = at
	}
	return r
}

// completions appends to m.times the instants at which a node will complete without further events.
// Duplicates are possible.
func (m *Monitor) completions(n *node, f *frame) {
	if n.completesByTime() {
		if _, hi := n.window(f); !m.passed(hi) && m.becomes(true, n, f) <= hi {
			m.times = append(m.times, hi)
		}
		return
	}
	from := len(m.times)
	for _, k := range n.kids {
		m.completions(k, f)
	}
	switch {
	case n.op == form.And && len(m.times) > from:
		since := m.becomes(true, n, f)
		m.times = append(m.times[:from], slices.DeleteFunc(m.times[from:], func(at int64) bool { return at < since })...)
	case n.op == form.Then && !n.not:
		for _, r := range f.cells[n.cell].rights {
			m.completions(n.right.root, r)
		}
		m.futureCompletions(n, f)
	}
}

// futureCompletions appends the completions of frames that a THEN will spawn.
func (m *Monitor) futureCompletions(n *node, f *frame) {
	if !n.wakes {
		return
	}
	from := len(m.times)
	m.completions(n.left, f)
	to := len(m.times)
	for i := from; i < to; i++ {
		at := m.times[i]
		r := m.spawnAt(n, f, at)
		if r == nil {
			continue
		}
		if m.startsAt(n.right.root, r, at) {
			m.times = append(m.times, at)
		}
		m.completions(n.right.root, r)
		m.put(r)
	}
	m.times = slices.Delete(m.times, from, to)
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
			return n.op == form.Or || m.becomes(true, n, f) <= at
		}
	}
	return false
}
