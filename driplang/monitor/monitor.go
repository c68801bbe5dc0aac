package monitor

import (
	"math"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// Limits of what is kept for one entity.
const (
	// MaxInstances is how many completed left sides of THEN are followed at once. Beyond it the middle ones are given
	// up, and [Monitor.Degraded] says so.
	MaxInstances = 1024
	// MaxUnsteady is the same for programs whose truth can also go away by time alone: where a NOT stands around a THEN
	// with a bounded absence to its left. The next instant of these is found by trying, which takes the square of
	// the instances.
	MaxUnsteady = 128
	// MaxState is the greatest length of a state, in bytes. A state comes near it only if an expression of the
	// greatest size is given the most instances.
	MaxState = 4 << 20

	// maxCells and maxRefs bound the instances of large expressions, so that every state fits into MaxState: the cells of
	// all of them together, and the events that are remembered of one completion.
	maxCells = 16 << 10
	maxRefs  = 16
)

// Value is what an expression is worth at an instant.
type Value uint8

// False, Pending and True are the values of an expression. Pending is not true either: a window is open, and what has
// happened in it so far does not decide.
const (
	False Value = iota
	Pending
	True
)

// String is false, pending or true.
func (v Value) String() string { return [...]string{"false", "pending", "true"}[v] }

func (v Value) not() Value { return True - v }

const (
	never = math.MinInt64 // before all times
	ever  = math.MaxInt64 // after all times

	// MinTime and MaxTime are the times that a monitor knows, in milliseconds since 1970: some 285,000 years.
	// Others are taken for the nearer one.
	MinTime, MaxTime = -1 << 53, 1 << 53
)

// Monitor follows one entity at a time through its history. It is not safe for use by several goroutines. Its memory
// is kept from one entity to the next, so that in the long run it allocates nothing.
type Monitor struct {
	program  *Program
	now      int64
	done     bool // all events at now and all deadlines up to it are over
	root     *frame
	degraded bool

	live    int      // frames in use, the root not counted
	cells   int      // of these
	spare   []*frame // frames not in use
	witness []uint64 // of the completions of the current step
	ref     uint64   // of the current event
	times   []int64  // a stack of instants being looked at
}

// frame is a region with an anchor. Its lo and hi are what the THENs around it impose on all windows in it.
type frame struct {
	at, lo, hi int64
	symbolic   bool     // stands for any future frame with these bounds
	refs       []uint64 // the events that made the anchor
	cells      []cell
}

// cell is the state of a node. Of a leaf: n counts events up to its need. Of a THEN: n is 1 once its value can no
// longer change for those who look at it.
type cell struct {
	n      uint32
	refs   []uint64
	rights []*frame
}

// New is a monitor for an entity of which nothing has happened yet.
func New(p *Program) *Monitor {
	m := &Monitor{program: p}
	m.root = m.get(p.root)
	m.Reset()
	return m
}

// Reset forgets the entity: nothing has happened to it yet.
func (m *Monitor) Reset() {
	m.wipe(m.root)
	m.root.lo, m.root.hi = never, ever
	m.now, m.done, m.degraded = MinTime-1, false, false
}

// Step applies an event and returns the value just after it. k is what Match returned, at the event's time in
// milliseconds since 1970, ref any number that Witness is to name it by, such as its offset in the log.
//
// Time does not run backwards: an event that is older than what the monitor has seen counts as happening now. An event
// comes before the deadlines of its own instant. Deadlines before it are passed silently; whoever must know what
// happened at each one calls Next and Advance first.
func (m *Monitor) Step(k Kinds, at int64, ref uint64) Value {
	at = min(max(at, MinTime), MaxTime)
	if at = max(at, m.now); at == m.now && m.done { // that instant is complete: the event is after it
		at++
	}
	m.runTimers(at - 1)
	m.now, m.done, m.ref = at, false, ref
	m.witness = m.witness[:0]
	m.stepFrame(m.program.root, m.root, uint64(k))
	return m.Value()
}

// Advance completes the instant at: every event of that time has been applied, and so are all deadlines up to it. It
// returns the value then. An instant before the last one changes nothing. What happened at deadlines on the way is
// passed silently; to see each, advance from Next to Next.
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

// Value is what the expression is worth now.
func (m *Monitor) Value() Value { return m.value(m.program.root.root, m.root) }

// Settled is whether the expression is true, or not true, for good, whatever happens. It does not find all such cases.
func (m *Monitor) Settled() bool {
	n := m.program.root.root
	return m.always(aspectTrue, n, m.root) || m.never(aspectTrue, n, m.root, m.deadGuards(m.program.root, m.root))
}

// Degraded is whether more than MaxInstances left sides had to be followed at once, so that some were given up. The value may
// be wrong from then on.
func (m *Monitor) Degraded() bool { return m.degraded }

// Instances is how many completed left sides of THEN are being followed; at most MaxInstances.
func (m *Monitor) Instances() int { return m.live }

// Now is the last instant that the monitor has seen, and whether it is complete. It is before MinTime if there is none.
func (m *Monitor) Now() (at int64, complete bool) { return m.now, m.done }

// passed is whether a deadline is over.
func (m *Monitor) passed(deadline int64) bool {
	return deadline < m.now || deadline == m.now && m.done
}

// window is the times at which events count for a node.
func (n *node) window(f *frame) (lo, hi int64) {
	lo, hi = f.lo, f.hi
	if n.open {
		hi = ever
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

// absent is the value of something that has not happened in its window.
func (m *Monitor) absent(lo, hi int64) Value {
	switch {
	case m.passed(hi):
		return False
	case hi < ever || !m.passed(lo):
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

// hit is whether n is a leaf for which enough events have come.
func (n *node) hit(f *frame) bool {
	return n.op == form.Leaf && n.cell >= 0 && f.cells[n.cell].n >= n.need
}
