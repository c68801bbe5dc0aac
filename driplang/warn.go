package driplang

import (
	"fmt"
	"slices"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// Caution is a kind of warning.
type Caution string

const (
	// FiresAtOnce: a THEN is followed by a NOT without WITHIN, which is true until the event comes, so the whole is
	// true as soon as the left side is.
	FiresAtOnce Caution = "fires-at-once"
	// KeepsMany: neither the latest nor the earliest completion of a left side makes the others needless, so that
	// the state of an entity grows with each of them for as long as the window is open.
	KeepsMany Caution = "keeps-many"
	// ReadsOtherwise: a THEN is followed by parentheses and an AND or OR behind them, such as A THEN (B WITHIN 2d) AND C. The
	// AND belongs to the right side of the THEN; many readers take it for one around the whole.
	ReadsOtherwise Caution = "reads-otherwise"
)

// Warning is something that is allowed but seldom meant, or dear.
type Warning struct {
	Caution Caution
	Message string
}

// Warnings is what the author of a trigger should know, without repetition; empty for most expressions. That an
// expression is true before anything has happened is no warning: the monitor's Program says so.
func (e Expr) Warnings() []Warning {
	var all []Warning
	seen := make(map[Warning]bool)
	add := func(c Caution, format string, args ...any) {
		if w := (Warning{c, fmt.Sprintf(format, args...)}); !seen[w] {
			seen[w] = true
			all = append(all, w)
		}
	}
	if e.normal == nil {
		return nil
	}
	if then, i := e.root.misread(); then != nil {
		add(ReadsOtherwise, "%s binds more strongly than THEN: this is read as %s; if that is not meant, write %s",
			opWords[then.kids[i].op], then, then.otherReading(i))
	}
	for _, f := range form.FiresAtOnce(e.normal.Root) {
		left, right := f.Kids[0].From, f.Kids[1].From.String()
		if f.Kids[1].Op == form.Leaf {
			right = "NOT " + operand(f.Kids[1].From)
		}
		add(FiresAtOnce, "NOT without WITHIN: true at once when %s is complete; did you mean %s THEN ((%s) WITHIN ...)?",
			left, operand(left), right)
	}
	for _, f := range form.KeepsMany(e.normal.Root) {
		add(KeepsMany, "keeps one instance for each completion of %s in the last %s", f.Kids[0].From,
			formatMillis(form.Reach(f.Kids[1])))
	}
	return all
}

// operand is a term as it stands beside an operator.
func operand(s fmt.Stringer) string {
	if t, ok := s.(*term); ok && t.op != opEvent {
		return "(" + s.String() + ")"
	}
	return s.String()
}

// misread is the first THEN of a text with an operand, behind the first, that is an AND or OR without parentheses around it but with
// some inside, and the number of that operand; nil if there is none.
func (t *term) misread() (then *term, operand int) {
	if t.op == opThen {
		for i, k := range t.kids {
			if i > 0 && (k.op == opAnd || k.op == opOr) && !k.bracketed && slices.ContainsFunc(k.kids, (*term).closed) {
				return t, i
			}
		}
	}
	for _, k := range t.kids {
		if then, operand = k.misread(); then != nil {
			return then, operand
		}
	}
	return nil, 0
}

// closed is whether a term stands in parentheses, a NOT, WITHIN or AFTER before or behind them aside.
func (t *term) closed() bool {
	return t.bracketed || (t.op == opNot || t.op == opWithin || t.op == opAfter) && t.kids[0].closed()
}

// otherReading is a THEN whose operand of a number ends with the first part of its AND or OR, which joins the others to the whole.
func (t *term) otherReading(i int) *term {
	k := t.kids[i]
	first := &term{op: opThen, kids: append(slices.Clone(t.kids[:i]), k.kids[0])}
	all := &term{op: k.op, kids: append([]*term{first}, k.kids[1:]...)}
	if i == len(t.kids)-1 {
		return all
	}
	return &term{op: opThen, kids: append([]*term{all}, t.kids[i+1:]...)}
}
