package monitor

import (
	"slices"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// Next returns the first instant after now at which the truth of the expression changes without
// further events. It is exact: the value changes there, and at no instant before. ok is false if
// there is none.
func (m *Monitor) Next() (at int64, ok bool) {
	root := m.program.root.root
	was := m.Value()
	if m.program.monotonic {
		if was == True {
			return 0, false
		}
		at = m.becomes(true, root, m.root)
		return at, at < maxInstant
	}
	return m.simulate(was == True)
}

// simulate passes the deadlines of a copy until the truth changes.
func (m *Monitor) simulate(was bool) (int64, bool) {
	root, now, done, live, cells, degraded := m.root, m.now, m.done, m.live, m.cells, m.degraded
	m.root = m.get(m.program.root)
	m.copyTo(m.root, m.program.root, root)
	m.root.lo, m.root.hi = minInstant, maxInstant
	defer func() {
		m.put(m.root)
		m.root, m.now, m.done, m.live, m.cells, m.degraded = root, now, done, live, cells, degraded
	}()
	m.live, m.cells = live, cells // the copy replaces the original in the counts
	for {
		at := m.nextDeadline(m.program.root, m.root)
		if at == maxInstant {
			return 0, false
		}
		if (m.Advance(at) == True) != was {
			return at, true
		}
	}
}

// Deadline returns the next instant after now at which any window begins or ends, so that the value
// may change; ok is false if there is none.
func (m *Monitor) Deadline() (at int64, ok bool) {
	at = m.nextDeadline(m.program.root, m.root)
	return at, at < maxInstant
}

// nextDeadline returns the next instant at which any window begins or ends; maxInstant if there is
// none.
func (m *Monitor) nextDeadline(r *region, f *frame) int64 {
	at := m.nodeDeadline(r.root, f)
	for _, g := range r.guards {
		at = min(at, m.nodeDeadline(g, f))
	}
	return at
}

func (m *Monitor) nodeDeadline(n *node, f *frame) int64 {
	at := int64(maxInstant)
	for _, k := range n.kids {
		at = min(at, m.nodeDeadline(k, f))
	}
	if n.op == form.And || n.op == form.Or || n.cell < 0 && !n.not || n.hit(f) {
		return at
	}
	lo, hi := n.window(f)
	if !m.passed(lo) {
		at = min(at, lo)
	}
	if !m.passed(hi) {
		at = min(at, hi)
	}
	if n.op == form.Then {
		at = min(at, m.nodeDeadline(n.left, f))
		for _, r := range f.cells[n.cell].rights {
			at = min(at, m.nextDeadline(n.right, r))
		}
	}
	return at
}

// becomes returns the instant from which a node has the given truth without further events;
// maxInstant if it never does. The instant may be in the past.
func (m *Monitor) becomes(truth bool, n *node, f *frame) int64 {
	switch {
	case n.op == form.Not:
		return m.becomes(!truth, n.kids[0], f)
	case n.op == form.And && truth, n.op == form.Or && !truth: // at the last operand
		at := int64(minInstant)
		for _, k := range n.kids {
			at = max(at, m.becomes(truth, k, f))
		}
		return at
	case n.op == form.And, n.op == form.Or:
		at := int64(maxInstant)
		for _, k := range n.kids {
			at = min(at, m.becomes(truth, k, f))
		}
		return at
	case truth != n.not:
		return m.turnsTrue(n, f)
	}
	return m.turnsFalse(n, f)
}

// turnsTrue returns when the leaf or THEN, ignoring its NOT, becomes true.
func (m *Monitor) turnsTrue(n *node, f *frame) int64 {
	if n.op == form.Leaf {
		if n.hit(f) {
			return minInstant
		}
		return maxInstant
	}
	c := &f.cells[n.cell]
	if c.n > 0 {
		return minInstant
	}
	at := int64(maxInstant)
	for _, r := range c.rights {
		at = min(at, m.becomes(true, n.right.root, r))
	}
	if n.wakes {
		at = min(at, m.futureTrue(n, f))
	}
	return at
}

// turnsFalse returns when the leaf or THEN, ignoring its NOT, becomes false.
func (m *Monitor) turnsFalse(n *node, f *frame) int64 {
	if n.hit(f) || n.op == form.Then && f.cells[n.cell].n > 0 {
		return maxInstant
	}
	lo, hi := n.window(f)
	at := hi
	if hi == maxInstant {
		at = lo
	}
	if n.op == form.Then {
		for _, r := range f.cells[n.cell].rights {
			at = max(at, m.becomes(false, n.right.root, r))
		}
	}
	return at
}

// AwaitedEvent is an event that can still change the value.
type AwaitedEvent struct {
	Name   string // of the event
	Expr   string // part of the expression, in canonical text form
	Absent bool   // it must not occur
	// Begins: the event is neither required nor forbidden. It would start another instance of a
	// THEN.
	Begins bool
	// Have counts the events so far. Need is the required number, or the forbidden one.
	Have, Need int
	// From and Until bound the times at which it counts, both inclusive, in milliseconds since
	// 1970; MinInt64 and MaxInt64 mean no bound.
	From, Until int64
}

// AwaitedEvents appends to dst the events that can still change the value, up to a length of most,
// in no particular order. It serves explanations for people. It returns none once the value is
// settled, or permanently true.
func (m *Monitor) AwaitedEvents(dst []AwaitedEvent, most int) []AwaitedEvent {
	if m.Settled() {
		return dst
	}
	w := waiting{Monitor: m, list: dst, most: most}
	w.region(m.program.root, m.root, side{})
	return w.list
}

// waiting builds the list of AwaitedEvents.
type waiting struct {
	*Monitor
	list []AwaitedEvent
	most int
}

// side is the context of a node: below a NOT, and left of a THEN that need not start again.
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
		x := AwaitedEvent{Name: w.program.name(Kinds(n.kinds)), Expr: n.from.String(), Absent: at.not && !at.begins, Begins: at.begins, Need: int(n.need), From: lo, Until: hi}
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
