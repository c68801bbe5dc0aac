package driplang

import (
	"slices"
	"strings"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// Expr is a valid expression. It is immutable; copies share it. The zero value is not an
// expression: it has no text and no names.
type Expr struct {
	root   *term
	normal *form.Expression
}

// Names returns the event names in e, sorted and without duplicates. Events with other names do not
// change its value.
func (e Expr) Names() []string {
	if e.root == nil {
		return nil
	}
	var names []string
	e.root.walk(func(t *term) {
		if t.op == opEvent || t.op == opCount {
			names = append(names, t.event.name)
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// Equal reports whether two expressions are the same, operator by operator.
func (e Expr) Equal(other Expr) bool { return e.String() == other.String() }

// Normal returns e in normal form, for the monitor; nil for the zero Expr.
func (e Expr) Normal() *form.Expression { return e.normal }

type op uint8

const (
	opEvent op = iota + 1
	opCount
	opNot
	opAnd
	opOr
	opThen
	opWithin
	opAfter
)

var opWords = [...]string{opNot: "NOT", opAnd: "AND", opOr: "OR", opThen: "THEN", opWithin: "WITHIN", opAfter: "AFTER"}

// term is a node of the parsed expression.
type term struct {
	op     op
	kids   []*term   // AND, OR, THEN: two or more; NOT, WITHIN, AFTER: one
	event  eventKind // opEvent, opCount
	is     compare   // opCount
	n      int       // opCount
	millis int64     // WITHIN, AFTER
	at     position  // of the operator's word, or the name
	// bracketed: the text has parentheses around it.
	bracketed bool
	// from and to delimit the term in the text, in bytes and without parentheses around it. Both are
	// zero for a term from JSON. They hold MaxText.
	from, to uint16
}

// eventKind is an event name and a filter on the event's data.
type eventKind struct {
	name  string
	where *filter // nil: no filter
}

// key identifies a kind of event: kinds with the same key match the same events.
func key(k eventKind) string {
	var b strings.Builder
	printEvent(&b, k)
	return b.String()
}

// String returns the term in canonical text form.
func (t *term) String() string {
	var b strings.Builder
	printTerm(&b, t)
	return b.String()
}

func (t *term) walk(f func(*term)) {
	f(t)
	for _, k := range t.kids {
		k.walk(f)
	}
}

// finish does the checks that text and JSON forms share.
func finish(root *term) (Expr, error) {
	e := Expr{root: root}
	names, kinds := map[string]bool{}, map[string]bool{}
	var fault *Error
	root.walk(func(t *term) {
		if fault != nil || t.op != opEvent && t.op != opCount {
			return
		}
		names[t.event.name], kinds[key(t.event)] = true, true
		switch {
		case len(names) > MaxNames:
			fault = t.at.errorf("more than %d event names", MaxNames)
		case len(kinds) > MaxNames:
			fault = t.at.errorf("more than %d names with different filters", MaxNames)
		}
	})
	if fault != nil {
		return Expr{}, fault
	}
	if n := len(e.String()); n > MaxText {
		return Expr{}, root.at.errorf("the canonical form of the expression has %d bytes, the limit is %d", n, MaxText)
	}
	var err *Error
	if e.normal, err = normalize(root); err != nil {
		return Expr{}, err
	}
	return e, nil
}
