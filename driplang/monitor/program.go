package monitor

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/internal/form"
)

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
