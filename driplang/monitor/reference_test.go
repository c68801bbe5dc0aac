package monitor

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/driplang"
)

// This file evaluates expressions straight from their definitions in docs/driplang.md: over the whole history, for one
// point at a time, without state. It shares nothing with the monitor but the parsed terms.

// happening is an event of a history.
type happening struct {
	name string
	at   int64
	data string
}

// point is a point of history: the first k events are applied; done says that the instant t is complete.
type point struct {
	k    int
	t    int64
	done bool
}

func (p point) passed(t int64) bool { return t < p.t || t == p.t && p.done }

// written is an expression in JSON form.
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

// ref is an expression with NOT pushed to names and THENs.
type ref struct {
	op     string // name, and, or, then, within, after
	not    bool
	event  *written // name
	need   int
	kids   []*ref
	millis int64
}

func refOf(e driplang.Expr) *ref {
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
	return w.ref(false)
}

func refNot(x *ref) *ref {
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
		y.kids = append(y.kids, refNot(k))
	}
	return &y
}

func refMillis(text string) int64 {
	d, err := time.ParseDuration(text) // random expressions have only ms and s
	if err != nil {
		panic(err)
	}
	return d.Milliseconds()
}

// ref makes THEN binary and counts "at least".
func (w *written) ref(anchored bool) *ref {
	list := func(op string, all []*written) *ref {
		r := &ref{op: op}
		for _, k := range all {
			r.kids = append(r.kids, k.ref(anchored))
		}
		return r
	}
	switch {
	case w.Event != "":
		return &ref{op: "name", event: w, need: 1}
	case w.Count != nil:
		return w.count()
	case w.Not != nil:
		return refNot(w.Not.ref(anchored))
	case w.And != nil:
		return list("and", w.And)
	case w.Or != nil:
		return list("or", w.Or)
	case len(w.Then) == 1:
		return w.Then[0].ref(anchored)
	case w.Then != nil:
		left := w.Then[0].ref(anchored)
		anchored = anchored || !slices.ContainsFunc(refAlternatives(left), refGuards)
		rest := written{Then: w.Then[1:]}
		return &ref{op: "then", kids: []*ref{left, rest.ref(anchored)}}
	case w.After != nil:
		return &ref{op: "after", millis: refMillis(w.By), kids: []*ref{w.After.ref(anchored)}}
	}
	r := &ref{op: "within", millis: refMillis(w.For), kids: []*ref{w.Within.ref(anchored)}}
	if anchored {
		return r
	}
	first, rest := *r.kids[0], *r.kids[0] // a count that starts at any of the events
	first.need, rest.need = 1, rest.need-1
	r.kids = []*ref{&rest}
	return &ref{op: "then", kids: []*ref{&first, r}}
}

func (w *written) count() *ref {
	least := func(n int) *ref { return &ref{op: "name", event: w.Count, need: n} }
	switch w.Is {
	case ">=":
		return least(w.N)
	case ">":
		return least(w.N + 1)
	case "<=":
		return refNot(least(w.N + 1))
	case "<":
		return refNot(least(w.N))
	}
	equal := refNot(least(w.N + 1))
	if w.N > 0 {
		equal = &ref{op: "and", kids: []*ref{least(w.N), equal}}
	}
	if w.Is == "!=" {
		return refNot(equal)
	}
	return equal
}

// refAlternatives distributes over OR: x is the OR of them.
func refAlternatives(x *ref) []*ref {
	switch x.op {
	case "or":
		var all []*ref
		for _, k := range x.kids {
			all = append(all, refAlternatives(k)...)
		}
		return all
	case "then":
		return refAlternativesThen(x)
	case "within", "after":
		var all []*ref
		for _, k := range refAlternatives(x.kids[0]) {
			if k.op == "and" { // windows go to the operands
				both := &ref{op: "and"}
				for _, j := range k.kids {
					both.kids = append(both.kids, &ref{op: x.op, millis: x.millis, kids: []*ref{j}})
				}
				all = append(all, both)
				continue
			}
			all = append(all, &ref{op: x.op, millis: x.millis, kids: []*ref{k}})
		}
		return all
	case "and":
		all := [][]*ref{nil}
		for _, k := range x.kids {
			var next [][]*ref
			for _, one := range all {
				for _, alt := range refAlternatives(k) {
					next = append(next, append(slices.Clone(one), alt))
				}
			}
			all = next
		}
		var ands []*ref
		for _, kids := range all {
			ands = append(ands, &ref{op: "and", kids: kids})
		}
		return ands
	}
	return []*ref{x}
}

