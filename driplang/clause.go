package driplang

import (
	"slices"
	"strings"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// clause is a term in the order of an English sentence: NOT only at events and sequences, and no
// list directly in a list of its kind. It has the meaning of its term.
type clause struct {
	kind          clauseKind
	not           bool // happens, sequence
	event         eventKind
	need          int  // happens: least number of events
	exactly       bool // happens: and not one more; never with not
	after, within int64
	sliding       int64     // happens: a count within this time from any of its events
	kids          []*clause // all, some, sequence: two or more
}

type clauseKind uint8

const (
	happens clauseKind = iota + 1
	all
	some
	sequence
)

// around is the surroundings of a term.
type around struct {
	anchored bool // there is an instant to its left from which windows are measured
	then     bool // it is in a THEN
}

// newClause returns the clause of a term, or of its NOT.
func newClause(t *term, not bool, in around) *clause {
	switch t.op {
	case opEvent:
		return &clause{kind: happens, not: not, event: t.event, need: 1}
	case opCount:
		return countClause(t, not)
	case opNot:
		return newClause(t.kids[0], !not, in)
	case opWithin, opAfter:
		c := newClause(t.kids[0], not, in)
		switch {
		case !in.anchored:
			c.sliding = t.millis
		case t.op == opAfter:
			c.after = max(c.after, t.millis)
		case c.within == 0 || t.millis < c.within:
			c.within = t.millis
		}
		return c
	case opThen:
		return sequenceClause(t, not, in)
	}
	c := &clause{kind: all}
	if t.op == opOr != not { // De Morgan
		c.kind = some
	}
	for _, k := range t.kids {
		c.join(newClause(k, not, in))
	}
	c.unite(in.then)
	return c.single()
}

// join appends a part. The parts of a list of the same kind and in the same window are parts of the
// whole.
func (c *clause) join(k *clause) {
	if k.kind == c.kind && !k.not && k.after == 0 && k.within == 0 {
		c.kids = append(c.kids, k.kids...)
	} else {
		c.kids = append(c.kids, k)
	}
}

// unite removes repeated events of an AND or OR: X AND X is X. In a THEN it does not do so for events
// of an AND: a guard before X AND X is for one of the two.
func (c *clause) unite(then bool) {
	type leaf struct {
		event                  string
		need                   int
		not, exactly           bool
		after, within, sliding int64
	}
	seen := make(map[leaf]bool, len(c.kids))
	c.kids = slices.DeleteFunc(c.kids, func(k *clause) bool {
		if k.kind != happens || then && c.kind == all && !k.not {
			return false
		}
		l := leaf{key(k.event), k.need, k.not, k.exactly, k.after, k.within, k.sliding}
		repeated := seen[l]
		seen[l] = true
		return repeated
	})
}

// single returns the part of a list that has only one, else c.
func (c *clause) single() *clause {
	if len(c.kids) == 1 {
		return c.kids[0]
	}
	return c
}

func countClause(t *term, not bool) *clause {
	c := &clause{kind: happens, event: t.event, need: t.n}
	switch t.is {
	case atLeast, less:
		c.not = not != (t.is == less)
		return c
	case greater, atMost:
		c.need, c.not = t.n+1, not != (t.is == atMost)
		return c
	}
	more := &clause{kind: happens, event: t.event, need: t.n + 1}
	switch is := t.is == equal != not; {
	case t.n == 0:
		more.not = is
		return more
	case is:
		c.exactly = true
		return c
	}
	c.not = true
	return &clause{kind: some, kids: []*clause{c, more}}
}

func sequenceClause(t *term, not bool, in around) *clause {
	in.then = true
	c := &clause{kind: sequence, not: not}
	for _, t := range t.kids { // (X THEN Y) THEN Z = X THEN (Y THEN Z)
		k := newClause(t, false, in)
		c.join(k)
		in.anchored = in.anchored || !k.maybeGuard()
	}
	// Guards before a last absence: (NOT X) THEN Y = (NOT X) AND Y
	for last := len(c.kids) - 1; last > 0 && c.kids[last].absence() && c.kids[last-1].guard() && !(not && last == 1); last-- {
		both := &clause{kind: all}
		both.join(c.kids[last-1])
		both.join(c.kids[last])
		both.unite(true)
		c.kids = append(c.kids[:last-1], both.single())
	}
	return c.single()
}

// maybeGuard reports whether an alternative of c is a guard. A THEN to its right has then no instant
// from which a window is measured.
func (c *clause) maybeGuard() bool {
	switch {
	case c.within > 0:
		return false
	case c.not, c.kind == happens:
		return c.not
	case c.kind == some:
		return slices.ContainsFunc(c.kids, (*clause).maybeGuard)
	}
	return c.each((*clause).maybeGuard)
}

// guard reports whether c is an absence without an end. As a left side of a THEN it has no instant.
func (c *clause) guard() bool { return c.within == 0 && c.parts((*clause).guard) }

// absence reports whether c uses no event. A sequence that is no NOT has an instant within it.
func (c *clause) absence() bool { return c.parts((*clause).absence) }

// parts reports whether c is a NOT, or a list all of whose parts satisfy f.
func (c *clause) parts(f func(*clause) bool) bool {
	if c.not || c.kind == happens || c.kind == sequence {
		return c.not
	}
	return c.each(f)
}

// several reports whether c may need several events, or the end of an absence, of which only the
// first event must follow its guards. All events of a count must follow them.
func (c *clause) several() bool {
	switch {
	case c.not:
		return false
	case c.kind == happens:
		return c.sliding > 0
	case c.kind == sequence:
		return true
	}
	instants := 0
	for _, k := range c.kids {
		if k.several() {
			return true
		}
		if !k.guard() || c.within > 0 {
			instants++
		}
	}
	return c.kind == all && instants > 1 && !c.absence()
}

// once reports whether c is an event that happens at least once at any time, or that does not.
func (c *clause) once() bool {
	return c.kind == happens && c.need == 1 && !c.exactly && c.after == 0 && c.within == 0
}

// absentOnce is once for an event that does not happen.
func (c *clause) absentOnce() bool { return c.not && c.once() }

// plain reports whether c is an event without a filter that happens at least once at any time.
func (c *clause) plain() bool { return !c.not && c.once() && c.event.where == nil }

// plainAbsence is plain for an event that does not happen.
func (c *clause) plainAbsence() bool { return c.absentOnce() && c.event.where == nil }

func (c *clause) each(is func(*clause) bool) bool {
	return !slices.ContainsFunc(c.kids, func(k *clause) bool { return !is(k) })
}

// maxInline is the number of steps of a sequence that is one sentence.
const maxInline = 6

// flat reports whether c can be one sentence. Deeper ones are outlines.
func (c *clause) flat() bool {
	switch c.kind {
	case happens:
		return true
	case all, some:
		return c.each(func(k *clause) bool { return k.kind == happens })
	}
	if len(c.kids) > maxInline {
		return false
	}
	for i, k := range c.kids {
		last := i == len(c.kids)-1
		switch {
		case k.kind == sequence || !k.flat():
			return false
		case last:
		case k.guard():
			next := c.kids[i+1]
			alternative := next.kind == some && slices.ContainsFunc(next.kids, (*clause).absence) // it may use no event
			if k.kind != happens && !k.each((*clause).absentOnce) || k.after > 0 || k.sliding > 0 || next.absence() && !next.guard() || alternative {
				return false
			}
		case k.kind == some && k.within == 0 && slices.ContainsFunc(k.kids, (*clause).guard):
			return false // an alternative with an instant, and one without
		}
	}
	return true
}

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
