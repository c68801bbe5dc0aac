package monitor

import (
	"math"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// Limits of the state of one entity.
const (
	// MaxInstances is the maximum number of completed left sides of THEN. Beyond it the monitor
	// drops the middle ones, and [Monitor.Degraded] is true.
	MaxInstances = 1024
	// MaxNonMonotonic is that limit for programs that can also become false by time alone: a NOT
	// around a THEN with a bounded absence on its left. The monitor finds their next instant by
	// simulation, whose time grows with the square of the instances.
	MaxNonMonotonic = 128
	// MaxState is the maximum length of a state, in bytes. Only an expression of maximum size with
	// the maximum number of instances comes near it.
	MaxState = 4 << 20

	// maxCells and maxRefs bound the instances of large expressions, so that every state fits into
	// MaxState: the total number of their cells, and the remembered events of one completion.
	maxCells = 16 << 10
	maxRefs  = 16
)

// Value is the value of an expression at an instant.
type Value uint8

// False, Pending and True are the values of an expression. Pending means not true: a window is
// open, and its events so far do not decide the value.
const (
	False Value = iota
	Pending
	True
)

// String returns false, pending or true.
func (v Value) String() string { return [...]string{"false", "pending", "true"}[v] }

func (v Value) not() Value { return True - v }

const (
	minInstant = math.MinInt64 // before all times
	maxInstant = math.MaxInt64 // after all times

	// MinTime and MaxTime bound the times of a monitor, in milliseconds since 1970: some 285,000
	// years. Other times are clamped.
	MinTime, MaxTime = -1 << 53, 1 << 53
)

// Monitor evaluates one entity at a time. Use it from one goroutine. It reuses its memory for the
// next entity, so that it rarely allocates.
type Monitor struct {
	program  *Program
	now      int64
	done     bool // all events at now and all deadlines up to it were applied
	root     *frame
	degraded bool

	live    int      // frames in use, without the root
	cells   int      // of the live frames
	spare   []*frame // unused frames
	witness []uint64 // matched events of the completions of the current step
	ref     uint64   // of the current event
	times   []int64  // a stack of instants to examine
}

// frame is an instance of a region. The THENs around it restrict all its windows to [lo, hi].
type frame struct {
	at, lo, hi int64
	symbolic   bool     // represents any future frame with these bounds
	refs       []uint64 // the events of the anchor
	cells      []cell
}

// cell is the state of a node. In a leaf, n counts events up to its need. In a THEN, n is 1 once
// its value can no longer change in the wanted aspects.
type cell struct {
	n      uint32
	refs   []uint64
	rights []*frame
}

// New returns a monitor for an entity without events.
func New(p *Program) *Monitor {
	m := &Monitor{program: p}
	m.root = m.get(p.root)
	m.Reset()
	return m
}

// Reset starts with an entity without events.
func (m *Monitor) Reset() {
	m.wipe(m.root)
	m.root.lo, m.root.hi = minInstant, maxInstant
	m.now, m.done, m.degraded = MinTime-1, false, false
}

// Step applies an event and returns the value after it. k is the result of Match, at is the event's
// time in milliseconds since 1970. ref is a number that MatchedEvents returns for the event, such
// as its offset.
//
// Time does not go backwards: an older event counts as one at the current time. Events precede the
// deadlines of their own instant. Step passes earlier deadlines without reporting them; call Next
// and Advance first to see the value at each.
func (m *Monitor) Step(k Kinds, at int64, ref uint64) Value {
	at = min(max(at, MinTime), MaxTime)
	// that instant is complete: the event is after it
	if at = max(at, m.now); at == m.now && m.done {
		at++
	}
	m.runTimers(at - 1)
	m.now, m.done, m.ref = at, false, ref
	m.witness = m.witness[:0]
	m.stepFrame(m.program.root, m.root, uint64(k))
	return m.Value()
}

// Advance completes the instant at: all its events, and all deadlines up to it, were applied. It
// returns the value at that instant. An instant in the past changes nothing. Advance passes earlier
// deadlines without reporting them; call it with the result of Next to see each.
func (m *Monitor) Advance(at int64) Value {
	at = min(max(at, MinTime), MaxTime)
	if at < m.now || at == m.now && m.done {
		return m.Value()
	}
	m.runTimers(at)
	m.now, m.done = at, true
	m.pruneFrame(m.program.root, m.root)
	return m.Value()
}

// Value returns the current value of the expression.
func (m *Monitor) Value() Value { return m.value(m.program.root.root, m.root) }

// Settled reports whether the truth of the expression is final, for all future events. It does not
// find all such cases.
func (m *Monitor) Settled() bool {
	n := m.program.root.root
	return m.always(aspectTrue, n, m.root) || m.never(aspectTrue, n, m.root, m.deadGuards(m.program.root, m.root))
}

// Degraded reports whether the monitor exceeded MaxInstances and dropped some left sides. The value
// may be wrong from then on.
func (m *Monitor) Degraded() bool { return m.degraded }

// Instances returns the number of open completed left sides of THEN, at most MaxInstances.
func (m *Monitor) Instances() int { return m.live }

// Now returns the current instant of the monitor, and whether it is complete. Without events it is
// before MinTime.
func (m *Monitor) Now() (at int64, complete bool) { return m.now, m.done }

// passed reports whether a deadline is over.
func (m *Monitor) passed(deadline int64) bool {
	return deadline < m.now || deadline == m.now && m.done
}

// window returns the times at which events count for a node.
func (n *node) window(f *frame) (lo, hi int64) {
	lo, hi = f.lo, f.hi
	if n.open {
		hi = maxInstant
	}
	if f.symbolic {
		return lo, hi
	}
	if n.after > 0 {
		lo = max(lo, f.at+n.after)
	}
	if n.within > 0 {
		hi = min(hi, f.at+n.within)
	}
	return lo, hi
}

// absent returns the value of an absence in its window.
func (m *Monitor) absent(lo, hi int64) Value {
	switch {
	case m.passed(hi):
		return False
	case hi < maxInstant || !m.passed(lo):
		return Pending
	}
	return False
}

func (m *Monitor) value(n *node, f *frame) Value {
	var v Value
	switch n.op {
	case form.And:
		v = True
		for _, k := range n.kids {
			v = min(v, m.value(k, f))
		}
		return v
	case form.Or:
		for _, k := range n.kids {
			v = max(v, m.value(k, f))
		}
		return v
	case form.Not:
		return m.value(n.kids[0], f).not()
	case form.Leaf:
		if n.hit(f) {
			v = True
		} else {
			v = m.absent(n.window(f))
		}
	case form.Then:
		c := &f.cells[n.cell]
		if c.n > 0 {
			v = True
			break
		}
		v = m.absent(n.window(f))
		for _, r := range c.rights {
			if v == True {
				break
			}
			v = max(v, m.value(n.right.root, r))
		}
	}
	if n.not {
		return v.not()
	}
	return v
}

// hit reports whether n is a leaf with enough events.
func (n *node) hit(f *frame) bool {
	return n.op == form.Leaf && n.cell >= 0 && f.cells[n.cell].n >= n.need
}