// refAlternativesThen distributes over the alternatives of a guard and of what it guards.
func refAlternativesThen(x *ref) []*ref {
	if x.not {
		return []*ref{x}
	}
	var all []*ref
	for _, l := range refAlternatives(x.kids[0]) {
		rights := []*ref{x.kids[1]}
		if refGuards(l) {
			rights = refAlternatives(x.kids[1])
		}
		for _, r := range rights {
			all = append(all, &ref{op: "then", kids: []*ref{l, r}})
		}
	}
	return all
}

// refPure is whether x is nothing but NOTs.
func refPure(x *ref) bool {
	if x.op == "name" || x.op == "then" && x.not {
		return x.not
	}
	if x.op == "then" {
		return refPure(x.kids[1]) && !slices.ContainsFunc(refAlternatives(x.kids[0]), func(l *ref) bool { return !refGuards(l) })
	}
	return !slices.ContainsFunc(x.kids, func(k *ref) bool { return !refPure(k) })
}

// refGuards is whether an alternative is an absence without an end.
func refGuards(x *ref) bool {
	switch {
	case x.op == "name", x.op == "then" && x.not:
		return x.not
	case x.op == "within":
		return false
	}
	return !slices.ContainsFunc(x.kids, func(k *ref) bool { return !refGuards(k) })
}

// refGuard is a guard that the next event must find true.
type refGuard struct {
	x      *ref
	s      point
	lo, hi int64
}

// reference evaluates over one history.
type reference struct {
	events []happening
	now    point
}

func (h *reference) at(now point) *reference { return &reference{h.events, now} }

// deadline is the point at which instant t is complete; not ok: it is still to come.
func (h *reference) deadline(t int64) (point, bool) {
	k := 0
	for k < h.now.k && h.events[k].at <= t {
		k++
	}
	return point{k, t, true}, h.now.passed(t)
}

func (w *written) matches(e happening) bool {
	if w.Event != e.name || w.Where == nil {
		return w.Event == e.name
	}
	var data any
	dec := json.NewDecoder(strings.NewReader(e.data))
	dec.UseNumber()
	_ = dec.Decode(&data)
	return w.Where.matches(data)
}

