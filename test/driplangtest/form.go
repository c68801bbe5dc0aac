package driplangtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sebbroker/seb/driplang"
)

// written is an expression in JSON.
type written struct {
	Event   string
	Where   *writtenFilter
	Count   *written
	Is      string
	N       int
	Not     *written
	And, Or []*written
	Then    []*written
	Within  *written
	For     string
	After   *written
	By      string
}

type writtenFilter struct {
	Property, Is string
	Value        any
	And, Or      []*writtenFilter
	Not          *writtenFilter
}

// Expr is an expression with NOT pushed to names and THENs. It may be used concurrently.
type Expr struct {
	op     string // name, and, or, then, within, after
	not    bool
	event  *written // name
	need   int
	kids   []*Expr
	millis int64
}

// Of converts an expression.
func Of(e driplang.Expr) *Expr {
	text, err := e.MarshalJSON()
	if err != nil {
		panic(err)
	}
	var w written
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&w); err != nil {
		panic(err)
	}
	return w.expr(false)
}

func negated(x *Expr) *Expr {
	y := *x
	switch x.op {
	case "name", "then":
		y.not = !x.not
		return &y
	case "and":
		y.op = "or"
	case "or":
		y.op = "and"
	}
	y.kids = nil
	for _, k := range x.kids {
		y.kids = append(y.kids, negated(k))
	}
	return &y
}

func durationOf(text string) int64 {
	d, err := driplang.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d.Milliseconds()
}

// expr makes THEN binary and turns counts into "at least".
func (w *written) expr(anchored bool) *Expr {
	list := func(op string, all []*written) *Expr {
		r := &Expr{op: op}
		for _, k := range all {
			r.kids = append(r.kids, k.expr(anchored))
		}
		return r
	}
	switch {
	case w.Event != "":
		return &Expr{op: "name", event: w, need: 1}
	case w.Count != nil:
		return w.count()
	case w.Not != nil:
		return negated(w.Not.expr(anchored))
	case w.And != nil:
		return list("and", w.And)
	case w.Or != nil:
		return list("or", w.Or)
	case len(w.Then) == 1:
		return w.Then[0].expr(anchored)
	case w.Then != nil:
		left := w.Then[0].expr(anchored)
		anchored = anchored || !slices.ContainsFunc(alternatives(left), guards)
		rest := written{Then: w.Then[1:]}
		return &Expr{op: "then", kids: []*Expr{left, rest.expr(anchored)}}
	case w.After != nil:
		return &Expr{op: "after", millis: durationOf(w.By), kids: []*Expr{w.After.expr(anchored)}}
	}
	r := &Expr{op: "within", millis: durationOf(w.For), kids: []*Expr{w.Within.expr(anchored)}}
	if anchored {
		return r
	}
	first, rest := *r.kids[0], *r.kids[0] // a count that starts at any of the events
	first.need, rest.need = 1, rest.need-1
	r.kids = []*Expr{&rest}
	return &Expr{op: "then", kids: []*Expr{&first, r}}
}

func (w *written) count() *Expr {
	least := func(n int) *Expr { return &Expr{op: "name", event: w.Count, need: n} }
	switch w.Is {
	case ">=":
		return least(w.N)
	case ">":
		return least(w.N + 1)
	case "<=":
		return negated(least(w.N + 1))
	case "<":
		return negated(least(w.N))
	}
	equal := negated(least(w.N + 1))
	if w.N > 0 {
		equal = &Expr{op: "and", kids: []*Expr{least(w.N), equal}}
	}
	if w.Is == "!=" {
		return negated(equal)
	}
	return equal
}

// alternatives distributes over OR: x is the OR of the result.
func alternatives(x *Expr) []*Expr {
	switch x.op {
	case "or":
		var all []*Expr
		for _, k := range x.kids {
			all = append(all, alternatives(k)...)
		}
		return all
	case "then":
		return alternativesThen(x)
	case "within", "after":
		var all []*Expr
		for _, k := range alternatives(x.kids[0]) {
			if k.op == "and" { // windows apply to the operands
				both := &Expr{op: "and"}
				for _, j := range k.kids {
					both.kids = append(both.kids, &Expr{op: x.op, millis: x.millis, kids: []*Expr{j}})
				}
				all = append(all, both)
				continue
			}
			all = append(all, &Expr{op: x.op, millis: x.millis, kids: []*Expr{k}})
		}
		return all
	case "and":
		all := [][]*Expr{nil}
		for _, k := range x.kids {
			var next [][]*Expr
			for _, one := range all {
				for _, alt := range alternatives(k) {
					next = append(next, append(slices.Clone(one), alt))
				}
			}
			all = next
		}
		var ands []*Expr
		for _, kids := range all {
			ands = append(ands, &Expr{op: "and", kids: kids})
		}
		return ands
	}
	return []*Expr{x}
}

