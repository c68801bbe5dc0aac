package monitor

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/internal/form"
)

// aspect is a set of properties of a node's value that its parents use. A node keeps state only for
// its aspects.
type aspect uint8

const (
	aspectTrue      aspect = 1 << iota // the node is true
	aspectPossible                     // the node is not false; used below an odd number of NOTs
	aspectCompletes                    // the time of completion; used for the left side of a THEN
)

// node is a part of a program, shared by all entities. The cells of a frame have an entity's state
// of it.
type node struct {
	op            form.Op
	not           bool
	aspects       aspect
	inner         aspect // THEN: aspects of the frame after a completion
	kinds         uint64 // leaf: the events that it counts
	need          uint32 // leaf: the required number of them
	after, within int64
	open          bool   // the frame's end does not apply: left of a THEN, or a guard
	bounded       bool   // the window ends
	cell          int    // -1: none
	guards        uint64 // leaf: guards of its region
	region        *region
	kids          []*node
	left          *node
	right         *region
	wakes         bool // THEN: its left side can complete by time alone
	from          fmt.Stringer
}

// region is the set of nodes with the same anchor: a right side of a THEN up to the next right
// sides. A frame is an instance of a region, with an anchor and cells.
type region struct {
	root   *node
	guards []*node
	cells  []*node // by cell
	timed  bool    // the anchor's time is used
}

// print writes all properties of a region that a state depends on.
func (r *region) print(w io.Writer) {
	fmt.Fprintf(w, "[%v", r.timed)
	for _, n := range append([]*node{r.root}, r.guards...) {
		n.print(w)
	}
	fmt.Fprint(w, "]")
}

func (n *node) print(w io.Writer) {
	fmt.Fprint(w, "(", n.op, n.not, n.aspects, n.inner, n.kinds, n.need, n.after, n.within, n.open, n.cell, n.guards)
	for _, k := range n.kids {
		k.print(w)
	}
	if n.op == form.Then {
		n.left.print(w)
		n.right.print(w)
	}
	fmt.Fprint(w, ")")
}

type compiler struct {
	program *Program
	nodes   int
	guards  map[*form.Form]int // of the region being compiled
	region  *region
}

// surroundings describes the surroundings of a form within its region.
type surroundings struct {
	aspects aspect
	open    bool
	bounded bool // the frame has an end
	negated bool // inside a NOT of a THEN
}

// fits reports whether the program and its regions are within the size limit.
func (c *compiler) fits() bool { return c.nodes <= form.MaxNodes }

func (c *compiler) makeRegion(f *form.Form, s surroundings) *region {
	outer, guards := c.region, c.guards
	r := &region{}
	c.region, c.guards = r, make(map[*form.Form]int)
	r.root = c.node(f, s)
	c.region, c.guards = outer, guards
	return r
}

func (c *compiler) node(f *form.Form, s surroundings) *node {
	n := &node{
		op: f.Op, not: f.Not, aspects: s.aspects, need: uint32(f.Need), after: f.After, within: f.Within, open: s.open,
		bounded: f.Within > 0 || s.bounded && !s.open, cell: -1, from: f.From, region: c.region,
	}
	if c.nodes++; !c.fits() {
		return n
	}
	c.region.timed = c.region.timed || f.After > 0 || f.Within > 0
	switch f.Op {
	case form.Leaf:
		n.kinds = 1 << f.Kind
		for _, g := range f.Guards {
			n.guards |= 1 << c.guard(g)
		}
		if n.not || n.need > 1 || n.aspects != aspectCompletes {
			c.addCell(n)
		}
		c.timer(n, s)
	case form.Then:
		c.then(n, f, s)
	case form.Not:
		n.not = true
		c.timer(n, s)
		s.aspects, s.negated = n.underNot(), true
		n.kids = append(n.kids, c.node(f.Kids[0], s))
	default:
		if s.aspects&aspectCompletes != 0 && f.Op == form.And {
			s.aspects |= aspectTrue // an AND completes where the other operands are true
		}
		for _, k := range f.Kids {
			n.kids = append(n.kids, c.node(k, s))
		}
	}
	return n
}

func (c *compiler) addCell(n *node) {
	n.cell = len(c.region.cells)
	c.region.cells = append(c.region.cells, n)
}

func (c *compiler) then(n *node, f *form.Form, s surroundings) {
	n.inner = s.aspects
	if n.not {
		n.inner = n.underNot()
	}
	c.timer(n, s)
	c.addCell(n)
	s.negated = s.negated || n.not
	n.left = c.node(f.Kids[0], surroundings{aspects: aspectCompletes, open: true, negated: s.negated})
	n.right = c.makeRegion(f.Kids[1], surroundings{aspects: n.inner, bounded: n.bounded, negated: s.negated})
	n.wakes = n.left.timed()
}

