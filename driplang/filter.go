package driplang

import (
	"strings"
	"unicode/utf8"

	"github.com/sebbroker/seb/internal/engine/base/decimal"
)

// filterOp is the operation of a filter.
type filterOp uint8

// filterAnd and filterOr have two or more operands, filterNot has one. filterIs compares a property
// with a literal.
const (
	filterAnd filterOp = iota + 1
	filterOr
	filterNot
	filterIs
)

// filter is a condition on an event's data. It is always true or false. A comparison with a missing
// property, or with a value of another type than the literal, does not hold; != is NOT =. Null and
// missing are the same.
type filter struct {
	op   filterOp
	kids []*filter // and, or, not
	path []string  // is: members of objects, outermost first
	cmp  compare   // is
	want literal   // is
	slot int       // is: of the value at path, see compile
	// from and to delimit the filter in the text, like those of a term.
	from, to uint16
}

// each calls f for all comparisons.
func (f *filter) each(do func(is *filter)) {
	if f.op == filterIs {
		do(f)
	}
	for _, k := range f.kids {
		k.each(do)
	}
}

// compile numbers the comparisons. It returns the properties that they need, and their number.
func (f *filter) compile() (root *properties, slots int) {
	root = &properties{}
	f.each(func(is *filter) {
		p := root.add(is.path)
		if len(p.slots) == 0 {
			p.slots = []int{slots}
			slots++
		}
		is.slot = p.slots[0]
	})
	return root, slots
}

// holds reports whether the filter is true for the values of its properties, by slot.
func (f *filter) holds(values []jsonValue) bool {
	switch f.op {
	case filterAnd:
		for _, k := range f.kids {
			if !k.holds(values) {
				return false
			}
		}
		return true
	case filterOr:
		for _, k := range f.kids {
			if k.holds(values) {
				return true
			}
		}
		return false
	case filterNot:
		return !f.kids[0].holds(values)
	}
	if f.cmp == unequal {
		return !equal.with(values[f.slot], f.want)
	}
	return f.cmp.with(values[f.slot], f.want)
}

// with compares a property's value with a literal.
func (c compare) with(have jsonValue, want literal) bool {
	if have.kind != want.kind {
		return false
	}
	switch want.kind {
	case kindString:
		order, ok := have.order(want.text)
		return ok && c.holds(order)
	case kindNumber:
		n, ok := decimal.Parse(have.raw)
		return ok && c.holds(n.Compare(want.number))
	}
	return c == equal
}

// fewSlots is the number of values of most filters. These do not allocate.
const fewSlots = 8

// dataFilter is a compiled filter on the data of an event.
type dataFilter struct {
	*filter
	root  *properties
	slots int
}

func newDataFilter(f *filter) *dataFilter {
	root, slots := f.compile()
	return &dataFilter{f, root, slots}
}

// Matches reports whether data, a JSON document, satisfies the filter. Its result is defined for
// any bytes, and deterministic.
func (f *dataFilter) Matches(data []byte) bool {
	var few [fewSlots]jsonValue
	values := few[:]
	if f.slots > fewSlots {
		values = make([]jsonValue, f.slots)
	}
	f.root.find(data, values)
	return f.holds(values)
}

// maxFilterDepth bounds the nesting of filters, and so the recursion.
const maxFilterDepth = 16

func (p *parser) filterOr() (*filter, int, *Error) {
	return p.filterList("OR", filterOr, p.filterAnd)
}

func (p *parser) filterAnd() (*filter, int, *Error) {
	return p.filterList("AND", filterAnd, p.filterUnary)
}

func (p *parser) filterList(word string, op filterOp, operand func() (*filter, int, *Error)) (*filter, int, *Error) {
	from := p.cur.from
	left, depth, err := operand()
	if err != nil || !p.cur.is(word) {
		return left, depth, err
	}
	list := &filter{op: op, kids: []*filter{left}}
	for p.cur.is(word) {
		at := p.cur.at
		if err := p.take(); err != nil {
			return nil, 0, err
		}
		right, d, err := operand()
		if err != nil {
			return nil, 0, err
		}
		if depth = max(depth, d); depth >= maxFilterDepth {
			return nil, 0, at.errorf("the filter is nested more than %d deep", maxFilterDepth)
		}
		list.kids = append(list.kids, right)
	}
	return p.spannedFilter(list, from), depth + 1, nil
}

