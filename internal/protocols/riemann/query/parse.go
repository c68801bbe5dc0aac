package query

import (
	"fmt"
	"strings"
)

// Limits of a query.
const (
	MaxText  = 4 << 10 // bytes
	MaxDepth = 64      // nesting of parentheses and "not"
)

// Query is a parsed query. It is immutable and may be used concurrently.
type Query struct {
	text string
	root *node
}

// String returns the text of the query.
func (q *Query) String() string { return q.text }

// Parse parses a query. Every error is an *Error.
func Parse(text string) (*Query, error) {
	if len(text) > MaxText {
		return nil, &Error{Message: fmt.Sprintf("the query has %d bytes, the limit is %d", len(text), MaxText)}
	}
	p := parser{lexer: lexer{text: text}}
	root, err := p.whole()
	if err != nil {
		return nil, err
	}
	return &Query{text: strings.Clone(text), root: root}, nil
}

// node is a part of a query. Operators of one kind that follow each other have one node, so that
// the depth of a tree is bounded by that of the parentheses.
type node struct {
	op          op
	kids        []*node // of opAnd, opOr, opNot
	left, right operand // of comparisons
	matches     func(text []byte) bool
}

type op uint8

const (
	opOr op = iota
	opAnd
	opNot
	opTagged // right is the tag
	opIs     // left alone
	opEqual
	opUnequal
	opLess
	opAtMost
	opGreater
	opAtLeast
	opMatch
)

// operand is a field, or a constant if field is "".
type operand struct {
	field string
	value Value
}

var comparisons = map[string]op{
	"=": opEqual, "!=": opUnequal, "<": opLess, "<=": opAtMost, ">": opGreater, ">=": opAtLeast, "=~": opMatch, "~=": opMatch,
}

// parser is a Pratt parser: each infix operator has a binding power, and an operand includes the
// operators that bind more strongly than the surrounding one.
type parser struct {
	lexer
	cur   token // the next token, not consumed
	depth int
}

// power returns the binding power of an infix operator; 0 if t is none.
func power(t *token) (op, int) {
	switch {
	case t.kind != tokName:
	case t.text == "or":
		return opOr, 1
	case t.text == "and":
		return opAnd, 2
	}
	return 0, 0
}

func (p *parser) take() (err *Error) {
	p.cur, err = p.next()
	return err
}

func (p *parser) whole() (*node, error) {
	err := p.take()
	if err != nil {
		return nil, err
	}
	n, err := p.predicate(1)
	if err == nil && p.cur.kind != tokEnd {
		err = p.errorf(p.cur.at, "expected and, or, or the end, found %v", &p.cur)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// predicate parses infix operators of at least the given power.
func (p *parser) predicate(least int) (*node, *Error) {
	left, err := p.conjunct()
	if err != nil {
		return nil, err
	}
	for {
		infix, pow := power(&p.cur)
		if pow < least {
			return left, nil
		}
		joined := &node{op: infix, kids: []*node{left}}
		for same := pow; same == pow; _, same = power(&p.cur) {
			if err := p.take(); err != nil {
				return nil, err
			}
			right, err := p.predicate(pow + 1)
			if err != nil {
				return nil, err
			}
			joined.kids = append(joined.kids, right)
		}
		left = joined
	}
}

// conjunct parses an operand of and.
func (p *parser) conjunct() (*node, *Error) {
	not, open := p.cur.is("not"), p.cur.is("(")
	if !not && !open {
		return p.comparison()
	}
	if p.depth++; p.depth > MaxDepth {
		return nil, p.errorf(p.cur.at, "parentheses and not are nested more than %d deep", MaxDepth)
	}
	defer func() { p.depth-- }()
	if err := p.take(); err != nil {
		return nil, err
	}
	if not {
		kid, err := p.conjunct()
		return &node{op: opNot, kids: []*node{kid}}, err
	}
	n, err := p.predicate(1)
	if err != nil {
		return nil, err
	}
	if !p.cur.is(")") {
		return nil, p.errorf(p.cur.at, "expected and, or, or ')', found %v", &p.cur)
	}
	return n, p.take()
}

func (p *parser) comparison() (*node, *Error) {
	if p.cur.is("tagged") {
		if err := p.take(); err != nil {
			return nil, err
		}
		tag, err := p.string("tagged")
		return &node{op: opTagged, right: operand{field: tag}}, err
	}
	left, err := p.value("a comparison")
	if err != nil {
		return nil, err
	}
	n := &node{op: opIs, left: left}
	compare := p.cur
	if compare.kind != tokSign || compare.text == "(" || compare.text == ")" {
		return n, nil
	}
	n.op = comparisons[compare.text]
	if err := p.take(); err != nil {
		return nil, err
	}
	switch n.op {
	case opEqual, opUnequal:
		n.right, err = p.value("a value")
	case opMatch:
		at := p.cur.at
		pattern, err := p.string(compare.text)
		if err != nil {
			return nil, err
		}
		if compare.text == "=~" {
			n.matches = wildcard(pattern)
		} else if n.matches, err = p.expression(at, pattern); err != nil {
			return nil, err
		}
		return n, nil
	default:
		if p.cur.kind != tokNumber {
			return nil, p.errorf(p.cur.at, "expected a number after %s, found %v", compare.text, &p.cur)
		}
		n.right.value = p.cur.value
		return n, p.take()
	}
	return n, err
}

// string parses the string after an operator.
func (p *parser) string(after string) (string, *Error) {
	if p.cur.kind != tokText {
		return "", p.errorf(p.cur.at, "expected a string after %s, found %v", after, &p.cur)
	}
	text := p.cur.text
	return text, p.take()
}

func (p *parser) value(want string) (o operand, err *Error) {
	switch t := &p.cur; {
	case t.kind == tokText:
		o.value = Value{Kind: Text, Text: []byte(t.text)}
	case t.kind == tokNumber:
		o.value = t.value
	case t.is("true"):
		o.value.Kind = True
	case t.is("false"):
		o.value.Kind = False
	case t.is("nil"), t.is("null"):
	case t.kind == tokName && !t.is("and") && !t.is("or") && !t.is("not") && !t.is("tagged"):
		if o.field = t.text; o.field == "metric_f" {
			o.field = "metric"
		}
	default:
		return o, p.errorf(t.at, "expected %s, found %v", want, t)
	}
	return o, p.take()
}

// Key returns the host and the service of the only events that can match, if the query demands both
// by equality.
func (q *Query) Key() (host, service string, ok bool) {
	var hasHost, hasService bool
	n := q.root
	parts := []*node{n}
	if n.op == opAnd {
		parts = n.kids
	}
	for _, part := range parts {
		field, text, ok := part.demands()
		switch {
		case ok && field == "host":
			host, hasHost = text, true
		case ok && field == "service":
			service, hasService = text, true
		}
	}
	return host, service, hasHost && hasService
}

// demands returns the field and the text of a comparison such as host = "a".
func (n *node) demands() (field, text string, ok bool) {
	left, right := &n.left, &n.right
	if left.field == "" {
		left, right = right, left
	}
	ok = n.op == opEqual && left.field != "" && right.field == "" && right.value.Kind == Text
	return left.field, string(right.value.Text), ok
}
