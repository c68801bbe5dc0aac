package driplang

import (
	"strconv"
	"strings"
)

// Parse parses an expression in text form. Every error is an [*Error] with line and column. Errors
// include exceeded limits, a WITHIN without a starting point, and an empty window.
func Parse(text string) (Expr, error) {
	if len(text) > MaxText {
		return Expr{}, &Error{Message: "the expression has " + strconv.Itoa(len(text)) + " bytes, the limit is " + strconv.Itoa(MaxText)}
	}
	p := parser{lexer: lexer{text: text, line: 1, col: 1}}
	root, err := p.whole()
	if err != nil {
		return Expr{}, err
	}
	return finish(root)
}

// parser is a Pratt parser: every operator has a binding power, and an operand includes operators
// that bind more strongly than the surrounding one.
type parser struct {
	lexer
	cur     token // the next token, not consumed
	end     int   // of the last consumed token or duration, in bytes
	nesting int
}

// power returns the binding power of an infix operator; 0 if t is none.
func power(t token) (op, int) {
	switch {
	case t.is("THEN"):
		return opThen, 1
	case t.is("OR"):
		return opOr, 2
	case t.is("AND"):
		return opAnd, 3
	}
	return 0, 0
}

func (p *parser) take() *Error {
	p.end = len(strings.TrimRight(p.text[:p.pos], spaces)) // a duration also reads the spaces after it
	var err *Error
	p.cur, err = p.next()
	return err
}

func (p *parser) whole() (*term, *Error) {
	if err := p.take(); err != nil {
		return nil, err
	}
	t, _, err := p.expr(1)
	if err != nil {
		return nil, err
	}
	if p.cur.kind != tokEnd {
		return nil, p.cur.at.errorf("expected AND, OR, THEN, WITHIN, AFTER or the end, found %v", p.cur)
	}
	return t, nil
}

// spanned returns t with its place in the text: from a byte to the last consumed token.
func (p *parser) spanned(t *term, from int) *term {
	t.from, t.to = uint16(from), uint16(p.end)
	return t
}

// expr parses operators with at least the given power. It also returns the depth of the result.
func (p *parser) expr(least int) (*term, int, *Error) {
	from := p.cur.from
	left, depth, err := p.unary()
	if err != nil {
		return nil, 0, err
	}
	for {
		infix, pow := power(p.cur)
		if pow < max(least, 1) {
			return left, depth, nil
		}
		joined := &term{op: infix, kids: []*term{left}, at: p.cur.at}
		for power := pow; power == pow; _, power = p.power() {
			if err := p.take(); err != nil {
				return nil, 0, err
			}
			right, d, err := p.expr(pow + 1)
			if err != nil {
				return nil, 0, err
			}
			joined.kids, depth = append(joined.kids, right), max(depth, d)
		}
		if left, depth = p.spanned(joined, from), depth+1; depth > MaxDepth {
			return nil, 0, joined.at.errorf("operators are nested more than %d deep", MaxDepth)
		}
	}
}

func (p *parser) power() (op, int) { return power(p.cur) }

// nest bounds the parser's recursion.
func (p *parser) nest() *Error {
	if p.nesting++; p.nesting > maxNesting {
		return p.cur.at.errorf("operators and parentheses are nested more than %d deep", maxNesting)
	}
	return nil
}

func (p *parser) unary() (*term, int, *Error) {
	if !p.cur.is("NOT") {
		return p.postfix()
	}
	if err := p.nest(); err != nil {
		return nil, 0, err
	}
	defer func() { p.nesting-- }()
	not, from := &term{op: opNot, at: p.cur.at}, p.cur.from
	if err := p.take(); err != nil {
		return nil, 0, err
	}
	kid, depth, err := p.unary()
	if err != nil {
		return nil, 0, err
	}
	if depth++; depth > MaxDepth {
		return nil, 0, not.at.errorf("operators are nested more than %d deep", MaxDepth)
	}
	not.kids = []*term{kid}
	return p.spanned(not, from), depth, nil
}

func (p *parser) postfix() (*term, int, *Error) {
	from := p.cur.from
	t, depth, err := p.primary()
	if err != nil {
		return nil, 0, err
	}
	for {
		window := &term{op: opWithin, kids: []*term{t}, at: p.cur.at}
		switch {
		case p.cur.is("WITHIN"):
		case p.cur.is("AFTER"):
			window.op = opAfter
		default:
			return t, depth, nil
		}
		if window.millis, err = p.duration(" after " + opWords[window.op]); err != nil {
			return nil, 0, err
		}
		if err := p.take(); err != nil {
			return nil, 0, err
		}
		if t, depth = p.spanned(window, from), depth+1; depth > MaxDepth {
			return nil, 0, window.at.errorf("operators are nested more than %d deep", MaxDepth)
		}
	}
}

func (p *parser) primary() (*term, int, *Error) {
	first := p.cur
	switch {
	case first.is("("):
		return p.parenthesis()
	case first.kind == tokWord && !isKeyword(first.text), first.kind == tokString:
	default:
		return nil, 0, first.at.errorf("expected an event name, NOT or '(', found %v", first)
	}
	if err := p.take(); err != nil {
		return nil, 0, err
	}
	if first.kind == tokWord && first.is("count") && p.cur.is("(") {
		t, err := p.count(first)
		return t, 1, err
	}
	kind, err := p.eventKind(first)
	return p.spanned(&term{op: opEvent, event: kind, at: first.at}, first.from), 1, err
}

