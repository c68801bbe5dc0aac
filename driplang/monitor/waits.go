package monitor

import "github.com/sebbroker/seb/driplang/internal/form"

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