// spannedFilter is spanned for a filter.
func (p *parser) spannedFilter(f *filter, from int) *filter {
	f.from, f.to = uint16(from), uint16(p.end)
	return f
}

func (p *parser) filterUnary() (*filter, int, *Error) {
	at, from := p.cur.at, p.cur.from
	not := p.cur.is("NOT")
	if !not && !p.cur.is("(") {
		f, err := p.filterCompare()
		return f, 1, err
	}
	if err := p.nest(); err != nil {
		return nil, 0, err
	}
	defer func() { p.nesting-- }()
	if err := p.take(); err != nil {
		return nil, 0, err
	}
	if !not {
		f, depth, err := p.filterOr()
		if err != nil {
			return nil, 0, err
		}
		return f, depth, p.expect(")", " or AND, OR")
	}
	kid, depth, err := p.filterUnary()
	if err != nil {
		return nil, 0, err
	}
	if depth++; depth > maxFilterDepth {
		return nil, 0, at.errorf("the filter is nested more than %d deep", maxFilterDepth)
	}
	return p.spannedFilter(&filter{op: filterNot, kids: []*filter{kid}}, from), depth, nil
}

func (p *parser) filterCompare() (*filter, *Error) {
	f, from := &filter{op: filterIs}, p.cur.from
	var err *Error
	if f.path, err = p.path(); err != nil {
		return nil, err
	}
	if f.cmp, err = p.comparison(); err != nil {
		return nil, err
	}
	lit := p.cur
	if f.want, err = p.literal(); err != nil {
		return nil, err
	}
	return p.spannedFilter(f, from), lit.at.checkOrder(f.cmp, f.want)
}

// path parses members joined by dots: user.plan, or user."first name" if a member is not a word.
func (p *parser) path() ([]string, *Error) {
	var path []string
	for at := p.cur.at; ; {
		switch {
		case p.cur.kind == tokString:
			path = append(path, p.cur.text)
		case p.cur.kind == tokWord && (len(path) > 0 || !isKeyword(p.cur.text)):
			if strings.Contains(p.cur.text, "..") {
				return nil, p.cur.at.errorf("two dots in a row in the path '%s'", clip(p.cur.text))
			}
			path = append(path, strings.Split(p.cur.text, ".")...)
		default:
			return nil, p.cur.at.errorf("expected a property of the event's data, found %v", p.cur)
		}
		if len(path) > MaxPath {
			return nil, at.errorf("the path has more than %d members", MaxPath)
		}
		word := p.cur.kind == tokWord
		if err := p.take(); err != nil {
			return nil, err
		}
		switch {
		case word && path[len(path)-1] == "": // the word ended in a dot
			path = path[:len(path)-1]
		case p.cur.is("."):
			if err := p.take(); err != nil {
				return nil, err
			}
		default:
			return path, at.checkMembers(path)
		}
	}
}

func (p position) checkMembers(path []string) *Error {
	for _, member := range path {
		if len(member) > MaxName {
			return p.errorf("a member of the path has %d bytes, the limit is %d", len(member), MaxName)
		}
	}
	return nil
}

func (p *parser) literal() (literal, *Error) {
	t := p.cur
	var v literal
	switch {
	case t.kind == tokString:
		v = literal{kind: kindString, text: t.text}
	case t.kind == tokNumber:
		var ok bool
		if v, ok = parseNumber(t.text); !ok {
			return v, t.at.errorf("%v is not a valid JSON number, or its exponent has more than 18 digits", t)
		}
	case t.is("true"):
		v.kind = kindTrue
	case t.is("false"):
		v.kind = kindFalse
	case t.is("null"):
		v.kind = kindNull
	default:
		return v, t.at.errorf(`expected a number, "string", true, false or null, found %v`, t)
	}
	return v, p.take()
}

// checkOrder refuses comparisons such as true < false.
func (p position) checkOrder(is compare, v literal) *Error {
	if is != equal && is != unequal && v.kind != kindString && v.kind != kindNumber {
		return p.errorf("only numbers and strings have an order: use = or !=")
	}
	return nil
}

// plainMember reports whether a member of a path needs no quotes.
func plainMember(s string) bool {
	if s == "" || isKeyword(s) {
		return false
	}
	for i, r := range s {
		if r == utf8.RuneError || r == '.' || i == 0 && !startsWord(r) || !inWord(r) {
			return false
		}
	}
	return true
}
