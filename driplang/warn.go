package driplang

import (
	"fmt"

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
