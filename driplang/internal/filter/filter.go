// Package filter evaluates a filter on an event's JSON data without decoding the data.
package filter

import "strings"

// Op is the operation of a filter.
type Op uint8

// And and Or have two or more operands, Not has one. Is compares a property with a literal.
const (
	And Op = iota + 1
	Or
	Not
	Is
)

// Filter is a condition on an event's data. It is always true or false. A comparison with a missing
// property, or with a value of another type than the literal, does not hold; != is NOT =. Null and
// missing are the same.
type Filter struct {
	Op   Op
	Kids []*Filter // And, Or, Not
	Path []string  // Is: members of objects, outermost first
	Cmp  Compare   // Is
	Want Literal   // Is
}

// Matches reports whether data, a JSON document, satisfies the filter. Its result is defined for
// any bytes, and deterministic.
func (f *Filter) Matches(data []byte) bool {
	switch f.Op {
	case And:
		for _, k := range f.Kids {
			if !k.Matches(data) {
				return false
			}
		}
		return true
	case Or:
		for _, k := range f.Kids {
			if k.Matches(data) {
				return true
			}
		}
		return false
	case Not:
		return !f.Kids[0].Matches(data)
	}
	have := find(data, f.Path)
	if f.Cmp == Unequal {
		return !Equal.with(have, f.Want)
	}
	return f.Cmp.with(have, f.Want)
}

// with compares a property's value with a literal.
func (c Compare) with(have value, want Literal) bool {
	if have.kind != want.Kind {
		return false
	}
	switch want.Kind {
	case String:
		text, ok := have.string()
		return ok && c.Holds(strings.Compare(text, want.Text))
	case Number:
		n, ok := ParseNumber(string(have.raw))
		return ok && c.Holds(n.Order(want))
	}
	return c == Equal
}
