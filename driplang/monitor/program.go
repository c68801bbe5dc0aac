package monitor

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/internal/form"
)

// Options choose what a program keeps track of. The zero value is what a trigger needs.
type Options struct {
	// Pending keeps apart what is false and what is pending, at the price of larger states: without it
	// [Monitor.Value] says Pending for some expressions that can no longer become true, or False for some that can.
	// True is exact either way.
	Pending bool
}

// Program is an expression made ready for monitors. It is immutable and may be used by many of them at once.
type Program struct {
	expr    driplang.Expr
	options Options
	root    *region
	byName  map[string][]matcher
	timers  bool // something completes by time alone, other than the whole
	steady  bool // truth can come with time, but not go
	print   uint16
	nodes   int
}

type matcher struct {
	kind  Kinds
	where form.Filter
}

// Kinds is a set of the kinds of event that a program tells apart; zero is an event that it does not look at.
type Kinds uint64

// layout counts the changes of what states mean, as far as they do not follow from the shape of the program; a state of
// another layout or shape is refused.
const layout = 1

var errTooLarge = errors.New("the expression is too large")

// Compile makes an expression ready for monitors. It refuses the zero Expr, and no expression that was read without fault
// unless it has more than 64 guards (absences on the left of a THEN) at one place.
func Compile(e driplang.Expr, o Options) (*Program, error) {
	normal := e.Normal()
	if normal == nil {
		return nil, errors.New("there is no expression")
	}
	p := &Program{expr: e, options: o, byName: make(map[string][]matcher), steady: true}
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

// Nodes is how many parts the program has; its memory goes by that.
func (p *Program) Nodes() int { return p.nodes }

// Expr is what was compiled.
func (p *Program) Expr() driplang.Expr { return p.expr }

// Match is which kinds of event one of that name and data is. It is zero if the program does not look at it; such an
// event changes nothing and needs no Step. data is JSON or empty, is read only if there is a filter on the name, and is
// not kept.
func (p *Program) Match(name string, data []byte) Kinds {
	var k Kinds
	for _, m := range p.byName[name] {
		if m.where == nil || m.where.Matches(data) {
			k |= m.kind
		}
	}
	return k
}

// Initially is the value before anything has happened. A trigger whose expression is True there has no event to fire at.
func (p *Program) Initially() Value { return New(p).Value() }
