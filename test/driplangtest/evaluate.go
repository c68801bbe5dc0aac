package driplangtest

import (
	"math"
	"slices"
)

// history is the events of a history and the current point.
type history struct {
	events []Event
	now    Point
}

func (h *history) at(now Point) *history { return &history{h.events, now} }

// deadline returns the point at which instant t is complete, and whether it has been reached.
func (h *history) deadline(t int64) (Point, bool) {
	k := 0
	for k < h.now.Events && h.events[k].At <= t {
		k++
	}
	return Point{k, t, true}, h.now.passed(t)
}

// counted returns the events after s, in the window, that match and satisfy all guards.
func (h *history) counted(x *Expr, s Point, lo, hi int64, gs []guard) []int {
	var found []int
	for i := s.Events; i < h.now.Events; i++ {
		e := h.events[i]
		if e.At < lo || e.At > hi || !x.event.matches(e) {
			continue
		}
		before := h.at(Point{i, e.At, false})
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

func (h *history) absent(lo, hi int64) Value {
	if h.now.passed(hi) {
		return False
	}
	if hi < math.MaxInt64 || !h.now.passed(lo) {
		return Pending
	}
	return False
}

// val is VAL: the value of x with anchor s in the window lo to hi, if the guards must hold before
// the first event it uses.
func (h *history) val(x *Expr, s Point, lo, hi int64, gs []guard) Value {
	if len(gs) > 0 && pure(x) {
		v := h.val(x, s, lo, hi, nil)
		for _, g := range gs {
			v = min(v, h.val(g.x, g.s, g.lo, g.hi, nil))
		}
		return v
	}
	var v Value
	switch x.op {
	case "within":
		return h.val(x.kids[0], s, lo, min(hi, s.At+x.millis), gs)
	case "after":
		return h.val(x.kids[0], s, max(lo, s.At+x.millis), hi, gs)
	case "and":
		return h.and(x, gs, func(k *Expr, gs []guard) Value { return h.val(k, s, lo, hi, gs) })
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

// and applies the guards to the operand that comes first.
func (h *history) and(x *Expr, gs []guard, val func(*Expr, []guard) Value) Value {
	all := func(first *Expr) Value {
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
		if !pure(k) {
			v = max(v, all(k))
		}
	}
	return v
}

func (h *history) then(l, r *Expr, s Point, lo, hi int64, gs []guard) Value {
	v := False
	for _, left := range alternatives(l) {
		switch {
		case guards(left):
			v = max(v, h.val(r, s, lo, hi, append(slices.Clone(gs), guard{left, s, lo, hi})))
		case left.op == "then" && !left.not:
			rest := &Expr{op: "then", kids: []*Expr{left.kids[1], r}}
			v = max(v, h.then(left.kids[0], rest, s, lo, hi, gs))
		default:
			v = max(v, h.absent(lo, hi))
			for _, m := range h.comp(left, s, lo, math.MaxInt64, gs) {
				if m.At <= hi {
					v = max(v, h.val(r, m, lo, hi, nil))
				}
			}
		}
	}
	return v
}

// comp is COMP: the points, up to now, at which x completes.
func (h *history) comp(x *Expr, s Point, lo, hi int64, gs []guard) []Point {
	if len(gs) > 0 && pure(x) {
		return h.compGuarded(x, s, lo, hi, gs)
	}
	switch x.op {
	case "within":
		return h.comp(x.kids[0], s, lo, min(hi, s.At+x.millis), gs)
	case "after":
		return h.comp(x.kids[0], s, max(lo, s.At+x.millis), hi, gs)
	case "or":
		var all []Point
		for _, k := range x.kids {
			all = append(all, h.comp(k, s, lo, hi, gs)...)
		}
		return all
	case "and":
		return h.compAnd(x, s, lo, hi, gs)
	}
	if x.not {
		if hi == math.MaxInt64 {
			return []Point{s}
		}
		if end, ok := h.deadline(hi); ok && h.at(end).val(x, s, lo, hi, nil) == True {
			return []Point{end}
		}
		return nil
	}
	if x.op == "then" {
		return h.compThen(x.kids[0], x.kids[1], s, lo, hi, gs)
	}
	var all []Point
	for i, e := range h.counted(x, s, lo, hi, gs) {
		if i+1 >= x.need {
			all = append(all, Point{e + 1, h.events[e].At, false})
		}
	}
	return all
}

// compGuarded is comp for an absence after guards: their AND.
func (h *history) compGuarded(x *Expr, s Point, lo, hi int64, gs []guard) []Point {
	return slices.DeleteFunc(h.comp(x, s, lo, hi, nil), func(m Point) bool {
		for _, g := range gs {
			if h.at(m).val(g.x, g.s, g.lo, math.MaxInt64, nil) != True {
				return true
			}
		}
		return h.at(m).val(x, s, lo, hi, nil) != True
	})
}

func (h *history) compAnd(x *Expr, s Point, lo, hi int64, gs []guard) []Point {
	var all []Point
	for _, first := range x.kids {
		if len(gs) > 0 && pure(first) {
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

func (h *history) compThen(l, r *Expr, s Point, lo, hi int64, gs []guard) []Point {
	var all []Point
	for _, left := range alternatives(l) {
		switch {
		case guards(left):
			all = append(all, h.comp(r, s, lo, hi, append(slices.Clone(gs), guard{left, s, lo, hi}))...)
		case left.op == "then" && !left.not:
			rest := &Expr{op: "then", kids: []*Expr{left.kids[1], r}}
			all = append(all, h.compThen(left.kids[0], rest, s, lo, hi, gs)...)
		default:
			for _, m := range h.comp(left, s, lo, math.MaxInt64, gs) {
				if m.At <= hi {
					all = append(all, h.comp(r, m, lo, hi, nil)...)
				}
			}
		}
	}
	return all
}
