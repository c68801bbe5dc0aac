// Package filter decides whether an event's JSON data is as a filter wants it, without decoding the data.
package filter

import "strings"

// Op is what a filter consists of.
type Op uint8

// And and Or have two operands or more, Not one; Is is a comparison of a property with a literal.
const (
	And Op = iota + 1
	Or
	Not
	Is
)

// Filter is what an event's data must be like. It is true or false, never in between: a comparison with a property that
// is missing, or not of the literal's type, does not hold, and != is NOT =. Null and missing are the same.
type Filter struct {
	Op   Op
	Kids []*Filter // And, Or, Not
	Path []string  // Is: members of objects, outermost first
	Cmp  Compare   // Is
	Want Literal   // Is
}

// Matches is whether data, a JSON document, is as wanted. It is false or true for any bytes, and the same each time.
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