func (p *parser) parenthesis() (*term, int, *Error) {
	if err := p.nest(); err != nil {
		return nil, 0, err
	}
	defer func() { p.nesting-- }()
	if err := p.take(); err != nil {
		return nil, 0, err
	}
	t, depth, err := p.expr(1)
	if err != nil {
		return nil, 0, err
	}
	t.bracketed = true
	return t, depth, p.expect(")", " or AND, OR, THEN, WITHIN, AFTER")
}

func (p *parser) expect(sign, or string) *Error {
	if !p.cur.is(sign) {
		return p.cur.at.errorf("expected '%s'%s, found %v", sign, or, p.cur)
	}
	return p.take()
}

// eventKind parses an optional filter after the name, which is already consumed.
func (p *parser) eventKind(name token) (eventKind, *Error) {
	if err := name.at.checkName(name.text); err != nil {
		return eventKind{}, err
	}
	k := eventKind{name: name.text}
	if !p.cur.is("[") {
		return k, nil
	}
	if err := p.take(); err != nil {
		return k, err
	}
	var err *Error
	if k.where, _, err = p.filterOr(); err != nil {
		return k, err
	}
	return k, p.expect("]", " or AND, OR")
}

func (p position) checkName(name string) *Error {
	switch {
	case name == "":
		return p.errorf("an event name must not be empty")
	case len(name) > MaxName:
		return p.errorf("the event name has %d bytes, the limit is %d", len(name), MaxName)
	}
	return nil
}

// count parses count(name) >= 3; the word is already consumed.
func (p *parser) count(word token) (*term, *Error) {
	t := &term{op: opCount, at: word.at}
	if err := p.take(); err != nil { // (
		return nil, err
	}
	name := p.cur
	if name.kind != tokString && (name.kind != tokWord || isKeyword(name.text)) {
		return nil, name.at.errorf("expected the name of the event to count, found %v", name)
	}
	err := p.take()
	if err != nil {
		return nil, err
	}
	if t.event, err = p.eventKind(name); err != nil {
		return nil, err
	}
	if err := p.expect(")", ""); err != nil {
		return nil, err
	}
	if t.is, err = p.comparison(); err != nil {
		return nil, err
	}
	n := p.cur
	if t.n, err = parseCount(n); err != nil {
		return nil, err
	}
	if err := n.at.checkCount(t.is, t.n); err != nil {
		return nil, err
	}
	err = p.take()
	return p.spanned(t, word.from), err
}

func (p *parser) comparison() (compare, *Error) {
	c, ok := parseCompare(p.cur.text)
	if p.cur.kind != tokSign || !ok {
		return 0, p.cur.at.errorf("expected =, !=, <, <=, > or >=, found %v", p.cur)
	}
	return c, p.take()
}

func parseCount(t token) (int, *Error) {
	n, err := strconv.ParseUint(t.text, 10, 16)
	if t.kind != tokNumber || err != nil || n > MaxCount {
		return 0, t.at.errorf("expected a whole number from 0 to %d, found %v", MaxCount, t)
	}
	return int(n), nil
}

// checkCount refuses comparisons that are always or never true.
func (p position) checkCount(is compare, n int) *Error {
	switch {
	case n > 0:
	case is == atLeast:
		return p.errorf("the comparison is always true: a count is >= 0")
	case is == less:
		return p.errorf("the comparison is always false: a count is not < 0")
	}
	return nil
}

// Span is the place of an operator or event in the text that [Parse] read: text[From:To], in bytes,
// without parentheses around it. Parsed in the same surroundings, this part is an equal expression.
type Span struct {
	Pointer  string // JSON Pointer of the operator or event in the JSON form; "" is the whole
	From, To int
}

// Spans returns the spans of all operators and events of e, each before its operands. The event of
// a count has none. Spans returns nil for an expression that was read from JSON.
func (e Expr) Spans() []Span {
	if e.root == nil || e.root.to == 0 {
		return nil
	}
	var list []Span
	e.root.visit("", func(t *term, pointer string) {
		list = append(list, Span{Pointer: pointer, From: int(t.from), To: int(t.to)})
	})
	return list
}

// visit calls f for a term with a pointer and for all terms in it, each before its operands.
func (t *term) visit(pointer string, f func(t *term, pointer string)) {
	f(t, pointer)
	for i, k := range t.kids {
		at := pointer + "/" + strings.ToLower(opWords[t.op])
		if t.op.list() {
			at += "/" + itoa(i)
		}
		k.visit(at, f)
	}
}

// Limits of an expression. Each is checked before the allocation that it bounds. An [Error] names
// the exceeded limit.
const (
	// MaxText is the maximum length of an expression in text form, in bytes, as given and in the
	// canonical form of [Expr.String].
	MaxText = 16 << 10
	// MaxJSON is the maximum length of an expression in JSON form, in bytes. The JSON form of any
	// text within MaxText is within MaxJSON.
	MaxJSON = 128 << 10
	// MaxDepth is the maximum nesting of operators.
	MaxDepth = 64
	// MaxNames is the maximum number of event names, and of event kinds: a name with two different
	// filters is two kinds.
	MaxNames = 64
	// MaxName is the maximum length of an event name, in bytes.
	MaxName = 256
	// MaxCount is the maximum number in a comparison with a count.
	MaxCount = 1000
	// MaxMillis is the longest duration, in milliseconds: ten years of 366 days.
	MaxMillis = 3660 * 24 * 3600 * 1000
	// MaxPath is the maximum number of members in the path of a property.
	MaxPath = 16
	// MaxComparisons is the maximum number of comparisons of a [Filter].
	MaxComparisons = 64
)

// maxNesting bounds the parser's recursion: parentheses and NOTs together. The canonical form needs
// two per operator.
const maxNesting = 3 * MaxDepth
