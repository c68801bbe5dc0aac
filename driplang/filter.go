package driplang

import "strings"

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
}

// Matches reports whether data, a JSON document, satisfies the filter. Its result is defined for
// any bytes, and deterministic.
func (f *filter) Matches(data []byte) bool {
	switch f.op {
	case filterAnd:
		for _, k := range f.kids {
			if !k.Matches(data) {
				return false
			}
		}
		return true
	case filterOr:
		for _, k := range f.kids {
			if k.Matches(data) {
				return true
			}
		}
		return false
	case filterNot:
		return !f.kids[0].Matches(data)
	}
	have := findValue(data, f.path)
	if f.cmp == unequal {
		return !equal.with(have, f.want)
	}
	return f.cmp.with(have, f.want)
}

// with compares a property's value with a literal.
func (c compare) with(have jsonValue, want literal) bool {
	if have.kind != want.kind {
		return false
	}
	switch want.kind {
	case kindString:
		text, ok := have.string()
		return ok && c.holds(strings.Compare(text, want.text))
	case kindNumber:
		n, ok := parseNumber(string(have.raw))
		return ok && c.holds(n.order(want))
	}
	return c == equal
}
