package driplang

import (
	"fmt"
	"slices"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// WarningKind is a kind of warning.
type WarningKind string

const (
	// FiresImmediately: the right side of a THEN is a NOT without WITHIN. It is true until the
	// event occurs, so the whole expression is true as soon as the left side is.
	FiresImmediately WarningKind = "fires-at-once"
	// KeepsManyInstances: neither the latest nor the earliest completion of a left side makes the
	// others redundant. The state of an entity grows with each of them while the window is open.
	KeepsManyInstances WarningKind = "keeps-many"
	// UnexpectedPrecedence: a THEN is followed by parentheses and an AND or OR, such as A THEN (B
	// WITHIN 2d) AND C. The AND belongs to the right side of the THEN, although many readers expect
	// it around the whole.
	UnexpectedPrecedence WarningKind = "reads-otherwise"
)

// Warning describes a valid construct that is rarely intended, or expensive.
type Warning struct {
	Kind    WarningKind
	Message string
	// Pointer is the JSON Pointer of an operator or event in the JSON form: the operand of the THEN
	// that is true at once, of which many completions are kept, or that reads otherwise.
	Pointer string
}

// Warnings returns the warnings for the author of a trigger; most expressions have none. Warnings
// with the same message are one, with the first Pointer. It does not warn about expressions that are true initially; see the monitor's Program
// for that.
func (e Expr) Warnings() []Warning {
	var all []Warning
	seen := make(map[string]bool)
	var pointers map[position]string // of the tree: the term of a form may be a copy, of a count
	add := func(c WarningKind, about fmt.Stringer, format string, args ...any) {
		if message := fmt.Sprintf(format, args...); !seen[message] {
			if seen[message] = true; pointers == nil {
				pointers = e.pointers()
			}
			w := Warning{Kind: c, Message: message}
			if t, ok := about.(*term); ok {
				w.Pointer = pointers[t.at]
			}
			all = append(all, w)
		}
	}
	if e.normal == nil {
		return nil
	}
	if then, i := e.root.misread(); then != nil {
		add(UnexpectedPrecedence, then.kids[i], "%s binds more strongly than THEN: this is read as %s; if that is not meant, write %s",
			opWords[then.kids[i].op], then, then.otherReading(i))
	}
	for _, f := range form.FiresImmediately(e.normal.Root) {
		left, right := f.Kids[0].From, f.Kids[1].From.String()
		if f.Kids[1].Op == form.Leaf {
			right = "NOT " + operand(f.Kids[1].From)
		}
		add(FiresImmediately, f.Kids[1].From, "NOT without WITHIN: true at once when %s is complete; did you mean %s THEN ((%s) WITHIN ...)?",
			left, operand(left), right)
	}
	for _, f := range form.KeepsManyInstances(e.normal.Root) {
		add(KeepsManyInstances, f.Kids[0].From, "keeps one instance for each completion of %s in the last %s", f.Kids[0].From,
			formatMillis(form.Reach(f.Kids[1])))
	}
	return all
}

// pointers returns the JSON Pointer of each term, with the NOTs directly around it, by position.
func (e Expr) pointers() map[position]string {
	all := map[position]string{}
	begin, negated := "", false
	e.root.visit("", func(t *term, pointer string) {
		if !negated {
			begin = pointer
		}
		all[t.at] = begin
		negated = t.op == opNot
	})
	return all
}

// operand formats a term as an operand.
func operand(s fmt.Stringer) string {
	if t, ok := s.(*term); ok && t.op != opEvent {
		return "(" + s.String() + ")"
	}
	return s.String()
}

// misread returns the first THEN with an operand (after the first one) that is an AND or OR without
// parentheses around it but with some inside, and the index of the operand; nil if there is none.
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

// closed reports whether a term is in parentheses, apart from a NOT, WITHIN or AFTER around them.
func (t *term) closed() bool {
	return t.bracketed || (t.op == opNot || t.op == opWithin || t.op == opAfter) && t.kids[0].closed()
}

// otherReading returns the THEN whose operand i ends with the first part of its AND or OR. The
// other parts are joined to the whole.
func (t *term) otherReading(i int) *term {
	k := t.kids[i]
	first := &term{op: opThen, kids: append(slices.Clone(t.kids[:i]), k.kids[0])}
	all := &term{op: k.op, kids: append([]*term{first}, k.kids[1:]...)}
	if i == len(t.kids)-1 {
		return all
	}
	return &term{op: opThen, kids: append([]*term{all}, t.kids[i+1:]...)}
}