// timed reports whether a left side can complete by time alone.
func (n *node) timed() bool {
	if n.completesByTime() || n.op == form.Then && (n.wakes || n.right.root.timed()) {
		return true
	}
	return slices.ContainsFunc(n.kids, (*node).timed)
}

// timer sets the properties of the program that follow from a node that completes by time.
func (c *compiler) timer(n *node, s surroundings) {
	if n.completesByTime() {
		c.program.timers = true
		c.program.monotonic = c.program.monotonic && !s.negated
	}
}

// underNot returns the aspects of n's operand, if n is a NOT.
func (n *node) underNot() aspect {
	var inner aspect
	if n.aspects&aspectTrue != 0 || n.completesByTime() {
		inner |= aspectPossible
	}
	if n.aspects&aspectPossible != 0 {
		inner |= aspectTrue
	}
	return inner
}

// completesByTime reports whether n completes at the end of its window: a bounded absence on the
// left of a THEN.
func (n *node) completesByTime() bool {
	return n.not && n.bounded && n.aspects&aspectCompletes != 0
}

// guard returns the number of a guard within the region.
func (c *compiler) guard(f *form.Form) int {
	if i, ok := c.guards[f]; ok {
		return i
	}
	const most = 64
	if len(c.region.guards) == most {
		c.nodes = form.MaxNodes
		return 0
	}
	i := len(c.region.guards)
	c.guards[f] = i
	c.region.guards = append(c.region.guards, nil)
	c.region.guards[i] = c.node(f, surroundings{aspects: aspectTrue, open: true})
	return i
}

// Options select what a program computes. The zero value is for triggers.
type Options struct {
	// Pending distinguishes false from pending exactly, which needs larger states. Without it
	// [Monitor.Value] returns Pending for some expressions that can no longer become true, and
	// False for some that can. True is always exact.
	Pending bool
}

// Program is a compiled expression. It is immutable and may be used by many monitors concurrently.
type Program struct {
	expr      driplang.Expr
	options   Options
	root      *region
	byName    map[string][]matcher
	timers    bool // a part other than the whole completes by time alone
	monotonic bool // the expression can become true by time alone, but not false
	print     uint16
	nodes     int
}

type matcher struct {
	kind  Kinds
	where form.Filter
}

// Kinds is a set of the program's event kinds. Zero means that the program ignores the event.
type Kinds uint64

// layout is the version of the meaning of states, apart from changes that follow from the shape of
// the program. Load refuses states with another layout or shape.
const layout = 1

var errTooLarge = errors.New("the expression is too large")

// Compile compiles an expression. It returns an error for the zero Expr, and for an expression with
// more than 64 guards (absences on the left of a THEN) in one region.
func Compile(e driplang.Expr, o Options) (*Program, error) {
	normal := e.Normal()
	if normal == nil {
		return nil, errors.New("the expression is empty")
	}
	p := &Program{expr: e, options: o, byName: make(map[string][]matcher), monotonic: true}
	for i, k := range normal.Kinds {
		p.byName[k.Name] = append(p.byName[k.Name], matcher{1 << i, k.Where})
	}
	c := compiler{program: p}
	s := surroundings{aspects: aspectTrue}
	if o.Pending {
		s.aspects |= aspectPossible
	}
	p.root = c.makeRegion(normal.Root, s)
	if !c.fits() {
		return nil, errTooLarge
	}
	p.nodes = c.nodes
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", layout, e)
	p.root.print(h)
	p.print = uint16(h.Sum64())
	return p, nil
}

// Nodes returns the number of parts of the program, which determines its memory.
func (p *Program) Nodes() int { return p.nodes }

// Expr returns the compiled expression.
func (p *Program) Expr() driplang.Expr { return p.expr }

// Match returns the kinds of an event with this name and data. Zero means that the event changes
// nothing and needs no Step. data is JSON or empty. Match reads it only for names with a filter,
// and does not keep it.
func (p *Program) Match(name string, data []byte) Kinds {
	var k Kinds
	for _, m := range p.byName[name] {
		if m.where == nil || m.where.Matches(data) {
			k |= m.kind
		}
	}
	return k
}

// name returns the name of the events of a kind.
func (p *Program) name(kind Kinds) string {
	for name, matchers := range p.byName {
		for i := range matchers {
			if matchers[i].kind == kind {
				return name
			}
		}
	}
	panic(fmt.Sprintf("no event of kind %x", uint64(kind)))
}

// Initially returns the value of an entity without events. A trigger whose expression is True there
// has no event to fire at.
func (p *Program) Initially() Value { return New(p).Value() }