// matches knows what random filters have: one member, whole numbers and null.
func (w *writtenFilter) matches(data any) bool {
	switch {
	case w.And != nil:
		return !slices.ContainsFunc(w.And, func(k *writtenFilter) bool { return !k.matches(data) })
	case w.Or != nil:
		return slices.ContainsFunc(w.Or, func(k *writtenFilter) bool { return k.matches(data) })
	case w.Not != nil:
		return !w.Not.matches(data)
	}
	object, _ := data.(map[string]any)
	have, isNumber := object[w.Property].(json.Number)
	want, wantNumber := w.Value.(json.Number)
	if !isNumber || !wantNumber {
		same := object[w.Property] == w.Value
		return w.Is == "=" && same || w.Is == "!=" && !same
	}
	a, _ := have.Int64()
	b, _ := want.Int64()
	return map[string]bool{"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[w.Is]
}

// counted is the events from s on, in the window, that match and find all guards true.
func (h *reference) counted(x *ref, s point, lo, hi int64, gs []refGuard) []int {
	var found []int
	for i := s.k; i < h.now.k; i++ {
		e := h.events[i]
		if e.at < lo || e.at > hi || !x.event.matches(e) {
			continue
		}
		before := h.at(point{i, e.at, false})
		ok := true
		for _, g := range gs {
			ok = ok && before.val(g.x, g.s, g.lo, math.MaxInt64, nil) == True
		}
		if ok {
			found = append(found, i)
		}
	}
	return found
}

func (h *reference) absent(lo, hi int64) Value {
	if h.now.passed(hi) {
		return False
	}
	if hi < math.MaxInt64 || !h.now.passed(lo) {
		return Pending
	}
	return False
}

// val is VAL: the value of x with anchor s and window lo to hi, if the guards must hold before the first event it uses.
func (h *reference) val(x *ref, s point, lo, hi int64, gs []refGuard) Value {
	if len(gs) > 0 && refPure(x) {
		v := h.val(x, s, lo, hi, nil)
		for _, g := range gs {
			v = min(v, h.val(g.x, g.s, g.lo, g.hi, nil))
		}
		return v
	}
	var v Value
	switch x.op {
	case "within":
		return h.val(x.kids[0], s, lo, min(hi, s.t+x.millis), gs)
	case "after":
		return h.val(x.kids[0], s, max(lo, s.t+x.millis), hi, gs)
	case "and":
		return h.and(x, gs, func(k *ref, gs []refGuard) Value { return h.val(k, s, lo, hi, gs) })
	case "or":
		for _, k := range x.kids {
			v = max(v, h.val(k, s, lo, hi, gs))
		}
		return v
	case "name":
		v = h.absent(lo, hi)
		if len(h.counted(x, s, lo, hi, gs)) >= x.need {
			v = True
		}
	case "then":
		v = h.then(x.kids[0], x.kids[1], s, lo, hi, gs)
	}
	if x.not {
		return True - v
	}
	return v
}

// and gives the guards to whichever operand comes first.
func (h *reference) and(x *ref, gs []refGuard, val func(*ref, []refGuard) Value) Value {
	all := func(first *ref) Value {
		v := True
		for _, k := range x.kids {
			if k == first {
				v = min(v, val(k, gs))
			} else {
				v = min(v, val(k, nil))
			}
		}
		return v
	}
	if len(gs) == 0 {
		return all(nil)
	}
	v := False
	for _, k := range x.kids {
		if !refPure(k) {
			v = max(v, all(k))
		}
	}
	return v
}

func (h *reference) then(l, r *ref, s point, lo, hi int64, gs []refGuard) Value {
	v := False
	for _, left := range refAlternatives(l) {
		switch {
		case refGuards(left):
			v = max(v, h.val(r, s, lo, hi, append(slices.Clone(gs), refGuard{left, s, lo, hi})))
		case left.op == "then" && !left.not:
			rest := &ref{op: "then", kids: []*ref{left.kids[1], r}}
			v = max(v, h.then(left.kids[0], rest, s, lo, hi, gs))
		default:
			v = max(v, h.absent(lo, hi))
			for _, m := range h.comp(left, s, lo, math.MaxInt64, gs) {
				if m.t <= hi {
					v = max(v, h.val(r, m, lo, hi, nil))
				}
			}
		}
	}
	return v
}

// comp is COMP: the points, up to now, at which x completes.
func (h *reference) comp(x *ref, s point, lo, hi int64, gs []refGuard) []point {
	if len(gs) > 0 && refPure(x) {
		return h.compGuarded(x, s, lo, hi, gs)
	}
	switch x.op {
	case "within":
		return h.comp(x.kids[0], s, lo, min(hi, s.t+x.millis), gs)
	case "after":
		return h.comp(x.kids[0], s, max(lo, s.t+x.millis), hi, gs)
	case "or":
		var all []point
		for _, k := range x.kids {
			all = append(all, h.comp(k, s, lo, hi, gs)...)
		}
		return all
	case "and":
		return h.compAnd(x, s, lo, hi, gs)
	}
	if x.not {
		if hi == math.MaxInt64 {
			return []point{s}
		}
		if end, ok := h.deadline(hi); ok && h.at(end).val(x, s, lo, hi, nil) == True {
			return []point{end}
		}
		return nil
	}
	if x.op == "then" {
		return h.compThen(x.kids[0], x.kids[1], s, lo, hi, gs)
	}
	var all []point
	for i, e := range h.counted(x, s, lo, hi, gs) {
		if i+1 >= x.need {
			all = append(all, point{e + 1, h.events[e].at, false})
		}
	}
	return all
}

// compGuarded is comp of an absence after guards: their AND.
func (h *reference) compGuarded(x *ref, s point, lo, hi int64, gs []refGuard) []point {
	return slices.DeleteFunc(h.comp(x, s, lo, hi, nil), func(m point) bool {
		for _, g := range gs {
			if h.at(m).val(g.x, g.s, g.lo, math.MaxInt64, nil) != True {
				return true
			}
		}
		return h.at(m).val(x, s, lo, hi, nil) != True
	})
}

func (h *reference) compAnd(x *ref, s point, lo, hi int64, gs []refGuard) []point {
	var all []point
	for _, first := range x.kids {
		if len(gs) > 0 && refPure(first) {
			continue
		}
		for _, k := range x.kids {
			guards := gs
			if k != first {
				guards = nil
			}
			for _, m := range h.comp(k, s, lo, hi, guards) {
				v := True
				for _, j := range x.kids {
					if j == first {
						v = min(v, h.at(m).val(j, s, lo, hi, gs))
					} else {
						v = min(v, h.at(m).val(j, s, lo, hi, nil))
					}
				}
				if v == True {
					all = append(all, m)
				}
			}
		}
	}
	return all
}

func (h *reference) compThen(l, r *ref, s point, lo, hi int64, gs []refGuard) []point {
	var all []point
	for _, left := range refAlternatives(l) {
		switch {
		case refGuards(left):
			all = append(all, h.comp(r, s, lo, hi, append(slices.Clone(gs), refGuard{left, s, lo, hi}))...)
		case left.op == "then" && !left.not:
			rest := &ref{op: "then", kids: []*ref{left.kids[1], r}}
			all = append(all, h.compThen(left.kids[0], rest, s, lo, hi, gs)...)
		default:
			for _, m := range h.comp(left, s, lo, math.MaxInt64, gs) {
				if m.t <= hi {
					all = append(all, h.comp(r, m, lo, hi, nil)...)
				}
			}
		}
	}
	return all
}

func (x *ref) walk(f func(*ref)) {
	f(x)
	for _, k := range x.kids {
		k.walk(f)
	}
}