// alternativesThen distributes over the alternatives of a guard and of its right side.
func alternativesThen(x *Expr) []*Expr {
	if x.not {
		return []*Expr{x}
	}
	var all []*Expr
	for _, l := range alternatives(x.kids[0]) {
		rights := []*Expr{x.kids[1]}
		if guards(l) {
			rights = alternatives(x.kids[1])
		}
		for _, r := range rights {
			all = append(all, &Expr{op: "then", kids: []*Expr{l, r}})
		}
	}
	return all
}

// pure reports whether x consists only of NOTs.
func pure(x *Expr) bool {
	if x.op == "name" || x.op == "then" && x.not {
		return x.not
	}
	if x.op == "then" {
		return pure(x.kids[1]) && !slices.ContainsFunc(alternatives(x.kids[0]), func(l *Expr) bool { return !guards(l) })
	}
	return !slices.ContainsFunc(x.kids, func(k *Expr) bool { return !pure(k) })
}

// guards reports whether an alternative is an absence without an end.
func guards(x *Expr) bool {
	switch {
	case x.op == "name", x.op == "then" && x.not:
		return x.not
	case x.op == "within":
		return false
	}
	return !slices.ContainsFunc(x.kids, func(k *Expr) bool { return !guards(k) })
}

// guard is a condition that must hold at the next event.
type guard struct {
	x      *Expr
	s      Point
	lo, hi int64
}

func (w *written) matches(e Event) bool {
	if w.Event != e.Name || w.Where == nil {
		return w.Event == e.Name
	}
	var data any
	dec := json.NewDecoder(strings.NewReader(e.Data))
	dec.UseNumber()
	_ = dec.Decode(&data)
	return w.Where.matches(data)
}

func (w *writtenFilter) matches(data any) bool {
	switch {
	case w.And != nil:
		return !slices.ContainsFunc(w.And, func(k *writtenFilter) bool { return !k.matches(data) })
	case w.Or != nil:
		return slices.ContainsFunc(w.Or, func(k *writtenFilter) bool { return k.matches(data) })
	case w.Not != nil:
		return !w.Not.matches(data)
	}
	for _, name := range members(w.Property) {
		object, _ := data.(map[string]any)
		data = object[name]
	}
	switch want := w.Value.(type) {
	case json.Number:
		if have, ok := data.(json.Number); ok {
			i, err := have.Int64()
			if j, err2 := want.Int64(); err == nil && err2 == nil {
				return compared(w.Is, i, j)
			}
			a, _ := have.Float64()
			b, _ := want.Float64()
			return compared(w.Is, a, b)
		}
	case string:
		if have, ok := data.(string); ok {
			return compared(w.Is, have, want)
		}
	default:
		return w.Is == "=" && data == want || w.Is == "!=" && data != want
	}
	return w.Is == "!="
}

func compared[T cmp.Ordered](is string, a, b T) bool {
	return map[string]bool{"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[is]
}

// members splits a path such as u."v w".z.
func members(path string) (names []string) {
	for path != "" {
		if path[0] != '"' {
			var name string
			name, path, _ = strings.Cut(path, ".")
			names = append(names, name)
			continue
		}
		var name string
		dec := json.NewDecoder(strings.NewReader(path))
		if err := dec.Decode(&name); err != nil {
			panic(err)
		}
		names, path = append(names, name), strings.TrimPrefix(path[dec.InputOffset():], ".")
	}
	return names
}

func (x *Expr) each(f func(*Expr)) {
	f(x)
	for _, k := range x.kids {
		k.each(f)
	}
}

// Span returns the sum of all durations in milliseconds. That long after the last event nothing
// changes by time alone.
func (x *Expr) Span() (millis int64) {
	x.each(func(y *Expr) { millis += y.millis })
	return millis
}

// Counting reports whether x has a count above 1 or a THEN that must not happen. For these, one
// event of a name proves nothing.
func (x *Expr) Counting() (is bool) {
	x.each(func(y *Expr) { is = is || y.need > 1 || y.op == "then" && y.not })
	return is
}
